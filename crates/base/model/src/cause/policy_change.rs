//! Changes of scheduling that a run shows: lost policies, and calls that the kernel refused.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{KernelPriority, Nanos, Policy, Task, counted};

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

/// Calls for a policy or for locked memory that the kernel refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedCall {
    /// The thread that made the call, as `comm-tid`.
    pub thread: String,
    /// Name of the system call.
    pub call: String,
    /// Number of the error, such as 1 for EPERM.
    pub error: u32,
    /// Number of such calls.
    pub times: u64,
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

impl RefusedCall {
    /// Returns the refusal as a sentence without a full stop: `motion-1300: the kernel refused
    /// sched_setscheduler (EPERM)`.
    pub fn sentence(&self) -> String {
        format!("{}: {}", self.thread, self.refusal())
    }

    /// Returns the refusal without the thread.
    pub fn refusal(&self) -> String {
        let times = match self.times {
            1 => String::new(),
            times => format!(", {}", counted(times, "time", "times")),
        };
        let (error, remedy) = match (self.error, self.call.as_str()) {
            (1, "mlockall" | "mlock" | "mlock2") => {
                ("EPERM", ": it needs CAP_IPC_LOCK or RLIMIT_MEMLOCK above 0")
            }
            (1, _) => ("EPERM", ": it needs CAP_SYS_NICE or a higher RLIMIT_RTPRIO"),
            (12, _) => ("ENOMEM", ": RLIMIT_MEMLOCK is too low"),
            (16, _) => ("EBUSY", ": the deadline reservations exceed the CPUs"),
            _ => return format!("{} failed with error {}{times}", self.call, self.error),
        };
        format!("the kernel refused {} ({error}){times}{remedy}", self.call)
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
    fn change_and_refusal_are_sentences() {
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
        let mut refused = RefusedCall {
            thread: "motion-1300".to_owned(),
            call: "sched_setscheduler".to_owned(),
            error: 1,
            times: 1,
        };
        assert_eq!(
            refused.sentence(),
            "motion-1300: the kernel refused sched_setscheduler (EPERM): it needs CAP_SYS_NICE or a \
             higher RLIMIT_RTPRIO"
        );
        (refused.call, refused.error, refused.times) = ("mlockall".to_owned(), 12, 3);
        assert_eq!(
            refused.sentence(),
            "motion-1300: the kernel refused mlockall (ENOMEM), 3 times: RLIMIT_MEMLOCK is too low"
        );
        refused.error = 22;
        assert_eq!(
            refused.sentence(),
            "motion-1300: mlockall failed with error 22, 3 times"
        );
    }
}
