//! Times during which the process or the whole machine was suspended.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Nanos, TopSample};

/// A suspension of the measurement by the user. Samples from that time measure the suspension, not
/// the latency of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspension {
    /// Kind of the suspension.
    pub kind: SuspensionKind,
    /// Last time at which this program is known to have run before the suspension, on the wall
    /// clock. The suspension began up to 0.1 s later. For a stop of less than 0.3 s, this is the
    /// due time of the last wait that the stop delayed.
    pub started: Timestamp,
    /// Start of the suspension on CLOCK_MONOTONIC.
    pub from_monotonic_ns: Nanos,
    /// Time at which this program ran again, on CLOCK_MONOTONIC. That clock stops while the machine
    /// is suspended.
    pub until_monotonic_ns: Nanos,
    /// Length of the suspension. For a stop, this is up to 0.1 s too long, or up to one period too
    /// short if the stop took less than 0.3 s. For a suspended machine, it is the time that passed
    /// on CLOCK_BOOTTIME minus the time that passed on CLOCK_MONOTONIC.
    pub length_ns: Nanos,
}

/// Kind of a suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspensionKind {
    /// SIGSTOP or SIGTSTP (Ctrl-Z) stopped the process until it received SIGCONT.
    StoppedBySignal,
    /// The machine was suspended to memory or to disk.
    MachineSuspended,
}

impl Suspension {
    /// Returns whether a wait that was due at `expected` (CLOCK_MONOTONIC) and ended `latency`
    /// later measures this suspension, that is, whether at least half of the latency lies within
    /// it.
    pub fn covers(&self, expected: Nanos, latency: Nanos) -> bool {
        let actual = expected.0.saturating_add(latency.0);
        let from = expected.0.max(self.from_monotonic_ns.0);
        let until = actual.min(self.until_monotonic_ns.0);
        let inside = until.saturating_sub(from);
        from <= until && inside.saturating_mul(2) >= latency.0
    }

    /// Returns the reason why a limit is not proven, and what to do.
    pub fn lacking(&self) -> String {
        let length = self.length_ns;
        match self.kind {
            SuspensionKind::StoppedBySignal => format!(
                "the process was stopped for about {length} by SIGSTOP or Ctrl-Z; measure again without \
                 stopping it"
            ),
            SuspensionKind::MachineSuspended => format!(
                "the machine was suspended for about {length}; measure again without suspending it"
            ),
        }
    }
}

impl TopSample {
    /// Returns whether the sample measures one of these suspensions.
    pub fn is_suspended(&self, suspensions: &[Suspension]) -> bool {
        let covers = |one: &Suspension| one.covers(self.monotonic_ns, self.latency_ns);
        suspensions.iter().any(covers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspension_of_half_latency_covers_sample() {
        let stop = Suspension {
            kind: SuspensionKind::StoppedBySignal,
            started: Timestamp::UNIX_EPOCH,
            from_monotonic_ns: Nanos(1_000),
            until_monotonic_ns: Nanos(2_000),
            length_ns: Nanos(1_000),
        };
        for (expected, latency, covered) in [
            (1_050, 955, true),
            (1_200, 10, true),
            (100, 10, false),
            (2_100, 10, false),
            // The stop covers only a tenth of this latency, so the machine caused it.
            (1_000, 10_000, false),
            (0, 2_000, true),
            (0, 3_000, false),
        ] {
            let found = stop.covers(Nanos(expected), Nanos(latency));
            assert_eq!(found, covered, "{expected} {latency}");
        }
    }
}
