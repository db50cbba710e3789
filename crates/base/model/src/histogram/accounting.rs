//! Sample accounting: the outcome of each expected wake-up.

use serde::{Deserialize, Serialize};

/// The sample accounting of one measuring thread. Every wake-up that should have happened was
/// recorded, missed, or discarded as warm-up.
///
/// `expected` is computed from the clock (periods that came due), while the other numbers are
/// counted one by one. A balanced account therefore shows that no wake-up was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounting {
    /// Wake-ups that came due.
    pub expected: u64,
    /// Wake-ups that were measured, after the warm-up.
    pub recorded: u64,
    /// Periods that passed without a sample, after the warm-up.
    pub missed: u64,
    /// Recorded wake-ups that came too early.
    pub early: u64,
    /// Discarded periods of the warm-up at the start.
    pub warm_up: u64,
    /// Periods of the warm-up that passed without a sample.
    pub warm_up_missed: u64,
    /// Recorded wake-ups beyond the range of the histogram.
    pub overflow: u64,
}

impl Accounting {
    /// Returns whether `expected = recorded + missed + warm-up`.
    pub fn balances(&self) -> bool {
        // Add in 128 bits, because an imported recording may contain any numbers.
        let parts = [self.recorded, self.missed, self.warm_up];
        u128::from(self.expected) == parts.into_iter().map(u128::from).sum()
    }

    /// Adds the account of another thread. Counts saturate instead of wrapping around.
    pub fn add(&mut self, other: &Self) {
        self.expected = self.expected.saturating_add(other.expected);
        self.recorded = self.recorded.saturating_add(other.recorded);
        self.missed = self.missed.saturating_add(other.missed);
        self.early = self.early.saturating_add(other.early);
        self.warm_up = self.warm_up.saturating_add(other.warm_up);
        self.warm_up_missed = self.warm_up_missed.saturating_add(other.warm_up_missed);
        self.overflow = self.overflow.saturating_add(other.overflow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_counts_neither_fail_nor_balance() {
        let full = Accounting {
            expected: u64::MAX,
            recorded: u64::MAX,
            missed: u64::MAX,
            early: u64::MAX,
            warm_up: u64::MAX,
            warm_up_missed: u64::MAX,
            overflow: u64::MAX,
        };
        assert!(!full.balances());
        let mut sum = full;
        sum.add(&full);
        assert_eq!(sum, full);
        // In 64-bit arithmetic, the sum of these three parts would wrap to 1.
        let wrapped = Accounting {
            expected: 1,
            recorded: u64::MAX,
            missed: 2,
            ..Accounting::default()
        };
        assert!(!wrapped.balances());
    }

    #[test]
    fn each_expected_period_is_recorded_missed_or_warm_up() {
        let of = |expected, recorded, missed, warm_up| Accounting {
            expected,
            recorded,
            missed,
            warm_up,
            early: 1,
            warm_up_missed: 2,
            overflow: 3,
        };
        let one = of(10, 5, 3, 2);
        assert!(one.balances() && Accounting::default().balances());
        for other in [
            of(11, 5, 3, 2),
            of(10, 6, 3, 2),
            of(10, 5, 2, 2),
            of(10, 5, 3, 3),
        ] {
            assert!(!other.balances(), "{other:?}");
        }
        let mut sum = one;
        sum.add(&of(100, 50, 30, 20));
        assert_eq!(
            sum,
            Accounting {
                early: 2,
                warm_up_missed: 4,
                overflow: 6,
                ..of(110, 55, 33, 22)
            }
        );
    }
}
