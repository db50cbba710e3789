//! Creates a histogram from the counters of an application that uses the same bucket grid.

use super::Histogram;
use super::bucket_counts::{BUCKETS, MAX_TRACKABLE_NS, bounds_of};
use crate::Nanos;

/// Figures about counted samples, in addition to their buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedBeside {
    /// The sum of the samples that were not early.
    pub sum: Nanos,
    /// An upper bound of the largest sample.
    pub max: Nanos,
    /// The largest sample that was observed individually. It is the maximum if it lies in the last
    /// filled bucket.
    pub seen_max: Option<Nanos>,
    /// A lower bound of the smallest sample that was not early.
    pub min: Nanos,
    /// Negative samples.
    pub early: u64,
    /// Samples beyond the grid.
    pub overflow: u64,
}

impl Histogram {
    /// Creates a histogram from counts in the buckets of the grid, and ignores counts beyond its
    /// last bucket. Minimum and maximum are as exact as the available data: the minimum is never
    /// above the smallest sample, and the maximum never below the largest.
    pub fn of_counts(counts: &[u64], beside: CountedBeside) -> Self {
        let mut histogram = Self::new();
        let mut filled: Option<(usize, usize)> = None;
        let counts = counts.iter().take(BUCKETS).enumerate();
        for (index, count) in counts.filter(|(_, count)| **count > 0) {
            histogram.counts.add(index, *count);
            histogram.count = histogram.count.saturating_add(*count);
            filled = Some((filled.map_or(index, |filled| filled.0), index));
        }
        histogram.overflow = beside.overflow;
        histogram.count = histogram.count.saturating_add(beside.overflow);
        histogram.early = beside.early;
        if histogram.count == 0 {
            return histogram;
        }
        histogram.sum = beside.sum.0;
        let (low, high) = filled.map_or((MAX_TRACKABLE_NS, 0), |(first, last)| {
            let (lower, width) = bounds_of(last);
            (bounds_of(first).0, lower + width - 1)
        });
        histogram.min = beside.min.0.max(low);
        let last = filled.map_or(0, |(_, last)| bounds_of(last).0);
        let seen = beside
            .seen_max
            .map(|seen| seen.0)
            .filter(|seen| *seen >= last);
        histogram.max = match beside.overflow {
            // Counters from another process can contain any values.
            0 => seen.unwrap_or(beside.max.0).min(high).max(last),
            _ => beside.max.0.max(MAX_TRACKABLE_NS),
        };
        histogram.min = histogram.min.min(histogram.max);
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SignedNanos;
    use proptest::prelude::*;

    proptest! {
        /// With complete data, the result equals the histogram of the samples.
        #[test]
        fn counted_is_recorded(values in prop::collection::vec(-5i64..5_000_000, 0..60)) {
            let mut recorded = Histogram::new();
            let mut counts = vec![0; BUCKETS];
            for value in &values {
                recorded.record(SignedNanos(*value));
                if let Some(index) = u64::try_from(*value).ok().and_then(crate::histogram::bucket_counts::index_of) {
                    counts[index] += 1;
                }
            }
            let beside = CountedBeside {
                sum: recorded.sum(),
                max: recorded.max().unwrap_or_default(),
                min: recorded.min().unwrap_or_default(),
                seen_max: None,
                early: recorded.early(),
                overflow: 0,
            };
            prop_assert_eq!(&Histogram::of_counts(&counts, beside), &recorded);
            // Without any other data, the minimum and the maximum are the bounds of the buckets.
            let loose = CountedBeside { min: Nanos::ZERO, max: Nanos(u64::MAX), ..beside };
            let loose = Histogram::of_counts(&counts, loose);
            prop_assert!(loose.max() >= recorded.max());
            prop_assert!(loose.min() <= recorded.min());
            // The observed maximum is exact. A value below the last bucket is ignored.
            let seen = CountedBeside { max: Nanos(u64::MAX), seen_max: recorded.max(), ..beside };
            prop_assert_eq!(Histogram::of_counts(&counts, seen).max(), recorded.max());
            let other = CountedBeside { seen_max: Some(Nanos(0)), ..beside };
            prop_assert_eq!(Histogram::of_counts(&counts, other).max(), recorded.max());
        }
    }

    #[test]
    fn contradictions_are_no_failure() {
        let mut counts = vec![u64::MAX; BUCKETS];
        counts.extend([7; 5]);
        let wrong = CountedBeside {
            sum: Nanos(u64::MAX),
            max: Nanos::ZERO,
            seen_max: Some(Nanos(u64::MAX)),
            min: Nanos(u64::MAX),
            early: u64::MAX,
            overflow: u64::MAX,
        };
        let histogram = Histogram::of_counts(&counts, wrong);
        assert!(histogram.min() <= histogram.max());
        assert_eq!(
            Histogram::of_counts(&[], CountedBeside::default()),
            Histogram::new()
        );
    }
}
