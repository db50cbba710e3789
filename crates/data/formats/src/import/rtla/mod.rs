//! `rtla-timerlat-hist` and `rtla-osnoise-hist`: the histograms printed by rtla, which is in the
//! kernel's `tools/tracing/rtla`.
//!
//! This is based on rtla's `src/timerlat_hist.c`, `src/osnoise_hist.c` and `src/osnoise.c` (6.1 and
//! 6.18), and on their output:
//!
//! - The file consists of a header (`# RTLA …`, the time unit, the duration, and `Index` with a
//!   column for each kind and CPU), the rows with samples, `over:`, and, without `--no-summary`,
//!   `count:`, `min:`, `avg:` and `max:`. A figure without samples is `-`. Later versions repeat
//!   these figures for all CPUs together, below `ALL:`.
//! - A row begins with its lower edge. The width of the rows (`-b`) and their number (`-E`) are not
//!   printed.
//! - timerlat has a column for the interrupt handler (`IRQ`), one for the thread (`Thr`) and, with
//!   `-u` or `-U`, one for the return to user space (`Usr`). Each is the time since the timer was
//!   due, so each includes the previous one.
//! - osnoise counts in the kernel, in a histogram with the same row width, so its min, avg and max
//!   are also rounded down to that width.
//! - The end contains `… hit stop tracing` and the number of lost trace events.

use std::collections::BTreeSet;

use punctual_model::{Completion, CpuSet, Nanos, Recording, Unknown};

use super::blank::{blank, finish, learn, thread};
use super::counted::Counted;
use super::{Head, Import, ImportError, Location, Malformed, SampleSink, Source};

pub(crate) const TIMERLAT: Import = Import {
    name: "rtla-timerlat-hist",
    summary: "the histogram of rtla timerlat hist",
    documentation: "\
Each column becomes a thread of the recording. Its name contains the CPU and the measured object: \
the interrupt handler, the thread, or the return to user space. Every wake-up appears in all of \
these columns, so their counts are never added. Samples beyond the last row are counted, but \
their latency is unknown. Minimum, mean and maximum are read from the file, in which rtla rounds \
the mean down to its unit.

The file does not state the width of the rows. The largest number that divides all row limits is \
used instead, which is never less than the width. With --no-summary, the maximum of a column that \
has samples beyond its rows is unknown. A file written with --no-header or --no-index does not \
describe its contents, and is refused.",
    has_samples: false,
    unit_known: true,
    recognise: |head| begins(head, TITLE_TIMERLAT),
    read: |source, sink| read(source, sink, &KIND_TIMERLAT),
};

pub(crate) const OSNOISE: Import = Import {
    name: "rtla-osnoise-hist",
    summary: "the histogram of rtla osnoise hist",
    documentation: "\
Each CPU becomes a thread of the recording; a sample is a period during which the spinning thread \
did not run. The file is read like rtla-timerlat-hist, but rtla rounds minimum, mean and maximum \
down to the width of a row, and a warning is given.",
    has_samples: false,
    unit_known: true,
    recognise: |head| begins(head, TITLE_OSNOISE),
    read: |source, sink| read(source, sink, &KIND_OSNOISE),
};

const TITLE_TIMERLAT: &str = "# RTLA timerlat histogram";
const TITLE_OSNOISE: &str = "# RTLA osnoise histogram";

fn begins(head: &Head<'_>, title: &str) -> bool {
    head.lines().any(|line| line.trim_end() == title)
}

/// Differences between the two formats.
struct Kind {
    import: &'static str,
    title: &'static str,
    tool: &'static str,
    probe: &'static str,
    /// Column headings, and our names for them.
    columns: &'static [(&'static str, Option<&'static str>)],
    /// Whether min, avg and max are rounded down to a row.
    coarse: bool,
}

const KIND_TIMERLAT: Kind = Kind {
    import: "rtla-timerlat-hist",
    title: TITLE_TIMERLAT,
    tool: "rtla timerlat hist",
    probe: "timer",
    columns: &[
        ("IRQ", Some("interrupt")),
        ("Thr", Some("thread")),
        ("Usr", Some("user space")),
    ],
    coarse: false,
};

const KIND_OSNOISE: Kind = Kind {
    import: "rtla-osnoise-hist",
    title: TITLE_OSNOISE,
    tool: "rtla osnoise hist",
    probe: "hardware",
    columns: &[("CPU", None)],
    coarse: true,
};

