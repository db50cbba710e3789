//! Reads the records of a `perf.data` one after the other, also from compressed records.

use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use super::header::Header;
use crate::TraceFileError;
use crate::dat::parser::Endian;
use crate::input::ReadSeek;

/// Types of records (`enum perf_event_type`, and `enum perf_user_event_type` of perf).
pub(super) mod kind {
    pub(in crate::perf) const LOST: u32 = 2;
    pub(in crate::perf) const SAMPLE: u32 = 9;
    pub(in crate::perf) const LOST_SAMPLES: u32 = 13;
    pub(in crate::perf) const HEADER_ATTR: u32 = 64;
    pub(in crate::perf) const TRACING_DATA: u32 = 66;
    pub(in crate::perf) const FINISHED_ROUND: u32 = 68;
    pub(super) const AUXTRACE: u32 = 71;
    pub(in crate::perf) const FEATURE: u32 = 80;
    pub(super) const COMPRESSED: u32 = 81;
    pub(super) const COMPRESSED_2: u32 = 83;
}

/// Size of the header of a record, in bytes: type, flags and size.
const HEAD: usize = 8;
/// Number of bytes that are decompressed at once.
const STEP: usize = 64 << 10;
/// Maximum window of the decompressor, as a power of two in bytes. perf's levels need 8 MiB.
const WINDOW: u32 = 27;

/// The records of a file.
pub(super) struct Records {
    source: BufReader<Box<dyn ReadSeek>>,
    endian: Endian,
    /// Offset of the next byte in the file.
    offset: u64,
    /// Number of bytes that remain. `None` if the records extend to the end of the file.
    left: Option<u64>,
    packed: Packed,
}

/// A record. If it was compressed, `offset` is that of the compressed record.
pub(super) struct Record {
    pub(super) kind: u32,
    pub(super) offset: u64,
    /// The bytes after the header of the record.
    pub(super) body: Vec<u8>,
}

/// Records that are compressed. They form one stream, so a record can begin in one piece and end
/// in another.
#[derive(Default)]
struct Packed {
    decoder: Option<Decoder<'static>>,
    /// The compressed piece. Its first `used` bytes have been decompressed.
    piece: Vec<u8>,
    used: usize,
    /// Offset of the piece in the file.
    offset: u64,
    /// The decompressed bytes. The records in the first `taken` bytes have been returned.
    plain: Vec<u8>,
    taken: usize,
    /// Whether the decompressor may hold more bytes, because it filled the last step.
    is_full: bool,
}

impl Records {
    /// Prepares for reading the records of a file.
    pub(super) fn new(
        mut source: Box<dyn ReadSeek>,
        header: &Header,
    ) -> Result<Self, TraceFileError> {
        let (offset, left) = header.records;
        source.seek(SeekFrom::Start(offset))?;
        Ok(Self {
            source: BufReader::with_capacity(256 << 10, source),
            endian: header.endian,
            offset,
            left,
            packed: Packed::default(),
        })
    }

    /// Returns the next record, or `None` at the end.
    ///
    /// # Errors
    /// Returns an error if the next record cannot be found.
    pub(super) fn next(&mut self) -> Result<Option<Record>, TraceFileError> {
        loop {
            if let Some(record) = self.packed.next(self.endian)? {
                return Ok(Some(record));
            }
            let Some(mut record) = self.next_in_file()? else {
                return Ok(None);
            };
            match record.kind {
                kind::COMPRESSED => self.packed.add(record.body, record.offset),
                kind::COMPRESSED_2 => {
                    let size = record.body.first_chunk();
                    let size = size.map(|size| self.endian.u64(*size) as usize);
                    record.body.drain(..HEAD.min(record.body.len()));
                    record.body.truncate(size.unwrap_or(0));
                    self.packed.add(record.body, record.offset);
                }
                // The trace of the processor follows the record.
                kind::AUXTRACE => {
                    let size = record.body.first_chunk();
                    self.skip(size.map_or(0, |size| self.endian.u64(*size)))?;
                }
                _ => return Ok(Some(record)),
            }
        }
    }

    fn next_in_file(&mut self) -> Result<Option<Record>, TraceFileError> {
        if self.left.is_some_and(|left| left < HEAD as u64) {
            return Ok(None);
        }
        let offset = self.offset;
        let mut head = [0; HEAD];
        match self.source.read_exact(&mut head) {
            Ok(()) => (),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let Some((kind, size)) = head_of(head, self.endian) else {
            return Err(damaged(offset, "a record has less than 8 bytes"));
        };
        self.offset += HEAD as u64;
        let body = self.body(size - HEAD)?;
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(size as u64);
        }
        Ok(Some(Record { kind, offset, body }))
    }

