//! `hist-trigger`: the file `hist` of a trace event in tracefs.
//!
//! This is based on `kernel/trace/trace_events_hist.c` and on `Documentation/trace/histogram.rst` of
//! Linux 6.18. A row has its keys and the number of events: `{ pid: 2035, lat: 12 } hitcount: 43`. A
//! key with `.log2` is printed as `lat: ~ 2^3`, for values above 4 and up to 8; a key with
//! `.buckets=10` as `lat: ~ 0-9`.

use std::collections::BTreeMap;

use punctual_model::{Histogram, Nanos, Recording};

use super::blank::{THREADS, blank, finish, thread};
use super::bpftrace_histogram::unit_of;
use super::head::shown;
use super::text::{WordsBelow, count};
use super::unit::NANOSECOND;
use super::{Import, ImportError, Malformed, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "hist-trigger",
    summary: "the file hist of a trace event with a hist trigger",
    documentation: "Reads a table of latencies that a hist trigger with inter-event variables fills, \
        as Documentation/trace/histogram.rst of the kernel describes. The latency is the key with \
        .log2 or .buckets; without one, the only key whose name contains lat, delta, delay or \
        duration. Each combination of the other keys becomes a thread.

The kernel does not print the unit. It is read from the last word of the key's name (lat_us, \
        delta_ns); otherwise, --unit states it. With common_timestamp.usecs, both times are rounded \
        down, so a latency can be 1 µs too small or too large. With .log2, minimum, mean and maximum \
        are unknown, and a percentile is the upper end of its row less 1 ns. With .buckets, a \
        percentile is the last value of its row. Dropped events are counted in a warning. A table \
        with stack traces is refused. The file does not record the time or duration of the \
        measurement, the CPUs, or the machine.",
    has_samples: false,
    unit_known: false,
    recognise: |head| head.lines().any(|line| line.trim() == BEGIN),
    read,
};

const BEGIN: &str = "# event histogram";
/// Parts of the names of keys that are latencies.
const LATENCIES: [&str; 4] = ["lat", "delta", "delay", "duration"];

/// How a table prints latencies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    Octaves,
    Width(u64),
}

#[derive(Default)]
struct Text {
    has_begun: bool,
    key: Option<(String, Rows)>,
    /// The rows of each thread: the lower edge in units, and the count.
    threads: BTreeMap<String, Vec<(u64, u64)>>,
    hits: Option<u64>,
    dropped: u64,
    words: WordsBelow,
}

/// The latency of a row: its lower edge, and the kind of its rows.
fn latency(value: &str) -> Result<(u64, Rows), Malformed> {
    let Some(range) = value.strip_prefix("~ ") else {
        return Ok((count(value)?, Rows::Width(1)));
    };
    if let Some(power) = range.strip_prefix("2^") {
        let power = count(power.trim())?;
        // The rows 2^0 and 2^1 contain at most 2.
        let lower = u32::try_from(power.saturating_sub(1)).ok();
        let lower = lower.and_then(|power| 1_u64.checked_shl(power));
        return Ok((lower.ok_or(Malformed::FiguresTooLarge)?, Rows::Octaves));
    }
    let (first, last) = (range.split_once('-')).ok_or(Malformed::foreign(value.as_bytes()))?;
    let (first, last) = (count(first.trim())?, count(last.trim())?);
    let width = last
        .checked_sub(first)
        .and_then(|width| width.checked_add(1));
    let width = width.ok_or(Malformed::foreign(value.as_bytes()))?;
    Ok((first, Rows::Width(width)))
}

fn is_latency(name: &str, value: &str) -> bool {
    value.starts_with("~ ") || LATENCIES.iter().any(|part| name.contains(part))
}

impl Text {
    fn line(&mut self, line: &str) -> Result<(), Malformed> {
        let line = line.trim();
        if line == BEGIN && std::mem::replace(&mut self.has_begun, true) {
            return Err(Malformed::SecondHistogram);
        }
        if line.is_empty() || line.starts_with('#') || line == "Totals:" {
            return Ok(());
        }
        if let Some(row) = line.strip_prefix('{') {
            self.words.figures_follow()?;
            let (keys, values) = (row.split_once('}')).ok_or(Malformed::KeysNotOnOneLine)?;
            return self.row(keys, values);
        }
        match line.split_once(": ") {
            Some(("Hits", number)) => self.hits = Some(count(number.trim())?),
            Some(("Dropped", number)) => self.dropped = count(number.trim())?,
            Some(("Entries", number)) => drop(count(number.trim())?),
            _ if self.has_begun => self.words.take(line.as_bytes())?,
            _ => {}
        }
        Ok(())
    }

    fn row(&mut self, keys: &str, values: &str) -> Result<(), Malformed> {
        let pairs = keys.split(", ").map(|key| {
            let (name, value) = key
                .split_once(':')
                .ok_or(Malformed::foreign(key.as_bytes()))?;
            Ok((name.trim(), value.trim()))
        });
        let pairs: Vec<(&str, &str)> = pairs.collect::<Result<_, Malformed>>()?;
        let latencies: Vec<_> = (pairs.iter())
            .filter(|(name, value)| is_latency(name, value))
            .collect();
        let [(name, value)] = latencies.as_slice() else {
            return Err(Malformed::KeysOfLatency(latencies.len()));
        };
        let (lower, rows) = latency(value)?;
        let key = self.key.get_or_insert_with(|| ((*name).to_owned(), rows));
        if key.0 != *name || key.1 != rows {
            return Err(Malformed::SecondHistogram);
        }
        let number = values.trim().strip_prefix("hitcount:");
        let number = number.ok_or(Malformed::MissingField("hitcount"))?;
        let number = count(number.split_whitespace().next().unwrap_or_default())?;
        let others = pairs.iter().filter(|(other, _)| other != name);
        let others: Vec<String> = others
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let label = shown(others.join(", ").as_bytes());
        if self.threads.len() >= THREADS && !self.threads.contains_key(&label) {
            return Err(Malformed::TooMany {
                most: THREADS,
                what: "combinations of keys",
            });
        }
        self.threads.entry(label).or_default().push((lower, number));
        Ok(())
    }

