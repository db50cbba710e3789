//! Errors of trace files.

use std::io;
use std::path::PathBuf;

/// Why a trace cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub enum TraceFileError {
    /// The input cannot be read.
    #[error("cannot read the trace: {0}")]
    Io(#[from] io::Error),
    /// The file cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The copy in the folder for temporary files cannot be written.
    #[error("cannot copy the trace to a temporary file: {0}. Set TMPDIR to a folder with space")]
    Spool(io::Error),
    /// Not a trace.
    #[error(
        "not a trace but {kind}. Formats that can be read: trace.dat of trace-cmd, and text of \
         trace-cmd report, of perf script, of tracefs' trace or of rtla; each also compressed \
         with gzip, xz or zstd"
    )]
    NotATrace {
        /// The apparent format.
        kind: &'static str,
    },
    /// A `trace.dat` of another version.
    #[error(
        "the trace.dat has version {version}, but only 6 and 7 can be read. Give the text of \
         trace-cmd report"
    )]
    Version {
        /// The version in the file.
        version: String,
    },
    /// A `trace.dat` whose beginning is damaged.
    #[error("the trace.dat is damaged at byte {offset}: {what}")]
    Damaged {
        /// Offset in the file.
        offset: u64,
        /// The value there, or the expected one.
        what: String,
    },
    /// A `trace.dat` that is compressed in an unknown way.
    #[error(
        "the trace.dat is compressed with {name}, but only zlib and zstd can be read. Run \
         trace-cmd convert --compression none"
    )]
    Compression {
        /// The name in the file.
        name: String,
    },
    /// Times that are not times.
    #[error(
        "the clock {clock} of the trace counts no nanoseconds. Record with trace-cmd record -C \
         mono, or for a guest with -C tsc2nsec"
    )]
    NoTime {
        /// The clock, as the kernel names it.
        clock: String,
    },
    /// A text without an event.
    #[error(
        "no line is an event of a trace; the first line is \"{first}\". Give a trace.dat, or the \
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
