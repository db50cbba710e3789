//! Reasons why the result of a rule without observed violations is unknown: in these cases, the
//! absence of violations proves nothing.

use punctual_model::Nanos;

/// Reason why the result of a rule without observed violations is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unseen {
    /// There is nothing to judge.
    #[error("the target has no thread with a real-time policy")]
    NoThread,
    /// A reason that the facts contain, as worded by their data source.
    #[error("{0}")]
    Fact(String),

    // Reasons about the states of processes and threads.
    #[error(
        "the stack of {comm} ({tid}) is unknown: {}",
        hidden.as_deref().unwrap_or(NOT_SEEN_WAITING)
    )]
    Stack {
        comm: String,
        tid: u32,
        /// Reason why /proc hides the stack. `None` if /proc does not hide it.
        hidden: Option<String>,
    },
    #[error("{comm} ({tid}) did not exist during the whole run")]
    NotThereThroughout { comm: String, tid: u32 },
    #[error(
        "{comm} ({tid}) ran for {used} of {duration} without waiting, which is too little to tell \
         whether it never waits: observe it for longer, or with less load beside it"
    )]
    ShortOfCpu {
        comm: String,
        tid: u32,
        used: Nanos,
        duration: Nanos,
    },

    // Reasons about acts.
    #[error(
        "the threads ran, but no trace event names them (they are in another PID namespace, or the \
         run was too short)"
    )]
    NoEvent,
    #[error("no real-time thread of the target ran")]
    NothingRan,
    #[error("{0} events were lost")]
    Lost(u64),
    #[error("no system call was traced")]
    NoCallTraced,
}

const NOT_SEEN_WAITING: &str =
    "the stack pointer is visible only during a wait in a system call, and no wait was seen";

#[cfg(test)]
mod tests {
    use punctual_model::Nanos;

    use super::Unseen::*;

    #[test]
    fn each_says_what_was_not_seen() {
        let stack = |hidden: Option<&str>| Stack {
            comm: "motion".to_owned(),
            tid: 7,
            hidden: hidden.map(str::to_owned),
        };
        for (why, text) in [
            (NoThread, "the target has no thread with a real-time policy"),
            (Fact("permission denied".to_owned()), "permission denied"),
            (
                stack(None),
                "the stack of motion (7) is unknown: the stack pointer is visible only during a \
                 wait in a system call, and no wait was seen",
            ),
            (
                stack(Some("it belongs to user 0")),
                "the stack of motion (7) is unknown: it belongs to user 0",
            ),
            (
                NotThereThroughout {
                    comm: "motion".to_owned(),
                    tid: 7,
                },
                "motion (7) did not exist during the whole run",
            ),
            (
                ShortOfCpu {
                    comm: "motion".to_owned(),
                    tid: 7,
                    used: Nanos::from_millis(430),
                    duration: Nanos::from_secs(1),
                },
                "motion (7) ran for 430 ms of 1.00 s without waiting, which is too little to tell \
                 whether it never waits: observe it for longer, or with less load beside it",
            ),
            (
                NoEvent,
                "the threads ran, but no trace event names them (they are in another PID \
                 namespace, or the run was too short)",
            ),
            (NothingRan, "no real-time thread of the target ran"),
            (Lost(3), "3 events were lost"),
            (NoCallTraced, "no system call was traced"),
        ] {
            assert_eq!(why.to_string(), text);
        }
    }
}
