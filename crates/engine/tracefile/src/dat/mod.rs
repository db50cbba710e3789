//! `trace.dat` of trace-cmd, versions 6 and 7.
//!
//! The parts of a file before the pages are read at once, the pages one after the other: a few of
//! each CPU are in memory. Of compressed files, one chunk of pages of each CPU is in memory.

mod annotations;
mod clock;
mod file;
mod meta;
mod options;
mod packing;
mod pages;
mod parser;
mod printf;
mod reader;
mod record_decoder;
mod stream;
mod warnings;

use std::io::BufReader;

use pages::{Pages, PartReader};

use crate::input::ReadSeek;
use crate::{TraceFileError, TraceReader, text};

/// Bytes of text that are read at once.
const TEXT_BLOCK: usize = 64 << 10;
/// The most bytes of a decompressed chunk of text.
const MOST_TEXT_CHUNK: usize = 1 << 20;

/// Opens a `trace.dat`. `warning`: what is known about its end.
///
/// # Errors
/// If its beginning is damaged, or it has a form that cannot be read.
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
    Ok(Box::new(reader::DatReader::new(source, file, warnings)?))
}
