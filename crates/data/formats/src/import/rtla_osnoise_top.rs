//! `rtla-hwnoise` and `rtla-osnoise-top`: the summaries printed by `rtla hwnoise` and
//! `rtla osnoise top`.
//!
//! This is based on rtla's `src/osnoise_top.c` (6.1 to 6.18). The summary has a title, `duration:`
//! and the time unit, the column names, and a row for each CPU: periods, runtime, noise, available
//! share in %, the largest noise in a period, the largest single noise, and the counts of hardware
//! noise and NMIs; `rtla osnoise top` adds IRQs, softirqs and threads. All times are whole µs. Live
//! output clears the screen and prints everything again. Text that was copied from a terminal lacks
//! the control characters that clear the screen.

use std::collections::BTreeMap;

use punctual_model::{Cell, CpuSet, Histogram, Nanos, Recording, Table, Unknown};

use super::blank::{MICROSECOND, THREADS, blank, finish, learn, thread};
use super::rtla::read_duration;
use super::text::{count, field, is_prompt};
use super::{Head, Import, ImportError, Location, Malformed, Source};

pub(crate) const HWNOISE: Import = Import {
    name: "rtla-hwnoise",
    summary: "the summary of rtla hwnoise",
    documentation: "\
Each CPU becomes a thread of the recording; a sample is a period during which hardware or an NMI \
kept the spinning thread from running. The file contains only the number of samples, their sum \
and the largest sample, so the latency of each sample is unknown. All columns become a table.

For live output, only the last table is read. Several tables without a cleared screen, as copied \
from a terminal, are read in the same way, with a warning; a table with fewer periods or a smaller \
maximum than before belongs to another run, and the file is refused. The file does not record the \
time of the measurement, the load, or the machine.",
    has_samples: false,
    unit_known: true,
    recognise: |head| has_title(head, &HARDWARE),
    read: |source, _| read(source, &HARDWARE),
};

pub(crate) const OSNOISE: Import = Import {
    name: "rtla-osnoise-top",
    summary: "the summary of rtla osnoise top",
    documentation: "\
Each CPU becomes a thread of the recording; a sample is the noise of one period, that is, the time \
for which the spinning thread did not run. The file contains only the number of periods, their sum \
and the largest, so the noise of each period is unknown. All columns become a table, with the \
longest single noise and the number of interferences of each kind.

For live output, only the last table is read. Several tables without a cleared screen, as copied \
from a terminal, are read in the same way, with a warning; a table with fewer periods or a smaller \
maximum than before belongs to another run, and the file is refused. The file does not record the \
time of the measurement, the load, or the machine.",
    has_samples: false,
    unit_known: true,
    recognise: |head| has_title(head, &SYSTEM),
    read: |source, _| read(source, &SYSTEM),
};

/// One of the two summaries.
struct Kind {
    import: &'static str,
    tool: &'static str,
    probe: &'static str,
    title: &'static str,
    table: &'static str,
    /// Names and titles of the counts at the end of a row.
    counts: &'static [(&'static str, &'static str)],
    /// Returns the number of samples, their sum and the largest.
    samples: fn(&Row) -> Samples,
}

const HARDWARE: Kind = Kind {
    import: "rtla-hwnoise",
    tool: "rtla hwnoise",
    probe: "hardware",
    title: "Hardware-related Noise",
    table: "hwnoise",
    counts: &[("hardware", "hardware"), ("nmis", "NMIs")],
    samples: |row| {
        let samples = row
            .counts
            .iter()
            .flatten()
            .copied()
            .fold(0, u64::saturating_add);
        // Noise below the threshold counts as noise, but not as a sample.
        let sum = (row.noise.checked_div(samples)).filter(|mean| *mean <= row.max_single);
        Samples {
            count: samples,
            sum: sum.map(|_| row.noise),
            max: Some(row.max_single),
        }
    },
};

const SYSTEM: Kind = Kind {
    import: "rtla-osnoise-top",
    tool: "rtla osnoise top",
    probe: "hardware",
    title: "Operating System Noise",
    table: "osnoise",
    counts: &[
        ("hardware", "hardware"),
        ("nmis", "NMIs"),
        ("irqs", "IRQs"),
        ("softirqs", "softirqs"),
        ("threads", "threads"),
    ],
    samples: |row| Samples {
        count: row.periods,
        sum: (row.noise.checked_div(row.periods))
            .filter(|mean| row.max_noise.is_none_or(|max| *mean <= max))
            .map(|_| row.noise),
        max: row.max_noise,
    },
};

