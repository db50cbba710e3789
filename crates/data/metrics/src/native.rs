//! Native histograms: exponential buckets, 16 for each power of two.
//! <https://prometheus.io/docs/specs/native_histograms/>

use std::collections::BTreeMap;

use crate::seconds;

/// Buckets grow by 2^(2^-SCHEMA), which is 4.4%.
pub const SCHEMA: i32 = 4;
/// Values up to this one are in the zero bucket, because 1 ns cannot be distinguished from zero.
pub const ZERO_S: f64 = 1e-9;

/// Significands of the bounds, as in the client libraries. A logarithm would be rounded wrongly at
/// the bounds.
const SIGNIFICANDS: [f64; 16] = [
    0.5,
    0.5221368912137069,
    0.5452538663326288,
    0.5693943173783458,
    0.5946035575013605,
    0.620928906036742,
    0.6484197773255048,
    0.6771277734684463,
    0.7071067811865475,
    0.7384130729697496,
    0.7711054127039704,
    0.805245165974627,
    0.8408964152537144,
    0.8781260801866495,
    0.9170040432046711,
    0.9576032806985735,
];

/// A native histogram.
pub struct Native {
    /// Number of early samples and of those up to [`ZERO_S`].
    pub zero: u64,
    /// Counts by bucket index.
    buckets: BTreeMap<i32, u64>,
}

/// Spans of consecutive buckets, each as its distance from the end of the previous span, and its
/// length.
pub(crate) type Spans = Vec<(i32, u32)>;

impl Native {
    /// Computes the buckets from counts, each with the largest value that it contains, in ns.
    pub fn of_counts(counts: &[(u64, u64)], early: u64) -> Self {
        let mut native = Self {
            zero: early,
            buckets: BTreeMap::new(),
        };
        for (largest, count) in counts {
            let value = seconds(*largest);
            if value <= ZERO_S {
                native.zero += count;
            } else {
                *native.buckets.entry(index(value)).or_default() += count;
            }
        }
        native
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.zero + self.buckets.values().sum::<u64>()
    }

    /// Returns the index of the first bucket, and all counts up to the last one.
    pub fn dense(&self) -> (i32, Vec<u64>) {
        let first = self.buckets.keys().next().copied().unwrap_or(0);
        let last = self
            .buckets
            .keys()
            .next_back()
            .copied()
            .unwrap_or(first - 1);
        let count = |index| self.buckets.get(&index).copied().unwrap_or(0);
        (first, (first..=last).map(count).collect())
    }

    /// Returns the non-empty buckets as spans, and each count as the difference from the previous
    /// one.
    pub(crate) fn spans(&self) -> (Spans, Vec<i64>) {
        let mut spans = Spans::new();
        let mut deltas = Vec::with_capacity(self.buckets.len());
        let mut end = 0;
        let mut before = 0i64;
        for (&index, &count) in &self.buckets {
            match spans.last_mut() {
                Some((_, length)) if index == end => *length += 1,
                _ => spans.push((index - end, 1)),
            }
            end = index + 1;
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            deltas.push(count - before);
            before = count;
        }
        (spans, deltas)
    }
}

/// Returns the bucket that contains `value` > 0. Its upper bound is 2^(index / 16).
fn index(value: f64) -> i32 {
    // This works for normal numbers. No value that is passed to it is as small as 2^-1022.
    let bits = value.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1022;
    let significand = f64::from_bits((bits & !(0x7ff << 52)) | (1022 << 52));
    let place = SIGNIFICANDS.partition_point(|bound| *bound < significand);
    place as i32 + (exponent - 1) * SIGNIFICANDS.len() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_belong_to_the_bucket_below_them() {
        assert_eq!(index(1.0), 0);
        assert_eq!(index(2.0), 16);
        assert_eq!(index(0.5), -16);
        for power in -29..3 {
            for (place, significand) in SIGNIFICANDS.iter().enumerate() {
                let bound = significand * 2f64.powi(power);
                let at = index(bound);
                assert_eq!(at, place as i32 + (power - 1) * 16);
                assert_eq!(index(bound.next_up()), at + 1);
                // The same result as with a power of two, except for rounding.
                let exact = 2f64.powf(f64::from(at) / 16.0);
                assert!((bound / exact - 1.0).abs() < 1e-15, "{bound} {exact}");
            }
        }
    }

    #[test]
    fn spans_hold_each_bucket_once() {
        let native = Native {
            zero: 0,
            buckets: [(-3, 5), (-2, 2), (4, 7), (5, 7)].into(),
        };
        let (spans, deltas) = native.spans();
        assert_eq!(spans, [(-3, 2), (5, 2)]);
        assert_eq!(deltas, [5, -3, 5, 0]);
        assert_eq!(native.dense(), (-3, vec![5, 2, 0, 0, 0, 0, 0, 7, 7]));
    }
}
