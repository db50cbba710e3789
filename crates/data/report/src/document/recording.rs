//! A recording, which is the output of `measure`, `show` and `report`.

use punctual_model::{
    Claim, Explanation, Histogram, Nanos, Outcome, Question, Recording, TopSample, grouped,
};

use super::table::{Cell, Column, Fold, Row, Table};
use super::{
    Answer, Block, Document, Field, Figure, Medium, Section, Tone, facts, findings, foreign_trace,
    jobs, policies, stored_audit,
};

use punctual_stats::tail::remark;

use super::power;
use crate::figures::{self, PERCENTILES, ThreadFigures};
use crate::interference;
use crate::spread::Spread;

/// Maximum number of top samples on a terminal.
const WORST: usize = 5;
/// With more threads than this, a terminal shows only those with the largest maxima.
const THREADS: usize = 80;
/// The number of threads shown in that case.
const WORST_THREADS: usize = 20;
/// With more threads than this, only the histogram of all threads together is shown.
const SPREADS: usize = 12;
/// Maximum number of interrupt sources, and of softirq sources, on a terminal.
const SOURCES: usize = 5;
/// Maximum length of a name in a table on a terminal.
const NAME: usize = 24;

/// The plots of a recording and its explained outliers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// The plot before the table of threads.
    pub(crate) first: Option<Figure>,
    /// The plots after the table of threads.
    pub(crate) others: Vec<Figure>,
    /// The plot of each outlier, followed by its kernel stacks.
    pub(crate) outliers: Vec<Vec<Block>>,
}

/// Returns a recording: headline, warnings, the table of threads, percentiles of samples and of due
/// periods if periods were missed, histograms, sample accounting, the top samples, the probe's own
/// tables, interference, the observer's cost, and the verdict with its confidence. Anything that
/// the probe does not measure is left out.
///
/// A terminal shows one screen, with the verdict last. If there are more than 80 threads, it shows
/// only the 20 with the largest maxima, and of each table, it shows only the first rows. A page
/// begins with the verdict and shows every row, how it was measured, and each fact about the
/// machine. A `-` marks a percentile with too few samples (see the crate documentation).
pub fn recording(recording: &Recording) -> Document {
    with_figures(recording, Figures::default())
}

/// Same as [`recording`](fn@recording), with plots for HTML.
pub(crate) fn with_figures(recording: &Recording, drawn: Figures) -> Document {
    let mut document = Document {
        title: recording.headline(),
        // The headline of an imported recording already names the tool that made it.
        program: (recording.origin.is_none()).then(|| recording.probe.program.clone()),
        anchor: Some(format!("r{}", recording.id)),
        sections: Vec::new(),
    };
    let verdict = &recording.verdict;
    let mut answer = vec![Block::Answer(answer(recording))];
    answer.extend(jobs::sentence(recording).map(Block::text));
    answer.extend(verdict.confidence().map(|text| Block::faint(text + ".")));
    let foreign = foreign_trace::section(recording);
    if foreign.is_none() {
        let policies = policies::sentences(recording).into_iter();
        document.push(Section::new(policies.map(Block::text).collect()));
    }
    document.push(Section::new(answer).only(Medium::Page));
    document.push(Section::new(vec![Block::Fields(head(recording))]));
    let warnings = figures::warnings(recording);
    if !warnings.is_empty() {
        document.push(Section::new(vec![Block::Warnings(warnings)]));
    }
    if let Some(text) = figures::without_gap(recording) {
        document.push(Section::new(vec![Block::text(text)]));
    }
    if let Some(section) = foreign {
        document.push(section);
    }
    document.push(Section::new(limits(recording)).only(Medium::Page));
    latency(&mut document, recording, drawn.first, drawn.others);
    jobs::sections(recording)
        .into_iter()
        .for_each(|section| document.push(section));
    top_samples(&mut document, recording);
    outliers(&mut document, recording, drawn.outliers);
    findings::sections(recording)
        .into_iter()
        .for_each(|section| document.push(section));
    interference(&mut document, recording);
    tail(&mut document, recording);
    foot(&mut document, recording);
    document
}

fn head(recording: &Recording) -> Vec<Field> {
    let mut fields = vec![Field::new("run", figures::run_text(recording))];
    fields.extend(figures::source_text(recording).map(|text| Field::new("source", text)));
    let of_sender = figures::sender_verdict_text(recording);
    fields.extend(of_sender.map(|text| Field::new("received verdict", text)));
    fields.push(Field::new("host", figures::host_line(recording)));
    let group = recording.probe.group();
    fields.extend(group.map(|group| Field::new("control group", group.describe())));
    fields.push(Field::new("load", figures::loads_text(recording)));
    fields
}

