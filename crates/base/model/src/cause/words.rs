//! A cause in words, for JSON.

use serde::{Deserialize, Serialize};

use super::ShareKind;

/// A cause in words. It is created only for output and never read back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseWords {
    /// The kind of cause.
    pub kind: ShareKind,
    /// The cause: the name of an interrupt, or the comm and pid of a thread.
    pub who: String,
    /// More about the source: a system call, the thread that ran a softirq, a priority.
    pub detail: Option<String>,
}
