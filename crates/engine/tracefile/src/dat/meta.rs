//! Metadata about the kernel in a `trace.dat`: event formats, functions and constant strings.

use punctual_host::Symbols;
use punctual_trace::{Format, Layout};

use super::limits::{MOST_FORMAT_BYTES, MOST_FORMATS};
use super::parser::Parser;
use crate::TraceFileError;

/// The trace system of the tracers' own events.
pub(crate) const FTRACE: &str = "ftrace";

/// Metadata about the kernel and its events.
#[derive(Debug, Default)]
pub(crate) struct Meta {
    /// Layout of a page. Every valid file contains it.
    pub(crate) layout: Option<Layout>,
    /// The trace system and format of each event.
    pub(crate) formats: Vec<(String, Format)>,
    /// Number of formats that could not be read.
    pub(crate) bad_formats: usize,
    /// Size of the texts of the formats, in bytes.
    format_bytes: usize,
    pub(crate) symbols: Symbols,
    /// Constant strings of the kernel, which events refer to by address. Each is on a line of the
    /// form `0xADDRESS : "TEXT"`.
    pub(crate) printk: String,
}

impl Meta {
    /// Reads the layout of pages and records.
    pub(crate) fn read_header(&mut self, parser: &mut Parser<'_>) -> Result<(), TraceFileError> {
        let offset = parser.offset();
        parser.expect("header_page\0")?;
        let page = parser.text64()?;
        parser.expect("header_event\0")?;
        parser.text64()?;
        let mut layout = Layout::parse(&page).map_err(|error| TraceFileError::Damaged {
            offset,
            what: error.to_string(),
        })?;
        layout.big_endian = parser.endian().is_big;
        self.layout = Some(layout);
        Ok(())
    }

    /// Reads the formats of the tracers' events.
    pub(crate) fn read_ftrace(&mut self, parser: &mut Parser<'_>) -> Result<(), TraceFileError> {
        self.read_formats(FTRACE, parser)
    }

    /// Reads the formats of all other events.
    pub(crate) fn read_events(&mut self, parser: &mut Parser<'_>) -> Result<(), TraceFileError> {
        for _ in 0..parser.u32()? {
            let system = parser.name()?;
            self.read_formats(&system, parser)?;
        }
        Ok(())
    }

    fn read_formats(
        &mut self,
        system: &str,
        parser: &mut Parser<'_>,
    ) -> Result<(), TraceFileError> {
        for _ in 0..parser.u32()? {
            let text = parser.text64()?;
            self.format_bytes += text.len();
            let count = self.formats.len() + self.bad_formats;
            if count == MOST_FORMATS || self.format_bytes > MOST_FORMAT_BYTES {
                return Err(parser.damaged("there are more formats than a kernel can have"));
            }
            match Format::parse(&text) {
                Some(format) => self.formats.push((system.to_owned(), format)),
                None => self.bad_formats += 1,
            }
        }
        Ok(())
    }

    /// Reads the table of the kernel's functions.
    pub(crate) fn read_symbols(&mut self, parser: &mut Parser<'_>) -> Result<(), TraceFileError> {
        self.symbols = Symbols::parse(parser.text32()?.as_bytes());
        Ok(())
    }

    /// Reads the table of the strings of `trace_printk`.
    pub(crate) fn read_printk(&mut self, parser: &mut Parser<'_>) -> Result<(), TraceFileError> {
        self.printk = parser.text32()?;
        Ok(())
    }

    /// Returns whether the file contains the formats of all events of the kernel, even of those
    /// that were not recorded. `trace-cmd extract` writes such files. This checks for two events
    /// that would otherwise not be recorded, because they are of no use for examining latency.
    pub(crate) fn has_all_formats(&self) -> bool {
        let has = |system: &str, name: &str| {
            let mut formats = self.formats.iter();
            formats.any(|(of, format)| of == system && format.name == name)
        };
        has("printk", "console") && has("task", "task_newtask")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_all_events_are_recognised() {
        let format = |system: &str, name: &str| {
            let format = Format::parse(&format!("name: {name}\nID: 7\nformat:\n"));
            (system.to_owned(), format.unwrap())
        };
        let mut meta = Meta::default();
        meta.formats.push(format("sched", "sched_switch"));
        meta.formats.push(format("printk", "console"));
        assert!(!meta.has_all_formats());
        meta.formats.push(format("task", "task_newtask"));
        assert!(meta.has_all_formats());
    }
}
