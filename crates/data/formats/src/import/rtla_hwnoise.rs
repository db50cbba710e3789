//! `rtla-hwnoise`: the summary printed by `rtla hwnoise`.
//!
//! This is based on rtla's `src/osnoise_top.c` (6.1 to 6.18). The summary has a title, `duration:`
//! and the time unit, the column names, and a row for each CPU: periods, runtime, noise, available
//! share in %, the largest noise in a period, the largest single noise, and the counts of hardware
//! noise and NMIs. All times are whole µs. Live output clears the screen and prints everything
//! again.

use std::collections::BTreeMap;

use punctual_model::{Cell, CpuSet, Histogram, Nanos, Recording, Table, Unknown};

use super::blank::{MICROSECOND, THREADS, blank, finish, learn, thread};
use super::rtla::read_duration;
use super::text::{count, field, is_prompt};
use super::{Head, Import, ImportError, Location, Malformed, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "rtla-hwnoise",
    summary: "the summary of rtla hwnoise",
    documentation: "\
Each CPU becomes a thread of the recording; a sample is a period during which hardware or an NMI \
kept the spinning thread from running. The file contains only the number of samples, their sum \
and the largest sample, so the latency of each sample is unknown. All columns become a table.

For live output, only the last table is read. If the screen was not cleared between two tables, \
the file contains several runs and is refused. The file does not record the time of the \
measurement, the load, or the machine.",
    has_samples: false,
    unit_known: true,
    recognise,
    read,
};

const TITLE: &str = "Hardware-related Noise";

fn recognise(head: &Head<'_>) -> bool {
    head.lines().any(|line| bare(&line) == TITLE)
}

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
    max_noise: u64,
    max_single: u64,
    hardware: u64,
    nmis: u64,
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let mut recording = blank(source, IMPORT.name, "rtla hwnoise", "hardware");
    let mut rows: BTreeMap<u32, Row> = BTreeMap::new();
    let mut titled = false;
    while let Some(line) = source.next_line()? {
        let (text, complete) = (line.text().into_owned(), line.complete);
        let is_cleared = text.contains(CLEARED);
        let text = bare(&text);
        let result = match text {
            "" => Ok(()),
            _ if !complete && is_prompt(text.as_bytes()) => Ok(()),
            _ if !complete => Err(Malformed::LineTruncated),
            TITLE if !rows.is_empty() && !is_cleared => Err(Malformed::SecondTable),
            TITLE => {
                titled = true;
                rows.clear();
                Ok(())
            }
            _ if !titled || text.starts_with("CPU Period") => Ok(()),
            _ if text.starts_with("duration:") => {
                duration(text).and_then(|length| take_duration(length, &mut recording))
            }
            _ if text.starts_with(|first: char| first.is_ascii_digit()) => {
                row(text).and_then(|(cpu, row)| match rows.insert(cpu, row) {
                    Some(_) => Err(Malformed::CpuTwice(cpu)),
                    None => Ok(()),
                })
            }
            // These are rtla's notes on lost events and on a stop.
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
    recording.tables.push(table(&rows));
    for (place, (cpu, row)) in rows.iter().enumerate() {
        let histogram = row.histogram();
        recording.threads.push(thread(place, Some(*cpu), histogram));
    }
    Ok(finish(recording))
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
fn row(text: &str) -> Result<(u32, Row), Malformed> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [
        cpu,
        periods,
        runtime,
        noise,
        share,
        max_noise,
        max_single,
        hardware,
        nmis,
    ] = words[..]
    else {
        return Err(Malformed::FiguresOfRow(words.len()));
    };
    let cpu = count(cpu)?;
    let cpu = u32::try_from(cpu)
        .ok()
        .filter(|cpu| *cpu <= CpuSet::MAX_CPU);
    let cpu = cpu.ok_or(Malformed::FirstColumnNotACpu)?;
    if share.parse::<f64>().is_err() {
        return Err(Malformed::ShareNotANumber);
    }
    let row = Row {
        periods: count(periods.strip_prefix('#').unwrap_or_default())?,
        runtime: count(runtime)?,
        noise: count(noise)?,
        max_noise: count(max_noise)?,
        max_single: count(max_single)?,
        hardware: count(hardware)?,
        nmis: count(nmis)?,
    };
    let in_order =
        row.max_single <= row.max_noise && row.max_noise <= row.noise && row.noise <= row.runtime;
    match in_order {
        true if row.runtime <= u64::MAX / 1_000 => Ok((cpu, row)),
        true => Err(Malformed::TimeTooLong(row.runtime.to_string())),
        false => Err(Malformed::NoiseNotIncreasing),
    }
}

impl Row {
    fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::imported(MICROSECOND, MICROSECOND);
        let samples = self.hardware.saturating_add(self.nmis);
        histogram.add_unplaced(samples, Nanos::ZERO);
        // Noise below the threshold counts as noise, but not as a sample.
        let mean = self.noise.checked_div(samples);
        if let Some(mean) = mean {
            let time = |us: u64| Nanos(us * 1_000);
            let sum = (mean <= self.max_single).then(|| time(self.noise));
            histogram.set_figures(None, Some(time(self.max_single)), sum);
        }
        histogram
    }
}

fn table(rows: &BTreeMap<u32, Row>) -> Table {
    let mut table = Table::new(
        "hwnoise",
        "Hardware-related noise",
        &[
            ("cpu", "CPU"),
            ("periods", "periods"),
            ("runtime_ns", "runtime"),
            ("noise_ns", "noise"),
            ("max_noise_ns", "largest of a period"),
            ("max_single_ns", "largest single"),
            ("hardware", "hardware"),
            ("nmis", "NMIs"),
        ],
    );
    for (cpu, row) in rows {
        let time = |us: u64| Cell::from(Nanos(us * 1_000));
        table.push([
            Cell::from(u64::from(*cpu)),
            row.periods.into(),
            time(row.runtime),
            time(row.noise),
            time(row.max_noise),
            time(row.max_single),
            row.hardware.into(),
            row.nmis.into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::testing::{read_recognised, read_text, refused};
    use super::*;

    // Written by hand after rtla's source, because a real run needs a kernel with the osnoise
    // tracer.
    const TEXT: &str = include_str!("../../tests/fixtures/rtla-6.18-hwnoise.txt");

    #[test]
    fn each_cpu_is_a_thread() {
        let recording = read_text(&IMPORT, TEXT).unwrap();
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
        let known = read_text(&IMPORT, TEXT).unwrap();
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

    #[test]
    fn what_is_wrong_is_named() {
        for (from, to, reason) in [
            ("time is in us", "time is in ns", "not 'us'"),
            ("00:10:00", "10 minutes", "not have the form"),
            ("#599", "599", "not a count"),
            ("  3 #599", "  2 #599", "CPU 2 appears twice"),
            (
                "           5           75",
                "           5",
                "8 figures for 9",
            ),
            (
                "598500000          120",
                "598500000            2",
                "not in increasing order",
            ),
        ] {
            assert!(TEXT.contains(from), "{from}");
            let said = refused(&IMPORT, TEXT.replacen(from, to, 1).as_bytes());
            assert!(said.contains(reason), "{from}: {said}");
        }
        assert!(refused(&IMPORT, TITLE.as_bytes()).contains("truncated"));
    }
}
