//! Reads a trace of Perfetto with events of ftrace, which scxtop, systing and wprof also write.
//!
//! Packets of different CPUs are in any order, and often compressed. The first pass over the file
//! therefore copies the bundles of events to a temporary file and notes their positions. The second
//! pass merges the bundles of all CPUs by time, with one bundle of each CPU in memory.
//!
//! The fields are found by the numbers in a table (`table.rs`), without types of prost. The decoders
//! of the model's events read fields by their index, so a number for each field is all they need.
//!
//! Source: `protos/perfetto/trace` (<https://github.com/google/perfetto>, v59).

mod bundle;
mod compact;
mod fields;
mod packets;
mod reader;
mod table;
mod wire;

use std::io::Write;

use crate::input::{Detected, Form, ReadSeek};
use crate::state_encoding::CorrectStates;
use crate::{Input, TraceFileError, TraceReader};

/// Opens a trace of Perfetto. `warning` is set if the end of the file is missing.
///
/// # Errors
/// Returns an error if the beginning of the file is damaged, or if the file has no events of
/// ftrace.
pub(crate) fn open(
    mut source: Box<dyn ReadSeek>,
    warning: Option<String>,
) -> Result<Box<dyn TraceReader>, TraceFileError> {
    let contents = packets::read(source.as_mut(), warning)?;
    Ok(CorrectStates::if_needed(reader::PerfettoReader::new(
        contents,
    )?))
}

/// Copies a trace of Perfetto up to its last complete packet, so that packets can be appended.
///
/// # Errors
/// Returns an error if the input cannot be read, or the output cannot be written.
pub fn copy_perfetto(input: Input, out: &mut dyn Write) -> Result<(), TraceFileError> {
    match input.detect()? {
        Detected::Binary(Form::Perfetto, mut source, _) => packets::copy(source.as_mut(), out),
        _ => Err(TraceFileError::NotATrace {
            kind: "another file than before",
        }),
    }
}
