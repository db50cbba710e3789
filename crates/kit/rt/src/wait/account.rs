//! Accounting of the expirations of a periodic timer.

use std::time::Duration;

use crate::clock::nanos;
use crate::{Error, Instant};

/// Tracks which expirations of a periodic timer have been read. The timer expires at `first`,
/// `first + interval`, and so on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    first: u64,
    interval: u64,
    /// Due time of the last expiration that was read; `None` before the first.
    last: Option<u64>,
    expirations: u64,
}

impl Account {
    /// # Errors
    /// Returns [`Error::IntervalZero`] for an empty interval.
    pub(super) fn new(first: Instant, interval: Duration) -> Result<Self, Error> {
        if interval.is_zero() {
            return Err(Error::IntervalZero);
        }
        Ok(Self {
            // The kernel interprets a time of zero as "disarm".
            first: first.as_nanos().max(1),
            interval: nanos(interval),
            last: None,
            expirations: 0,
        })
    }

    /// Returns the first expiration in the kernel's format.
    pub(super) fn first(&self) -> Instant {
        Instant::from_nanos(self.first)
    }

    /// Returns the interval in nanoseconds.
    pub(super) fn interval(&self) -> Instant {
        Instant::from_nanos(self.interval)
    }

    /// Returns the number of expirations read so far.
    pub(super) fn expirations(&self) -> u64 {
        self.expirations
    }

    /// Returns whether an expiration at or after `deadline` has been read.
    #[inline]
    pub(super) fn covers(&self, deadline: Instant) -> bool {
        self.last.is_some_and(|last| last >= deadline.as_nanos())
    }

    /// Adds `count` expirations.
    #[inline]
    pub(super) fn add(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        self.expirations = self.expirations.saturating_add(count);
        let (base, steps) = match self.last {
            Some(last) => (last, count),
            None => (self.first, count - 1),
        };
        self.last = Some(base.saturating_add(steps.saturating_mul(self.interval)));
    }

    /// Adds all expirations up to `now`. Used if the kernel's counter has overflowed.
    pub(super) fn catch_up(&mut self, now: Instant) {
        let elapsed = now.as_nanos().saturating_sub(self.first);
        let due = elapsed / self.interval + 1;
        self.add(due.saturating_sub(self.expirations));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn account(first: u64, interval: u64) -> Account {
        Account::new(Instant::from_nanos(first), Duration::from_nanos(interval)).unwrap()
    }

    #[test]
    fn nothing_is_covered_before_the_first_expiration() {
        let mut account = account(1_000, 100);
        assert!(!account.covers(Instant::from_nanos(0)));
        account.add(1);
        assert!(account.covers(Instant::from_nanos(1_000)));
        assert!(!account.covers(Instant::from_nanos(1_001)));
        account.add(3);
        assert!(account.covers(Instant::from_nanos(1_300)));
        assert!(!account.covers(Instant::from_nanos(1_301)));
    }

    #[test]
    fn an_interval_of_zero_is_refused() {
        let refused = Account::new(Instant::from_nanos(1), Duration::ZERO);
        assert!(matches!(refused, Err(Error::IntervalZero)));
    }

    proptest! {
        /// No matter how the expirations are grouped, `n` of them cover exactly the deadlines up to
        /// `first + (n - 1) * interval`.
        #[test]
        fn bundles_add_up(
            first in 1..u64::MAX / 4,
            interval in 1..1_000_000_000_u64,
            bundles in proptest::collection::vec(0..1_000_u64, 1..20),
        ) {
            let mut account = account(first, interval);
            for &bundle in &bundles {
                account.add(bundle);
            }
            let total: u64 = bundles.iter().sum();
            prop_assert_eq!(account.expirations(), total);
            if total > 0 {
                let last = first + (total - 1) * interval;
                prop_assert!(account.covers(Instant::from_nanos(last)));
                prop_assert!(!account.covers(Instant::from_nanos(last + 1)));
            } else {
                prop_assert!(!account.covers(Instant::from_nanos(0)));
            }
        }

        /// Catching up includes the last expiration at or before the current time, but not the next
        /// one.
        #[test]
        fn catching_up_is_never_early(
            first in 1..u64::MAX / 4,
            interval in 1..1_000_000_000_u64,
            elapsed in 0..1_000_000_000_000_u64,
            read in 0..3_u64,
        ) {
            let mut account = account(first, interval);
            account.add(read.min(elapsed / interval + 1));
            account.catch_up(Instant::from_nanos(first + elapsed));
            let last = first + elapsed / interval * interval;
            prop_assert!(account.covers(Instant::from_nanos(last)));
            prop_assert!(!account.covers(Instant::from_nanos(last + 1)));
            prop_assert_eq!(account.expirations(), elapsed / interval + 1);
        }
    }
}