pub(crate) const fn outcome_tone(outcome: Outcome) -> Tone {
    if outcome.is_good() {
        Tone::Good
    } else if outcome.is_bad() {
        Tone::Bad
    } else if outcome.is_open() {
        Tone::Warning
    } else {
        Tone::Plain
    }
}

/// Returns a badge: `✓ held`, or `measured` without a requirement.
pub(super) fn outcome_badge(outcome: Outcome) -> String {
    let sign = figures::outcome_sign(outcome);
    let badge = format!("{sign} {}", outcome_name(outcome));
    badge.trim_start().to_owned()
}

fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NoRequirement => "measured",
        outcome => outcome.word(),
    }
}

/// Returns the verdict, with its badge.
pub(crate) fn answer(recording: &Recording) -> Answer {
    let verdict = &recording.verdict;
    Answer {
        sign: figures::outcome_sign(verdict.outcome),
        word: outcome_name(verdict.outcome),
        ..Answer::new(outcome_tone(verdict.outcome), &verdict.sentence)
    }
}

/// Returns each answer of the verdict with all its parts: what was found, the confidence, the
/// condition, the requirement and the evidence.
pub(crate) fn claims(recording: &Recording) -> Vec<Field> {
    let field = |claim: Claim| {
        let (mark, tone) = mark_of(&claim);
        let text = if claim.sentence() == recording.verdict.sentence {
            format!("{mark}: see the verdict above")
        } else {
            format!("{mark}: {}", claim.statement())
        };
        Field::toned(claim.name, tone, text)
    };
    recording.claims().into_iter().map(field).collect()
}

/// Returns the outcome of a claim with its sign, and its tone.
fn mark_of(claim: &Claim) -> (String, Tone) {
    match (claim.question, claim.decides, claim.outcome) {
        (Question::Run, false, Outcome::Met) => ("below".to_owned(), Tone::Good),
        (Question::Run, false, _) => ("warning".to_owned(), Tone::Warning),
        (_, true, outcome) => (outcome_badge(outcome), outcome_tone(outcome)),
        (_, false, outcome) => (format!("for information, {}", outcome.word()), Tone::Faint),
    }
}

/// Returns the verdict of a recording, with each answer.
pub fn verdict(recording: &Recording) -> Section {
    let mut blocks = vec![Block::Answer(answer(recording))];
    blocks.extend(limits(recording));
    Section::titled("Newest verdict", blocks)
}

/// Returns the requirement of the loop, and each answer of the verdict.
fn limits(recording: &Recording) -> Vec<Block> {
    let asked = recording.periodic();
    let mut fields: Vec<Field> = asked
        .map(|asked| Field::new("loop", figures::asked_text(asked)))
        .into_iter()
        .collect();
    fields.extend(claims(recording));
    Block::fields(fields).into_iter().collect()
}

fn latency(
    document: &mut Document,
    recording: &Recording,
    first: Option<Figure>,
    others: Vec<Figure>,
) {
    if recording.threads.is_empty() {
        return;
    }
    let figure = |figure| Block::Figure(Box::new(figure));
    let heading = Section::new(first.into_iter().map(figure).collect());
    let heading = heading.heading(Medium::Page, recording.probe.quantity_heading());
    document.push(heading.only(Medium::Page));
    threads(document, recording);
    document.push(Section::new(due(recording)));
    document.push(Section::new(spread(recording)).only(Medium::Terminal));
    let account = account(recording);
    document.push(Section::new(vec![Block::Fields(vec![account])]));
    let others = others.into_iter().map(figure).collect();
    document.push(Section::new(others).only(Medium::Page));
}

/// Returns the account of the periods, in red if it does not balance.
pub(super) fn account(recording: &Recording) -> Field {
    let account = figures::account_of(recording);
    match figures::account_fault(recording) {
        None => Field::new("accounting", account),
        Some(fault) => Field::toned("accounting", Tone::Bad, format!("{fault}: {account}")),
    }
}

/// Adds the table of threads. If there are very many, a terminal shows those with the largest
/// maxima.
fn threads(document: &mut Document, recording: &Recording) {
    let rows = figures::thread_rows(recording);
    let threads = recording.threads.len();
    if threads <= THREADS {
        return document.push(Section::new(vec![Block::Table(thread_table(&rows))]));
    }
    document.push(Section::new(vec![Block::Table(thread_table(&rows))]).only(Medium::Page));
    let (all, mut each): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.total);
    each.sort_by_key(|row| std::cmp::Reverse(row.max));
    each.truncate(WORST_THREADS);
    each.extend(all);
    let threads = grouped(threads as u64);
    let note = format!("of {threads} threads, the {WORST_THREADS} with the largest maxima:");
    let blocks = vec![Block::faint(note), Block::Table(thread_table(&each))];
    document.push(Section::new(blocks).only(Medium::Terminal));
}

