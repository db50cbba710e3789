//! One recording: what `measure` prints at its end, and `show`.

use punctual_model::{Histogram, Nanos, Outcome, Recording, grouped};

use super::page::Page;
use super::spread::Spread;
use super::table::{self, Column};
use super::{TextStyle, Tone, wrap};
use crate::clean::{clean, shorten};
use crate::figures;
use crate::hits;
use crate::tables;

/// How many of the worst samples are shown.
const WORST: usize = 5;
/// With more threads than this, only the worst are shown.
const THREADS: usize = 80;
/// Of many threads, so many are shown.
const WORST_THREADS: usize = 20;
/// With more threads than this, only all together have a histogram.
const SPREADS: usize = 12;
/// How many rows of a probe's own table are shown.
const ROWS: usize = 40;
/// How many sources of interrupts and of softirqs are shown.
const SOURCES: usize = 5;

/// A recording in one screen: headline, warnings, the table of threads, where
/// periods were missed the percentiles of samples and of due periods, the
/// histograms, the account, the worst samples, the probe's own tables, interference, the
/// observer's cost, the verdict and what it is worth. What a probe does not
/// measure has no part.
///
/// Where the table of threads is too wide for the style, its middle columns
/// go, p99.99 first; counts, p99 and max stay. A `-` stands for a percentile
/// that the samples do not support (see the crate's page). Of more than 80
/// threads (pairs of many CPUs) the 20 with the largest maximum are shown. A
/// probe's own table that is too wide goes on below itself, its first column
/// repeated; the rows after the 40th are counted, not shown.
pub fn summary(recording: &Recording, style: &TextStyle) -> String {
    let mut page = Page::new(*style);
    headline(&mut page, recording);
    warnings(&mut page, recording);
    threads(&mut page, recording);
    due(&mut page, recording);
    spread(&mut page, recording);
    account(&mut page, recording);
    worst(&mut page, recording);
    findings(&mut page, recording);
    interference(&mut page, recording);
    costs(&mut page, recording);
    verdict(&mut page, recording);
    page.out
}

fn headline(page: &mut Page, recording: &Recording) {
    let program = clean(&recording.probe.program).into_owned();
    let headline = clean(&recording.headline()).into_owned();
    let headline = match recording.origin {
        // It names what measured.
        Some(_) => headline,
        None => format!("{program}: {headline}"),
    };
    for line in wrap(&headline, page.style.columns()) {
        let line = page.style.paint(Tone::Heading, &line);
        page.line(&line);
    }
    let label = recording
        .label
        .as_ref()
        .map_or_else(String::new, |label| format!(", '{}'", clean(label)));
    let run = format!(
        "{}, {}, {}{label}",
        figures::started(recording, 0),
        figures::duration(recording),
        recording.completion
    );
    page.named("run", Tone::Plain, &run);
    if let Some(source) = figures::source_text(recording) {
        page.named("source", Tone::Plain, &source);
    }
    page.named("host", Tone::Plain, &figures::host_line(recording));
    page.named("load", Tone::Plain, &figures::loads_text(recording));
}

fn warnings(page: &mut Page, recording: &Recording) {
    let list = figures::warnings(recording);
    if list.is_empty() {
        return;
    }
    page.line("");
    let width = page.style.columns() - 2;
    for warning in list {
        for (index, part) in wrap(&warning, width).iter().enumerate() {
            let mark = if index == 0 { "! " } else { "  " };
            let line = page.style.paint(Tone::Warning, &format!("{mark}{part}"));
            page.line(&line);
        }
    }
}

