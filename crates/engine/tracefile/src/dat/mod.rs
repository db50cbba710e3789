//! Reads a `trace.dat` of version 6 or 7, as written by trace-cmd.
//!
//! Opening a file reads everything except the pages. The pages are read later, when they are
//! needed. Only a few pages of each CPU are in memory at a time, or one chunk of pages of each CPU
//! if the file is compressed.

mod annotations;
pub(crate) mod clock;
mod file;
mod limits;
pub(crate) mod meta;
mod options;
mod packing;
mod pages;
pub(crate) mod parser;
mod printf;
mod reader;
pub(crate) mod record_decoder;
mod stream;
mod warnings;

use std::io::BufReader;

use pages::{Pages, PartReader};

use crate::input::ReadSeek;
use crate::state_encoding::CorrectStates;
use crate::{TraceFileError, TraceReader, text};

/// Size of a block of text that is read at once, in bytes.
const TEXT_BLOCK: usize = 64 << 10;
/// Maximum size of a decompressed chunk of text, in bytes.
const MOST_TEXT_CHUNK: usize = 1 << 20;

/// Opens a `trace.dat`. `warning` is set if the end of the file is missing.
///
/// # Errors
/// Returns an error if the beginning of the file is damaged, or if it has an unsupported form.
pub(crate) fn open(
    mut source: Box<dyn ReadSeek>,
    warning: Option<String>,
) -> Result<Box<dyn TraceReader>, TraceFileError> {
    let file = file::DatFile::read(source.as_mut())?;
    if let Some(part) = file.text
        && !file.options.buffers.iter().any(reader::has_data)
    {
        let pages = Pages::new(part, TEXT_BLOCK, TEXT_BLOCK);
        let pages = if file.is_text_packed {
            pages.packed(file.packing, file.endian, MOST_TEXT_CHUNK)
        } else {
            pages
        };
        return text::open(BufReader::new(PartReader { source, pages }));
    }
    let warnings = warning.into_iter().collect();
    let reader = reader::DatReader::new(source, file, warnings)?;
    Ok(CorrectStates::if_needed(reader))
}
