//! Opens the input that contains a trace, and detects its format from the first bytes.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use punctual_files::Budget;

use crate::TraceFileError;

/// The first bytes of a `trace.dat`, before its version.
pub(crate) const DAT_MAGIC: &[u8] = b"\x17\x08\x44tracing";
/// The first bytes of a `perf.data`, in the byte order of the machine that wrote it.
pub(crate) const PERF_MAGIC: [&[u8]; 2] = [b"PERFILE2", b"2ELIFREP"];
/// Number of bytes to read in order to detect the format.
const BEGINNING: u64 = 512;
/// Maximum memory that the xz decompressor may use, in KiB. `xz -9` needs 65 MiB.
const XZ_KIB: u32 = 100 << 10;

/// Decompressed bytes of a `trace.dat` that are always copied to a temporary file.
const SMALL: u64 = 256 << 20;
/// Above [`SMALL`], the maximum of how many times larger the decompressed trace may be. Traces are
/// about 10 times larger, and a file of zeros 1,000 times or more.
const RATIO: u64 = 100;

/// An input that has not been read yet, which is a file or a stream such as standard input. Either
/// may be compressed with gzip, xz or zstd. The folder of a CTF trace is also an input.
pub struct Input(Content);

enum Content {
    /// A regular file, which can be read from any position.
    File(File),
    Stream(Box<dyn Read>),
    /// A folder that may contain a CTF trace.
    Folder(PathBuf),
}

impl Input {
    /// Opens a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened.
    pub fn path(path: &Path) -> Result<Self, TraceFileError> {
        let refuse = |source| TraceFileError::Open {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(refuse)?;
        let kind = file.metadata().map_err(refuse)?.file_type();
        if kind.is_dir() {
            return Ok(Self(Content::Folder(path.to_owned())));
        }
        Ok(if kind.is_file() {
            Self(Content::File(file))
        } else {
            Self::stream(file)
        })
    }

    /// Returns standard input. If it is a regular file that has not been read yet, it is read like
    /// a named file.
    pub fn stdin() -> Self {
        let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        let is_whole = |mut file: &File| {
            file.metadata().is_ok_and(|of| of.is_file()) && matches!(file.stream_position(), Ok(0))
        };
        match file {
            Ok(file) if is_whole(&file) => Self(Content::File(file)),
            _ => Self::stream(io::stdin()),
        }
    }

    /// Returns an input that reads from any other stream.
    pub fn stream(stream: impl Read + 'static) -> Self {
        Self(Content::Stream(Box::new(stream)))
    }

    /// Decompresses the input and detects its format.
    pub(crate) fn detect(self) -> Result<Detected, TraceFileError> {
        let (file, mut stream) = match self.0 {
            Content::File(file) => {
                let again = file.try_clone()?;
                (Some(file), Box::new(again) as Box<dyn Read>)
            }
            Content::Stream(stream) => (None, stream),
            Content::Folder(folder) => return Ok(Detected::Folder(folder)),
        };
        let mut begin = beginning(&mut stream)?;
        let mut rest: Box<dyn Read> = Box::new(Cursor::new(begin.clone()).chain(stream));
        let packed = Packed::detect(&begin);
        let taken = Rc::new(Cell::new(0));
        if let Some(packed) = packed {
            let counted = Counted {
                stream: rest,
                taken: Rc::clone(&taken),
            };
            rest = packed.reader(BufReader::new(Box::new(counted)))?;
            begin = beginning(&mut rest)?;
            rest = Box::new(Cursor::new(begin.clone()).chain(rest));
        }
        let form = if begin.starts_with(DAT_MAGIC) {
            Form::Dat
        } else if PERF_MAGIC.iter().any(|magic| begin.starts_with(magic)) {
            Form::Perf
        } else if is_perfetto(&begin) {
            Form::Perfetto
        } else {
            return match other_kind(&begin) {
                Some(kind) => Err(TraceFileError::NotATrace { kind }),
                None => Ok(Detected::Text(Box::new(BufReader::new(rest)))),
            };
        };
        match file {
            Some(mut file) if packed.is_none() => {
                file.seek(SeekFrom::Start(0))?;
                Ok(Detected::Binary(form, Box::new(file), None))
            }
            _ => {
                let most = || taken.get().saturating_mul(RATIO).max(SMALL);
                let (copy, warning) = spool(rest, packed.is_some().then_some(&most))?;
                Ok(Detected::Binary(form, copy, warning))
            }
        }
    }
}

/// An input whose format is known.
pub(crate) enum Detected {
    /// A folder that may contain a CTF trace.
    Folder(PathBuf),
    Text(Box<dyn BufRead>),
    /// A file that is not read sequentially, and a warning if it is incomplete.
    Binary(Form, Box<dyn ReadSeek>, Option<String>),
}

/// The form of a file that is not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A `trace.dat`.
    Dat,
    /// A `perf.data`.
    Perf,
    /// A trace of Perfetto.
    Perfetto,
}

/// Returns whether this is the beginning of a trace of Perfetto, which has no magic: its first
/// packet begins with the number of its field and its size, and the number of another field.
fn is_perfetto(begin: &[u8]) -> bool {
    let Some((0x0a, rest)) = begin.split_first() else {
        return false;
    };
    let size = rest.iter().position(|byte| byte & 0x80 == 0);
    let size = size.filter(|size| *size < 4).map_or(0, |size| size + 1);
    let key = rest.get(size).copied();
    let is_key = key.is_some_and(|key| matches!(key & 7, 0 | 1 | 2 | 5) && key >= 8);
    // A text can also begin with a line feed.
    let is_binary = |byte: &u8| *byte < 0x08;
    size > 0 && is_key && begin.iter().any(is_binary)
}