    fn histogram(rows: &[(u64, u64)], unit: Nanos, kind: Rows) -> Result<Histogram, Malformed> {
        let large = Malformed::FiguresTooLarge;
        let mut histogram = match kind {
            Rows::Octaves => Histogram::imported_by_octaves(NANOSECOND, unit, 1),
            Rows::Width(width) => {
                let row = width.checked_mul(unit.0).ok_or(large)?;
                Histogram::imported(unit, Nanos(row))
            }
        };
        for (lower, number) in rows {
            let lower = lower
                .checked_mul(unit.0)
                .ok_or(Malformed::FiguresTooLarge)?;
            histogram.add_row(Nanos(lower), *number);
        }
        Ok(histogram)
    }

    fn recording(self, source: &Source<'_>) -> Result<Recording, Malformed> {
        let (key, kind) = self.key.ok_or(Malformed::MissingFigures)?;
        let unit = source.unit().or(unit_of(&key));
        let unit = unit.ok_or(Malformed::UnitUnknown)?;
        let hits = self.hits.ok_or(Malformed::MissingLine("Hits:"))?;
        let numbers = self.threads.values().flatten().map(|(_, number)| *number);
        let total = numbers.fold(0_u64, u64::saturating_add);
        if total != hits {
            return Err(Malformed::TotalNotSum);
        }
        let mut recording = blank(source, IMPORT.name, "hist trigger", "scheduling");
        for (label, rows) in &self.threads {
            let place = recording.threads.len();
            let mut thread = thread(place, None, Self::histogram(rows, unit, kind)?);
            if !label.is_empty() {
                thread.label = Some(label.clone());
            }
            recording.threads.push(thread);
        }
        if self.dropped > 0 {
            recording.warnings.push(format!(
                "the table was full: the kernel dropped {} events, whose latency is unknown",
                self.dropped
            ));
        }
        Ok(finish(recording))
    }
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    source.whole_text(Text::line, Text::recording)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refuses, read_recognised, refused};
    use super::*;

    const TEXT: &str = include_str!("../../tests/fixtures/hist-trigger.txt");

    #[test]
    fn powers_of_two_are_rows() {
        let recording = read_recognised(TEXT.as_bytes()).unwrap();
        let titles: Vec<String> = recording.threads.iter().map(|one| one.title()).collect();
        assert_eq!(titles, ["pid 811, prio 9", "pid 812, prio 9"]);
        let histogram = &recording.threads[0].histogram;
        assert_eq!(histogram.count(), 399);
        // 2^2 are the values 3 and 4.
        assert_eq!(histogram.quantile(0.5), Some(Nanos(3_999)));
        assert_eq!(histogram.quantile(1.0), Some(Nanos(7_999)));
        assert_eq!((histogram.min(), histogram.max()), (None, None));
    }

    #[test]
    fn buckets_and_single_values_are_rows() {
        let buckets = TEXT
            .replace("~ 2^0 ", "~ 0-9")
            .replace("~ 2^2 ", "~ 10-19")
            .replace("~ 2^3 ", "~ 20-29")
            .replace("~ 2^7 ", "~ 120-129");
        let recording = read_recognised(buckets.as_bytes()).unwrap();
        let histogram = &recording.threads[0].histogram;
        assert_eq!(histogram.quantile(0.5), Some(Nanos::from_micros(19)));
        let single = TEXT.replace("~ 2^", "").replace("lat_us", "delta_ns");
        let recording = read_recognised(single.as_bytes()).unwrap();
        let histogram = &recording.threads[1].histogram;
        assert_eq!((histogram.count(), histogram.max()), (26, Some(Nanos(7))));
    }

    #[test]
    fn dropped_events_are_said() {
        let dropped = TEXT.replace("Dropped: 0", "Dropped: 7");
        let recording = read_recognised(dropped.as_bytes()).unwrap();
        assert!(
            recording
                .warnings
                .iter()
                .any(|text| text.contains("7 events"))
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let changes = [
            ("Hits: 425", "Hits: 426", "sum"),
            ("Totals:\n    Hits: 425", "", "Hits:"),
            ("~ 2^7", "~ 2^99", "out of range"),
            ("~ 2^7", "~ 7", "not a line"),
            ("~ 2^7", "~ 2^x", "not a count"),
            ("~ 2^7 ", "~ 9-10", "second histogram"),
            ("hitcount:         12", "runtime: 12", "hitcount"),
            ("lat_us: ~ 2^0  }", "stacktrace:", "stack trace"),
            ("lat_us: ~ 2^0 ", "comm: a", "0 keys"),
            (
                "prio:          9, lat_us: ~ 2^0",
                "delay: 9, lat_us: ~ 2^0",
                "2 keys",
            ),
        ];
        assert_refuses(&IMPORT, TEXT, &changes);
        let unknown = TEXT.replace("lat_us", "lat");
        assert!(refused(&IMPORT, unknown.as_bytes()).contains("--unit"));
        let two = format!("{TEXT}{TEXT}");
        assert!(refused(&IMPORT, two.as_bytes()).contains("second histogram"));
    }
}
