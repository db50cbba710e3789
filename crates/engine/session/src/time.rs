//! The wall clock and the monotonic clock, read together once.

use jiff::{SignedDuration, Timestamp};
use punctual_model::Nanos;
use punctual_rt::Clock;

/// The start of a run on both clocks; later wall times follow from the
/// monotonic one, so that a step of the wall clock moves no sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) wall: Timestamp,
    pub(crate) monotonic: Nanos,
}

impl Start {
    pub(crate) fn now() -> Self {
        Self {
            wall: Timestamp::now(),
            monotonic: monotonic(),
        }
    }

    /// How long ago it was.
    pub(crate) fn elapsed(&self) -> Nanos {
        monotonic() - self.monotonic
    }

    /// The wall time of a monotonic one.
    pub(crate) fn wall_at(&self, monotonic: Nanos) -> Timestamp {
        let since = monotonic.signed_sub(self.monotonic).0;
        self.wall
            .checked_add(SignedDuration::from_nanos(since))
            .unwrap_or(self.wall)
    }
}

pub(crate) fn monotonic() -> Nanos {
    Nanos(Clock::Monotonic.now().as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the wall clock reads by then.
    #[test]
    fn a_step_of_the_wall_clock_moves_no_sample() {
        let start = Start {
            wall: "2026-03-29T01:59:59.5Z".parse().unwrap(),
            monotonic: Nanos::from_secs(100),
        };
        let at = |nanos| start.wall_at(nanos).to_string();
        assert_eq!(at(Nanos::from_secs(101)), "2026-03-29T02:00:00.5Z");
        // Before the start, too: what an outlier's window begins with.
        assert_eq!(at(Nanos::from_secs(99)), "2026-03-29T01:59:58.5Z");
    }
}
