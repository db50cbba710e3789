//! Why the process of the other end failed.

use std::io;

/// Why the process of the other end failed.
#[derive(Debug, thiserror::Error)]
pub enum PartnerError {
    /// The command that starts it is empty.
    #[error("cannot start it: no program was specified")]
    NoProgram,
    /// The system cannot start it.
    #[error("cannot start it: {0}")]
    Start(#[source] io::Error),
    /// It has no stdin or stdout.
    #[error("cannot communicate with it: it has no pipes")]
    NoPipes,
    /// The descriptor that it inherits cannot be duplicated.
    #[error(transparent)]
    Descriptor(io::Error),
    /// Its stdout cannot be read.
    #[error("its words: {0}")]
    Read(#[source] io::Error),
    /// The last message that the process sent before it ended.
    #[error("{0}")]
    Said(String),
    /// It exited without a message.
    #[error("it ended with status {0}")]
    Status(i32),
    /// A signal ended it.
    #[error("it was ended by signal {0}")]
    Signal(i32),
    /// It ended for another reason.
    #[error("it ended")]
    Ended,
    /// It is still running, but has closed its output.
    #[error("it closed its output")]
    ClosedOutput,
    /// Error in the other process: its task cannot be read.
    #[error("cannot read its task: {0}")]
    Told(#[source] serde_json::Error),
    /// Error in the other process: its task names no descriptor.
    #[error("no descriptor was inherited")]
    NoDescriptor,
    /// Error in the other process: the socket cannot be set up.
    #[error(transparent)]
    Socket(io::Error),
    /// Error in the other process: the thread that reads its stdin cannot be created.
    #[error("its listening thread: {0}")]
    Listen(#[source] io::Error),
}