fn threads(page: &mut Page, recording: &Recording) {
    let mut rows = figures::thread_rows(recording);
    if rows.is_empty() {
        return;
    }
    page.line("");
    let threads = recording.threads.len();
    if threads > THREADS {
        let all = rows.pop_if(|row| row.total);
        rows.sort_by_key(|row| std::cmp::Reverse(row.max));
        rows.truncate(WORST_THREADS);
        rows.extend(all);
        let threads = grouped(threads as u64);
        let note = format!("of {threads} threads the {WORST_THREADS} with the largest maximum:");
        let note = page.style.paint(Tone::Faint, &note);
        page.line(&note);
    }
    let early = rows.iter().any(|row| row.early > 0);
    // The middle goes first; counts, p99 and max are what the reader came for.
    let mut columns = vec![
        Column::left("", 0),
        Column::right("recorded", 0),
        Column::right("missed", 0),
    ];
    if early {
        columns.push(Column::right("early", 0));
    }
    columns.extend([
        Column::right("min", 4),
        Column::right("mean", 1),
        Column::right("p50", 3),
        Column::right("p99", 0),
        Column::right("p99.9", 2),
        Column::right("p99.99", 5),
        Column::right("max", 0),
    ]);
    let cells = rows
        .into_iter()
        .map(|row| row.cells(shorten(&row.title, 24), early))
        .collect();
    page.table(&columns, cells, 0);
}

/// What the samples alone show, beside what is judged.
fn due(page: &mut Page, recording: &Recording) {
    let rows = figures::due_rows(recording);
    if rows.is_empty() {
        return;
    }
    page.line("");
    let mut columns = vec![Column::left("percentiles", 0), Column::left("", 0)];
    let optional = [3, 0, 2, 5];
    columns.extend(
        (figures::PERCENTILES.iter().zip(optional))
            .map(|((name, _), rank)| Column::right(name, rank)),
    );
    let cells = rows.into_iter().map(|row| {
        let mut cells = vec![shorten(&row.title, 24), row.of.to_owned()];
        cells.extend(row.percentiles.map(figures::or_dash));
        cells
    });
    page.table(&columns, cells.collect(), 0);
}

/// A histogram of each thread in one line, and of all together.
fn spread(page: &mut Page, recording: &Recording) {
    let all = recording.all_latencies();
    let (Some(min), Some(max)) = (all.min(), all.max()) else {
        return;
    };
    let each = recording.threads.iter();
    let mut rows: Vec<(String, &Histogram)> = match recording.threads.len() {
        1..=SPREADS => each
            .map(|thread| (clean(&thread.title()).into_owned(), &thread.histogram))
            .collect(),
        _ => Vec::new(),
    };
    if rows.len() != 1 && recording.lanes_are_alike() {
        rows.push(("all".to_owned(), &all));
    }
    if rows.is_empty() {
        return;
    }
    let spread = Spread::between(min, max);
    let columns = [
        Column::left("histogram", 0),
        Column::left(&spread.scale(), 0),
    ];
    let rows = rows
        .into_iter()
        .map(|(title, histogram)| {
            let counts = histogram
                .rows()
                .map(|(lower, _, count)| (Nanos(lower), count));
            let beyond = std::iter::once((max, histogram.overflow()));
            vec![shorten(&title, 24), spread.picture(counts.chain(beyond))]
        })
        .collect();
    page.line("");
    page.table(&columns, rows, 0);
}

fn account(page: &mut Page, recording: &Recording) {
    if recording.threads.is_empty() {
        return;
    }
    page.line("");
    let text = figures::account_of(recording);
    match figures::account_fault(recording) {
        None => page.named("account", Tone::Plain, &text),
        Some(fault) => page.named("account", Tone::Bad, &format!("{fault}: {text}")),
    }
}

fn worst(page: &mut Page, recording: &Recording) {
    if recording.worst.is_empty() {
        return;
    }
    page.line("");
    let columns = [
        Column::left("worst (UTC)", 0),
        Column::left("where", 0),
        Column::right("latency", 0),
    ];
    let shown = recording.worst.iter().take(WORST);
    let rows: Vec<Vec<String>> = shown
        .clone()
        .map(|sample| {
            vec![
                figures::time_of_day(sample.time),
                shorten(&figures::worst_place(recording, sample), 24),
                sample.latency_ns.to_string(),
            ]
        })
        .collect();
    let lines = table::lines(&columns, rows, page.style.columns(), page.style);
    // Who took the time stands below each, so that a long sentence does not
    // widen the table.
    let mut lines = lines.into_iter();
    page.line(&lines.next().unwrap_or_default());
    for (line, sample) in lines.zip(shown) {
        page.line(&line);
        if let Some(blame) = &sample.blame {
            let lost = match blame.events_lost {
                0 => String::new(),
                n => format!(
                    " ({} lost)",
                    figures::counted(n, "trace event", "trace events")
                ),
            };
            let sentence = format!("{}{lost}", clean(&blame.sentence));
            for part in wrap(&sentence, page.style.columns() - 4) {
                page.line(&format!("    {part}"));
            }
        }
    }
}

