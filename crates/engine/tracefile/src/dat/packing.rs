//! The compression of a `trace.dat`.

use std::io::Read;

use super::parser::Parser;
use crate::TraceFileError;

/// The most bytes of a decompressed section. The functions of a kernel take 20 MB.
const LARGEST_SECTION: u64 = 256 << 20;

/// How sections and pages are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Zlib,
    Zstd,
}

impl Packing {
    /// Reads name and version of the compression.
    pub(super) fn read(parser: &mut Parser<'_>) -> Result<Self, TraceFileError> {
        let (name, _version) = (parser.name()?, parser.name()?);
        match name.as_str() {
            "none" => Ok(Self::None),
            "zlib" => Ok(Self::Zlib),
            "zstd" => Ok(Self::Zstd),
            _ => Err(TraceFileError::Compression { name }),
        }
    }

    /// Returns the name, for people.
    pub(super) const fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Zlib => Some("zlib"),
            Self::Zstd => Some("zstd"),
        }
    }

    /// Decompresses a section of a stated size.
    pub(super) fn section(self, packed: &[u8], size: u32) -> Result<Vec<u8>, String> {
        if u64::from(size) > LARGEST_SECTION {
            return Err(format!(
                "a section of {size} bytes is larger than any kernel needs"
            ));
        }
        let mut unpacked = Vec::new();
        self.unpack(packed, u64::from(size), &mut unpacked)?;
        Ok(unpacked)
    }

    /// Decompresses `size` bytes, and appends them. Only as much memory is used as the data provide.
    pub(super) fn unpack(self, packed: &[u8], size: u64, to: &mut Vec<u8>) -> Result<(), String> {
        let begin = to.len();
        let read = match self {
            Self::None => packed.take(size).read_to_end(to),
            Self::Zlib => flate2::read::ZlibDecoder::new(packed)
                .take(size)
                .read_to_end(to),
            Self::Zstd => zstd::stream::read::Decoder::with_buffer(packed)
                .and_then(|decoder| decoder.take(size).read_to_end(to)),
        };
        let read = read.map_err(|error| format!("cannot decompress: {error}"))?;
        if read as u64 != size {
            to.truncate(begin);
            return Err(format!(
                "{size} bytes are stated, but {read} were decompressed"
            ));
        }
        Ok(())
    }
}
