//! Counts latencies in whole microseconds or nanoseconds for a histogram.

use punctual_model::{Histogram, Nanos, SignedNanos};

/// Each latency below this number has a row of its own. From 1 ms (or 1 µs) on, histogram buckets
/// are wider than such a row.
const ROWS: usize = 1_000;

/// Counts latencies of whole microseconds or nanoseconds. Counting a common latency costs one
/// addition in a plain row. All others are counted directly in the histogram.
pub(crate) struct Tally {
    unit: Nanos,
    rows: Box<[u64; ROWS]>,
    histogram: Histogram,
}

impl Tally {
    /// Creates an empty tally for latencies in this unit.
    pub(crate) fn new(unit: Nanos) -> Self {
        Self {
            unit,
            rows: Box::new([0; ROWS]),
            histogram: Histogram::imported(unit, unit),
        }
    }

    /// Counts one latency within the range of a histogram.
    #[inline(always)]
    pub(crate) fn record(&mut self, latency: i64) {
        // A negative latency is outside all rows.
        match self.rows.get_mut(latency.cast_unsigned() as usize) {
            Some(row) => *row += 1,
            None => {
                let unit = self.unit.0.cast_signed();
                self.histogram.record(SignedNanos(latency * unit));
            }
        }
    }

    /// Returns whether this latency or a longer one has been counted.
    pub(crate) fn reaches(&self, latency: u64) -> bool {
        let from = usize::try_from(latency).unwrap_or(ROWS).min(ROWS);
        let most = self.histogram.max();
        self.rows[from..].iter().any(|row| *row > 0)
            || most.is_some_and(|most| most.0 / self.unit.0 >= latency)
    }

    /// Returns all counts as a histogram.
    pub(crate) fn into_histogram(mut self) -> Histogram {
        for (row, count) in (0..).zip(self.rows.iter()) {
            self.histogram.add_row(Nanos(row * self.unit.0), *count);
        }
        self.histogram
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_what_a_histogram_counts(latencies in prop::collection::vec(
            prop_oneof![8 => 0i64..1_100, 1 => -50i64..0, 1 => 0i64..2_000_000_000], 0..400,
        ), nanos in any::<bool>()) {
            let unit = Nanos(if nanos { 1 } else { 1_000 });
            let mut tally = Tally::new(unit);
            let mut histogram = Histogram::imported(unit, unit);
            for latency in latencies {
                tally.record(latency);
                histogram.record(SignedNanos(latency * unit.0 as i64));
            }
            if let Some(max) = histogram.max() {
                let max = max.0 / unit.0;
                prop_assert!(tally.reaches(max) && !tally.reaches(max + 1));
            }
            prop_assert_eq!(tally.into_histogram(), histogram);
        }
    }
}
