//! The options of a `trace.dat`, which are short records between the parts of the file.

use std::collections::BTreeMap;

use super::clock::{Shift, Tsc};
use super::limits::{MOST_BUFFERS, MOST_CPUS, MOST_REGIONS, MOST_WARNINGS};
use super::parser::{Endian, Parser, text};
use crate::{Guest, TraceFileError, TraceSession};

/// Numbers of the options that are read. The other options are of no use for examining latency:
/// procmaps, hooks, and the version of trace-cmd.
pub(super) mod id {
    pub(in super::super) const DONE: u16 = 0;
    pub(super) const DATE: u16 = 1;
    pub(super) const CPUSTAT: u16 = 2;
    pub(in super::super) const BUFFER: u16 = 3;
    pub(super) const TRACECLOCK: u16 = 4;
    pub(super) const UNAME: u16 = 5;
    pub(super) const OFFSET: u16 = 7;
    pub(super) const CPUCOUNT: u16 = 8;
    pub(super) const TRACEID: u16 = 11;
    pub(super) const TIME_SHIFT: u16 = 12;
    pub(super) const GUEST: u16 = 13;
    pub(super) const TSC2NSEC: u16 = 14;
    pub(in super::super) const HEADER_INFO: u16 = 16;
    pub(in super::super) const FTRACE_EVENTS: u16 = 17;
    pub(in super::super) const EVENT_FORMATS: u16 = 18;
    pub(in super::super) const KALLSYMS: u16 = 19;
    pub(in super::super) const PRINTK: u16 = 20;
    pub(in super::super) const BUFFER_TEXT: u16 = 22;
}

/// The part of the file that contains the pages of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) cpu: u32,
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// A trace buffer: the top-level buffer, or the buffer of an instance.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    /// File offset of the part that describes this buffer.
    pub(super) offset: u64,
    /// Name of the instance. Empty for the top-level buffer.
    pub(super) name: String,
    pub(super) clock: Option<String>,
    pub(super) page_bytes: usize,
    pub(super) regions: Vec<Region>,
    pub(super) is_packed: bool,
    pub(super) is_text: bool,
}

/// The content of the options.
#[derive(Debug, Default)]
pub(super) struct Options {
    /// The clock. In version 6, it may instead follow the table of CPUs.
    pub(super) clock: Option<String>,
    pub(super) has_clock: bool,
    /// Release of the kernel.
    pub(super) kernel: Option<String>,
    pub(super) machine: Option<String>,
    /// Offset to add to all times, in ns.
    pub(super) offset_ns: i64,
    pub(super) cpus: Option<u32>,
    /// The kernel's statistics about the buffer of each CPU.
    pub(super) stats: Vec<String>,
    pub(super) buffers: Vec<Buffer>,
    pub(super) tsc: Option<Tsc>,
    pub(super) shift: Shift,
    /// ID of the trace.
    pub(super) id: Option<u64>,
    /// The guests that were recorded together with this trace.
    pub(super) guests: Vec<Guest>,
    /// File offsets of the sections, by their numbers (only in version 7).
    pub(super) sections: BTreeMap<u16, u64>,
    pub(super) warnings: Vec<String>,
}

impl Options {
    /// Returns the recording session of the trace.
    pub(super) fn session(&self) -> TraceSession {
        TraceSession {
            id: self.id,
            host: self.shift.peer(),
            shifted: self.shift.measured().collect(),
            guests: self.guests.clone(),
            calibration: self.tsc.map(Tsc::calibration),
            offset_ns: self.offset_ns,
        }
    }

    /// Reads options up to the end of this part. In version 7, returns the offset of the next
    /// options.
    pub(super) fn read(
        &mut self,
        parser: &mut Parser<'_>,
        has_sections: bool,
    ) -> Result<u64, TraceFileError> {
        loop {
            let option = parser.u16()?;
            if option == id::DONE && !has_sections {
                return Ok(0);
            }
            let offset = parser.offset();
            let size = parser.u32()?;
            let data = parser.bytes(size.into())?;
            if option == id::DONE {
                return Parser::option(data, parser.endian(), offset).u64();
            }
            if let Err(error) = self.take(option, data, parser.endian(), offset, has_sections)
                && self.warnings.len() < MOST_WARNINGS
            {
                self.warnings
                    .push(format!("skipped option {option}: {error}"));
            }
        }
    }

