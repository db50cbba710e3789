//! Calls that the kernel refused.

use serde::{Deserialize, Serialize};

use crate::counted;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_is_a_sentence() {
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
