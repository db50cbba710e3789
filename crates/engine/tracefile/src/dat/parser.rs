//! Parses the numbers and strings in a `trace.dat`.

use std::io::{Cursor, Read};

use super::limits::MOST_BYTES;
use crate::TraceFileError;
use punctual_files::Budget;

/// Maximum length in bytes of the name of a trace system, a buffer or a compression.
const LONGEST_NAME: usize = 1_024;

/// The byte order of the numbers in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endian {
    pub(crate) is_big: bool,
}

impl Endian {
    pub(crate) fn u16(self, bytes: [u8; 2]) -> u16 {
        if self.is_big {
            u16::from_be_bytes(bytes)
        } else {
            u16::from_le_bytes(bytes)
        }
    }

    pub(crate) fn u32(self, bytes: [u8; 4]) -> u32 {
        if self.is_big {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        }
    }

    pub(crate) fn u64(self, bytes: [u8; 8]) -> u64 {
        if self.is_big {
            u64::from_be_bytes(bytes)
        } else {
            u64::from_le_bytes(bytes)
        }
    }
}

/// Parser for a part of the file.
pub(crate) struct Parser<'a> {
    input: Box<dyn Read + 'a>,
    endian: Endian,
    /// File offset of the next byte. If the section is compressed, this always remains the offset
    /// of the section.
    offset: u64,
    /// Whether the offset advances with each byte read, because the part is not compressed.
    is_plain: bool,
}

impl<'a> Parser<'a> {
    /// Creates a parser for the bytes that begin at `offset` in the file.
    pub(crate) fn new(input: impl Read + 'a, endian: Endian, offset: u64) -> Self {
        Self {
            input: Box::new(input),
            endian,
            offset,
            is_plain: true,
        }
    }

    /// Creates a parser for bytes that were decompressed from a section at `offset`.
    pub(crate) fn unpacked(bytes: Vec<u8>, endian: Endian, offset: u64) -> Self {
        Self {
            is_plain: false,
            ..Parser::new(Cursor::new(bytes), endian, offset)
        }
    }

    /// Creates a parser for the data of an option.
    pub(crate) fn option(bytes: Vec<u8>, endian: Endian, offset: u64) -> Self {
        Self::unpacked(bytes, endian, offset)
    }

    /// Returns the file offset, for use in messages.
    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) const fn endian(&self) -> Endian {
        self.endian
    }

    /// Sets the byte order, which the file specifies after its version.
    pub(crate) const fn set_endian(&mut self, endian: Endian) {
        self.endian = endian;
    }

    /// Returns an error at the current offset.
    pub(crate) fn damaged(&self, what: impl Into<String>) -> TraceFileError {
        TraceFileError::Damaged {
            offset: self.offset,
            what: what.into(),
        }
    }

    const fn advance(&mut self, bytes: u64) {
        if self.is_plain {
            self.offset = self.offset.saturating_add(bytes);
        }
    }

    fn array<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], TraceFileError> {
        let mut bytes = [0; SIZE];
        let mut filled = 0;
        while let Some(free) = bytes.get_mut(filled..).filter(|free| !free.is_empty()) {
            match self.input.read(free)? {
                0 => return Err(self.damaged("the data ends here prematurely")),
                read => filled += read,
            }
        }
        self.advance(SIZE as u64);
        Ok(bytes)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, TraceFileError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, TraceFileError> {
        let bytes = self.array()?;
        Ok(self.endian.u16(bytes))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, TraceFileError> {
        let bytes = self.array()?;
        Ok(self.endian.u32(bytes))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, TraceFileError> {
        let bytes = self.array()?;
        Ok(self.endian.u64(bytes))
    }

    /// Reads `size` bytes. Memory is allocated only as data is read, so a wrong size in a damaged
    /// file does not cause a larger allocation.
    pub(crate) fn bytes(&mut self, size: u64) -> Result<Vec<u8>, TraceFileError> {
        if size > MOST_BYTES {
            return Err(self.damaged(format!(
                "a part has {size} bytes, which is more than any kernel needs"
            )));
        }
        let bytes = Budget::bytes(size).up_to(&mut self.input)?;
        if (bytes.len() as u64) < size {
            let read = bytes.len();
            return Err(self.damaged(format!(
                "the stated size is {size} bytes, but only {read} \
                bytes follow"
            )));
        }
        self.advance(size);
        Ok(bytes)
    }

    /// Reads a string that is preceded by its size in 4 bytes.
    pub(crate) fn text32(&mut self) -> Result<String, TraceFileError> {
        let size = self.u32()?;
        Ok(text(&self.bytes(size.into())?))
    }

    /// Reads a string that is preceded by its size in 8 bytes.
    pub(crate) fn text64(&mut self) -> Result<String, TraceFileError> {
        let size = self.u64()?;
        Ok(text(&self.bytes(size)?))
    }

    /// Reads a name that ends with NUL.
    pub(crate) fn name(&mut self) -> Result<String, TraceFileError> {
        let mut bytes = Vec::new();
        loop {
            match self.u8()? {
                0 => return Ok(text(&bytes)),
                byte => bytes.push(byte),
            }
            if bytes.len() > LONGEST_NAME {
                return Err(self.damaged("the name has no terminating NUL before this byte"));
            }
        }
    }

    /// Reads a fixed string and checks it.
    pub(crate) fn expect(&mut self, expected: &str) -> Result<(), TraceFileError> {
        let offset = self.offset;
        let found = self.bytes(expected.len() as u64)?;
        if found == expected.as_bytes() {
            return Ok(());
        }
        Err(TraceFileError::Damaged {
            offset,
            what: format!("expected {expected:?}, found {:?}", text(&found)),
        })
    }
}

/// Converts bytes to a string, up to the first NUL.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    let bytes = end.and_then(|end| bytes.get(..end)).unwrap_or(bytes);
    String::from_utf8_lossy(bytes).into_owned()
}
