//! Opens a trace in any supported format.

use crate::input::{Detected, Form};
use crate::{Input, TraceFileError, TraceReader, ctf, dat, perf, perfetto, text};

/// Opens a trace. The format is detected from the content. It is a `trace.dat` of trace-cmd
/// (version 6 or 7), a `perf.data`, a trace of Perfetto, the folder of a CTF trace, or text
/// from tracefs, `trace-cmd report`, `perf script` or rtla.
///
/// A file that is not text is not read sequentially. If it is compressed or comes from a pipe, it is
/// therefore first copied to memory or, if it is large, to an unnamed file in the folder for
/// temporary files (`TMPDIR`).
///
/// # Errors
/// Returns an error if the input cannot be read or is not a trace.
pub fn open(input: Input) -> Result<Box<dyn TraceReader>, TraceFileError> {
    match input.detect()? {
        Detected::Folder(folder) => ctf::open(&folder),
        Detected::Text(lines) => text::open(lines),
        Detected::Binary(Form::Dat, file, warning) => dat::open(file, warning),
        Detected::Binary(Form::Perf, file, warning) => perf::open(file, warning),
        Detected::Binary(Form::Perfetto, file, warning) => perfetto::open(file, warning),
    }
}