    fn take(
        &mut self,
        option: u16,
        data: Vec<u8>,
        endian: Endian,
        offset: u64,
        has_sections: bool,
    ) -> Result<(), TraceFileError> {
        match option {
            id::DATE => {
                let offset_us = number(&text(&data)).unwrap_or(0);
                let offset_ns = offset_us.saturating_mul(1_000);
                self.offset_ns = self.offset_ns.wrapping_add(offset_ns);
            }
            id::OFFSET => {
                let offset_ns = number(&text(&data)).unwrap_or(0);
                self.offset_ns = self.offset_ns.wrapping_add(offset_ns);
            }
            // The kernel has one text for each CPU.
            id::CPUSTAT if self.stats.len() < MOST_CPUS as usize => self.stats.push(text(&data)),
            id::TRACECLOCK => {
                self.has_clock = true;
                self.clock = self.clock.take().or(selected(&text(&data)));
            }
            // The text consists of `Linux`, the host name, the release and the architecture.
            id::UNAME => {
                let text = text(&data);
                let mut words = text.split_whitespace().skip(2).map(str::to_owned);
                (self.kernel, self.machine) = (words.next(), words.next());
            }
            _ => {
                let mut parser = Parser::option(data, endian, offset);
                match option {
                    id::CPUCOUNT => self.cpus = Some(parser.u32()?),
                    id::TRACEID => self.id = Some(parser.u64()?),
                    id::GUEST => {
                        refuse_beyond(self.guests.len(), MOST_BUFFERS, "guests", offset)?;
                        self.guests.push(guest(&mut parser)?);
                    }
                    id::TIME_SHIFT => self.shift = Shift::read(&mut parser)?,
                    id::TSC2NSEC => self.tsc = Tsc::read(&mut parser)?,
                    id::BUFFER | id::BUFFER_TEXT => {
                        refuse_beyond(self.buffers.len(), MOST_BUFFERS, "buffers", offset)?;
                        let is_text = option == id::BUFFER_TEXT;
                        let before = self.buffers.iter().map(|buffer| buffer.regions.len()).sum();
                        let buffer = Buffer::read(&mut parser, has_sections, is_text, before)?;
                        self.buffers.push(buffer);
                    }
                    id::HEADER_INFO..=id::PRINTK if has_sections => {
                        self.sections.insert(option, parser.u64()?);
                    }
                    _ => (),
                }
            }
        }
        Ok(())
    }
}

/// Refuses an entry if there are already `most`.
fn refuse_beyond(count: usize, most: usize, what: &str, offset: u64) -> Result<(), TraceFileError> {
    if count < most {
        return Ok(());
    }
    Err(TraceFileError::Damaged {
        offset,
        what: format!("the file has more than {most} {what}"),
    })
}

/// Reads the option GUEST.
fn guest(parser: &mut Parser<'_>) -> Result<Guest, TraceFileError> {
    let mut guest = Guest {
        name: parser.name()?,
        id: parser.u64()?,
        vcpus: BTreeMap::new(),
    };
    for place in 0..parser.u32()? {
        let offset = parser.offset();
        refuse_beyond(place as usize, MOST_CPUS as usize, "virtual CPUs", offset)?;
        let cpu = parser.u32()?;
        guest.vcpus.insert(cpu, parser.u32()?);
    }
    Ok(guest)
}

impl Buffer {
    fn read(
        parser: &mut Parser<'_>,
        has_sections: bool,
        is_text: bool,
        regions_before: usize,
    ) -> Result<Self, TraceFileError> {
        let mut buffer = Self {
            offset: parser.u64()?,
            name: parser.name()?,
            is_text,
            ..Self::default()
        };
        if !has_sections {
            return Ok(buffer);
        }
        // The text is either just `local` or the content of `trace_clock`, such as `[local] global
        // ...`.
        let clock = parser.name()?;
        buffer.clock = selected(&clock).or(Some(clock).filter(|clock| !clock.is_empty()));
        if is_text {
            return Ok(buffer);
        }
        buffer.page_bytes = parser.u32()? as usize;
        for _ in 0..parser.u32()? {
            let count = regions_before + buffer.regions.len();
            refuse_beyond(count, MOST_REGIONS, "CPUs in all buffers", parser.offset())?;
            buffer.regions.push(Region {
                cpu: parser.u32()?,
                offset: parser.u64()?,
                size: parser.u64()?,
            });
        }
        Ok(buffer)
    }
}

/// Returns the clock that is in brackets, such as `local` for `[local] global counter`.
pub(super) fn selected(clocks: &str) -> Option<String> {
    let (_, rest) = clocks.split_once('[')?;
    let (clock, _) = rest.split_once(']')?;
    Some(clock.to_owned())
}

/// Reads a decimal or hexadecimal number, with an optional sign.
fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    let (digits, is_negative) = match text.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (text.strip_prefix('+').unwrap_or(text), false),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    let value = value as i64;
    Some(if is_negative {
        value.wrapping_neg()
    } else {
        value
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_decimal_or_hexadecimal() {
        assert_eq!(number("0x10\n"), Some(16));
        assert_eq!(number("-0x10"), Some(-16));
        assert_eq!(number(" 12"), Some(12));
        assert_eq!(number("-"), None);
        assert_eq!(
            selected("local [x86-tsc] mono\n").as_deref(),
            Some("x86-tsc")
        );
        assert_eq!(selected("local"), None);
    }
}
