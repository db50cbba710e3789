//! Reads the wall clock and the monotonic clock together, once.

use jiff::{SignedDuration, Timestamp};
use punctual_model::Nanos;
use punctual_rt::Clock;

/// Start of a run on both clocks. Later wall times are derived from the monotonic clock, so that a
/// step of the wall clock does not shift samples.
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

    /// Returns the time since the start.
    pub(crate) fn elapsed(&self) -> Nanos {
        monotonic() - self.monotonic
    }

    /// Converts a monotonic time to wall time.
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

    /// The result is independent of the wall clock at that time.
    #[test]
    fn wall_clock_step_moves_no_sample() {
        let start = Start {
            wall: "2026-03-29T01:59:59.5Z".parse().unwrap(),
            monotonic: Nanos::from_secs(100),
        };
        let at = |nanos| start.wall_at(nanos).to_string();
        assert_eq!(at(Nanos::from_secs(101)), "2026-03-29T02:00:00.5Z");
        // This also works for times before the start, where the window of an outlier may begin.
        assert_eq!(at(Nanos::from_secs(99)), "2026-03-29T01:59:58.5Z");
    }
}
