//! Errors of a tool.

use std::io;

use punctual_files::FileError;
use punctual_formats::FormatError;
use punctual_session::SessionError;

use crate::getopt::GetoptError;

/// Reason why a tool has failed.
#[derive(Debug, thiserror::Error)]
pub enum CompatError {
    /// The command line is wrong. The usage is printed on stderr, and the status is 1.
    #[error("{0}")]
    Usage(String),
    /// A message that the original prints with fatal(); the status is 1.
    #[error("FATAL: {0}")]
    Fatal(String),
    /// A message of the original that has its own status.
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
            // A shell reports this status for a program that has written to a closed pipe.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 141,
            Self::File(error) if error.kind() == io::ErrorKind::BrokenPipe => 141,
            _ => 1,
        }
    }
}