    /// Reads bytes that belong to a record. A size of a damaged file allocates at most 64 KiB.
    fn body(&mut self, size: usize) -> Result<Vec<u8>, TraceFileError> {
        let mut body = vec![0; size];
        match self.source.read_exact(&mut body) {
            Ok(()) => (),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(damaged(self.offset, "the file ends inside this record"));
            }
            Err(error) => return Err(error.into()),
        }
        self.offset += size as u64;
        Ok(body)
    }

    fn skip(&mut self, size: u64) -> Result<(), TraceFileError> {
        let by = i64::try_from(size);
        let by = by.map_err(|_| damaged(self.offset, "impossible size of trace data"))?;
        self.source.seek_relative(by)?;
        self.offset = self.offset.saturating_add(size);
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(size);
        }
        Ok(())
    }

    /// Passes the bytes after the last record to `read`, and continues behind them.
    pub(super) fn attached<T>(
        &mut self,
        size: u64,
        read: impl FnOnce(&mut dyn Read, u64) -> Result<T, TraceFileError>,
    ) -> Result<T, TraceFileError> {
        let mut part = self.source.by_ref().take(size);
        let value = read(&mut part, self.offset)?;
        #[expect(clippy::disallowed_methods, reason = "the part is limited")]
        io::copy(&mut part, &mut io::sink())?;
        self.offset = self.offset.saturating_add(size);
        Ok(value)
    }
}

/// Returns the type and size of a record, or `None` if the size is impossible.
fn head_of(head: [u8; HEAD], endian: Endian) -> Option<(u32, usize)> {
    let [a, b, c, d, _, _, g, h] = head;
    let size = usize::from(endian.u16([g, h]));
    (size >= HEAD).then_some((endian.u32([a, b, c, d]), size))
}

fn damaged(offset: u64, what: &str) -> TraceFileError {
    TraceFileError::Damaged {
        offset,
        what: what.to_owned(),
    }
}

impl Packed {
    fn add(&mut self, piece: Vec<u8>, offset: u64) {
        (self.piece, self.used, self.offset) = (piece, 0, offset);
    }

    /// Returns the next record that is completely decompressed, or `None` if the piece is used up.
    fn next(&mut self, endian: Endian) -> Result<Option<Record>, TraceFileError> {
        loop {
            let rest = self.plain.get(self.taken..).unwrap_or_default();
            if let Some(head) = rest.first_chunk() {
                let Some((kind, size)) = head_of(*head, endian) else {
                    return Err(damaged(
                        self.offset,
                        "a compressed record has less than 8 bytes",
                    ));
                };
                if let Some(body) = rest.get(HEAD..size) {
                    let body = body.to_vec();
                    self.taken += size;
                    let offset = self.offset;
                    return Ok(Some(Record { kind, offset, body }));
                }
            }
            if !self.decompress()? {
                return Ok(None);
            }
        }
    }

    /// Decompresses more of the piece. Returns `false` if it is used up.
    fn decompress(&mut self) -> Result<bool, TraceFileError> {
        let packed = self.piece.get(self.used..).unwrap_or_default();
        if packed.is_empty() && !self.is_full {
            return Ok(false);
        }
        self.plain.drain(..self.taken);
        self.taken = 0;
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => {
                let mut decoder = Decoder::new()?;
                decoder.set_parameter(zstd::zstd_safe::DParameter::WindowLogMax(WINDOW))?;
                none.insert(decoder)
            }
        };
        let begin = self.plain.len();
        self.plain.resize(begin + STEP, 0);
        let mut input = InBuffer::around(packed);
        let mut output = OutBuffer::around_pos(self.plain.as_mut_slice(), begin);
        let result = decoder.run(&mut input, &mut output);
        let (used, end) = (input.pos(), output.pos());
        self.used += used;
        self.is_full = end == begin + STEP;
        self.plain.truncate(end);
        result.map_err(|error| damaged(self.offset, &format!("bad compressed record: {error}")))?;
        // Without progress, the piece does not continue the stream.
        if used == 0 && end == begin {
            self.used = self.piece.len();
        }
        Ok(true)
    }
}
