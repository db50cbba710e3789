//! Why figures cannot be published or read.

use std::io;

use crate::layout::{ABI_VERSION, MAX_LANES};

/// Why an application cannot publish its figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No lane, or more than there can be.
    #[error("an application has 1 to {MAX_LANES} lanes, not {lanes}")]
    Lanes {
        /// Lanes asked for.
        lanes: usize,
    },
    /// All lanes are in use.
    #[error("all {lanes} lanes are in use: create the figures with more")]
    NoLaneLeft {
        /// Lanes that there are.
        lanes: usize,
    },
    /// The kernel has no such seal.
    #[error("this kernel has no F_SEAL_FUTURE_WRITE: figures need Linux 5.1 or later")]
    NoSeal,
    /// A system call failed.
    #[error("{call} failed for the figures of this application: {source}")]
    Os {
        /// The call.
        call: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
}

/// Why what a process shows cannot be read as figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// A seal is missing: the file could shrink or be written by others.
    #[error("the memory is not sealed (SHRINK, GROW, FUTURE_WRITE and SEAL are needed)")]
    NotSealed,
    /// It is no regular file.
    #[error("the file of that name is not a memory file")]
    NotMemory,
    /// It does not begin as figures do.
    #[error("the memory does not begin with the mark of punctual's figures")]
    Magic,
    /// It is of another version of the layout.
    #[error(
        "the figures have ABI version {found}, this program reads {ABI_VERSION}: use a {} punctual",
        if *found > ABI_VERSION.into() { "newer" } else { "matching" }
    )]
    Abi {
        /// Its version.
        found: u64,
    },
    /// Its sizes contradict each other.
    #[error("the figures are damaged: {what} is {found}")]
    Layout {
        /// Which number.
        what: &'static str,
        /// Its value.
        found: u64,
    },
    /// It was written by another process: inherited by a fork, or passed on.
    #[error("the figures are those of another process (a fork's parent, or an earlier boot)")]
    OtherProcess,
    /// It ends before its end.
    #[error("the figures could not be read: {0}")]
    Io(#[from] io::Error),
}
