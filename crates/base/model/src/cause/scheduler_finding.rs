//! Findings about the rules of the scheduler in a trace.

use serde::{Deserialize, Serialize};

use crate::cause::{Hold, Limit};
use crate::{Nanos, Task, Text};

/// A rule of the scheduler that events contradict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct SchedulerFinding {
    /// The rule.
    pub rule: SchedulerRule,
    /// The thread that the rule would have favoured.
    pub thread: Task,
    /// The CPU.
    pub cpu: u32,
    /// The thread that ran instead the first time. Null if the CPU was idle, or if none did.
    pub by: Option<Task>,
    /// Number of times.
    pub times: u64,
    /// Their total length.
    pub total_ns: Nanos,
    /// The longest of them.
    pub longest_ns: Nanos,
    /// Time of the first one, on the clock of the trace.
    pub first_ns: Nanos,
    /// The limit that explains all this, if the trace proves it.
    pub limit: Option<Limit>,
    /// Otherwise, the possible reasons.
    pub possible: Vec<Hold>,
    /// The event that would have shown which of them is true. Null if it is recorded.
    pub decided_by: Option<Text>,
}

/// A rule of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchedulerRule {
    /// A CPU is not idle while a thread is runnable on it.
    NoIdleWhileRunnable,
    /// A thread runs before threads of lower priority on its CPU.
    HigherFirst,
    /// Threads of one real-time priority run in the order of their wake-ups.
    InOrder,
    /// The holder of a lock runs with the priority that it inherits.
    Inheritance,
}
