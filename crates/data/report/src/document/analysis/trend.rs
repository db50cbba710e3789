//! The runs of a series over time.

use std::path::Path;

use jiff::Timestamp;
use punctual_model::{Nanos, counted, grouped};
use punctual_stats::trend::{
    ChangePoint, FactDifference, Followed, Group, NearFact, Trend, TrendVerdict, short,
};

use crate::document::table::{Cell, Column, Fold, Row, Table};
use crate::document::{Answer, Block, Document, Field, Medium, Section, Tone};
use crate::figures;

/// Maximum number of bars in a spark line.
const BARS: usize = 24;

/// Maximum number of table rows on a terminal; a page shows all.
const SHOWN: usize = 12;

/// The levels of a spark line, lowest first.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns the verdict, a line per group, change points together with the changes on the machine,
/// drifts, spikes, changed facts, gaps, and notes. `next` is the command to continue with, if there
/// is one to run.
pub fn trend(trend: &Trend, next: Option<String>) -> Document {
    let mut document = Document {
        title: format!("Trend of {}", trend.series),
        ..Document::default()
    };
    document.push(Section::new(vec![
        Block::Answer(answer(trend)),
        Block::Fields(fields(trend, next)),
    ]));
    document.push(section("Groups", groups(trend)));
    document.push(section("Change points", change_table(trend)));
    document.push(section("Drifts", drifts(trend)));
    document.push(section("Spikes", spikes(trend)));
    document.push(section("Facts that changed", fact_changes(trend)));
    document.push(section("Slots that did not run", holes(trend)));
    document.push(section("Notes", note_table(trend)));
    document
}

/// Returns only the change points.
pub fn changes(trend: &Trend) -> Document {
    Document::from_blocks(vec![Block::Table(change_table(trend))])
}

/// Returns the stored notes.
pub fn notes(notes: &[punctual_model::Note]) -> Document {
    let columns = vec![
        Column::left("note"),
        Column::left("time (UTC)"),
        Column::left("run").drop(2),
        Column::left("series").drop(3),
        Column::left("machine").drop(4),
        Column::left("who").drop(1),
        Column::left("text").fold(Fold::Wrap(30)),
    ];
    let rows = notes.iter().map(|note| {
        Row::new([
            note.id.short(),
            minute(note.at),
            figures::text_or_dash(note.recording.map(|id| id.short())),
            figures::text_or_dash(note.series.clone()),
            figures::text_or_dash(note.machine.clone()),
            note.author.clone(),
            note.text.clone(),
        ])
    });
    Document::from_blocks(vec![Block::Table(Table::new(columns, rows.collect()))])
}

fn section(heading: &str, table: Table) -> Section {
    if table.rows.is_empty() {
        Section::default()
    } else {
        Section::new(vec![Block::Table(table)]).heading(Medium::Both, heading)
    }
}

/// Returns the verdict with its sign.
pub(super) fn answer(trend: &Trend) -> Answer {
    let (tone, sign, word) = match trend.verdict {
        TrendVerdict::Worse => (Tone::Bad, "✗", "worse"),
        TrendVerdict::NoWorsening => (Tone::Good, "✓", "no worsening"),
        TrendVerdict::Drifting => (Tone::Warning, "?", "drifting"),
        TrendVerdict::NotJudged => (Tone::Warning, "?", "not judged"),
    };
    Answer {
        tone,
        sign,
        word,
        text: trend.sentence.clone(),
    }
}

fn fields(trend: &Trend, next: Option<String>) -> Vec<Field> {
    let mut fields: Vec<Field> = (trend.measured_on.iter())
        .map(|on| Field::new("machine", format!("{} (newest run)", on.line())))
        .collect();
    if let (Some(from), Some(to)) = (trend.from, trend.to) {
        let span = format!("{} to {}", minute(from), minute(to));
        fields.push(Field::new("runs", span));
    }
    let holes = trend.holes.len() as u64;
    if holes > 0 {
        let text = counted(holes, "slot did not run", "slots did not run");
        fields.push(Field::toned("holes", Tone::Warning, text));
    }
    fields.extend(next.map(|command| Field {
        is_command: true,
        ..Field::new("next", command)
    }));
    fields
}

