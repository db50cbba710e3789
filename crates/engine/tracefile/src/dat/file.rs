//! Reads the structure of a `trace.dat`, that is, the positions of its parts.
//!
//! Source: trace-cmd.dat.v6(5), trace-cmd.dat.v7(5).

use std::io::{BufReader, SeekFrom};

use super::limits::{MOST_BYTES, MOST_CPUS, MOST_REGIONS, MOST_SECTIONS};
use super::meta::Meta;
use super::options::{Buffer, Options, Region, id, selected};
use super::packing::Packing;
use super::parser::{Endian, Parser};
use crate::TraceFileError;
use crate::input::{DAT_MAGIC, ReadSeek};

/// The content of a file except the pages.
pub(super) struct DatFile {
    pub(super) version: u8,
    pub(super) packing: Packing,
    pub(super) endian: Endian,
    pub(super) meta: Meta,
    pub(super) options: Options,
    /// Size of the whole file in bytes.
    pub(super) size: u64,
    /// In files of latency tracers, the part of the file that contains text.
    pub(super) text: Option<Region>,
    pub(super) is_text_packed: bool,
    pub(super) warnings: Vec<String>,
    /// Number of bytes that the sections may still have when they are decompressed.
    unpacked_left: u64,
}

impl DatFile {
    /// Reads everything except the pages.
    pub(super) fn read(source: &mut dyn ReadSeek) -> Result<Self, TraceFileError> {
        let size = source.seek(SeekFrom::End(0))?;
        let mut file = Self {
            version: 0,
            packing: Packing::None,
            endian: Endian { is_big: false },
            meta: Meta::default(),
            options: Options::default(),
            size,
            text: None,
            is_text_packed: false,
            warnings: Vec::new(),
            unpacked_left: MOST_BYTES,
        };
        source.seek(SeekFrom::Start(0))?;
        let mut parser = Parser::new(BufReader::new(&mut *source), file.endian, 0);
        parser.bytes(DAT_MAGIC.len() as u64)?;
        let version = parser.name()?;
        file.version = match version.as_str() {
            "6" => 6,
            "7" => 7,
            _ => return Err(TraceFileError::Version { version }),
        };
        file.endian.is_big = match parser.u8()? {
            0 => false,
            1 => true,
            other => {
                return Err(parser.damaged(format!("the byte order is {other} instead of 0 or 1")));
            }
        };
        parser.set_endian(file.endian);
        // Skip the size of a long in user space. The pages use the size of a long in the kernel,
        // which is in header_page.
        parser.u8()?;
        let page_bytes = parser.u32()? as usize;
        match file.version {
            6 => file.read_version_6(&mut parser, page_bytes)?,
            _ => {
                file.packing = Packing::read(&mut parser)?;
                let options = parser.u64()?;
                drop(parser);
                return file.read_version_7(source, options);
            }
        }
        drop(parser);
        file.read_instances(source, page_bytes);
        Ok(file)
    }

    /// Reads all parts of a version 6 file, which are in a fixed order.
    fn read_version_6(
        &mut self,
        parser: &mut Parser<'_>,
        page_bytes: usize,
    ) -> Result<(), TraceFileError> {
        self.meta.read_header(parser)?;
        self.meta.read_ftrace(parser)?;
        self.meta.read_events(parser)?;
        self.meta.read_symbols(parser)?;
        self.meta.read_printk(parser)?;
        // Skip the thread names, because the events contain all names that are needed.
        parser.text64()?;
        let cpus = parser.u32()?;
        let mut tag = parser.bytes(10)?;
        if tag == b"options  \0" {
            self.options.read(parser, false)?;
            tag = parser.bytes(10)?;
        }
        match tag.as_slice() {
            b"flyrecord\0" => (),
            b"latency  \0" => {
                let offset = parser.offset();
                self.text = Some(Region {
                    cpu: 0,
                    offset,
                    size: self.size.saturating_sub(offset),
                });
                return Ok(());
            }
            _ => {
                return Err(parser.damaged(
                    "the tag before this byte does not begin the data of \
                the CPUs",
                ));
            }
        }
        let cpus = *self.options.cpus.get_or_insert(cpus);
        let regions = regions(parser, cpus)?;
        if self.options.has_clock
            && let Ok(clock) = parser.text64()
        {
            self.options.clock = selected(&clock).or(self.options.clock.take());
        }
        let clock = self.options.clock.clone();
        let buffer = Buffer {
            clock,
            page_bytes,
            regions,
            ..Buffer::default()
        };
        self.options.buffers.insert(0, buffer);
        Ok(())
    }

    /// Reads the positions of the pages of all instances from a version 6 file.
    fn read_instances(&mut self, source: &mut dyn ReadSeek, page_bytes: usize) {
        let cpus = self.options.cpus.unwrap_or(0);
        let has_clock = self.options.has_clock;
        let mut left = MOST_REGIONS.saturating_sub(cpus as usize);
        for buffer in self.options.buffers.iter_mut().skip(1) {
            buffer.page_bytes = page_bytes;
            let mut read = || -> Result<(), TraceFileError> {
                left = left
                    .checked_sub(cpus as usize)
                    .ok_or_else(|| too_many_regions(buffer.offset))?;
                source.seek(SeekFrom::Start(buffer.offset))?;
                let mut parser =
                    Parser::new(BufReader::new(&mut *source), self.endian, buffer.offset);
                parser.expect("flyrecord\0")?;
                buffer.regions = regions(&mut parser, cpus)?;
                buffer.clock = has_clock.then(|| parser.text64().ok()).flatten();
                buffer.clock = buffer.clock.take().and_then(|clocks| selected(&clocks));
                Ok(())
            };
            if let Err(error) = read() {
                let name = &buffer.name;
                self.warnings
                    .push(format!("cannot read the buffer {name}: {error}"));
            }
        }
    }

