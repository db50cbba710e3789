//! Decodes records into typed events.

use punctual_model::{EventKind, EventSpec, KernelEvent, Nanos, TraceEvent, Vector};

use super::fields::{Fields, Texts};
use super::format::{FieldPosition, Format};
use super::requested::Requested;
use crate::clock::ClockMap;
use crate::ring::{Layout, Page, PageRecord};

/// The decoder for the records of one event.
#[derive(Clone, Debug)]
enum Known {
    /// An event that is in the model's table.
    Typed {
        positions: Vec<FieldPosition>,
        vector: Vector,
        event: KernelEvent,
    },
    /// Any other event.
    Requested(Requested),
}

/// Decodes records into typed events. Skips unregistered events.
#[derive(Clone, Debug)]
pub struct Decoder {
    layout: Layout,
    /// Indexed by `common_type`.
    known: Vec<Option<Known>>,
    texts: Texts,
    text_begin: u64,
}

/// The common fields of all records (`struct trace_entry` in `include/linux/trace_events.h`),
/// unchanged since Linux 2.6.31.
const COMMON: [(&str, usize, usize); 4] = [
    ("common_type", 0, 2),
    ("common_flags", 2, 1),
    ("common_preempt_count", 3, 1),
    ("common_pid", 4, 4),
];
const COMMON_BYTES: usize = 8;

/// Checks that the common fields are at their usual positions. If not, `Err` contains the first
/// field that differs.
fn begins_as_all(format: &Format) -> Result<(), &'static str> {
    for (name, offset, size) in COMMON {
        let place = format.position(name).ok_or(name)?;
        if !place.is_at(offset, size) {
            return Err(name);
        }
    }
    Ok(())
}

impl Decoder {
    /// Creates a decoder without events. `text_begin` is the address of the kernel's `_stext`, if
    /// known.
    pub fn new(layout: Layout, text_begin: Option<u64>) -> Self {
        Self {
            layout,
            known: Vec::new(),
            texts: Texts::default(),
            text_begin: text_begin.unwrap_or(0),
        }
    }

    /// Returns the layout of the pages that this decoder reads.
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Registers an event from the model's table, using its `format` file.
    ///
    /// # Errors
    /// Returns the name of a field that is missing, or of a common field that is at an unexpected
    /// position.
    pub fn learn(&mut self, spec: &EventSpec, format: &Format) -> Result<(), &'static str> {
        begins_as_all(format)?;
        let places = spec
            .fields
            .iter()
            .map(|name| format.position(name).ok_or(*name));
        let ending = spec.name.strip_prefix('*');
        let vector = ending.and_then(|ending| format.name.strip_suffix(ending));
        let known = Known::Typed {
            positions: places.collect::<Result<_, _>>()?,
            vector: Vector::named(vector.unwrap_or_default()),
            event: spec.event,
        };
        self.register(format.id, known);
        Ok(())
    }

    /// Registers any event under its full name, using its `format` file. On failure, `Err` contains
    /// the missing field.
    pub(crate) fn learn_requested(
        &mut self,
        full_name: &str,
        format: &Format,
    ) -> Result<(), &'static str> {
        begins_as_all(format)?;
        let known = Known::Requested(Requested::from_format(full_name, format));
        self.register(format.id, known);
        Ok(())
    }

    fn register(&mut self, id: u16, known: Known) {
        let id = usize::from(id);
        if self.known.len() <= id {
            self.known.resize(id + 1, None);
        }
        self.known[id] = Some(known);
    }

    /// Decodes one record. Returns `None` if its event is not registered, or if it is truncated.
    #[inline]
    fn kind(&mut self, data: &[u8]) -> Option<EventKind> {
        let id = self.layout.unsigned(data.get(..2)?) as usize;
        match self.known.get(id)?.as_ref()? {
            Known::Typed {
                positions: places,
                vector,
                event,
            } => {
                let mut fields = Fields {
                    layout: &self.layout,
                    record: data,
                    positions: places,
                    texts: &mut self.texts,
                    text_begin: self.text_begin,
                };
                event.decode(&mut fields, vector)
            }
            Known::Requested(requested) => Some(requested.decode(&self.layout, data)),
        }
    }

    /// Decodes one record as an event of `cpu`. Returns `None` if its event is not registered, or
    /// if it is truncated.
    #[inline]
    pub fn event(&mut self, cpu: u32, time: Nanos, data: &[u8]) -> Option<TraceEvent> {
        let head: &[u8; COMMON_BYTES] = data.first_chunk()?;
        let kind = self.kind(data)?;
        let pid = self.layout.u32([head[4], head[5], head[6], head[7]]);
        Some(TraceEvent {
            time,
            cpu,
            pid,
            flags: head[2],
            preempt_count: head[3],
            kind,
        })
    }

    /// Decodes the events of a page and passes each one to `take`, with its time on
    /// CLOCK_MONOTONIC. Records are not decoded if `wanted` rejects their time.
    pub fn page(
        &mut self,
        page: &Page<'_>,
        cpu: u32,
        clock: ClockMap,
        wanted: impl Fn(Nanos) -> bool,
        mut take: impl FnMut(TraceEvent),
    ) {
        for PageRecord { time, data } in page.records() {
            let time = clock.monotonic(time);
            if wanted(time)
                && let Some(event) = self.event(cpu, time, data)
            {
                take(event);
            }
        }
    }
}
