//! The stacks of both sides of a wait: the thread that waited, and the thread that woke it.

use serde::{Deserialize, Serialize};

use super::Comm;
use crate::{Frame, Nanos};

/// A wait during a job, and both stacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitStacks {
    /// When the thread began to sleep, on CLOCK_MONOTONIC.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// When it was woken.
    #[serde(rename = "to_ns")]
    pub to: Nanos,
    /// The stack of the waiting thread.
    pub waiting: ThreadStack,
    /// The stack of the thread that ended the wait. Null if an interrupt ended it, or if the stack
    /// is unknown.
    pub waker: Option<ThreadStack>,
}

/// The stack of a thread, in the kernel and in its program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadStack {
    /// The thread.
    pub tid: u32,
    /// Its comm. Empty if unknown.
    pub comm: Comm,
    /// The addresses in the kernel, the innermost function first. Empty if they were not recorded.
    /// The window's `symbols` resolve them.
    pub kernel: Vec<u64>,
    /// The functions in user space, the innermost one first.
    pub user: Vec<Frame>,
    /// Reason why functions in user space are missing. Null if they are complete.
    pub user_unknown: Option<String>,
}

impl ThreadStack {
    /// Returns the functions in user space in words, or the reason why they are unknown.
    pub fn user_text(&self) -> String {
        let names: Vec<String> = self.user.iter().map(Frame::text).collect();
        match (&self.user_unknown, names.as_slice()) {
            (None, []) => "none".to_owned(),
            (None, _) => names.join(" < "),
            (Some(why), []) => why.clone(),
            (Some(why), _) => format!("{} ({why})", names.join(" < ")),
        }
    }
}
