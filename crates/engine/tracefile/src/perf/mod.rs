//! Reads a `perf.data`, as written by `perf record` with tracepoint events.
//!
//! The samples of a tracepoint contain the same record as the kernel's ring buffer, and the file
//! contains the kernel's format files in the form of a `trace.dat`, so their decoder is shared.
//! The crate linux-perf-data is not used: it allocates what a size in the file states, holds any
//! number of samples to sort them, and its errors do not name the place in the file.
//!
//! Source: tools/perf/Documentation/perf.data-file-format.txt, include/uapi/linux/perf_event.h.

mod attr;
mod header;
mod order;
mod reader;
mod records;
mod sample;

use crate::input::ReadSeek;
use crate::state_encoding::CorrectStates;
use crate::{TraceFileError, TraceReader};

/// Opens a `perf.data`. `warning` is set if the end of the file is missing.
///
/// # Errors
/// Returns an error if the beginning of the file is damaged, or if the file does not contain the
/// formats of the tracepoints.
pub(crate) fn open(
    source: Box<dyn ReadSeek>,
    warning: Option<String>,
) -> Result<Box<dyn TraceReader>, TraceFileError> {
    let reader = reader::PerfReader::open(source, warning)?;
    Ok(CorrectStates::if_needed(reader))
}