/// Names of the lines that follow the rows, in order.
const SUMMARY: [&str; 5] = ["over", "count", "min", "avg", "max"];

/// One column of the file.
struct Column {
    cpu: u32,
    what: Option<&'static str>,
    counted: Counted,
    /// The value of `count:`.
    count: Option<u64>,
}

/// The content of the file.
struct Table {
    unit: Nanos,
    duration: Option<Nanos>,
    columns: Vec<Column>,
    /// Number of lines of [`SUMMARY`] found.
    summary: usize,
    /// The lower edge of the previous row.
    last: Option<u64>,
}

fn read(
    source: &mut Source<'_>,
    _: &mut dyn SampleSink,
    kind: &Kind,
) -> Result<Recording, ImportError> {
    let mut recording = blank(source, kind.import, kind.tool, kind.probe);
    find_title(source, kind, &mut recording)?;
    let mut table = read_header(source, kind)?;
    while table.summary < SUMMARY.len() {
        let Some(line) = whole_line(source)? else {
            break;
        };
        let text = line.trim();
        if text.is_empty() || (table.summary == 1 && note(text, &mut recording)) {
            continue;
        }
        match text.split_once(':') {
            Some((name, figures)) => read_summary(&mut table, name, figures, source)?,
            None if table.summary > 0 => {
                return Err(
                    source.bad("is not a summary line: count, min, avg or max was expected")
                );
            }
            None => read_row(&mut table, text, source)?,
        }
    }
    if table.summary != 1 && table.summary < SUMMARY.len() {
        let missing = SUMMARY[table.summary];
        return Err(source.bad(format!(
            "the line '{missing}:' is missing: the file is truncated"
        )));
    }
    // The rest of the file repeats the columns. Of that part, only two notes are used.
    while let Some(line) = source.next_line()? {
        let text = line.text();
        if text.trim_end() == kind.title || text.starts_with("Index ") {
            return Err(source.bad(Malformed::SecondHistogram));
        }
        note(&text, &mut recording);
    }
    // Each wake-up is counted once in every kind of column.
    let kinds = table.columns.iter().map(|column| column.what);
    recording.probe.alike = kinds.collect::<BTreeSet<_>>().len() == 1;
    if let Some(duration) = table.duration {
        recording.duration_ns = duration;
        learn(&mut recording, &[Unknown::Duration]);
    }
    set_width(&mut table, kind, &mut recording);
    add_threads(&table, &mut recording, source)?;
    Ok(finish(recording))
}

/// Returns the text of the next line. If the last line has no newline, it was truncated.
fn whole_line(source: &mut Source<'_>) -> Result<Option<String>, ImportError> {
    let Some(line) = source.next_line()? else {
        return Ok(None);
    };
    let (text, complete) = (line.text().into_owned(), line.complete);
    if complete {
        Ok(Some(text))
    } else {
        Err(source.bad("the file ends inside a line: it is truncated"))
    }
}

/// A histogram does not contain the analysis of the latency that stopped rtla.
const ANALYSIS: &str = "the file also contains rtla's automatic analysis of the latency that stopped \
                        it: read it with punctual explain --trace FILE";

/// Reads a note outside the histogram. Returns whether the line was such a note.
pub(super) fn note(text: &str, recording: &mut Recording) -> bool {
    if text.contains("hit stop tracing") {
        recording.completion = Completion::Break;
        let known = recording.warnings.iter().any(|known| known == ANALYSIS);
        if text.contains("analyzing it") && !known {
            recording.warnings.push(ANALYSIS.to_owned());
        }
        return true;
    }
    if text.contains("events missed") {
        recording.warnings.push(format!("rtla: {}", text.trim()));
        return true;
    }
    false
}

fn find_title(
    source: &mut Source<'_>,
    kind: &Kind,
    recording: &mut Recording,
) -> Result<(), ImportError> {
    while let Some(line) = whole_line(source)? {
        if line.trim_end() == kind.title {
            return Ok(());
        }
        note(&line, recording);
    }
    Err(source.bad(format!(
        "the line '{}' is missing (--no-header), so the unit and the columns are unknown",
        kind.title
    )))
}

