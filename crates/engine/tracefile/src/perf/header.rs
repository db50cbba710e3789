//! Reads the header of a `perf.data`, and its sections except the records.

use std::io::{BufReader, SeekFrom};

use super::attr::{Attr, Attrs};
use crate::TraceFileError;
use crate::dat::meta::Meta;
use crate::dat::parser::{Endian, Parser, text};
use crate::input::{DAT_MAGIC, PERF_MAGIC, ReadSeek};

/// Size of the header of a file from a pipe, which has no sections, in bytes.
const PIPE_HEADER: u64 = 16;
/// Size of the header of any other file, in bytes.
const FILE_HEADER: u64 = 104;
/// Maximum size of the attributes of an event, in bytes. Those of Linux 6.18 have 144 bytes.
const LARGEST_ATTR: u64 = 4_096;
/// Maximum length of a text such as the release of the kernel, in bytes.
const LONGEST_TEXT: u32 = 4_096;

/// Numbers of the features that are read (`HEADER_*` in tools/perf/util/header.h).
pub(super) mod feature {
    pub(in crate::perf) const TRACING_DATA: u64 = 1;
    pub(in crate::perf) const OS_RELEASE: u64 = 4;
    pub(in crate::perf) const ARCH: u64 = 6;
    pub(in crate::perf) const CPUS: u64 = 7;
    /// Number of bits for features in the header.
    pub(in crate::perf) const BITS: u64 = 256;
}

/// Everything in a file except its records.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) endian: Endian,
    /// Position of the records, and their size in bytes. `None` if they extend to the end.
    pub(super) records: (u64, Option<u64>),
    pub(super) attrs: Attrs,
    /// The formats of the events. A file from a pipe contains them among its records.
    pub(super) meta: Option<Meta>,
    pub(super) kernel: Option<String>,
    pub(super) machine: Option<String>,
    pub(super) cpus: Option<u32>,
    pub(super) warnings: Vec<String>,
}

/// A part of the file.
#[derive(Clone, Copy, Debug)]
struct Section {
    offset: u64,
    size: u64,
}

impl Section {
    fn read(parser: &mut Parser<'_>) -> Result<Self, TraceFileError> {
        Ok(Self {
            offset: parser.u64()?,
            size: parser.u64()?,
        })
    }

    const fn end(self) -> u64 {
        self.offset.saturating_add(self.size)
    }
}

impl Header {
    /// Reads everything except the records.
    pub(super) fn read(source: &mut dyn ReadSeek) -> Result<Self, TraceFileError> {
        let file_size = source.seek(SeekFrom::End(0))?;
        let mut parser = parser_at(source, Endian { is_big: false }, 0)?;
        let is_big = parser.bytes(8)? == PERF_MAGIC[1];
        let endian = Endian { is_big };
        parser.set_endian(endian);
        let mut header = Self {
            endian,
            records: (PIPE_HEADER, None),
            attrs: Attrs::default(),
            meta: None,
            kernel: None,
            machine: None,
            cpus: None,
            warnings: Vec::new(),
        };
        match parser.u64()? {
            PIPE_HEADER => return Ok(header),
            FILE_HEADER => (),
            other => {
                return Err(parser.damaged(format!(
                    "the header has {other} bytes instead of {PIPE_HEADER} or {FILE_HEADER}"
                )));
            }
        }
        let attr_size = parser.u64()?;
        let attrs = Section::read(&mut parser)?;
        let data = Section::read(&mut parser)?;
        let _event_types = Section::read(&mut parser)?;
        let features: Vec<u64> = (0..feature::BITS / 64)
            .map(|_| parser.u64())
            .collect::<Result<_, _>>()?;
        drop(parser);
        header.read_attrs(source, attrs, attr_size, file_size)?;
        header.records = (data.offset, Some(data.size));
        if data.size == 0 {
            return Err(TraceFileError::Damaged {
                offset: 40,
                what: "the size of the records is 0, because perf record was killed before it \
                       finished the file. Stop it with Ctrl-C or SIGINT"
                    .to_owned(),
            });
        }
        if data.end() > file_size {
            return Err(TraceFileError::Damaged {
                offset: file_size,
                what: format!(
                    "the file ends here, but its records end at byte {}, and the formats of the \
                     events, which follow them, are missing. Copy the whole file",
                    data.end()
                ),
            });
        }
        header.read_features(source, data.end(), &features)?;
        Ok(header)
    }