pub(super) fn thread_table(rows: &[ThreadFigures]) -> Table {
    let early = rows.iter().any(|row| row.early > 0);
    // On a terminal, the middle columns are dropped first; counts, p99 and max stay.
    let mut columns = vec![
        Column::left("thread").most(NAME),
        Column::right("recorded"),
        Column::right("missed"),
    ];
    columns.extend(early.then(|| Column::right("early")));
    columns.extend([Column::right("min").drop(4), Column::right("mean").drop(1)]);
    columns.extend(percentile_columns());
    columns.push(Column::right("max"));
    let rows = rows.iter().map(|row| Row {
        total: row.total,
        ..Row::new(row.cells(early))
    });
    Table::new(columns, rows.collect())
}

fn percentile_columns() -> impl Iterator<Item = Column> {
    let drops = [3, 0, 2, 5];
    (PERCENTILES.iter().zip(drops)).map(|((name, _), drop)| Column::right(*name).drop(drop))
}

/// Returns the percentiles of the samples and the percentiles used for the verdict.
fn due(recording: &Recording) -> Vec<Block> {
    let rows = figures::due_rows(recording);
    if rows.is_empty() {
        return Vec::new();
    }
    let mut columns = vec![Column::left("percentiles").most(NAME), Column::left("")];
    columns.extend(percentile_columns());
    let rows = rows.into_iter().map(|row| {
        let mut cells = vec![row.title, row.of.to_owned()];
        cells.extend(row.percentiles.map(figures::or_dash));
        Row::new(cells)
    });
    vec![Block::Table(Table::new(columns, rows.collect()))]
}

/// Returns one-line histograms of each thread and of all threads together.
fn spread(recording: &Recording) -> Vec<Block> {
    let all = recording.all_latencies();
    let (Some(min), Some(max)) = (all.min(), all.max()) else {
        return Vec::new();
    };
    let each = recording.threads.iter();
    let mut rows: Vec<(String, &Histogram)> = match recording.threads.len() {
        1..=SPREADS => each
            .map(|thread| (thread.title(), &thread.histogram))
            .collect(),
        _ => Vec::new(),
    };
    if rows.len() != 1 && recording.threads_are_alike() {
        rows.push(("all".to_owned(), &all));
    }
    if rows.is_empty() {
        return Vec::new();
    }
    let spread = Spread::between(min, max);
    let columns = vec![
        Column::left("histogram").cut_to(20).most(NAME),
        Column {
            short_title: Some(spread.coarse().scale()),
            ..Column::left(spread.scale())
        },
    ];
    let rows = rows.into_iter().map(|(title, histogram)| {
        let picture = |spread: Spread| {
            let counts = histogram
                .rows()
                .map(|(lower, _, count)| (Nanos(lower), count));
            let beyond = std::iter::once((max, histogram.overflow()));
            spread.picture(counts.chain(beyond))
        };
        let cell = Cell {
            short: Some(picture(spread.coarse())),
            ..picture(spread).into()
        };
        Row::new([title.into(), cell])
    });
    vec![Block::Table(Table::new(columns, rows.collect()))]
}

fn top_samples(document: &mut Document, recording: &Recording) {
    if recording.top_samples.is_empty() {
        return;
    }
    let explained = recording
        .top_samples
        .iter()
        .any(|sample| sample.blame.is_some());
    let mut columns = vec![
        Column::left("largest (UTC)").only(Medium::Terminal),
        Column::left("time").only(Medium::Page),
        Column::right("monotonic").only(Medium::Page),
        Column::left("where").most(NAME),
        Column::right(recording.probe.quantity()),
    ];
    columns.extend(explained.then(|| Column::left("explanation").fold(Fold::Below)));
    let rows = recording.top_samples.iter().map(|sample| {
        let mut cells: Vec<Cell> = vec![
            figures::time_of_day(sample.time).into(),
            figures::wall(sample.time, 6).into(),
            format!("{:.6} s", sample.monotonic_ns.as_secs_f64()).into(),
            figures::thread_and_cpu(recording, sample).into(),
            sample.latency_ns.to_string().into(),
        ];
        cells.extend(explained.then(|| explained_cell(sample)));
        Row::new(cells)
    });
    let table = Table::new(columns, rows.collect()).at_most(WORST);
    let section = Section::new(vec![Block::Table(table)]);
    document.push(section.heading(Medium::Page, "Worst samples"));
}

fn explained_cell(sample: &TopSample) -> Cell {
    let Some(blame) = &sample.blame else {
        return Cell::default();
    };
    let shares = blame.shares.iter();
    Cell {
        text: blame.sentence(),
        items: shares
            .map(|share| format!("{} {} {}", share.ns, share.kind().name(), share.who()))
            .collect(),
        ..Cell::default()
    }
}

