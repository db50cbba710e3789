//! `linuxcnc-latency-histogram`: the lines of LinuxCNC's `latency-histogram --nox`.
//!
//! This is based on LinuxCNC's `scripts/latency-histogram` and `latencybins.comp`. Every second, a
//! line is printed for each thread:
//! `    5 s  servo min:  -3.200 us max:  12.100 us sdev:   0.500 us`, with the elapsed time, the
//! extremes since the start, and the standard deviation. The script rounds them to 0.1 µs. The
//! figures are the deviation of the interval between two cycles from the period, which is negative
//! after a late cycle.

use std::collections::BTreeMap;

use punctual_model::{Cell, Histogram, Nanos, Recording, Table, Unknown};

use super::blank::{MICROSECOND, THREADS, blank, finish, learn, thread};
use super::decimal::Decimal;
use super::head::shown;
use super::text::{WordsBelow, count};
use super::{Import, ImportError, Location, Malformed, SampleSink, Source};

pub(crate) const IMPORT: Import = Import {
    name: "linuxcnc-latency-histogram",
    summary: "the lines of LinuxCNC's latency-histogram --nox",
    documentation: "The last line of each thread (base, servo) is read. Its elapsed time is the \
        duration. If a line has less time, a larger minimum or a smaller maximum than before, it \
        belongs to another run, and the file is refused.

LinuxCNC does not print the number of cycles or the period. The recording therefore contains only \
        two samples for each thread, the smallest and the largest, with a warning. The minimum is \
        usually negative; it is then only in the table, which contains all figures. LinuxCNC \
        measures the deviation of each interval from the period, so the values are not lateness. \
        The file does not record the time, the CPUs, the priority, the load, or the machine. The \
        histogram of the window cannot be imported, because LinuxCNC does not save it.",
    has_samples: false,
    unit_known: true,
    recognise: |head| head.lines().any(|line| Line::parse(line.trim()).is_ok()),
    read,
};

/// The script rounds to this unit.
const UNIT: Nanos = Nanos(100);

/// One line of output; times are in ns.
#[derive(Clone, Copy)]
struct Line {
    elapsed_s: u64,
    min: i64,
    max: i64,
    deviation: i64,
}

impl Line {
    /// Parses a line, and returns the name of the thread as well.
    fn parse(line: &str) -> Result<(&str, Self), Malformed> {
        // `min:-123.400` has no space if the figure fills its column.
        let (head, rest) = line
            .split_once("min:")
            .ok_or(Malformed::MissingField("min:"))?;
        let (min, rest) = rest
            .split_once("max:")
            .ok_or(Malformed::MissingField("max:"))?;
        let (max, deviation) = rest
            .split_once("sdev:")
            .ok_or(Malformed::MissingField("sdev:"))?;
        let head: Vec<&str> = head.split_whitespace().collect();
        let [elapsed, "s", name] = head[..] else {
            return Err(Malformed::foreign(line.as_bytes()));
        };
        let line = Self {
            elapsed_s: count(elapsed)?,
            min: micros(min)?,
            max: micros(max)?,
            deviation: micros(deviation)?,
        };
        if line.min <= line.max && line.deviation >= 0 {
            Ok((name, line))
        } else {
            Err(Malformed::SecondOutside)
        }
    }

    /// The smallest and the largest sample. A negative smallest sample is only in the table.
    fn histogram(self) -> Histogram {
        let ns = |value: i64| u64::try_from(value).ok().map(Nanos);
        let mut histogram = Histogram::imported(UNIT, UNIT);
        match ns(self.max) {
            Some(max) => {
                histogram.add_unplaced(2, Nanos::ZERO);
                histogram.set_figures(ns(self.min), Some(max), None);
            }
            None => histogram.add_early(2),
        }
        histogram
    }
}

