//! Opens a trace of any format.

use crate::input::Detected;
use crate::{Input, TraceFileError, TraceReader, dat, text};

/// Opens a trace, whose format is detected from its content: a `trace.dat` of trace-cmd (version 6
/// or 7), or text of tracefs, `trace-cmd report`, `perf script` or rtla.
///
/// A `trace.dat` is read at several positions. If it is compressed or comes from a pipe, it is first
/// copied to an unnamed file in the folder for temporary files (`TMPDIR`), unless it is small.
///
/// # Errors
/// If the input cannot be read, or is not a trace.
pub fn open(input: Input) -> Result<Box<dyn TraceReader>, TraceFileError> {
    match input.detect()? {
        Detected::Text(lines) => text::open(lines),
        Detected::Dat(file, warning) => dat::open(file, warning),
    }
}