/// Reads the lines from below the title down to the line `Index`.
fn read_header(source: &mut Source<'_>, kind: &Kind) -> Result<Table, ImportError> {
    let (mut unit, mut duration) = (None, None);
    while let Some(line) = whole_line(source)? {
        if let Some(text) = line.strip_prefix("# Time unit is ") {
            unit = Some(match text.trim() {
                "microseconds (us)" => Nanos(1_000),
                "nanoseconds (ns)" => Nanos(1),
                other => return Err(source.bad(format!("unknown time unit '{other}'"))),
            });
        } else if let Some(text) = line.strip_prefix("# Duration:") {
            let read = read_duration(text)
                .ok_or_else(|| source.bad("the duration does not have the form '0 00:01:30'"))?;
            duration = Some(read);
        } else if let Some(text) = line.strip_prefix("Index") {
            let unit =
                unit.ok_or_else(|| source.bad("the line with the time unit above it is missing"))?;
            return Ok(Table {
                unit,
                duration,
                columns: read_columns(text, kind, source)?,
                summary: 0,
                last: None,
            });
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            return Err(source.bad(
                "the line 'Index' with the names of the columns is missing: was the file written \
                 with --no-index?",
            ));
        }
    }
    Err(source.bad("the line 'Index' is missing: the file is truncated"))
}

/// Parses `   0 00:01:30`: days, hours, minutes, seconds.
pub(super) fn read_duration(text: &str) -> Option<Nanos> {
    let (days, clock) = text.trim().split_once(' ')?;
    let mut parts = clock.trim().split(':');
    let mut seconds: u64 = days.parse().ok()?;
    for per in [24, 60, 60] {
        let part: u64 = parts.next()?.parse().ok()?;
        seconds = seconds.checked_mul(per)?.checked_add(part)?;
    }
    let whole = parts.next().is_none();
    seconds
        .checked_mul(1_000_000_000)
        .map(Nanos)
        .filter(|_| whole)
}

/// Parses the columns of the line `Index   IRQ-000   Thr-000 …`.
fn read_columns(text: &str, kind: &Kind, source: &Source<'_>) -> Result<Vec<Column>, ImportError> {
    let column = |name: &str| {
        let (what, cpu) = name.split_once('-')?;
        let (_, what) = kind.columns.iter().find(|(column, _)| *column == what)?;
        let cpu = cpu.parse().ok().filter(|cpu| *cpu <= CpuSet::MAX_CPU)?;
        Some((cpu, *what))
    };
    let mut columns: Vec<Column> = Vec::new();
    for name in text.split_ascii_whitespace() {
        let (cpu, what) = column(name).ok_or_else(|| {
            let known: Vec<&str> = kind.columns.iter().map(|(column, _)| *column).collect();
            let known = known.join(" or ");
            source.bad(format!(
                "the column '{name}' does not consist of {known} and a CPU"
            ))
        })?;
        if columns.iter().any(|c| (c.cpu, c.what) == (cpu, what)) {
            return Err(source.bad(format!("the column '{name}' appears twice")));
        }
        columns.push(Column {
            cpu,
            what,
            counted: Counted::default(),
            count: None,
        });
    }
    if columns.is_empty() {
        Err(source.bad("no columns found: rtla recorded no sample"))
    } else {
        Ok(columns)
    }
}

/// Returns the figures of a line, one per column.
fn figures<'t>(
    text: &'t str,
    columns: usize,
    source: &Source<'_>,
) -> Result<Vec<&'t str>, ImportError> {
    let figures: Vec<&str> = text.split_ascii_whitespace().collect();
    if figures.len() == columns {
        Ok(figures)
    } else {
        Err(source.bad(format!(
            "there are {} figures for {columns} columns",
            figures.len()
        )))
    }
}

fn count(figure: &str, source: &Source<'_>) -> Result<u64, ImportError> {
    // `parse` would also accept "+3".
    let digits = figure.bytes().all(|byte| byte.is_ascii_digit());
    let count = figure.parse().ok().filter(|_| digits);
    count.ok_or_else(|| source.bad(format!("'{}' is not a count", shown(figure))))
}

fn shown(figure: &str) -> String {
    super::head::shown(figure.as_bytes())
}

/// Parses a time in the unit of the file.
fn time(figure: &str, unit: Nanos, source: &Source<'_>) -> Result<Nanos, ImportError> {
    let ns = count(figure, source)?.checked_mul(unit.0).map(Nanos);
    ns.ok_or_else(|| source.bad(format!("'{}' is out of range", shown(figure))))
}

