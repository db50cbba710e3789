//! Reasons why figures cannot be published or read.

use std::io;

use crate::layout::{ABI_VERSION, MAX_CHANNELS};

/// A reason why an application cannot publish its figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No channels were requested, or more than the maximum.
    #[error("an application can have 1 to {MAX_CHANNELS} channels, not {channels}")]
    Channels {
        /// Number of requested channels.
        channels: usize,
    },
    /// All channels are in use.
    #[error("all {channels} channels are in use: create the figures with more channels")]
    NoChannelLeft {
        /// Number of channels.
        channels: usize,
    },
    /// The kernel does not support a required seal.
    #[error("this kernel has no F_SEAL_FUTURE_WRITE: figures need Linux 5.1 or later")]
    NoSeal,
    /// A system call failed.
    #[error("{call} failed for the figures of this application: {source}")]
    Os {
        /// The call.
        call: &'static str,
        /// The system error.
        source: io::Error,
    },
}

/// A reason why the memory of a process cannot be read as figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// A seal is missing, so the file could shrink, or others could write to it.
    #[error("the memory is not sealed (it needs the seals SHRINK, GROW, FUTURE_WRITE and SEAL)")]
    NotSealed,
    /// The file is not a regular file.
    #[error("the file with this name is not a memory file")]
    NotMemory,
    /// The file does not begin with the magic number.
    #[error("the memory does not begin with the magic number of punctual's figures")]
    Magic,
    /// The layout has another version.
    #[error(
        "the figures have ABI version {found}, but this program reads version {ABI_VERSION}: use \
         a {} punctual",
        if *found > ABI_VERSION.into() { "newer" } else { "matching" }
    )]
    Abi {
        /// Version of the layout.
        found: u64,
    },
    /// The sizes in the header contradict each other.
    #[error("the figures are damaged: {what} is {found}")]
    Layout {
        /// Name of the field.
        what: &'static str,
        /// Value of the field.
        found: u64,
    },
    /// Another process wrote the figures. This process was forked from it, or received the file
    /// from it.
    #[error(
        "the figures belong to another process (the parent of a fork, or a process of an earlier \
         boot)"
    )]
    OtherProcess,
    /// The file ends too early or cannot be read.
    #[error("the figures could not be read: {0}")]
    Io(#[from] io::Error),
}
