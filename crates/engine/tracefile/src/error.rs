//! Errors of trace files.

use std::io;

/// Why a trace cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub enum TraceFileError {
    /// The input cannot be read.
    #[error("cannot read the trace: {0}")]
    Io(#[from] io::Error),
    /// A text without an event.
    #[error(
        "no line is an event of a trace; the first line is \"{first}\". Give the \
         text of trace-cmd report, of perf script or of tracefs' trace"
    )]
    NoEvent {
        /// The first line that is not empty, cut.
        first: String,
    },
    /// A text whose events have no CPU.
    #[error(
        "the events have no CPU. Run perf script without -F, or with -F comm,tid,cpu,time,event,trace"
    )]
    NoCpu,
}
