//! `latency-hist`: the histograms of latencies in the kernel's debugfs
//! (`/sys/kernel/debug/latency_hist/*/CPU*`, formerly `/proc/latency_hist/*/CPU*`).
//!
//! This is based on `kernel/trace/latency_hist.c` of the real-time patches for 2.6.22 to 4.14. The
//! head states the minimum, average and maximum in µs, the number of samples, and the samples below
//! and above the rows. Each row has a latency in µs and its number of samples.

use punctual_model::{Nanos, Recording};

use super::blank::{MICROSECOND, blank, finish, thread};
use super::counted::Counted;
use super::text::{WordsBelow, count};
use super::{Head, Import, ImportError, Malformed, SampleSink, Source};
use crate::MAX_ROWS;

pub(crate) const IMPORT: Import = Import {
    name: "latency-hist",
    summary: "a histogram of the kernel in latency_hist (real-time patches up to 4.14)",
    documentation: "Reads a file CPU* of /proc/latency_hist or /sys/kernel/debug/latency_hist. The \
        samples of all threads of the CPU are one thread of the recording. Samples above the last \
        row have an unknown latency. Samples below the first row, which were early, are counted. \
        The file does not record the CPU, which is part of its name, the time, the duration, the \
        load, or the machine. A file whose totals contradict its rows is refused.",
    has_samples: false,
    unit_known: true,
    recognise,
    read,
};

const MINIMUM: &str = "#Minimum latency:";

fn recognise(head: &Head<'_>) -> bool {
    head.lines().any(|line| line.trim().starts_with(MINIMUM))
}

/// State while reading; times in µs.
#[derive(Default)]
struct Text {
    min: Option<u64>,
    max: Option<u64>,
    mean: Option<f64>,
    total: Option<u64>,
    below: u64,
    /// The samples above the rows, and their smallest latency.
    above: Option<(u64, u64)>,
    rows: Vec<(u64, u64)>,
    words: WordsBelow,
}

fn read(source: &mut Source<'_>, _: &mut dyn SampleSink) -> Result<Recording, ImportError> {
    source.whole_text(Text::line, Text::recording)
}

