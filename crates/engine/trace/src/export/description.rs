//! The kernel's description of raw pages, with which they can be read later or on another machine.

use punctual_model::{EVENTS, from_json, to_json};
use serde::{Deserialize, Serialize};

use crate::clock::ClockMap;
use crate::event::Format;
use crate::flight::Flight;
use crate::ring::Layout;
use crate::{Decoder, TraceError};

/// A kernel's description of its pages and events, which can be used without this kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Content of `events/header_page`.
    pub header_page: String,
    /// Content of `events/header_event`.
    pub header_event: String,
    /// Size of a page of the ring buffer in bytes.
    pub page_bytes: u64,
    /// Whether numbers are big-endian.
    pub big_endian: bool,
    /// Content of `trace_clock`, in which the active clock is in brackets.
    pub trace_clock: String,
    /// Offset from trace time to CLOCK_MONOTONIC, in ns.
    pub clock_offset_ns: i64,
    /// Number of CPUs, up to and including the last recorded CPU.
    pub cpus: u32,
    /// The `format` files of the recorded events, and of the events that tracers write (system
    /// `ftrace`).
    pub formats: Vec<FormatText>,
}

/// One `format` file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormatText {
    /// Trace system of the event, which is the name of the folder that contains the event's folder.
    pub system: String,
    /// Content of the file.
    pub text: String,
}

/// The trace system of the tracers' own events.
pub(crate) const FTRACE: &str = "ftrace";

impl Flight {
    /// Returns the kernel's description of this recorder's pages.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read.
    pub fn describe(&self) -> Result<Description, TraceError> {
        let tracefs = self.tracefs();
        let read = |name: &str| tracefs.text(&tracefs.file(name));
        let format = |folder: &str| -> Result<FormatText, TraceError> {
            let system = folder.split('/').next().unwrap_or_default();
            Ok(FormatText {
                system: system.to_owned(),
                text: read(&format!("events/{folder}/format"))?,
            })
        };
        let own = tracefs.files().names(&tracefs.file("events/ftrace"));
        // The marks are `print` events. The other events are never written, but programs that read
        // the file require their formats.
        let own = own.unwrap_or_default().into_iter();
        let own = own.map(|name| format!("{FTRACE}/{name}"));
        let own = own.filter_map(|folder| format(&folder).ok());
        let formats = self.folders().map(format).chain(own.map(Ok));
        Ok(Description {
            header_page: read("events/header_page")?,
            header_event: read("events/header_event")?,
            page_bytes: self.decoder.layout().page_bytes as u64,
            big_endian: self.decoder.layout().big_endian,
            trace_clock: tracefs.text(&self.file("trace_clock"))?,
            clock_offset_ns: self.clock.offset_ns,
            cpus: self.cpus().max().map_or(0, |last| last + 1),
            formats: formats.collect::<Result<_, _>>()?,
        })
    }
}

to_json!(Description);
from_json!(Description);

impl Description {
    /// Adds the events of another recorder of the same kernel, so that one file can describe the
    /// pages of both.
    pub fn add_events_of(&mut self, other: Self) {
        for format in other.formats {
            if !self.formats.contains(&format) {
                self.formats.push(format);
            }
        }
        self.cpus = self.cpus.max(other.cpus);
    }

    /// Creates a decoder for the described pages.
    ///
    /// # Errors
    /// Returns an error if the layout is unknown.
    pub fn decoder(&self) -> Result<Decoder, TraceError> {
        let mut decoder = Decoder::new(self.layout()?, None);
        for FormatText { system, text } in &self.formats {
            let Some(format) = Format::parse(text) else {
                continue;
            };
            let fits = |name: &str| match name.strip_prefix('*') {
                Some(ending) => format.name.ends_with(ending),
                None => format.name == name,
            };
            let spec = EVENTS
                .iter()
                .find(|spec| spec.system == system && fits(spec.name));
            if let Some(spec) = spec {
                // If an event cannot be decoded now, it could not be decoded during the recording
                // either.
                let _ = decoder.learn(spec, &format);
            }
        }
        Ok(decoder)
    }

    /// Returns the layout of the pages.
    ///
    /// # Errors
    /// Returns an error if the layout is unknown.
    pub fn layout(&self) -> Result<Layout, TraceError> {
        let layout = Layout::parse(&self.header_page)?;
        let page_bytes = usize::try_from(self.page_bytes).unwrap_or(0);
        Ok(Layout {
            big_endian: self.big_endian,
            ..layout.with_page_bytes(page_bytes)
        })
    }

    /// Returns the conversion from trace times to CLOCK_MONOTONIC.
    pub fn clock(&self) -> ClockMap {
        ClockMap {
            offset_ns: self.clock_offset_ns,
            ..ClockMap::default()
        }
    }
}
