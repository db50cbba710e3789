//! Traces that are text: of tracefs (`trace`, `trace_pipe`, also as rtla saves it), of
//! `trace-cmd report`, and of `perf script`.

mod event;
mod head;
mod line;
mod lines;
mod names;
mod order;
mod payload;
mod reader;
mod stack;
mod warnings;

use std::io::BufRead;

use crate::{TraceFileError, TraceReader};

/// Opens a text trace: of tracefs, `trace-cmd report`, `perf script` or rtla.
///
/// # Errors
/// If it has no event, or none with a CPU.
pub fn open(input: impl BufRead + 'static) -> Result<Box<dyn TraceReader>, TraceFileError> {
    Ok(Box::new(reader::TextReader::open(input)?))
}
