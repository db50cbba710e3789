//! Errors that can occur while reading trace files.

use std::io;
use std::path::PathBuf;

/// Reason why a trace cannot be read.
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
        /// The kernel's error.
        source: io::Error,
    },
    /// The copy of the input in the folder for temporary files cannot be written.
    #[error(
        "cannot copy the trace to a temporary file: {0}. Set TMPDIR to a folder with enough free \
         space"
    )]
    Spool(io::Error),
    /// The input is not a trace.
    #[error(
        "not a trace but {kind}. The supported formats are trace.dat of trace-cmd, perf.data, \
         Perfetto (.pftrace), a folder of LTTng (CTF), and text from trace-cmd report, perf script, \
         tracefs' trace or rtla, all also compressed with gzip, xz or zstd"
    )]
    NotATrace {
        /// The apparent kind of the file, and how to get a trace from it.
        kind: &'static str,
    },
    /// The metadata of a CTF trace is wrong.
    #[error("the metadata of the CTF trace is wrong in line {line}: {what}")]
    Metadata {
        /// Number of the line.
        line: u32,
        /// What is wrong.
        what: String,
    },
    /// The folder contains no CTF trace.
    #[error(
        "the folder contains no CTF trace: neither it nor a folder in it has a file named metadata"
    )]
    NoTraceInFolder,
    /// The folder contains several CTF traces.
    #[error("the folder contains {number} CTF traces: pass the folder of one of them")]
    SeveralTraces {
        /// Number of traces.
        number: usize,
    },
    /// The `trace.dat` has an unsupported version.
    #[error(
        "the trace.dat has version {version}, but only versions 6 and 7 can be read. Use the text \
         of trace-cmd report instead"
    )]
    Version {
        /// The version given in the file.
        version: String,
    },
    /// The structure of the file is damaged.
    #[error("the file is damaged at byte {offset}: {what}")]
    Damaged {
        /// Offset in the file.
        offset: u64,
        /// The value at this offset, or the expected value.
        what: String,
    },
    /// The `trace.dat` has an unsupported compression.
    #[error(
        "the trace.dat is compressed with {name}, but only zlib and zstd can be read. Run \
         trace-cmd convert --compression none"
    )]
    Compression {
        /// Name of the compression, as given in the file.
        name: String,
    },
    /// The pages of all CPUs contain too many events.
    #[error(
        "the trace.dat has more than {most} events in one page of each CPU, which no kernel writes"
    )]
    TooManyEvents {
        /// The maximum number.
        most: usize,
    },
    /// The input grows too much when it is decompressed.
    #[error(
        "the trace decompresses to more than {} MiB, which is more than 100 times its size. If it \
         is a trace, decompress it first", unpacked >> 20
    )]
    Bomb {
        /// Size of the decompressed part, in bytes.
        unpacked: u64,
    },
    /// The clock of the trace does not count nanoseconds.
    #[error(
        "the clock {clock} of the trace does not count nanoseconds. Record with trace-cmd record \
         -C mono, or for a guest with -C tsc2nsec"
    )]
    NoTime {
        /// The kernel's name for the clock.
        clock: String,
    },
    /// The text contains no event.
    #[error(
        "no line is an event of a trace; the first line is \"{first}\". Use a trace.dat, or the \
         text of trace-cmd report, perf script or tracefs' trace"
    )]
    NoEvent {
        /// The first line that is not empty, in shortened form.
        first: String,
    },
    /// The file is a trace, but none of its lines is an event or states a latency.
    #[error("no line of the {format} is a known event or states a latency{remedy}")]
    NothingUsed {
        /// Description of the format.
        format: String,
        /// How to read the file, as the end of the sentence.
        remedy: &'static str,
    },
    /// The events in the text have no CPU.
    #[error(
        "the events have no CPU. Run perf script without -F, or with -F comm,tid,cpu,time,event,trace"
    )]
    NoCpu,
}
