//! Reads the pages of one CPU in the order in which they are stored.

use std::io::{self, Read, SeekFrom};

use super::options::Region;
use super::packing::Packing;
use super::parser::Endian;
use crate::TraceFileError;
use crate::input::ReadSeek;
use punctual_files::Budget;

/// The pages of one CPU, in a part of the file that either is uncompressed or consists of
/// compressed chunks.
#[derive(Debug)]
pub(super) struct Pages {
    page_bytes: usize,
    /// File offset of the next block.
    at: u64,
    end: u64,
    /// The current block. Its first `used` bytes have already been returned.
    block: Vec<u8>,
    used: usize,
    /// Maximum size of a block in bytes.
    most: usize,
    /// File offset of the current block.
    block_at: u64,
    chunks: Option<Chunks>,
    /// Reason why the rest of the part cannot be read.
    pub(super) broken: Option<String>,
}

/// State of decompressing chunks.
#[derive(Debug)]
struct Chunks {
    packing: Packing,
    endian: Endian,
    /// Number of chunks that follow. `None` until this number has been read.
    left: Option<u32>,
    packed: Vec<u8>,
}

impl Pages {
    /// Reads the part in blocks of at most `most` bytes, but at least one page.
    pub(super) fn new(region: Region, page_bytes: usize, most: usize) -> Self {
        Self {
            page_bytes,
            at: region.offset,
            end: region.offset.saturating_add(region.size),
            block: Vec::new(),
            used: 0,
            most: (most / page_bytes).max(1) * page_bytes,
            block_at: region.offset,
            chunks: None,
            broken: None,
        }
    }

    /// Declares that the part is compressed, in chunks of at most `most` bytes when decompressed.
    pub(super) fn packed(mut self, packing: Packing, endian: Endian, most: usize) -> Self {
        // trace-cmd compresses ten pages per chunk.
        self.most = most.min(16 * self.page_bytes);
        // The size that trace-cmd writes does not include the 4 bytes that contain the number of
        // chunks.
        self.end = self.end.saturating_add(4);
        self.chunks = Some(Chunks {
            packing,
            endian,
            left: None,
            packed: Vec::new(),
        });
        self
    }

    /// Returns the next page, which may be truncated, and its offset in the file. Returns `None` at
    /// the end.
    pub(super) fn next(
        &mut self,
        source: &mut dyn ReadSeek,
    ) -> Result<Option<(&[u8], u64)>, TraceFileError> {
        if self.used >= self.block.len() {
            self.block.clear();
            self.used = 0;
            if let Some(broken) = self.fill(source)? {
                self.at = self.end;
                self.broken = Some(broken);
            }
        }
        let begin = self.used;
        let end = (begin + self.page_bytes).min(self.block.len());
        self.used = end;
        let offset = match self.chunks {
            None => self.block_at + begin as u64,
            Some(_) => self.block_at,
        };
        let page = self.block.get(begin..end).filter(|page| !page.is_empty());
        Ok(page.map(|page| (page, offset)))
    }

    /// Reads the next block. If the rest cannot be read, returns the reason.
    fn fill(&mut self, source: &mut dyn ReadSeek) -> Result<Option<String>, TraceFileError> {
        let left = self.end.saturating_sub(self.at);
        if left == 0 {
            return Ok(None);
        }
        source.seek(SeekFrom::Start(self.at))?;
        self.block_at = self.at;
        if let Some(chunks) = &mut self.chunks {
            let (offset, most) = (self.at, self.most);
            let filled = chunks.fill(source, &mut self.at, self.end, most, &mut self.block)?;
            let broken = |what| format!("the chunk at byte {offset} {what}");
            return Ok(filled.err().map(broken));
        }
        let wanted = left.min(self.most as u64);
        Budget::bytes(wanted).append(source, &mut self.block)?;
        self.at += self.block.len() as u64;
        let is_cut = (self.block.len() as u64) < wanted;
        Ok(is_cut.then(|| format!("the file ends at byte {}", self.at)))
    }
}

/// Reads a part of the file as a stream of bytes.
pub(super) struct PartReader {
    pub(super) source: Box<dyn ReadSeek>,
    pub(super) pages: Pages,
}

impl Read for PartReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.pages.used >= self.pages.block.len() {
            self.pages
                .next(self.source.as_mut())
                .map_err(io::Error::other)?;
            self.pages.used = 0;
            if self.pages.block.is_empty()
                && let Some(broken) = self.pages.broken.take()
            {
                return Err(io::Error::new(io::ErrorKind::InvalidData, broken));
            }
        }
        let rest = self.pages.block.get(self.pages.used..).unwrap_or_default();
        let count = rest.len().min(to.len());
        if let (Some(to), Some(rest)) = (to.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(rest);
        }
        self.pages.used += count;
        Ok(count)
    }
}

impl Chunks {
    /// Decompresses the chunk at `at`. If this is impossible, the inner error is the reason.
    fn fill(
        &mut self,
        source: &mut dyn ReadSeek,
        at: &mut u64,
        end: u64,
        most: usize,
        to: &mut Vec<u8>,
    ) -> Result<Result<(), String>, TraceFileError> {
        let cut = || Ok(Err("is cut".to_owned()));
        let left = match self.left {
            Some(left) => left,
            None => match self.number(source, at)? {
                Some(count) => count,
                None => return cut(),
            },
        };
        let Some(next) = left.checked_sub(1) else {
            *at = end;
            return Ok(Ok(()));
        };
        self.left = Some(next);
        let (Some(packed), Some(size)) = (self.number(source, at)?, self.number(source, at)?)
        else {
            return cut();
        };
        let packed = u64::from(packed);
        if size as usize > most || at.saturating_add(packed) > end {
            return Ok(Err(format!(
                "has an invalid size: {packed} bytes, {size} decompressed"
            )));
        }
        self.packed.clear();
        Budget::bytes(packed).append(source, &mut self.packed)?;
        *at += packed;
        if (self.packed.len() as u64) < packed {
            return cut();
        }
        let unpacked = self.packing.unpack(&self.packed, size.into(), to);
        Ok(unpacked.map_err(|error| format!("is damaged: {error}")))
    }

    fn number(
        &self,
        source: &mut dyn ReadSeek,
        at: &mut u64,
    ) -> Result<Option<u32>, TraceFileError> {
        let bytes = Budget::bytes(4).up_to(source)?;
        *at += 4;
        let bytes = <[u8; 4]>::try_from(bytes).ok();
        Ok(bytes.map(|bytes| self.endian.u32(bytes)))
    }
}
