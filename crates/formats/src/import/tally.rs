//! Latencies in whole microseconds on their way into a histogram.

use punctual_model::{Histogram, Nanos, SignedNanos};

use super::draft::MICROSECOND;

/// Below this many µs a latency is counted in a row of its own: from 1 ms on the
/// histogram's buckets are wider than that.
const ROWS: usize = 1_000;

/// Counts latencies of whole microseconds: the usual ones in plain rows, which
/// costs an addition, all others in the histogram at once.
pub(crate) struct Tally {
    rows: Box<[u64; ROWS]>,
    histogram: Histogram,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            rows: Box::new([0; ROWS]),
            histogram: Histogram::counted_elsewhere(MICROSECOND, MICROSECOND),
        }
    }

    /// Counts one latency, within what a histogram reaches to.
    #[inline(always)]
    pub(crate) fn record(&mut self, us: i64) {
        // A negative one is beyond all rows.
        match self.rows.get_mut(us.cast_unsigned() as usize) {
            Some(row) => *row += 1,
            None => self.histogram.record(SignedNanos(us * 1_000)),
        }
    }

    /// All that was counted.
    pub(crate) fn into_histogram(mut self) -> Histogram {
        for (us, count) in (0..).zip(self.rows.iter()) {
            self.histogram.add_row(Nanos::from_micros(us), *count);
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
        )) {
            let mut tally = Tally::new();
            let mut histogram = Histogram::counted_elsewhere(MICROSECOND, MICROSECOND);
            for us in latencies {
                tally.record(us);
                histogram.record(SignedNanos(us * 1_000));
            }
            prop_assert_eq!(tally.into_histogram(), histogram);
        }
    }
}