/// An input that can be read from any position.
pub(crate) trait ReadSeek: Read + Seek {}

impl<T: Read + Seek> ReadSeek for T {}

/// Reads the first bytes of a stream.
fn beginning(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    Budget::bytes(BEGINNING).up_to(stream)
}

/// A stream that counts the bytes that are read from it.
struct Counted {
    stream: Box<dyn Read>,
    taken: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(to)?;
        self.taken.set(self.taken.get() + read as u64);
        Ok(read)
    }
}

/// Copies a stream to memory or, if it is large, to an unnamed temporary file. If the stream cannot
/// be read to its end, the part that could be read is kept. `most` is the number of bytes that
/// a decompressed stream may have after those that were read.
fn spool(
    mut stream: Box<dyn Read>,
    most: Option<&dyn Fn() -> u64>,
) -> Result<(Box<dyn ReadSeek>, Option<String>), TraceFileError> {
    const IN_MEMORY: usize = 8 << 20;
    const STEP: usize = 256 << 10;
    let mut copy = tempfile::spooled_tempfile(IN_MEMORY);
    let mut buffer = vec![0; STEP];
    let mut warning = None;
    let mut unpacked = 0;
    loop {
        let read = match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                warning = Some(format!("the input cannot be read to its end: {error}"));
                break;
            }
        };
        let piece = buffer.get(..read).unwrap_or_default();
        unpacked += read as u64;
        if most.is_some_and(|most| unpacked > most()) {
            return Err(TraceFileError::Bomb { unpacked });
        }
        io::Write::write_all(&mut copy, piece).map_err(TraceFileError::Spool)?;
    }
    copy.seek(SeekFrom::Start(0))?;
    Ok((Box::new(copy), warning))
}

/// The compression of a file.
#[derive(Clone, Copy)]
enum Packed {
    Gzip,
    Xz,
    Zstd,
}

impl Packed {
    const ALL: [(Self, &'static [u8]); 3] = [
        (Self::Gzip, b"\x1f\x8b"),
        (Self::Xz, b"\xfd7zXZ\0"),
        (Self::Zstd, b"\x28\xb5\x2f\xfd"),
    ];

    fn detect(begin: &[u8]) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, magic)| begin.starts_with(magic));
        found.map(|(packed, _)| *packed)
    }

    fn reader(self, packed: BufReader<Box<dyn Read>>) -> io::Result<Box<dyn Read>> {
        Ok(match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(packed)),
            Self::Xz => Box::new(XzReader::new_mem_limit(packed, true, XZ_KIB)),
            Self::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(packed)?),
        })
    }
}

/// A file in the folder of a CTF trace.
const STREAM: &str = "one file of a CTF trace: pass its folder instead";

/// If the content is neither text nor a known form of trace, returns the apparent kind of the file and how
/// to get a trace from it.
fn other_kind(begin: &[u8]) -> Option<&'static str> {
    const KNOWN: [(&[u8], &str); 14] = [
        (
            b"\x1f\x8b",
            "gzip data inside compressed data: decompress the outer data first",
        ),
        (
            b"\xfd7zXZ\0",
            "xz data inside compressed data: decompress the outer data first",
        ),
        (
            b"\x28\xb5\x2f\xfd",
            "zstd data inside compressed data: decompress the outer data first",
        ),
        (b"BZh", "bzip2 data: decompress it first"),
        (b"\x04\x22\x4d\x18", "lz4 data: decompress it first"),
        (b"PK\x03\x04", "a zip archive: unpack it first"),
        (b"\x7fELF", "a program"),
        (
            b"SQLite format 3\0",
            "an SQLite database: open a punctual store with --store",
        ),
        (b"\xc1\x1f\xfc\xc1", STREAM),
        (b"\xc1\xfc\x1f\xc1", STREAM),
        (b"\x57\x1d\xd1\x75", STREAM),
        (b"\xff\xfe", "text in UTF-16: convert it to UTF-8 first"),
        (b"\xfe\xff", "text in UTF-16: convert it to UTF-8 first"),
        (b"%PDF", "a PDF file"),
    ];
    if begin.is_empty() {
        return Some("an empty file");
    }
    if let Some((_, kind)) = KNOWN.iter().find(|(magic, _)| begin.starts_with(magic)) {
        return Some(kind);
    }
    if begin.get(257..262) == Some(b"ustar") {
        return Some("a tar archive: unpack it first");
    }
    begin
        .contains(&0)
        .then_some("binary data of an unknown format")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decompressed_copy_is_limited() {
        let zeros = || Box::new(io::repeat(0).take(3 << 20)) as Box<dyn Read>;
        assert!(spool(zeros(), None).is_ok());
        assert!(spool(zeros(), Some(&|| 3 << 20)).is_ok());
        let error = spool(zeros(), Some(&|| 1 << 20)).err().unwrap();
        assert!(
            matches!(error, TraceFileError::Bomb { unpacked } if unpacked < 2 << 20),
            "{error}"
        );
    }
}