/// Figures of the samples of a CPU; times in µs.
struct Samples {
    count: u64,
    sum: Option<u64>,
    max: Option<u64>,
}

fn has_title(head: &Head<'_>, kind: &Kind) -> bool {
    head.lines().any(|line| bare(&line) == kind.title)
}

/// The warning for live output that was copied from a terminal.
pub(super) const COPIED: &str =
    "the file contains several tables, which seem to belong to one run; only the last one is read";

/// Live output uses this to clear the screen before each table.
pub(super) const CLEARED: &str = "\u{1b}c";

/// Returns a line without the colours and screen clearing of live output.
pub(super) fn bare(line: &str) -> &str {
    let mut text = line.trim();
    while let Some(rest) = text.strip_prefix('\x1b') {
        text = match rest.strip_prefix('c') {
            Some(rest) => rest,
            None => rest.split_once('m').map_or("", |(_, rest)| rest),
        }
        .trim_start();
    }
    match text.split_once('\x1b') {
        Some((text, _)) => text.trim_end(),
        None => text,
    }
}

/// Figures of a CPU; times in µs.
struct Row {
    periods: u64,
    runtime: u64,
    noise: u64,
    /// `None` if the file has `-`, as punctual's own threads cannot measure every column.
    max_noise: Option<u64>,
    max_single: u64,
    /// The counts of the columns at the end; `None` for `-`.
    counts: Vec<Option<u64>>,
}

fn read(source: &mut Source<'_>, kind: &Kind) -> Result<Recording, ImportError> {
    let mut recording = blank(source, kind.import, kind.tool, kind.probe);
    let mut rows: BTreeMap<u32, Row> = BTreeMap::new();
    let mut before: BTreeMap<u32, Row> = BTreeMap::new();
    let (mut titled, mut copied) = (false, false);
    while let Some(line) = source.next_line()? {
        let (text, complete) = (line.text().into_owned(), line.complete);
        let is_cleared = text.contains(CLEARED);
        let text = bare(&text);
        let result = match text {
            "" => Ok(()),
            _ if !complete && is_prompt(text.as_bytes()) => Ok(()),
            _ if !complete => Err(Malformed::LineTruncated),
            _ if text == kind.title => {
                titled = true;
                copied |= !rows.is_empty() && !is_cleared;
                check_complete(&before, &rows).map(|()| {
                    if !rows.is_empty() {
                        before = std::mem::take(&mut rows);
                    }
                })
            }
            _ if !titled || text.starts_with("CPU Period") => Ok(()),
            _ if text.starts_with("duration:") => {
                duration(text).and_then(|length| take_duration(length, &mut recording))
            }
            _ if text.starts_with(|first: char| first.is_ascii_digit()) => row(text, kind)
                .and_then(|(cpu, row)| {
                    // An unknown figure falls below no other.
                    let below = |before: Option<u64>, now: Option<u64>| {
                        before.zip(now).is_some_and(|(before, now)| before > now)
                    };
                    let falls = |before: &Row| {
                        let mut counts = before.counts.iter().zip(&row.counts);
                        before.periods > row.periods
                            || before.runtime > row.runtime
                            || before.noise > row.noise
                            || counts.any(|(before, now)| below(*before, *now))
                            || below(before.max_noise, row.max_noise)
                            || before.max_single > row.max_single
                    };
                    if before.get(&cpu).is_some_and(falls) {
                        return Err(Malformed::SecondRunBegins);
                    }
                    match rows.insert(cpu, row) {
                        Some(_) => Err(Malformed::CpuTwice(cpu)),
                        None => Ok(()),
                    }
                }),
            // These lines are rtla's notes about lost events and about a stop.
            _ => {
                if text.contains("events missed") {
                    recording.warnings.push(format!("rtla: {text}"));
                }
                Ok(())
            }
        };
        result.map_err(|reason| source.bad(reason))?;
    }
    if rows.is_empty() || rows.len() > THREADS {
        let reason = "there are no rows for CPUs, or too many";
        return Err(source.bad_at(Location::Whole, reason));
    }
    let complete = check_complete(&before, &rows);
    complete.map_err(|reason| source.bad_at(Location::Whole, reason))?;
    if copied {
        recording.warnings.push(COPIED.to_owned());
    }
    recording.tables.push(table(&rows, kind));
    for (place, (cpu, row)) in rows.iter().enumerate() {
        let histogram = (kind.samples)(row).histogram();
        recording.threads.push(thread(place, Some(*cpu), histogram));
    }
    Ok(finish(recording))
}