    /// Reads the sections of a version 7 file.
    fn read_version_7(
        mut self,
        source: &mut dyn ReadSeek,
        mut next: u64,
    ) -> Result<Self, TraceFileError> {
        let mut seen = Vec::new();
        while next != 0 {
            if seen.contains(&next) || seen.len() > MOST_SECTIONS {
                self.warnings
                    .push(format!("the options at byte {next} appear twice"));
                break;
            }
            seen.push(next);
            let read = self.section(source, next, id::DONE);
            let read = read.and_then(|mut parser| self.options.read(&mut parser, true));
            next = match read {
                Ok(next) => next,
                // If the first options cannot be read, nothing else can be found.
                Err(error) if seen.len() == 1 => return Err(error),
                Err(error) => {
                    self.warnings
                        .push(format!("cannot read more options: {error}"));
                    break;
                }
            };
        }
        let at = |id| self.options.sections.get(&id).copied();
        let header = at(id::HEADER_INFO).ok_or(TraceFileError::Damaged {
            offset: seen.first().copied().unwrap_or(0),
            what: "the options do not refer to a section with the page layout".to_owned(),
        })?;
        let mut parser = self.section(source, header, id::HEADER_INFO)?;
        self.meta.read_header(&mut parser)?;
        drop(parser);
        type Read = fn(&mut Meta, &mut Parser<'_>) -> Result<(), TraceFileError>;
        let parts: [(u16, Read); 4] = [
            (id::FTRACE_EVENTS, Meta::read_ftrace),
            (id::EVENT_FORMATS, Meta::read_events),
            (id::KALLSYMS, Meta::read_symbols),
            (id::PRINTK, Meta::read_printk),
        ];
        for (id, read) in parts {
            let Some(offset) = self.options.sections.get(&id).copied() else {
                continue;
            };
            let section = self.section(source, offset, id);
            if let Err(error) = section.and_then(|mut parser| read(&mut self.meta, &mut parser)) {
                self.warnings
                    .push(format!("cannot read a section: {error}"));
            }
        }
        for buffer in &mut self.options.buffers {
            match part(source, buffer.offset, self.endian) {
                Ok((flags, size)) => {
                    buffer.is_packed = flags & PACKED != 0;
                    if buffer.is_text {
                        self.text.get_or_insert(Region {
                            cpu: 0,
                            offset: buffer.offset.saturating_add(SectionHeader::BYTES),
                            size,
                        });
                        self.is_text_packed = buffer.is_packed;
                    }
                }
                Err(error) => {
                    buffer.regions.clear();
                    let name = &buffer.name;
                    self.warnings
                        .push(format!("cannot read the buffer {name:?}: {error}"));
                }
            }
        }
        Ok(self)
    }

    /// Returns a parser for the content of a section.
    fn section<'a>(
        &mut self,
        source: &'a mut dyn ReadSeek,
        offset: u64,
        expected: u16,
    ) -> Result<Parser<'a>, TraceFileError> {
        source.seek(SeekFrom::Start(offset))?;
        let mut parser = Parser::new(BufReader::new(source), self.endian, offset);
        let header = SectionHeader::read(&mut parser)?;
        if header.id != expected {
            let found = header.id;
            return Err(parser.damaged(format!("expected section {expected}, found {found}")));
        }
        if header.flags & PACKED == 0 {
            return Ok(parser);
        }
        let (packed, size) = (parser.u32()?, parser.u32()?);
        let offset = parser.offset();
        let packed = parser.bytes(packed.into())?;
        let unpacked = self.packing.section(&packed, size, &mut self.unpacked_left);
        let unpacked = unpacked.map_err(|error| parser.damaged(error))?;
        Ok(Parser::unpacked(unpacked, self.endian, offset))
    }
}

/// Returns the error for a buffer beyond [`MOST_REGIONS`].
fn too_many_regions(offset: u64) -> TraceFileError {
    TraceFileError::Damaged {
        offset,
        what: format!("the buffers have data of more than {MOST_REGIONS} CPUs together"),
    }
}

/// Flag that means that a section is compressed.
const PACKED: u16 = 1;

struct SectionHeader {
    id: u16,
    flags: u16,
    size: u64,
}

impl SectionHeader {
    const BYTES: u64 = 16;

    fn read(parser: &mut Parser<'_>) -> Result<Self, TraceFileError> {
        let (id, flags) = (parser.u16()?, parser.u16()?);
        let (_description, size) = (parser.u32()?, parser.u64()?);
        Ok(Self { id, flags, size })
    }
}

/// Reads the flags and the size of a section.
fn part(
    source: &mut dyn ReadSeek,
    offset: u64,
    endian: Endian,
) -> Result<(u16, u64), TraceFileError> {
    source.seek(SeekFrom::Start(offset))?;
    let mut parser = Parser::new(source, endian, offset);
    let header = SectionHeader::read(&mut parser)?;
    Ok((header.flags, header.size))
}

/// Reads the table with the position of each CPU's data from a version 6 file.
fn regions(parser: &mut Parser<'_>, cpus: u32) -> Result<Vec<Region>, TraceFileError> {
    if cpus > MOST_CPUS {
        return Err(parser.damaged(format!("{cpus} CPUs are more than any kernel supports")));
    }
    let region = |cpu| {
        Ok(Region {
            cpu,
            offset: parser.u64()?,
            size: parser.u64()?,
        })
    };
    (0..cpus).map(region).collect()
}