/// Returns the shell command that acknowledges the newest open regression, or `None` if there is
/// none. Pass `store` if the command must name the store.
pub fn acknowledge(trend: &Trend, store: Option<&Path>) -> Option<String> {
    let changes = trend.groups.iter().flat_map(|group| &group.changes);
    let open = changes.filter(|change| change.is_open_worsening());
    let newest = open.max_by_key(|change| change.at)?;
    let asked = &trend.asked;
    let options = [
        ("--series", Some(trend.series.clone())),
        ("--host", asked.host.clone()),
        ("--since", asked.since.map(|since| since.to_string())),
        (
            "--threshold",
            asked.threshold_ns.map(|at| format!("{}ns", at.0)),
        ),
        ("--store", store.map(|path| path.display().to_string())),
    ];
    let given = options
        .iter()
        .filter_map(|(name, value)| Some([*name, value.as_deref()?]));
    let words = ["punctual", "trend", "ack", &newest.id].into_iter();
    let words = words.chain(given.flatten()).chain(["WHY"]);
    // The arguments of a program never contain NUL.
    let quoted = words.map(|word| shlex::try_quote(word).unwrap_or_default());
    Some(quoted.collect::<Vec<_>>().join(" "))
}

fn groups(trend: &Trend) -> Table {
    let columns = vec![
        Column::left("group"),
        Column::right("runs").drop(7),
        Column::left("largest latency over time").drop(1),
        Column::right("p50").drop(9),
        Column::right("p99").drop(8),
        Column::right("median max").drop(3),
        Column::right("newest max"),
        Column::right("limit").drop(5),
        Column::right("late above").drop(4),
        Column::right("changes"),
    ];
    let columns = columns
        .into_iter()
        .map(|column| match column.title.as_str() {
            "largest latency over time" => Column {
                short_title: Some("max over time".to_owned()),
                ..column
            },
            "median max" => Column {
                short_title: Some("median".to_owned()),
                ..column
            },
            "newest max" => Column {
                short_title: Some("newest".to_owned()),
                ..column
            },
            _ => column,
        });
    let rows = trend.groups.iter().map(|group| {
        let newest = group.runs.last();
        let max = newest.and_then(|run| run.max_ns);
        let over = max
            .zip(group.limit_ns)
            .is_some_and(|(max, limit)| max > limit);
        let changes = if group.judged {
            group.changes.len().to_string()
        } else {
            "too few runs".to_owned()
        };
        Row::new([
            Cell::from(group.name()),
            grouped(group.runs.len() as u64).into(),
            spark(group, trend).into(),
            figures::or_dash(newest.and_then(|run| run.p50_ns)).into(),
            figures::or_dash(newest.and_then(|run| run.p99_ns)).into(),
            figures::or_dash(usual(group)).into(),
            Cell::from(figures::or_dash(max)).tone(if over { Tone::Bad } else { Tone::Plain }),
            figures::or_dash(group.limit_ns).into(),
            figures::or_dash(group.threshold_ns).into(),
            changes.into(),
        ])
    });
    Table::new(columns.collect(), rows.collect())
}

/// Returns the median of the maxima.
fn usual(group: &Group) -> Option<Nanos> {
    let mut maxima: Vec<Nanos> = group.runs.iter().filter_map(|run| run.max_ns).collect();
    maxima.sort_unstable();
    maxima.get(maxima.len().saturating_sub(1) / 2).copied()
}

