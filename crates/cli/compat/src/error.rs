//! Errors of a tool.

use std::io;

use punctual_files::FileError;
use punctual_formats::FormatError;
use punctual_session::SessionError;

use crate::getopt::GetoptError;

/// Why a tool failed.
#[derive(Debug, thiserror::Error)]
pub enum CompatError {
    /// The command line: the usage follows on stderr, the status is 1.
    #[error("{0}")]
    Usage(String),
    /// The message of the original's fatal(), with status 1.
    #[error("FATAL: {0}")]
    Fatal(String),
    /// The original's own message, with its status.
    #[error("{message}")]
    Exit {
        /// The message.
        message: String,
        /// The exit status.
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

impl From<GetoptError> for CompatError {
    fn from(error: GetoptError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl CompatError {
    /// Its exit status.
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