/// Checks that a table has the CPUs of the previous one.
fn check_complete(before: &BTreeMap<u32, Row>, rows: &BTreeMap<u32, Row>) -> Result<(), Malformed> {
    if before.is_empty() || rows.keys().eq(before.keys()) {
        Ok(())
    } else {
        Err(Malformed::OtherCpus)
    }
}

/// Parses `duration:   0 00:10:00 | time is in us`.
fn duration(text: &str) -> Result<Nanos, Malformed> {
    let mut rest = text;
    let length = field(&mut rest, "duration:", "|").unwrap_or_default();
    if rest.trim() != "| time is in us" {
        return Err(Malformed::UnitNotMicros);
    }
    read_duration(length).ok_or(Malformed::DurationForm)
}

/// Sets the duration of the run so far.
pub(super) fn take_duration(length: Nanos, recording: &mut Recording) -> Result<(), Malformed> {
    if length < recording.duration_ns {
        return Err(Malformed::SecondRunBegins);
    }
    recording.duration_ns = length;
    learn(recording, &[Unknown::Duration]);
    Ok(())
}

/// Parses
/// `  1 #599       599000000          138    99.99997           3            3           4           74`.
fn row(text: &str, kind: &Kind) -> Result<(u32, Row), Malformed> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let wanted = FIRST_COUNT + kind.counts.len();
    if words.len() != wanted {
        return Err(Malformed::Figures {
            name: "the row",
            found: words.len(),
            wanted,
        });
    }
    let cpu = count(words[0])?;
    let cpu = u32::try_from(cpu)
        .ok()
        .filter(|cpu| *cpu <= CpuSet::MAX_CPU);
    let cpu = cpu.ok_or(Malformed::FirstColumnNotACpu)?;
    if words[4].parse::<f64>().is_err() {
        return Err(Malformed::ShareNotANumber);
    }
    let counts = words[FIRST_COUNT..].iter();
    let row = Row {
        periods: count(words[1].strip_prefix('#').unwrap_or_default())?,
        runtime: count(words[2])?,
        noise: count(words[3])?,
        max_noise: known(words[5])?,
        max_single: count(words[6])?,
        counts: counts.map(|word| known(word)).collect::<Result<_, _>>()?,
    };
    let max_noise = row.max_noise.unwrap_or(row.max_single);
    let in_order =
        row.max_single <= max_noise && max_noise <= row.noise && row.noise <= row.runtime;
    match in_order {
        true if row.runtime <= u64::MAX / 1_000 => Ok((cpu, row)),
        true => Err(Malformed::TimeTooLong(row.runtime.to_string())),
        false => Err(Malformed::NoiseNotIncreasing),
    }
}

/// Parses a figure; `None` for `-`.
fn known(word: &str) -> Result<Option<u64>, Malformed> {
    if word == "-" {
        Ok(None)
    } else {
        count(word).map(Some)
    }
}

/// The column of the first count.
const FIRST_COUNT: usize = 7;

impl Samples {
    fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::imported(MICROSECOND, MICROSECOND);
        histogram.add_unplaced(self.count, Nanos::ZERO);
        if self.count > 0 {
            let time = |us: u64| Nanos(us * 1_000);
            histogram.set_figures(None, self.max.map(time), self.sum.map(time));
        }
        histogram
    }
}