/// Returns a spark line of the largest latency per equal time span, on a log scale. A `·` marks a
/// span without a run.
fn spark(group: &Group, trend: &Trend) -> String {
    let (Some(from), Some(to)) = (trend.from, trend.to) else {
        return String::new();
    };
    let span = (to.as_nanosecond() - from.as_nanosecond()).max(1);
    let bars = group.runs.len().clamp(1, BARS);
    let mut largest: Vec<Option<Nanos>> = vec![None; bars];
    for run in &group.runs {
        let share = (run.started.as_nanosecond() - from.as_nanosecond()) * bars as i128 / span;
        let bar = &mut largest[(share.max(0) as usize).min(bars - 1)];
        *bar = (*bar).max(run.max_ns);
    }
    let known = || {
        largest
            .iter()
            .flatten()
            .map(|max| (max.0.max(1) as f64).ln())
    };
    let (low, high) = (
        known().fold(f64::INFINITY, f64::min),
        known().fold(0.0, f64::max),
    );
    // Maxima that differ by a factor of less than 1.5 should look similar.
    let range = (high - low).max(1.5f64.ln());
    let bar = |max: &Option<Nanos>| match max {
        None => '·',
        Some(max) => {
            let share = ((max.0.max(1) as f64).ln() - low) / range;
            LEVELS[((share * LEVELS.len() as f64) as usize).min(LEVELS.len() - 1)]
        }
    };
    largest.iter().map(bar).collect()
}

fn change_table(trend: &Trend) -> Table {
    let columns = vec![
        Column::left("since (UTC)"),
        Column::left("group").drop(3),
        Column::left("what"),
        Column::right("before").drop(1),
        Column::right("after"),
        Column::right("ratio").drop(2),
        Column::left("interval").drop(5),
        Column::left("state"),
        Column::left("change").drop(4),
        Column::left("changed at that time").fold(Fold::Below),
    ];
    let mut all: Vec<(&Group, &ChangePoint)> = (trend.groups.iter())
        .flat_map(|group| group.changes.iter().map(move |change| (group, change)))
        .collect();
    all.sort_by_key(|(_, change)| (change.at, change.followed));
    let rows = all.into_iter().map(|(group, change)| Row {
        tone: if change.is_open_worsening() {
            Tone::Bad
        } else {
            Tone::Plain
        },
        ..Row::new([
            day(change.at),
            group.name(),
            change.what(),
            level(group, change.followed, change.before),
            level(group, change.followed, change.after),
            ratio(change),
            interval(change),
            state(change).to_owned(),
            change.id.clone(),
            aside(change),
        ])
    });
    Table::new(columns, rows.collect())
}

/// Formats a level, which is the number of late periods in a typical run, or a latency.
pub(super) fn level(group: &Group, followed: Followed, level: f64) -> String {
    match followed {
        Followed::Tail => format!("{} a run", short(group.a_run(level))),
        _ => Nanos(level.max(0.0) as u64).to_string(),
    }
}

pub(super) fn interval(change: &ChangePoint) -> String {
    range(change.low, change.high)
}

fn range(low: f64, high: Option<f64>) -> String {
    let high = high.map_or_else(|| "∞".to_owned(), short);
    format!("{} to {high}", short(low))
}

/// A ratio is only meaningful if both sides have late periods.
fn ratio(change: &ChangePoint) -> String {
    if change.before > 0.0 && change.after > 0.0 {
        format!("×{}", short(change.ratio))
    } else {
        "-".to_owned()
    }
}

pub(super) const fn state(change: &ChangePoint) -> &'static str {
    match (change.worse, change.stands, change.acknowledged.is_some()) {
        (false, ..) => "better",
        (true, _, true) => "acknowledged",
        (true, false, _) => "over",
        (true, true, false) => "worse",
    }
}

/// Returns further details of a change point.
pub(super) fn aside(change: &ChangePoint) -> String {
    let mut parts = Vec::new();
    if change.earliest != change.latest {
        parts.push(format!(
            "between {} and {}",
            minute(change.earliest),
            minute(change.latest)
        ));
    }
    if let (Some(before), Some(after)) = (change.max_before_ns, change.max_after_ns) {
        parts.push(format!("median maximum {before} → {after}"));
    }
    parts.push(causes(change));
    if let Some(known) = &change.acknowledged {
        parts.push(format!("acknowledged by {}: {}", known.who, known.why));
    }
    parts.join("; ")
}

/// Returns the facts that changed near the change point, beginning with the nearest one.
fn causes(change: &ChangePoint) -> String {
    match (change.facts_within_runs, change.facts.as_slice()) {
        (None, _) => {
            "no fact about the machine is known both before and after the change".to_owned()
        }
        (Some(runs), []) => format!("no known fact changed within {runs} runs"),
        (_, facts) => {
            let each: Vec<String> = facts.iter().map(NearFact::sentence).collect();
            each.join("; ")
        }
    }
}

