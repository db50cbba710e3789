//! Latencies in rows of 1 µs, as counted by the older tools.

use std::collections::BTreeMap;

use punctual_model::{Histogram, Nanos, Recording};

use crate::{ExportOptions, FormatError};

/// Maximum number of rows: 1 s, the maximum of cyclictest's `-h` (`HIST_MAX` in its source).
pub const MAX_ROWS: usize = 1_000_000;

/// Latencies of one thread, counted by whole microseconds. Contains the numbers of
/// [`Histogram::micros`] without empty rows, because a million rows for each of many CPUs would
/// take gigabytes.
pub(crate) struct Micros {
    /// Filled rows: whole microseconds, and the number of samples.
    pub(crate) rows: BTreeMap<u64, u64>,
    /// Overflows: samples at or above the end of the last row, and samples whose latency another
    /// tool did not record.
    pub(crate) beyond: u64,
}

impl Micros {
    pub(crate) fn new(histogram: &Histogram, limit: usize) -> Self {
        let mut rows = BTreeMap::new();
        let mut beyond = histogram.overflow().saturating_add(histogram.unplaced());
        for (lower, _, count) in histogram.rows() {
            let row = lower / 1_000;
            if row < limit as u64 {
                let slot = rows.entry(row).or_insert(0u64);
                *slot = slot.saturating_add(count);
            } else {
                beyond = beyond.saturating_add(count);
            }
        }
        Self { rows, beyond }
    }
}

/// Returns the number of rows of the histograms: the requested number, or, by default, the next
/// multiple of 100 that covers the largest latency of all threads. It is never more than the tool
/// that counted the samples had.
///
/// # Errors
/// Returns [`FormatError::Rows`] for 0 and for more than [`MAX_ROWS`], [`FormatError::RowsUnknown`]
/// for more rows than are known, and [`FormatError::WideRows`] if the known rows are wider.
pub(crate) fn rows(recording: &Recording, options: ExportOptions) -> Result<usize, FormatError> {
    let histograms = || recording.threads.iter().map(|thread| &thread.histogram);
    let id = recording.id;
    let widest = histograms()
        .filter_map(Histogram::resolution)
        .map(|resolution| resolution.widest_row());
    if let Some(row) = widest.max().filter(|row| *row > Nanos::from_micros(1)) {
        return Err(FormatError::WideRows { id, row });
    }
    let known = histograms().filter_map(Histogram::unplaced_from).min();
    let known = known.map_or(u64::MAX, Nanos::whole_micros);
    match options.histogram_us {
        Some(rows) if !(1..=MAX_ROWS).contains(&rows) => Err(FormatError::Rows {
            asked: rows,
            most: MAX_ROWS,
        }),
        Some(asked) if asked as u64 > known => Err(FormatError::RowsUnknown { id, asked, known }),
        Some(rows) => Ok(rows),
        None => {
            let last = |histogram: &Histogram| histogram.rows().map(|row| Nanos(row.0)).last();
            let max = histograms()
                .filter_map(|histogram| histogram.max().max(last(histogram)))
                .max()
                .map_or(0, Nanos::whole_micros);
            let hundreds = (max / 100 + 1).saturating_mul(100).min(known);
            Ok(usize::try_from(hundreds).map_or(MAX_ROWS, |rows| rows.min(MAX_ROWS)))
        }
    }
}

/// Returns the row in which [`Micros`] counts a latency: the lower edge of its histogram bucket, in
/// whole microseconds. It differs from the latency only from 1 ms on, where buckets are wider than
/// a microsecond.
pub(crate) fn row_of(latency: Nanos) -> u64 {
    bucket_of(latency).whole_micros()
}

/// Returns the lower edge of the histogram bucket that contains a latency.
pub(crate) fn bucket_of(latency: Nanos) -> Nanos {
    // A bucket keeps three significant digits.
    let digits = latency.0.checked_ilog10().unwrap_or(0);
    let width = 10u64.pow(digits.saturating_sub(2));
    Nanos(latency.0 - latency.0 % width)
}

/// Returns the mean in microseconds, computed from the exact sum in nanoseconds, but at most the
/// maximum in whole microseconds. For latencies from 37.2 to 37.8 µs, this is 37. Returns 0 without
/// samples, like the tools of rt-tests, and if the mean is unknown.
pub fn mean_us(histogram: &Histogram) -> f64 {
    match (histogram.mean(), histogram.count()) {
        (None, _) => 0.0,
        (_, count) => {
            let mean = histogram.sum().0 as f64 / count as f64 / 1_000.0;
            let max = histogram.max().map(|max| max.whole_micros() as f64);
            max.map_or(mean, |max| mean.min(max))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use punctual_model::{SignedNanos, testing};

    use super::*;

    fn recording_with_max(ns: i64) -> Recording {
        let mut recording = testing::recording(1, 0);
        recording.threads[0].histogram.record(SignedNanos(ns));
        recording
    }

    #[test]
    fn rows_hold_the_largest_latency() {
        let default = ExportOptions::default();
        for (max_ns, expected) in [
            (5_000, 100),
            (99_999, 100),
            (100_000, 200),
            (1_234_567, 1_300),
            (5_000_000_000, MAX_ROWS),
        ] {
            let found = rows(&recording_with_max(max_ns), default).unwrap();
            assert_eq!(found, expected, "{max_ns}");
        }
        assert_eq!(rows(&testing::recording(1, 0), default).unwrap(), 100);
    }

    #[test]
    fn impossible_numbers_of_rows_are_refused() {
        let recording = recording_with_max(1);
        let asked = |rows_asked| {
            let options = ExportOptions {
                histogram_us: Some(rows_asked),
                ..ExportOptions::default()
            };
            rows(&recording, options)
        };
        assert_eq!(asked(MAX_ROWS).unwrap(), MAX_ROWS);
        for wrong in [0, MAX_ROWS + 1, usize::MAX] {
            let error = asked(wrong).unwrap_err().to_string();
            assert!(error.contains(&wrong.to_string()), "{error}");
        }
    }

    proptest! {
        #[test]
        fn it_counts_as_the_histogram_does(
            values in prop::collection::vec(-5i64..3_000_000, 0..300),
            limit in 1usize..4_000,
        ) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|ns| histogram.record(SignedNanos(*ns)));
            let micros = Micros::new(&histogram, limit);
            let (rows, beyond) = histogram.micros(limit);
            prop_assert_eq!(micros.beyond, beyond);
            for (row, count) in rows.iter().enumerate() {
                prop_assert_eq!(micros.rows.get(&(row as u64)).copied().unwrap_or(0), *count);
            }
            prop_assert_eq!(micros.rows.values().sum::<u64>(), rows.iter().sum::<u64>());
        }

        #[test]
        fn a_latency_is_in_its_row(ns in prop_oneof![0u64..2_000, 0u64..20_000_000, 0u64..900_000_000_000]) {
            let mut histogram = Histogram::new();
            histogram.record(SignedNanos(ns as i64));
            let micros = Micros::new(&histogram, usize::MAX);
            prop_assert_eq!(micros.rows.keys().copied().collect::<Vec<_>>(), [row_of(Nanos(ns))]);
        }
    }
}