fn table(rows: &BTreeMap<u32, Row>, kind: &Kind) -> Table {
    let mut columns = vec![
        ("cpu", "CPU"),
        ("periods", "periods"),
        ("runtime_ns", "runtime"),
        ("noise_ns", "noise"),
        ("max_noise_ns", "largest of a period"),
        ("max_single_ns", "largest single"),
    ];
    columns.extend(kind.counts);
    let mut table = Table::new(kind.table, kind.title, &columns);
    for (cpu, row) in rows {
        let time = |us: u64| Cell::from(Nanos(us * 1_000));
        let mut cells = vec![
            Cell::from(u64::from(*cpu)),
            row.periods.into(),
            time(row.runtime),
            time(row.noise),
            row.max_noise.map_or(Cell::Unknown, time),
            time(row.max_single),
        ];
        cells.extend(
            row.counts
                .iter()
                .map(|count| count.map_or(Cell::Unknown, Cell::from)),
        );
        table.push(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refuses, read_recognised, read_text, refused};
    use super::*;

    // Written by hand, based on rtla's source, because a real run needs a kernel with the osnoise
    // tracer.
    const TEXT: &str = include_str!("../../tests/fixtures/rtla-6.18-hwnoise.txt");

    #[test]
    fn each_cpu_is_a_thread() {
        let recording = read_text(&HWNOISE, TEXT).unwrap();
        assert_eq!(recording.duration_ns, Nanos::from_secs(600));
        let cpus: Vec<_> = recording.threads.iter().map(|thread| thread.cpu).collect();
        assert_eq!(cpus, [Some(2), Some(3), Some(4)]);
        let histogram = &recording.threads[0].histogram;
        assert_eq!((histogram.count(), histogram.unplaced()), (80, 80));
        assert_eq!(histogram.max(), Some(Nanos::from_micros(3)));
        assert_eq!(histogram.mean(), Some(Nanos(1_500)));
        assert_eq!(histogram.quantile(0.5), None);
        assert_eq!(recording.threads[2].histogram.count(), 0);
        assert_eq!(recording.tables[0].rows[1][3], Cell::Count(91_000));
    }

    #[test]
    fn live_and_pasted_output_is_read() {
        let known = read_text(&HWNOISE, TEXT).unwrap();
        let half = TEXT.replace("00:10:00", "00:05:00").replace("#599", "#299");
        let live = format!("\x1bc\x1b[2;37;40m{half}\x1bc\x1b[2;37;40m{TEXT}");
        let live = live.replace("Noise  ", "Noise\x1b[0;0;0m  ");
        let pasted: String = TEXT.lines().map(|line| format!("  {line}\n")).collect();
        let pasted = format!("An example::\n\n  # rtla hwnoise -c 2-4\n{pasted}");
        for text in [live, pasted] {
            let read = read_recognised(text.as_bytes()).unwrap();
            assert!(read.threads == known.threads, "{text}");
            assert_eq!(read.duration_ns, known.duration_ns);
        }
    }

    /// Written by hand, based on rtla's source, as copied from a terminal with two refreshes.
    const LIVE: &str = include_str!("../../tests/fixtures/rtla-osnoise-top-live.txt");

    #[test]
    fn each_period_of_osnoise_is_a_sample() {
        let recording = read_recognised(LIVE.as_bytes()).unwrap();
        assert_eq!(
            recording.origin.as_ref().unwrap().format,
            "rtla-osnoise-top"
        );
        assert_eq!(recording.duration_ns, Nanos::from_secs(60));
        let histogram = &recording.threads[0].histogram;
        assert_eq!((histogram.count(), histogram.unplaced()), (58, 58));
        assert_eq!(histogram.max(), Some(Nanos::from_micros(91)));
        assert_eq!(histogram.mean(), Some(Nanos(17_776)));
        assert_eq!(recording.tables[0].rows[1][8], Cell::Count(52_219));
        assert_eq!(recording.warnings, [COPIED]);
    }

    #[test]
    fn dashes_stay_unknown() {
        let text = LIVE.replace(
            "          91           60            0",
            "           -           60            -",
        );
        assert_ne!(text, LIVE);
        let recording = read_recognised(text.as_bytes()).unwrap();
        let row = &recording.tables[0].rows[0];
        assert_eq!((&row[4], &row[6]), (&Cell::Unknown, &Cell::Unknown));
        assert_eq!(row[8], Cell::Count(52_285));
        let histogram = &recording.threads[0].histogram;
        assert_eq!((histogram.count(), histogram.max()), (58, None));
    }

    #[test]
    fn table_of_another_run_is_refused() {
        let changes = [
            ("  0 #58", "  0 #26", "second run"),
            (
                "          91           60",
                "          90           60",
                "taken",
            ),
            (
                "          91           60",
                "          60           60",
                "second run",
            ),
            ("0 00:01:00", "0 00:00:20", "second run"),
        ];
        assert_refuses(&OSNOISE, LIVE, &changes);
        let (cut, _) = LIVE.rsplit_once("  1 #").unwrap();
        assert!(refused(&OSNOISE, cut.as_bytes()).contains("other CPUs"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let changes = [
            ("time is in us", "time is in ns", "not 'us'"),
            ("00:10:00", "10 minutes", "not have the form"),
            ("#599", "599", "not a count"),
            ("  3 #599", "  2 #599", "CPU 2 appears twice"),
            (
                "           5           75",
                "           5",
                "8 figures instead of 9",
            ),
            (
                "598500000          120",
                "598500000            2",
                "not in increasing order",
            ),
        ];
        assert_refuses(&HWNOISE, TEXT, &changes);
        assert!(refused(&HWNOISE, HARDWARE.title.as_bytes()).contains("truncated"));
    }
}
