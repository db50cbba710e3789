//! A cause in words, for JSON.

use serde::{Deserialize, Serialize};

use super::{Cause, ShareKind, Source};

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

impl Source {
    /// Returns the source in words.
    pub fn words(&self) -> CauseWords {
        CauseWords {
            kind: self.kind(),
            who: self.who(),
            detail: None,
        }
    }
}

impl Cause {
    /// Returns the cause in words.
    pub fn words(&self) -> CauseWords {
        CauseWords {
            detail: self.detail(),
            ..self.source.words()
        }
    }
}
