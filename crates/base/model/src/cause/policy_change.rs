//! Lost policies of threads.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{KernelPriority, Nanos, Policy, Task};

/// A thread lost its policy or a part of its real-time priority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChange {
    /// The thread.
    pub thread: Task,
    /// The priority until the change.
    pub from: KernelPriority,
    /// The policy until the change. Null if unknown: priorities do not distinguish fifo from rr.
    pub policy: Option<Policy>,
    /// The priority since the change.
    pub to: KernelPriority,
    /// Time of the first event with the new priority, on the clock of the events.
    pub at_ns: Nanos,
    /// The same as a time of day. Null if unknown.
    pub at: Option<Timestamp>,
}

impl PolicyChange {
    /// Returns the change as a sentence without a full stop: `motion-1300 was fifo 60 until 15:05:23
    /// UTC, then nice 0`.
    pub fn sentence(&self) -> String {
        let from = match self.policy {
            Some(policy) if policy.is_real_time() && self.from.0 >= 0 => {
                format!("{policy} {}", self.from.scheduling().priority)
            }
            _ => self.from.to_string(),
        };
        let until = match self.at {
            Some(at) => format!("{} UTC", at.strftime("%H:%M:%S")),
            None => seconds(self.at_ns),
        };
        format!(
            "{} was {from} until {until}, then {}",
            self.thread.label(),
            self.to
        )
    }
}

/// Formats a time of a trace as the trace does: `8210.500000`.
fn seconds(time: Nanos) -> String {
    format!(
        "{}.{:06}",
        time.0 / 1_000_000_000,
        time.0 % 1_000_000_000 / 1_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Comm;

    #[test]
    fn change_is_a_sentence() {
        let mut change = PolicyChange {
            thread: Task {
                pid: 1300,
                comm: Comm::new(b"motion"),
                prio: KernelPriority(120),
            },
            from: KernelPriority::real_time(60),
            policy: Some(Policy::RoundRobin),
            to: KernelPriority(125),
            at_ns: Nanos::from_millis(8_210_500),
            at: "2026-11-03T15:05:23.5Z".parse().ok(),
        };
        assert_eq!(
            change.sentence(),
            "motion-1300 was rr 60 until 15:05:23 UTC, then nice 5"
        );
        (change.policy, change.at) = (None, None);
        assert_eq!(
            change.sentence(),
            "motion-1300 was real-time 60 until 8210.500000, then nice 5"
        );
    }
}
