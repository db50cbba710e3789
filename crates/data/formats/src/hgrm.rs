//! `hgrm`: the percentile distribution of HdrHistogram, as read by its plotter and by wrk2's
//! scripts.
//!
//! This is based on HdrHistogram's `AbstractHistogram.outputPercentileDistribution` and
//! `PercentileIterator`. Each half of the remaining distance to 100% is divided into five steps,
//! with a line for each: the value, the share of samples up to it, their number, and the inverse of
//! the remaining share. These lines are followed by a line for 100%, and by the mean, standard
//! deviation, maximum and count.
//!
//! The file is the histogram of all threads together. Values are in µs. Early samples count as 0.
//! Samples without a bucket only count in the total, and the lines end before them. The line with
//! HdrHistogram's own layout (`Buckets`, `SubBuckets`) is omitted, because this histogram has a
//! different layout. A further comment states the unit.

use std::io::Write;

use punctual_model::Histogram;

use crate::{Export, Format, FormatError};

pub(crate) const FORMAT: Format = Format {
    name: "hgrm",
    summary: "percentiles of all threads together, in µs, for HdrHistogram's plotter",
    extension: "hgrm",
    needs_samples: false,
    micro_rows: false,
    write,
};

/// The comment with which this format states the unit, which HdrHistogram's own files do not.
pub(crate) const VALUES_IN_US: &str = "#[Values are in us]";

/// Steps in each half of the remaining distance to 100%, HdrHistogram's default.
const STEPS_PER_HALF: f64 = 5.0;

fn write(export: &Export<'_>, out: &mut dyn Write) -> Result<(), FormatError> {
    let mut all = Histogram::new();
    for thread in &export.recording.threads {
        all.merge(&thread.histogram);
    }
    let total = all.recorded();
    writeln!(
        out,
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    let mut level = 0.0;
    let mut counted = all.early();
    let mut moments = Moments::default();
    moments.add(0.0, counted);
    for (lower, width, count) in all.buckets().iter() {
        counted += count;
        moments.add(lower as f64 + (width - 1) as f64 / 2.0, count);
        let share = counted as f64 / total as f64;
        // The largest latency of the bucket, which is the value that HdrHistogram writes.
        let value = all.max().map_or(lower, |max| max.0.min(lower + width - 1));
        while counted < total && share >= level {
            let rest = 1.0 / (1.0 - level);
            let us = value as f64 / 1e3;
            writeln!(out, "{us:>12.3} {level:2.12} {counted:>10} {rest:>14.2}")?;
            level += 1.0 / (STEPS_PER_HALF * 2_f64.powi(rest.log2().floor() as i32 + 1));
        }
        if counted == total {
            writeln!(
                out,
                "{:>12.3} {:2.12} {counted:>10}",
                value as f64 / 1e3,
                1.0
            )?;
        }
    }
    let max = all.max().map_or(0.0, |max| max.0 as f64 / 1e3);
    let mean = all.mean().map_or(0.0, |mean| mean.0 as f64 / 1e3);
    let deviation = moments.deviation() / 1e3;
    writeln!(
        out,
        "#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]"
    )?;
    writeln!(
        out,
        "#[Max     = {max:>12.3}, Total count    = {total:>12}]"
    )?;
    writeln!(out, "{VALUES_IN_US}")?;
    Ok(())
}

/// Sums for computing the standard deviation. They are relative to the first value, so that they
/// stay precise.
#[derive(Default)]
struct Moments {
    first: Option<f64>,
    count: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64, count: u64) {
        if count == 0 {
            return;
        }
        let off = value - *self.first.get_or_insert(value);
        self.count += count as f64;
        self.sum += off * count as f64;
        self.squares += off * off * count as f64;
    }

    fn deviation(&self) -> f64 {
        if self.count == 0.0 {
            return 0.0;
        }
        let mean = self.sum / self.count;
        (self.squares / self.count - mean * mean).max(0.0).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{SignedNanos, testing};

    use crate::testing::written;

    #[test]
    fn percentiles_of_all_threads_are_lines() {
        insta::assert_snapshot!(written("hgrm", &testing::recording(2, 3)));
    }

    /// Value, percentile and count of each line.
    fn lines(text: &str) -> Vec<(f64, f64, u64)> {
        let rows = text.lines().skip(2).filter(|line| !line.starts_with('#'));
        let fields = |line: &str| -> Vec<f64> {
            let words = line.split_whitespace();
            words.map(|word| word.parse().unwrap()).collect()
        };
        let rows = rows.map(fields);
        rows.map(|row| (row[0], row[1], row[2] as u64)).collect()
    }

    #[test]
    fn lines_agree_with_the_histogram() {
        let mut recording = testing::recording(1, 3);
        recording.threads[0].histogram.record(SignedNanos(-5));
        let histogram = recording.threads[0].histogram.clone();
        let lines = lines(&written("hgrm", &recording));
        let total = histogram.recorded();
        assert_eq!(lines.last().unwrap().1, 1.0);
        assert_eq!(lines.last().unwrap().2, total);
        assert_eq!(
            lines.last().unwrap().0,
            histogram.max().unwrap().0 as f64 / 1e3
        );
        for (one, next) in lines.iter().zip(&lines[1..]) {
            assert!(one.0 <= next.0 && one.1 < next.1 && one.2 <= next.2);
        }
        for (_, percentile, count) in &lines {
            assert!(*count as f64 / total as f64 >= *percentile - 1e-12);
        }
    }

    /// The value of a sample beyond the range is unknown, so no line states the largest value.
    #[test]
    fn sample_beyond_range_ends_the_lines() {
        let mut recording = testing::recording(1, 3);
        let beyond = SignedNanos(2_000_000_000_000);
        recording.threads[0].histogram.record(beyond);
        let text = written("hgrm", &recording);
        let lines = lines(&text);
        assert!(lines.last().unwrap().1 < 1.0, "{text}");
        assert!(text.contains("Total count    =         3001"), "{text}");
    }

    #[test]
    fn recording_without_samples_has_no_lines() {
        let mut recording = testing::recording(1, 3);
        recording.threads[0].histogram = punctual_model::Histogram::new();
        let text = written("hgrm", &recording);
        assert!(lines(&text).is_empty(), "{text}");
        assert!(!text.contains("NaN"), "{text}");
    }
}
