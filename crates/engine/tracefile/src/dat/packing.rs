//! Decompresses the sections and pages of a `trace.dat`.

use super::limits::MOST_BYTES;
use super::parser::Parser;
use crate::TraceFileError;
use punctual_files::Budget;

/// The compression of sections and pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Zlib,
    Zstd,
}

impl Packing {
    /// Reads the name and the version of the compression.
    pub(super) fn read(parser: &mut Parser<'_>) -> Result<Self, TraceFileError> {
        let (name, _version) = (parser.name()?, parser.name()?);
        match name.as_str() {
            "none" => Ok(Self::None),
            "zlib" => Ok(Self::Zlib),
            "zstd" => Ok(Self::Zstd),
            _ => Err(TraceFileError::Compression { name }),
        }
    }

    /// Returns the name to use in a message, or `None` if there is no compression.
    pub(super) const fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Zlib => Some("zlib"),
            Self::Zstd => Some("zstd"),
        }
    }

    /// Decompresses a section whose decompressed size is known. Subtracts it from `left`, the
    /// number of bytes that the sections of the file may still have.
    pub(super) fn section(
        self,
        packed: &[u8],
        size: u32,
        left: &mut u64,
    ) -> Result<Vec<u8>, String> {
        *left = left.checked_sub(size.into()).ok_or_else(|| {
            format!(
                "the sections up to one of {size} bytes have more than {} MiB, which is more than \
                 any kernel needs",
                MOST_BYTES >> 20
            )
        })?;
        let mut unpacked = Vec::new();
        self.unpack(packed, u64::from(size), &mut unpacked)?;
        Ok(unpacked)
    }

    /// Decompresses `size` bytes and appends them. Memory is allocated only as data is
    /// decompressed, so a wrong size in a damaged file does not cause a larger allocation.
    pub(super) fn unpack(self, packed: &[u8], size: u64, to: &mut Vec<u8>) -> Result<(), String> {
        let begin = to.len();
        let budget = Budget::bytes(size);
        let read = match self {
            Self::None => budget.append(packed, to),
            Self::Zlib => budget.append(flate2::read::ZlibDecoder::new(packed), to),
            Self::Zstd => zstd::stream::read::Decoder::with_buffer(packed)
                .and_then(|decoder| budget.append(decoder, to)),
        };
        let read = read.map_err(|error| format!("cannot decompress: {error}"))?;
        if read as u64 != size {
            to.truncate(begin);
            return Err(format!(
                "the stated size is {size} bytes, but {read} bytes were decompressed"
            ));
        }
        Ok(())
    }
}