    /// Reads the attributes of all events.
    fn read_attrs(
        &mut self,
        source: &mut dyn ReadSeek,
        attrs: Section,
        entry: u64,
        file_size: u64,
    ) -> Result<(), TraceFileError> {
        // Each entry ends with the position of the IDs.
        let size = entry.checked_sub(16).filter(|size| *size <= LARGEST_ATTR);
        let Some(size) = size.filter(|size| *size >= 64 && attrs.end() <= file_size) else {
            return Err(TraceFileError::Damaged {
                offset: 16,
                what: format!(
                    "the attributes of the events are {entry} bytes each, at bytes {} to {}",
                    attrs.offset,
                    attrs.end()
                ),
            });
        };
        let mut left = file_size;
        for index in 0..attrs.size / entry {
            let mut parser = parser_at(source, self.endian, attrs.offset + index * entry)?;
            let attr = Attr::read(&mut parser, size)?;
            let ids = Section::read(&mut parser)?;
            let Some(rest) = left.checked_sub(ids.size) else {
                let (offset, size) = (ids.offset, ids.size);
                return Err(parser.damaged(format!("{size} bytes of IDs at byte {offset}")));
            };
            left = rest;
            drop(parser);
            let mut parser = parser_at(source, self.endian, ids.offset)?;
            let ids = parser.bytes(ids.size)?;
            let endian = self.endian;
            let (ids, _) = ids.as_chunks();
            if !self.attrs.add(attr, ids.iter().map(|id| endian.u64(*id))) {
                return Err(parser.damaged("too many different attributes of events"));
            }
        }
        Ok(())
    }

    /// Reads the features, whose positions are in a table behind the records.
    fn read_features(
        &mut self,
        source: &mut dyn ReadSeek,
        table: u64,
        features: &[u64],
    ) -> Result<(), TraceFileError> {
        let has = |feature: &u64| {
            let word = features.get((*feature / 64) as usize).copied();
            word.unwrap_or(0) >> (*feature % 64) & 1 == 1
        };
        for (feature, place) in (0..feature::BITS).filter(has).zip(0_u64..) {
            let mut parser = parser_at(source, self.endian, table.saturating_add(place * 16))?;
            let section = Section::read(&mut parser)?;
            drop(parser);
            let mut parser = parser_at(source, self.endian, section.offset)?;
            if feature == feature::TRACING_DATA {
                self.meta = Some(tracing_data(&mut parser)?);
            } else if let Err(error) = self.read_feature(feature, &mut parser) {
                let warning = format!("cannot read the section {feature} of the header: {error}");
                self.warnings.push(warning);
            }
        }
        Ok(())
    }

    /// Reads a feature other than the formats of the events.
    pub(super) fn read_feature(
        &mut self,
        feature: u64,
        parser: &mut Parser<'_>,
    ) -> Result<(), TraceFileError> {
        match feature {
            feature::OS_RELEASE => self.kernel = Some(short_text(parser)?),
            feature::ARCH => self.machine = Some(short_text(parser)?),
            // The number of online CPUs, which `perf script --header` prints as well, comes first.
            feature::CPUS => self.cpus = Some(parser.u32()?),
            _ => (),
        }
        Ok(())
    }
}

/// Reads a text that is preceded by its size.
fn short_text(parser: &mut Parser<'_>) -> Result<String, TraceFileError> {
    let size = parser.u32()?.min(LONGEST_TEXT);
    Ok(text(&parser.bytes(size.into())?))
}

/// Returns a parser for the bytes at an offset.
fn parser_at(
    source: &mut dyn ReadSeek,
    endian: Endian,
    offset: u64,
) -> Result<Parser<'_>, TraceFileError> {
    source.seek(SeekFrom::Start(offset))?;
    Ok(Parser::new(BufReader::new(source), endian, offset))
}

/// Reads the formats of the events, which are stored like the first part of a `trace.dat`. Their
/// byte order is stated again.
pub(super) fn tracing_data(parser: &mut Parser<'_>) -> Result<Meta, TraceFileError> {
    let offset = parser.offset();
    if parser.bytes(DAT_MAGIC.len() as u64)? != DAT_MAGIC {
        return Err(TraceFileError::Damaged {
            offset,
            what: "the formats of the events do not begin here".to_owned(),
        });
    }
    let (_version, is_big) = (parser.name()?, parser.u8()? == 1);
    parser.set_endian(Endian { is_big });
    let (_long_bytes, _page_bytes) = (parser.u8()?, parser.u32()?);
    let mut meta = Meta::default();
    meta.read_header(parser)?;
    meta.read_ftrace(parser)?;
    meta.read_events(parser)?;
    meta.read_symbols(parser)?;
    meta.read_printk(parser)?;
    Ok(meta)
}