fn drifts(trend: &Trend) -> Table {
    let columns = vec![
        Column::left("from (UTC)"),
        Column::left("group").drop(1),
        Column::left("figure"),
        Column::right("at first"),
        Column::right("at last"),
        Column::right("ratio").drop(3),
        Column::right("95%").drop(2),
        Column::left("state"),
    ];
    let all = (trend.groups.iter())
        .flat_map(|group| group.drifts.iter().map(move |drift| (group, drift)));
    let rows = all.map(|(group, drift)| Row {
        tone: if drift.worse {
            Tone::Warning
        } else {
            Tone::Plain
        },
        ..Row::new([
            day(drift.from),
            group.name(),
            drift.what(),
            level(group, drift.followed, drift.before),
            level(group, drift.followed, drift.after),
            drift
                .ratio
                .map_or_else(|| "-".to_owned(), |ratio| format!("×{}", short(ratio))),
            range(drift.low, drift.high),
            if drift.worse { "rises" } else { "falls" }.to_owned(),
        ])
    });
    Table::new(columns, rows.collect())
}

fn facts(all: &[FactDifference]) -> String {
    let each: Vec<String> = all.iter().map(FactDifference::sentence).collect();
    each.join("; ")
}

fn spikes(trend: &Trend) -> Table {
    let columns = vec![
        Column::left("run"),
        Column::left("started (UTC)"),
        Column::left("group").drop(2),
        Column::right("max"),
        Column::right("usual max").drop(1),
        Column::right("late").drop(3),
    ];
    let rows = trend.groups.iter().flat_map(|group| {
        group.spikes.iter().map(move |spike| {
            Row::new([
                spike.recording.short(),
                minute(spike.at),
                group.name(),
                figures::or_dash(spike.max_ns),
                figures::or_dash(spike.usual_max_ns),
                figures::count_or_dash(spike.above),
            ])
        })
    });
    let table = Table::new(columns, rows.collect()).at_most(SHOWN);
    table.further("further spike", "further spikes")
}

fn fact_changes(trend: &Trend) -> Table {
    let columns = vec![
        Column::left("from (UTC)"),
        Column::left("run").drop(1),
        Column::left("what").fold(Fold::Wrap(30)),
    ];
    let rows = trend.facts.iter().rev().map(|change| {
        Row::new([
            minute(change.at),
            change.recording.short(),
            facts(&change.facts),
        ])
    });
    let table = Table::new(columns, rows.collect()).at_most(SHOWN);
    table.further("earlier change", "earlier changes")
}

fn holes(trend: &Trend) -> Table {
    let columns = vec![
        Column::left("due (UTC)"),
        Column::left("reason").fold(Fold::Wrap(30)),
    ];
    let rows = trend
        .holes
        .iter()
        .rev()
        .map(|hole| Row::new([minute(hole.due), hole.reason.clone()]));
    let table = Table::new(columns, rows.collect()).at_most(SHOWN);
    table.further("earlier slot", "earlier slots")
}

fn note_table(trend: &Trend) -> Table {
    let columns = vec![
        Column::left("time (UTC)"),
        Column::left("run").drop(2),
        Column::left("who").drop(1),
        Column::left("note").fold(Fold::Wrap(30)),
    ];
    let rows = trend.notes.iter().map(|note| {
        let run = note.recording.map(|id| id.short());
        Row::new([
            minute(note.at),
            figures::text_or_dash(run),
            note.who.clone(),
            note.text.clone(),
        ])
    });
    Table::new(columns, rows.collect())
}

/// Formats a time as `2026-11-03 08:15`.
pub(super) fn minute(time: Timestamp) -> String {
    figures::wall(time, 0).chars().take(16).collect()
}

/// Formats a date as `2026-11-03`.
fn day(time: Timestamp) -> String {
    figures::wall(time, 0).chars().take(10).collect()
}
