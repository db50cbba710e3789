//! Errors of trace files.

use std::io;

/// Why a trace cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub enum TraceFileError {
    /// The input cannot be read.
    #[error("cannot read the trace: {0}")]
    Io(#[from] io::Error),
}
