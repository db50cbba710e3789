//! Why a tool does not do what was asked.

use std::io;

use punctual_files::FileError;
use punctual_formats::FormatError;
use punctual_session::SessionError;

/// Why a tool does not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum CompatError {
    /// The command line: the usage follows on stderr, the status is 1.
    #[error("{0}")]
    Usage(String),
    /// In the words of the original's fatal(), with status 1.
    #[error("FATAL: {0}")]
    Fatal(String),
    /// In the original's own words, with its status.
    #[error("{message}")]
    Exit {
        /// What it says.
        message: String,
        /// With what it ends.
        status: u8,
    },
    /// The measurement.
    #[error("FATAL: {0}")]
    Session(#[from] SessionError),
    /// A file in the format of the tool.
    #[error("FATAL: {0}")]
    Format(#[from] FormatError),
    /// A file could not be written.
    #[error("FATAL: {0}")]
    File(#[from] FileError),
    /// stdout could not be written.
    #[error("FATAL: cannot write: {0}")]
    Output(#[from] io::Error),
}

impl CompatError {
    /// The exit status that goes with it.
    pub fn status(&self) -> u8 {
        match self {
            Self::Exit { status, .. } => *status,
            // As a shell reports a program that wrote to a closed pipe.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 141,
            Self::File(error) if error.kind() == io::ErrorKind::BrokenPipe => 141,
            _ => 1,
        }
    }
}
