//! Histogram bins of equal width on screen, merged from the histogram's buckets.
//!
//! The buckets of the histogram widen with each decade, so plotting them directly would make counts
//! jump tenfold at 10 µs. On a linear axis, they are merged into bins of equal width; on a log
//! axis, into 40 bins of nearly equal ratio per decade. Every bin edge is also a bucket edge, so no
//! bucket is split between two bins.

use punctual_model::{Histogram, MAX_TRACKABLE_NS, Nanos};

/// Edges in ns, in ascending order. Bin `i` lies between edges `i` and `i + 1`.
#[derive(Clone, Debug)]
pub(super) struct Bins {
    pub(super) edges: Vec<u64>,
    /// The width of the bins in ns, if all have the same width.
    pub(super) width: Option<u64>,
}

/// The edges of the 40 bins in a decade, 10^(i/40), rounded to three digits, which is the precision
/// of the histogram.
const STEPS: [u64; 40] = [
    100, 106, 112, 119, 126, 133, 141, 150, 158, 168, 178, 188, 200, 211, 224, 237, 251, 266, 282,
    299, 316, 335, 355, 376, 398, 422, 447, 473, 501, 531, 562, 596, 631, 668, 708, 750, 794, 841,
    891, 944,
];

impl Bins {
    /// Returns at most about `most` bins of equal width, from 0 to beyond `max` or to the end of
    /// the histogram's range. No bin is narrower than the histogram's bucket at `max`, or narrower
    /// than `row`, which is the row width of an imported histogram.
    pub(super) fn linear(max: Nanos, most: usize, row: Nanos) -> Self {
        let max = max.min(Nanos(MAX_TRACKABLE_NS));
        let finest = bucket_width(max.0).max(row.0);
        let most = most.max(1) as u64;
        let mut width = finest;
        // 1, 2, 5, 10 … times the bucket width.
        let mut factors = [2, 5, 10].into_iter().cycle();
        let mut decade = finest;
        while max.0 / width >= most {
            let factor = factors.next().unwrap_or(10);
            width = decade.saturating_mul(factor);
            if factor == 10 {
                decade = width;
            }
        }
        let count = max.0 / width + 1;
        Self {
            edges: (0..=count)
                .map(|index| index.saturating_mul(width))
                .collect(),
            width: Some(width),
        }
    }

    /// Returns 40 bins per decade of nearly equal ratio, from at or below `min` to beyond `max`.
    /// Bins narrower than `row` are widened to it.
    pub(super) fn log(min: Nanos, max: Nanos, row: Nanos) -> Self {
        let max = max.min(Nanos(MAX_TRACKABLE_NS));
        let min = min.min(max);
        let mut edges = vec![0];
        let mut power = 1;
        loop {
            for step in STEPS {
                // Below 100 ns, the buckets are wider than the bins.
                let edge = (step * power).div_ceil(100);
                let edge = edge.next_multiple_of(row.0.max(1));
                if edges.last().is_some_and(|last| edge > *last) {
                    edges.push(edge);
                }
                if edge > max.0 {
                    let first = edges.partition_point(|edge| *edge <= min.0.max(1));
                    edges.drain(..first.saturating_sub(1));
                    return Self { edges, width: None };
                }
            }
            power = power.saturating_mul(10);
        }
    }

    /// Counts `rows` (lower edge, count) by bin. Rows beyond either end are counted in the
    /// outermost bin at that end.
    pub(super) fn count_rows(&self, rows: impl Iterator<Item = (u64, u64)>) -> Vec<u64> {
        let mut counts = vec![0u64; self.edges.len().saturating_sub(1)];
        let Some(last) = counts.len().checked_sub(1) else {
            return counts;
        };
        for (lower, count) in rows {
            let bin = self.edges.partition_point(|edge| *edge <= lower);
            let slot = &mut counts[bin.saturating_sub(1).min(last)];
            *slot = slot.saturating_add(count);
        }
        counts
    }

    /// Counts the samples of `histogram` by bin. Samples before the first edge or after the last
    /// one are counted in the outermost bin at that end, so that none is lost. If the axis ends at
    /// `x_max` by request, samples beyond it are left out.
    pub(super) fn count(&self, histogram: &Histogram, x_max: Option<Nanos>) -> Vec<u64> {
        let bins = self.edges.len().saturating_sub(1);
        let mut counts = vec![0u64; bins];
        let Some(last) = bins.checked_sub(1) else {
            return counts;
        };
        let end = x_max.unwrap_or(Nanos(u64::MAX));
        for (lower, _, count) in histogram.rows().filter(|(lower, ..)| *lower <= end.0) {
            let bin = self.edges.partition_point(|edge| *edge <= lower);
            let slot = &mut counts[bin.saturating_sub(1).min(last)];
            *slot = slot.saturating_add(count);
        }
        if x_max.is_none() {
            counts[last] = counts[last].saturating_add(histogram.overflow());
        }
        counts
    }
}

/// Returns the width of the histogram's bucket at `ns`.
fn bucket_width(ns: u64) -> u64 {
    match ns {
        0..1_000 => 1,
        _ => 10u64.pow(ns.min(MAX_TRACKABLE_NS - 1).ilog10() - 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use punctual_model::SignedNanos;

    #[test]
    fn widths_are_round() {
        assert_eq!(
            Bins::linear(Nanos(150_000), 500, Nanos(1)).width,
            Some(1_000)
        );
        assert_eq!(
            Bins::linear(Nanos(150_000), 100, Nanos(1)).width,
            Some(2_000)
        );
        assert_eq!(
            Bins::linear(Nanos(999_000), 100, Nanos(1)).width,
            Some(10_000)
        );
        assert_eq!(Bins::linear(Nanos(0), 100, Nanos(1)).edges, [0, 1]);
    }

    #[test]
    fn log_edges_stand_in_nearly_one_ratio() {
        let bins = Bins::log(Nanos(2_840), Nanos(150_000), Nanos(1));
        assert_eq!(bins.edges.first(), Some(&2_820));
        assert_eq!(bins.edges.last(), Some(&158_000));
        for pair in bins.edges.windows(2) {
            let ratio = pair[1] as f64 / pair[0] as f64;
            assert!((1.04..1.08).contains(&ratio), "{pair:?}");
        }
    }

    proptest! {
        #[test]
        fn no_sample_is_lost(values in prop::collection::vec(0i64..3_000_000_000_000, 1..100), most in 1usize..1000) {
            let mut histogram = Histogram::new();
            for value in &values {
                histogram.record(SignedNanos(*value));
            }
            let (min, max) = (histogram.min().unwrap(), histogram.max().unwrap());
            for bins in [Bins::linear(max, most, Nanos(1)), Bins::log(min, max, Nanos(1))] {
                prop_assert!(bins.edges.windows(2).all(|pair| pair[0] < pair[1]));
                prop_assert!(bins.edges.len() <= 1_200);
                prop_assert_eq!(bins.count(&histogram, None).iter().sum::<u64>(), values.len() as u64);
            }
        }

        #[test]
        fn bins_hold_whole_buckets(value in 100i64..900_000_000_000) {
            let mut histogram = Histogram::new();
            histogram.record(SignedNanos(value));
            let max = histogram.max().unwrap();
            for bins in [Bins::linear(max, 200, Nanos(1)), Bins::log(Nanos(100), max, Nanos(1))] {
                let bin = bins.count(&histogram, None).iter().position(|count| *count == 1).unwrap();
                prop_assert!(bins.edges[bin] <= max.0 && max.0 < bins.edges[bin + 1]);
            }
        }
    }
}
