//! The offsets between the clocks of a run.

use punctual_model::{Nanos, SignedNanos};
use punctual_rt::Clock;

use crate::monotonic::now;

/// Number of readings per measurement. The shortest one is used.
const READINGS: u32 = 32;

/// Errors of the offset below this do not matter: a step of the clock is longer.
const TOLERANCE: i64 = 1_000;

/// The offset of CLOCK_REALTIME to CLOCK_MONOTONIC. Both run at the same rate, so the offset changes
/// only when the clock is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RealOffset(i64);

/// A reading of both clocks in direct succession.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) real: Nanos,
    pub(super) monotonic: Nanos,
}

impl Pair {
    fn difference(self) -> i64 {
        self.real.signed_sub(self.monotonic).0
    }
}

impl RealOffset {
    /// Measures the offset. Its error is half of the time that the shortest reading took.
    pub(super) fn measure() -> Self {
        let mut best = (u64::MAX, 0);
        for _ in 0..READINGS {
            let (before, real, after) = (now(), real_time(), now());
            let window = (after - before).0;
            if window < best.0 {
                let middle = Nanos(before.0 + window / 2);
                best = (window, real.signed_sub(middle).0);
            }
        }
        Self(best.1)
    }

    /// Returns the time on CLOCK_REALTIME.
    pub(super) fn real(self, monotonic: Nanos) -> Nanos {
        Nanos(monotonic.0.saturating_add_signed(self.0))
    }

    /// Returns whether the clock was not set between two pairs of readings. In the first pair,
    /// CLOCK_REALTIME was read first, and in the second pair last.
    pub(super) fn held(self, first: Pair, last: Pair) -> bool {
        first.difference() <= self.0.saturating_add(TOLERANCE)
            && last.difference() >= self.0.saturating_sub(TOLERANCE)
    }

    /// Returns whether a pair of readings can have this offset, if they took `most` at most.
    pub(super) fn is_near(self, pair: Pair, most: Nanos) -> bool {
        SignedNanos(self.0.saturating_sub(pair.difference()))
            .0
            .unsigned_abs()
            <= most.0
    }
}

/// Returns the time on CLOCK_REALTIME.
pub(super) fn real_time() -> Nanos {
    Nanos(Clock::Realtime.now().as_nanos())
}

/// Returns how far CLOCK_TAI is ahead of CLOCK_REALTIME: a number of whole seconds, which is 0 if no
/// program such as chronyd or ptp4l has told it to the kernel.
pub(super) fn tai_ahead() -> Nanos {
    let (real, tai) = (real_time(), Nanos(Clock::Tai.now().as_nanos()));
    whole_seconds(tai.saturating_sub(real))
}

/// Rounds to whole seconds, because some time passes between the two readings.
fn whole_seconds(time: Nanos) -> Nanos {
    Nanos::from_secs(time.0.saturating_add(500_000_000) / 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(real: u64, monotonic: u64) -> Pair {
        Pair {
            real: Nanos(real),
            monotonic: Nanos(monotonic),
        }
    }

    #[test]
    fn set_clock_is_noticed() {
        let offset = RealOffset(1_000_000);
        let before = pair(1_000_100, 150);
        assert!(offset.held(before, pair(1_009_050, 9_000)));
        // The clock was set forwards before the frame was sent, or backwards before it was stamped.
        assert!(!offset.held(pair(1_100_100, 150), pair(1_109_050, 9_000)));
        assert!(!offset.held(before, pair(909_050, 9_000)));
        assert!(offset.is_near(before, Nanos(100)));
        assert!(!offset.is_near(pair(1_100_100, 150), Nanos(100)));
    }

    #[test]
    fn measured_offset_agrees_with_readings() {
        let offset = RealOffset::measure();
        let real = real_time();
        let first = Pair {
            real,
            monotonic: now(),
        };
        let monotonic = now();
        let last = Pair {
            real: real_time(),
            monotonic,
        };
        assert!(offset.held(first, last), "{offset:?} {first:?} {last:?}");
        assert_eq!(
            offset.real(Nanos(5)),
            Nanos(5_u64.saturating_add_signed(offset.0))
        );
    }

    #[test]
    fn seconds_are_rounded() {
        assert_eq!(whole_seconds(Nanos(37_000_000_090)), Nanos::from_secs(37));
        assert_eq!(whole_seconds(Nanos(36_999_999_990)), Nanos::from_secs(37));
        assert_eq!(whole_seconds(Nanos(90)), Nanos::ZERO);
    }
}