/// Parses `  -3.200 us ` as ns.
fn micros(text: &str) -> Result<i64, Malformed> {
    let bad = || Malformed::NotATime(shown(text.trim().as_bytes()));
    let number = text.trim().strip_suffix("us").ok_or_else(bad)?.trim_end();
    let (sign, number) = match number.strip_prefix('-') {
        Some(number) => (-1, number),
        None => (1, number),
    };
    let ns = Decimal::parse(number)?.of(MICROSECOND)?;
    i64::try_from(ns.0).map(|ns| sign * ns).map_err(|_| bad())
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    let mut last: BTreeMap<String, Line> = BTreeMap::new();
    let mut words = WordsBelow::default();
    source.whole_lines(|line| {
        if !line.contains("sdev:") {
            return if line.is_empty() || last.is_empty() {
                Ok(())
            } else {
                words.take(line.as_bytes())
            };
        }
        words.figures_follow()?;
        let (name, line) = Line::parse(line)?;
        if last.len() == THREADS && !last.contains_key(name) {
            return Err(Malformed::TooMany {
                most: THREADS,
                what: "threads",
            });
        }
        match last.insert(name.to_owned(), line) {
            Some(before)
                if before.elapsed_s > line.elapsed_s
                    || before.min < line.min
                    || before.max > line.max =>
            {
                Err(Malformed::SecondRunBegins)
            }
            _ => Ok(()),
        }
    })?;
    let elapsed = last.values().map(|line| line.elapsed_s).max();
    let Some(elapsed) = elapsed else {
        return Err(source.bad_at(Location::Whole, Malformed::MissingFigures));
    };
    let mut recording = blank(source, IMPORT.name, "latency-histogram", "timer");
    recording.duration_ns = Nanos(elapsed.saturating_mul(1_000_000_000));
    learn(&mut recording, &[Unknown::Duration]);
    let mut table = Table::new(
        "latency_histogram",
        "Deviation of the interval from the period",
        &[
            ("thread", "thread"),
            ("min_us", "smallest in µs"),
            ("max_us", "largest in µs"),
            ("deviation_us", "standard deviation in µs"),
        ],
    );
    for (place, (name, line)) in last.iter().enumerate() {
        let us = |ns: i64| Cell::Number(ns as f64 / 1_000.0);
        table.push([
            Cell::from(name.as_str()),
            us(line.min),
            us(line.max),
            us(line.deviation),
        ]);
        let mut thread = thread(place, None, line.histogram());
        thread.label = Some(name.clone());
        recording.threads.push(thread);
    }
    recording.tables.push(table);
    recording.warnings.push(
        "latency-histogram does not print the number of cycles: only the smallest and the largest \
         of each thread were imported. They are deviations of an interval from the period"
            .to_owned(),
    );
    Ok(finish(recording))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refuses, read_recognised};
    use super::*;

    // Written by hand, based on the format in LinuxCNC's script.
    const TEXT: &str = include_str!("../../tests/fixtures/linuxcnc-latency-histogram.txt");

    #[test]
    fn last_line_of_each_thread_counts() {
        let recording = read_recognised(TEXT.as_bytes()).unwrap();
        assert_eq!(recording.duration_ns, Nanos::from_secs(3));
        let titles: Vec<String> = recording.threads.iter().map(|one| one.title()).collect();
        assert_eq!(titles, ["base", "servo"]);
        let histogram = &recording.threads[1].histogram;
        assert_eq!((histogram.count(), histogram.unplaced()), (2, 2));
        assert_eq!((histogram.min(), histogram.mean()), (None, None));
        assert_eq!(histogram.max(), Some(Nanos(104_500)));
        assert_eq!(recording.tables[0].rows[1][1], Cell::Number(-98.7));
        assert!(recording.warnings[0].contains("only the smallest and the largest"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let changes = [
            ("max:  11.900", "max:  13.900", "second run"),
            ("min: -98.700", "min: -40.700", "second run"),
            ("    3 s", "    1 s", "second run"),
            ("max: 104.500 us", "max: soon", "not a time"),
            ("min: -98.700", "min: 998.700", "contradict"),
        ];
        assert_refuses(&IMPORT, TEXT, &changes);
    }
}