fn findings(page: &mut Page, recording: &Recording) {
    for shown in tables::of(recording) {
        page.line("");
        for part in wrap(&shown.title, page.style.columns()) {
            let part = page.style.paint(Tone::Heading, &part);
            page.line(&part);
        }
        if shown.rows.is_empty() {
            page.line(tables::EMPTY);
            continue;
        }
        let columns: Vec<Column> = shown
            .columns
            .iter()
            .map(|column| {
                let heading = shorten(&column.title, 18);
                match column.number {
                    true => Column::right(&heading, 0),
                    false => Column::left(&heading, 0).cut_to(20),
                }
            })
            .collect();
        let beyond = shown.rows.len().saturating_sub(ROWS);
        let rows: Vec<Vec<String>> = shown
            .rows
            .into_iter()
            .take(ROWS)
            .map(|row| row.iter().map(|cell| shorten(cell, 48)).collect())
            .collect();
        let blocks = table::blocks(&columns, &rows, page.style.columns(), page.style);
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 {
                page.line("");
            }
            for line in block {
                page.line(line);
            }
        }
        if beyond > 0 {
            let more = figures::counted(beyond as u64, "further row", "further rows");
            let more = page.style.paint(Tone::Faint, &format!("and {more}"));
            page.line(&more);
        }
    }
}

fn interference(page: &mut Page, recording: &Recording) {
    let hits = hits::of(recording);
    let unknown = &recording.interference.unknown;
    if hits.cpus.is_empty() && unknown.is_empty() {
        return;
    }
    page.line("");
    let mut rows = Vec::new();
    let kinds = [
        ("interrupt", &hits.interrupts),
        ("softirq", &hits.softirqs),
        ("throttled", &hits.quotas),
    ];
    for (what, list) in kinds {
        rows.extend(list.iter().take(SOURCES).map(|source| {
            // A softirq's name is its id.
            let name = if source.name == source.id {
                ""
            } else {
                source.name.as_str()
            };
            vec![
                what.to_owned(),
                shorten(&source.id, 12),
                shorten(name, 32),
                grouped(source.count),
                hits::rate(source.rate),
            ]
        }));
    }
    if !rows.is_empty() {
        let heading = match hits.cpus.len() {
            1 => format!("on CPU {}", hits.cpus),
            _ => format!("on CPUs {}", shorten(&hits.cpus.to_string(), 24)),
        };
        let columns = [
            Column::left("interference", 0),
            Column::left("", 0),
            Column::left(&heading, 1),
            Column::right("count", 0),
            Column::right("rate", 2),
        ];
        page.table(&columns, rows, 0);
    }
    let others = hits::others(&hits);
    if !others.is_empty() {
        page.named("also", Tone::Plain, &others.join(", "));
    }
    for reason in unknown {
        page.named("unknown", Tone::Plain, &clean(reason));
    }
}

fn costs(page: &mut Page, recording: &Recording) {
    page.line("");
    let costs: Vec<String> = figures::observer(recording)
        .into_iter()
        .map(|(what, value)| format!("{what} {value}"))
        .collect();
    page.named("observer", Tone::Plain, &costs.join(", "));
    if let Some(explanation) = &recording.explanation {
        page.named(
            "explained",
            Tone::Plain,
            &figures::explained_text(explanation),
        );
    }
}

fn verdict(page: &mut Page, recording: &Recording) {
    let verdict = &recording.verdict;
    let tone = match verdict.outcome {
        Outcome::Held => Tone::Good,
        Outcome::Broken => Tone::Bad,
        Outcome::NotProven => Tone::Warning,
        Outcome::NoRequirement => Tone::Plain,
    };
    let sign = figures::outcome_sign(verdict.outcome);
    let sentence = format!("{sign} {}", clean(&verdict.sentence));
    page.named("verdict", tone, sentence.trim_start());
    if let Some(bound) = verdict.confidence() {
        page.named("confidence", Tone::Plain, &clean(&bound));
    }
    page.named("id", Tone::Plain, &recording.id.to_string());
}