impl Text {
    fn line(&mut self, line: &str) -> Result<(), Malformed> {
        let Some(comment) = line.strip_prefix('#') else {
            return self.row(line);
        };
        let figure = |text: &str| {
            text.split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        // A negative extreme is that of a sample that was early.
        let extreme = |text: &str| match figure(text) {
            early if early.starts_with('-') => Ok(0),
            figure => count(&figure),
        };
        if let Some(rest) = line.strip_prefix(MINIMUM) {
            // A file may not hold the histograms of two CPUs.
            if self.min.is_some() {
                return Err(Malformed::SecondHistogram);
            }
            self.min = Some(extreme(rest)?);
        } else if let Some(rest) = comment.strip_prefix("Average latency:") {
            let mean = figure(rest);
            let number = mean.parse().ok().filter(|mean: &f64| mean.is_finite());
            self.mean = Some(number.ok_or(Malformed::NotATime(mean))?);
        } else if let Some(rest) = comment.strip_prefix("Maximum latency:") {
            self.max = Some(extreme(rest)?);
        } else if let Some(rest) = comment.strip_prefix("Total samples:") {
            self.total = Some(count(&figure(rest))?);
        } else if let Some(rest) = comment.strip_prefix("There are ") {
            let samples = count(&figure(rest))?;
            match rest.split_once("greater or equal than ") {
                Some((_, from)) => self.above = Some((samples, count(&figure(from))?)),
                None if rest.contains("lower than ") => self.below = samples,
                None => return Err(Malformed::foreign(line.as_bytes())),
            }
        }
        Ok(())
    }

    /// Parses a row with a latency and its number of samples.
    fn row(&mut self, line: &str) -> Result<(), Malformed> {
        if line.is_empty() {
            return Ok(());
        }
        let is_row = line.starts_with(|first: char| first.is_ascii_digit() || first == '-');
        if !is_row && self.total.is_some() {
            return self.words.take(line.as_bytes());
        }
        self.words.figures_follow()?;
        let mut words = line.split_whitespace();
        let (Some(latency), Some(samples), None) = (words.next(), words.next(), words.next())
        else {
            return Err(Malformed::foreign(line.as_bytes()));
        };
        let samples = count(samples)?;
        // The histograms of timer offsets also have rows of early samples.
        if latency.starts_with('-') {
            let below = self.below.checked_add(samples);
            self.below = below.ok_or(Malformed::SamplesTooMany)?;
            return Ok(());
        }
        let latency = count(latency)?;
        if self.rows.last().is_some_and(|(last, _)| latency <= *last) {
            return Err(Malformed::RowNotAbove(latency));
        }
        if latency >= MAX_ROWS as u64 {
            return Err(Malformed::RowAboveLimit {
                row: latency,
                limit: MAX_ROWS,
            });
        }
        self.rows.push((latency, samples));
        Ok(())
    }

    fn recording(self, source: &Source<'_>) -> Result<Recording, Malformed> {
        let missing = Malformed::MissingLine;
        let total = self.total.ok_or(missing("Total samples:"))?;
        let max = self.max.ok_or(missing("Maximum latency:"))?;
        let (beyond, from) = self.above.ok_or(missing("There are ..."))?;
        let time = |us: u64| us.checked_mul(1_000).map(Nanos);
        let mut counted = Counted {
            unit: MICROSECOND,
            row: MICROSECOND,
            beyond,
            from: time(from).ok_or(Malformed::SampleTooLong)?,
            ..Counted::default()
        };
        for (us, samples) in &self.rows {
            counted.add(time(*us).ok_or(Malformed::SampleTooLong)?, *samples);
        }
        // Some versions count the samples outside the rows, others do not.
        let in_rows = counted.total()? - beyond;
        let outside = self
            .below
            .checked_add(beyond)
            .ok_or(Malformed::SamplesTooMany)?;
        if total != in_rows && Some(total) != in_rows.checked_add(outside) {
            return Err(Malformed::TotalNotSum);
        }
        if counted.total()? > 0 {
            counted.max = Some(time(max).ok_or(Malformed::SampleTooLong)?);
        }
        if self.below == 0 {
            counted.min = self.min.and_then(time).filter(|_| in_rows > 0);
            counted.mean = self.mean.map(|mean| mean * 1_000.0).filter(|_| in_rows > 0);
        }
        let mut histogram = counted.histogram()?;
        histogram.add_early(self.below);
        let mut recording = blank(source, IMPORT.name, "latency_hist", "threads");
        recording.threads = vec![thread(0, None, histogram)];
        recording.threads[0].label = Some("all threads".to_owned());
        Ok(finish(recording))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_refuses, read_recognised};
    use super::*;

    const TEXT: &str = include_str!("../../tests/fixtures/latency-hist.txt");

    #[test]
    fn rows_become_the_histogram() {
        let recording = read_recognised(TEXT.as_bytes()).unwrap();
        let histogram = &recording.threads[0].histogram;
        assert_eq!((histogram.count(), histogram.unplaced()), (2_111, 1));
        assert_eq!(histogram.min(), Some(Nanos::from_micros(1)));
        assert_eq!(histogram.max(), Some(Nanos::from_micros(10_451)));
        assert_eq!(histogram.quantile(0.5), Some(Nanos::from_micros(2)));
    }

    #[test]
    fn contradictions_are_named() {
        let changes = [
            ("samples: 2111", "samples: 2000", "sum"),
            ("Maximum latency: 10451", "Maximum latency: 7", "maximum"),
            ("     4\t", "     2\t", "not greater"),
            ("#Total", "#Sum", "Total samples"),
        ];
        assert_refuses(&IMPORT, TEXT, &changes);
    }
}