/// Adds the number of outliers, and the plots of those that are plotted.
fn outliers(document: &mut Document, recording: &Recording, drawn: Vec<Vec<Block>>) {
    let Some(explanation) = &recording.explanation else {
        return;
    };
    let text = figures::explained_text(explanation);
    let mut blocks = vec![Block::text(text + ".")];
    blocks.extend(drawn.into_iter().flatten());
    document.push(Section::titled("Outliers", blocks).only(Medium::Page));
}

fn interference(document: &mut Document, recording: &Recording) {
    let found = interference::interference_in(recording);
    let unknown = &recording.interference.unknown;
    let mut rows = Vec::new();
    let kinds = [
        ("interrupt", &found.interrupts),
        ("softirq", &found.softirqs),
        ("throttled", &found.quotas),
    ];
    for (what, list) in kinds {
        for (place, source) in list.iter().enumerate() {
            // For softirqs, the name also serves as the ID.
            let name = if source.name == source.id {
                ""
            } else {
                &source.name
            };
            let row = Row::new([
                what,
                &source.id,
                name,
                &grouped(source.count),
                &interference::rate(source.rate),
            ]);
            let detail = place >= SOURCES;
            rows.push(Row { detail, ..row });
        }
    }
    let mut blocks = Vec::new();
    if !rows.is_empty() {
        let word = if found.cpus.len() == 1 { "CPU" } else { "CPUs" };
        let columns = vec![
            Column::left("interference"),
            Column::left("id").most(12),
            Column::left(format!("source on {word} {}", found.cpus))
                .most(32)
                .drop(1),
            Column::right("count"),
            Column::right("rate").drop(2),
        ];
        let table = Table::new(columns, rows).further("further source", "further sources");
        blocks.push(Block::Table(table));
    }
    let mut fields = Vec::new();
    let others = interference::others(&found);
    if !others.is_empty() {
        fields.push(Field::new("also", others.join(", ")));
    }
    fields.extend(
        unknown
            .iter()
            .map(|reason| Field::new("unknown", reason.as_str())),
    );
    fields.extend(power::known(recording));
    blocks.extend(Block::fields(fields));
    if !blocks.is_empty() {
        let section = Section::new(blocks);
        document.push(section.heading(Medium::Page, "Interference on the measured CPUs"));
    }
    if let Some(block) = Block::fields(power::unknown(recording)) {
        document.push(Section::new(vec![block]).only(Medium::Page));
    }
}

/// Adds an estimate of the tail in a longer run, if extrapolation is possible.
fn tail(document: &mut Document, recording: &Recording) {
    let probe = &recording.probe;
    let timer = probe.name == "timer" && !probe.parameters.contains_key("phases");
    if let Some(tail) = timer
        .then(|| remark(recording, |_| true))
        .and_then(Result::ok)
    {
        let fields = vec![Field::new("remark", tail.sentence())];
        document.push(Section::titled("Tail", vec![Block::Fields(fields)]).only(Medium::Page));
    }
}

/// Adds the cost of the measurement and its results. On pages, it also adds how it was measured and
/// the facts about the machine.
fn foot(document: &mut Document, recording: &Recording) {
    let costs = figures::observer(recording);
    let each: Vec<String> = (costs.iter())
        .map(|(what, value)| format!("{what} {value}"))
        .collect();
    let mut fields = vec![Field::new("observer", each.join(", "))];
    let explained = recording.explanation.as_ref();
    fields.extend(
        explained
            .map(|found: &Explanation| Field::new("explained", figures::explained_text(found))),
    );
    let verdict = &recording.verdict;
    let sign = figures::outcome_sign(verdict.outcome);
    let sentence = format!("{sign} {}", verdict.sentence);
    let tone = outcome_tone(verdict.outcome);
    let asked = recording.periodic();
    fields.extend(asked.map(|asked| Field::new("loop", figures::asked_text(asked))));
    fields.push(Field::toned("verdict", tone, sentence.trim_start()));
    fields.extend(
        verdict
            .confidence()
            .map(|text| Field::new("confidence", text)),
    );
    fields.push(Field::new("id", recording.id.to_string()));
    document.push(Section::new(vec![Block::Fields(fields)]).only(Medium::Terminal));

    let page = |heading: &str, fields: Vec<Field>| {
        Section::titled(heading, vec![Block::Fields(fields)]).only(Medium::Page)
    };
    let costs = costs.into_iter().map(|(what, cost)| Field::new(what, cost));
    document.push(page("Cost of the measurement", costs.collect()));
    let run = facts::run(recording).into_iter();
    document.push(page(
        "Run",
        run.map(|(what, value)| Field::new(what, value)).collect(),
    ));
    if recording.audit.is_some() {
        document.push(stored_audit(recording.audit.as_ref()).only(Medium::Page));
    }
    let host = Block::Table(facts::table(&recording.host));
    document.push(Section::titled("Host", vec![host]).only(Medium::Page));
}
