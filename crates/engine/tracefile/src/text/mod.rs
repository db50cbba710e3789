//! Reads text traces, which come from tracefs (`trace`, `trace_pipe`, also as saved by rtla), from
//! `trace-cmd report`, or from `perf script`.

mod event;
mod graph;
mod head;
mod line;
mod lines;
mod names;
mod order;
mod payload;
mod reader;
mod rtla_analysis;
mod stack;
mod statement;
mod system_call;
mod warnings;

use std::io::BufRead;

use crate::state_encoding::CorrectStates;
use crate::{TraceFileError, TraceReader};

/// Opens a text trace from tracefs, `trace-cmd report`, `perf script` or rtla.
///
/// # Errors
/// Returns an error if no line is an event, or if the events have no CPU.
pub fn open(input: impl BufRead + 'static) -> Result<Box<dyn TraceReader>, TraceFileError> {
    Ok(CorrectStates::if_needed(reader::TextReader::open(input)?))
}
