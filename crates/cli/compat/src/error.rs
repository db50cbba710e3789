//! Errors of a tool.

use std::io;

use punctual_files::FileError;
use punctual_formats::FormatError;
use punctual_session::SessionError;

use crate::getopt::GetoptError;

/// Reason why a tool failed.
#[derive(Debug, thiserror::Error)]
pub enum CompatError {
    /// Wrong command line: the usage follows on stderr, and the status is 1.
    #[error("{0}")]
    Usage(String),
    /// The message of the original's fatal(), with status 1.
    #[error("FATAL: {0}")]
    Fatal(String),
    /// A message of the original with its status.
    #[error("{message}")]
    Exit {
        /// The message.
        message: String,
        /// The exit status.
        status: u8,
    },
    /// The measurement failed.
    #[error("FATAL: {0}")]
    Session(#[from] SessionError),
    /// A file in the format of the tool could not be created.
    #[error("FATAL: {0}")]
    Format(#[from] FormatError),
    /// A file could not be written.
    #[error("FATAL: {0}")]
    File(#[from] FileError),
    /// stdout could not be written.
    #[error("FATAL: cannot write: {0}")]
    Output(#[from] io::Error),
}

impl From<GetoptError> for CompatError {
    fn from(error: GetoptError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl CompatError {
    /// Returns the exit status.
    pub fn status(&self) -> u8 {
        match self {
            Self::Exit { status, .. } => *status,
            // The status that a shell reports for a program that wrote to a closed pipe.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 141,
            Self::File(error) if error.kind() == io::ErrorKind::BrokenPipe => 141,
            _ => 1,
        }
    }
}