/// Reads a row: its lower edge, and a count for each column.
fn read_row(table: &mut Table, text: &str, source: &Source<'_>) -> Result<(), ImportError> {
    let figures = figures(text, table.columns.len() + 1, source)?;
    let lower = time(figures[0], table.unit, source)?;
    if table.last.is_some_and(|last| lower.0 <= last) {
        return Err(source.bad(format!(
            "row {} is not greater than the previous row: was the file joined from two files?",
            figures[0]
        )));
    }
    table.last = Some(lower.0);
    for (column, figure) in table.columns.iter_mut().zip(&figures[1..]) {
        column.counted.add(lower, count(figure, source)?);
    }
    Ok(())
}

/// Reads a line after the rows.
fn read_summary(
    table: &mut Table,
    name: &str,
    text: &str,
    source: &Source<'_>,
) -> Result<(), ImportError> {
    let expected = SUMMARY[table.summary];
    if name != expected {
        let name = shown(name);
        return Err(source.bad(format!("expected the line '{expected}:', found '{name}:'")));
    }
    let figures = figures(text, table.columns.len(), source)?;
    table.summary += 1;
    for (column, figure) in table.columns.iter_mut().zip(figures) {
        match expected {
            "over" => column.counted.beyond = count(figure, source)?,
            "count" => column.count = Some(count(figure, source)?),
            // A column without samples has no other figures. Instead, it contains `-` or, in older
            // versions, the largest possible number.
            _ if column.count == Some(0) => {}
            "min" => column.counted.min = Some(time(figure, table.unit, source)?),
            "avg" => {
                let mean = figure.parse::<f64>().ok().filter(|mean| *mean >= 0.0);
                let mean =
                    mean.ok_or_else(|| source.bad(format!("'{}' is not a mean", shown(figure))))?;
                column.counted.mean = Some(mean * table.unit.0 as f64);
            }
            _ => column.counted.max = Some(time(figure, table.unit, source)?),
        }
    }
    Ok(())
}

/// Determines the width of the rows.
fn set_width(table: &mut Table, kind: &Kind, recording: &mut Recording) {
    let edges = (table.columns.iter()).flat_map(|column| {
        let figures = [column.counted.min, column.counted.max];
        let figures = figures.into_iter().flatten().map(|ns| ns.0);
        let figures = figures.filter(|_| kind.coarse);
        column.counted.rows.keys().copied().chain(figures)
    });
    let mut width = edges.fold(0, greatest_common_divisor);
    if width == 0 {
        // The only row begins at 0, so its width is unknown. It must contain the largest latency of
        // those columns that have no samples beyond the row.
        let within = table
            .columns
            .iter()
            .filter(|column| column.counted.beyond == 0);
        let most = within.filter_map(|column| column.counted.max).max();
        width = most.map_or(0, |most| most.0).saturating_add(table.unit.0);
        let beyond = table.columns.iter().any(|column| column.counted.beyond > 0);
        if kind.coarse || beyond {
            recording.warnings.push(format!(
                "the file has a single row of unknown width: {} is assumed (if rtla ran with -b, \
                 the width may be different)",
                Nanos(width)
            ));
        }
    }
    if kind.coarse && width > table.unit.0 {
        recording.warnings.push(format!(
            "rtla rounds minimum, mean and maximum of noise down to a multiple of {}",
            Nanos(width)
        ));
    }
    for column in &mut table.columns {
        let counted = &mut column.counted;
        counted.row = Nanos(width);
        counted.unit = table.unit;
        counted.from = Nanos(table.last.map_or(0, |last| last.saturating_add(width)));
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn add_threads(
    table: &Table,
    recording: &mut Recording,
    source: &Source<'_>,
) -> Result<(), ImportError> {
    for (place, column) in table.columns.iter().enumerate() {
        let what = column
            .what
            .map_or(String::new(), |what| format!(", {what}"));
        let label = format!("CPU {}{what}", column.cpu);
        let bad = |why: Malformed| source.bad_at(Location::Whole, why.within(label.as_str()));
        let total = column.counted.total().map_err(bad)?;
        if let Some(count) = column.count.filter(|count| *count != total) {
            return Err(bad(Malformed::SamplesCounted { total, count }));
        }
        let histogram = column.counted.histogram().map_err(bad)?;
        let mut thread = thread(place, Some(column.cpu), histogram);
        thread.label = column.what.map(|_| label);
        recording.threads.push(thread);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
