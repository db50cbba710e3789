//! **For:** files that the program writes, trusts or reads as a whole, in folders that other users
//! may be able to write to. [`Output`] replaces a file atomically and follows no link of another
//! user, [`trusted`] opens only files that other users cannot have written, [`Budget`] limits
//! bytes, items and time, and [`lease`] shows whether the writer of a file is alive.
//!
//! **Knows:** paths, descriptors, and the identity of the user.
//!
//! **Must not know:** any other crate of the workspace; the content of files.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod output;
mod refusal;
mod rule;
mod temporary;
mod walk;

mod budget;
pub mod folder;
pub mod lease;
pub mod lock;
pub mod rights;
pub mod roots;
pub mod scratch;
pub mod trusted;

use std::io;
use std::path::PathBuf;

pub use budget::{Budget, guard_of_group, reap, text_of};
pub use output::Output;
pub use refusal::Refusal;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Reason why a file was not written, opened or read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A system call failed while writing.
    #[error("cannot write {}: {}", path.display(), reason(source))]
    Write {
        /// The path that the caller passed, never the path of a temporary file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// A system call failed while reading.
    #[error("cannot read {}: {}", path.display(), reason(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// Another user may have planted the file.
    #[error("{} is not used: {why}", path.display())]
    Refused {
        /// The path that the caller passed.
        path: PathBuf,
        /// The reason, and what to do.
        why: Refusal,
    },
    /// The file exceeds the size limit.
    #[error("{} is too large to be read: it has more than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The file is not text.
    #[error("{} is not text: byte {at} is not UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Length of the valid UTF-8 before the first invalid byte.
        at: usize,
    },
}

impl FileError {
    /// Returns the reason without the path, for a message that already names the path.
    pub fn reason(&self) -> String {
        match self {
            Self::Write { source, .. } | Self::Read { source, .. } => reason(source),
            Self::Refused { why, .. } => why.to_string(),
            Self::TooLarge { limit, .. } => format!("more than {limit} bytes"),
            Self::NotText { at, .. } => format!("byte {at} is not UTF-8"),
        }
    }

    /// Returns whether the file was not opened because of a limit of open files.
    pub fn is_out_of_files(&self) -> bool {
        match self {
            Self::Write { source, .. } | Self::Read { source, .. } => is_out_of_files(source),
            _ => false,
        }
    }

    /// Returns the kind of the system error, `PermissionDenied` for a refused file, and
    /// `InvalidData` for refused content.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Write { source, .. } | Self::Read { source, .. } => source.kind(),
            Self::Refused { .. } => io::ErrorKind::PermissionDenied,
            Self::TooLarge { .. } | Self::NotText { .. } => io::ErrorKind::InvalidData,
        }
    }
}

/// Returns the error if this process cannot open two more files because of a limit of open files.
/// Libraries that open several files themselves, such as SQLite, do not report this reason.
pub fn out_of_files() -> Option<io::Error> {
    let open = || rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let error = open().and_then(|_first| open().map(drop)).err()?;
    Some(io::Error::from(error)).filter(is_out_of_files)
}

/// Returns the text of a system error, with a remedy if a limit of open files was reached.
pub fn reason(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE) => {
            format!("{error}: raise the limit of this process with ulimit -n or LimitNOFILE=")
        }
        Some(Errno::NFILE) => {
            format!("{error}: raise the limit of the machine with sysctl fs.file-max")
        }
        _ => error.to_string(),
    }
}

fn is_out_of_files(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        Self::new(error.kind(), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_open_files_have_a_remedy() {
        let failed = |errno: Errno| FileError::Write {
            path: "/a".into(),
            source: errno.into(),
        };
        assert!(failed(Errno::MFILE).is_out_of_files());
        assert!(failed(Errno::MFILE).to_string().contains("ulimit -n"));
        assert!(failed(Errno::NFILE).reason().contains("fs.file-max"));
        assert!(!failed(Errno::ACCESS).is_out_of_files());
        assert_eq!(
            failed(Errno::ACCESS).to_string(),
            "cannot write /a: Permission denied (os error 13)"
        );
        assert!(out_of_files().is_none());
    }
}
