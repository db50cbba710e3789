//! **For:** files that the program writes, obeys or reads whole, where other users
//! may write to the same folder: [`Output`] appears whole or not at all and follows
//! nobody else's link, [`trusted`] opens what only its owner could have written,
//! [`bounded`] reads no more than its limit, [`lease`] shows whether the writer of a file
//! still lives.
//!
//! **Knows:** paths, descriptors, and the identity of the user.
//!
//! **Must not know:** any other crate of ours; what is in a file.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod output;
mod refusal;
mod rule;
mod temporary;
mod walk;

pub mod bounded;
pub mod folder;
pub mod lease;
pub mod lock;
pub mod rights;
pub mod roots;
pub mod trusted;

use std::io;
use std::path::PathBuf;

pub use output::Output;
pub use refusal::Refusal;

/// Why a file was not written, opened or read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused to write it.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file as the caller named it, never a temporary one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused to read it.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another user may have put it there.
    #[error("{} is not used: {why}", path.display())]
    Refused {
        /// The file as the caller named it.
        path: PathBuf,
        /// What was found, and what to do.
        why: Refusal,
    },
    /// It is longer than what is read of such a file.
    #[error("{} is too large: more than {limit} bytes; it is not read", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most that is read, in bytes.
        limit: u64,
    },
    /// It should be text.
    #[error("{} is not text: byte {at} is not UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// How many bytes before it are UTF-8.
        at: usize,
    },
}

impl FileError {
    /// The reason without the path, for a message that already names it.
    pub fn reason(&self) -> String {
        match self {
            Self::Write { source, .. } | Self::Read { source, .. } => source.to_string(),
            Self::Refused { why, .. } => why.to_string(),
            Self::TooLarge { limit, .. } => format!("more than {limit} bytes"),
            Self::NotText { at, .. } => format!("byte {at} is not UTF-8"),
        }
    }

    /// The kind of the system's error; `PermissionDenied` where the file is refused,
    /// `InvalidData` where its content is.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Write { source, .. } | Self::Read { source, .. } => source.kind(),
            Self::Refused { .. } => io::ErrorKind::PermissionDenied,
            Self::TooLarge { .. } | Self::NotText { .. } => io::ErrorKind::InvalidData,
        }
    }
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        Self::new(error.kind(), error)
    }
}
