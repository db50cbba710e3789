//! The second pass: merges the bundles of all CPUs by time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{Read, Seek, SeekFrom};

use punctual_model::{Nanos, Task};
use tempfile::SpooledTempFile;

use super::bundle::Decoder;
use super::packets::{Contents, Place};
use crate::dat::clock::differs;
use crate::item::PERFETTO;
use crate::{Item, TraceFileError, TraceHead, TraceReader};

/// The bundles of a CPU.
struct Stream {
    cpu: u32,
    places: std::vec::IntoIter<Place>,
    items: VecDeque<Item>,
    /// Time of the last item.
    last: Nanos,
    current: Option<Task>,
}

/// A reader of a trace of Perfetto.
pub(super) struct PerfettoReader {
    bundles: SpooledTempFile,
    streams: Vec<Stream>,
    /// For each stream, the time of its next item and its index.
    order: BinaryHeap<Reverse<(Nanos, usize)>>,
    decoder: Decoder,
    head: TraceHead,
    /// Number of events that are earlier than those of the bundle before theirs.
    late: u64,
    is_at_end: bool,
}

impl PerfettoReader {
    pub(super) fn new(contents: Contents) -> Result<Self, TraceFileError> {
        let clock = match contents.clock {
            0 => Some("boot"),
            2 => Some("global"),
            3 => Some("local"),
            4 => Some("mono_raw"),
            _ => None,
        };
        let streams = contents.places.into_iter().map(|(cpu, places)| Stream {
            cpu,
            places: places.into_iter(),
            items: VecDeque::new(),
            last: Nanos::ZERO,
            current: None,
        });
        let mut reader = Self {
            bundles: contents.bundles,
            streams: streams.collect(),
            order: BinaryHeap::new(),
            decoder: Decoder::new(),
            head: TraceHead {
                format: PERFETTO.to_owned(),
                clocks_differ: clock.and_then(|clock| differs(clock, false).ok().flatten()),
                clock: clock.map(str::to_owned),
                resolution: Nanos(1),
                kernel: contents.kernel,
                machine: contents.machine,
                symbols: contents.symbols,
                warnings: contents.warnings,
                ..TraceHead::default()
            },
            late: 0,
            is_at_end: false,
        };
        for index in 0..reader.streams.len() {
            reader.note_next(index)?;
        }
        Ok(reader)
    }

    /// Adds the next item of a stream to the order, and reads its next bundle if necessary.
    fn note_next(&mut self, index: usize) -> Result<(), TraceFileError> {
        let Some(stream) = self.streams.get_mut(index) else {
            return Ok(());
        };
        while stream.items.is_empty() {
            let Some(place) = stream.places.next() else {
                return Ok(());
            };
            let late = stream.read(place, &mut self.bundles, &mut self.decoder)?;
            self.late += late;
        }
        if let Some(item) = stream.items.front() {
            self.order.push(Reverse((item.time(), index)));
        }
        Ok(())
    }

    fn end(&mut self) {
        if std::mem::replace(&mut self.is_at_end, true) {
            return;
        }
        for (number, what) in [
            (self.late, "events out of order count as lost events"),
            (
                self.decoder.unreadable,
                "events without all their fields count as lost events",
            ),
        ] {
            if number > 0 {
                self.head.warnings.push(format!("{what}: {number}"));
            }
        }
    }
}

impl Stream {
    /// Reads a bundle. Returns the number of events that are too early.
    fn read(
        &mut self,
        place: Place,
        bundles: &mut SpooledTempFile,
        decoder: &mut Decoder,
    ) -> Result<u64, TraceFileError> {
        let mut bytes = vec![0; place.size as usize];
        bundles.seek(SeekFrom::Start(place.offset))?;
        bundles.read_exact(&mut bytes)?;
        if place.is_after_loss {
            self.current = None;
        }
        let items = decoder.items(&bytes, self.cpu, &mut self.current);
        let mut is_lost = place.is_after_loss;
        let mut late = 0;
        for item in items {
            let until = item.time();
            if until < self.last {
                late += 1;
                is_lost = true;
                continue;
            }
            if std::mem::take(&mut is_lost) {
                let (cpu, count) = (self.cpu, None);
                self.items.push_back(Item::Lost { cpu, count, until });
            }
            self.last = until;
            self.items.push_back(item);
        }
        if is_lost {
            let (cpu, count, until) = (self.cpu, None, self.last);
            self.items.push_back(Item::Lost { cpu, count, until });
        }
        Ok(late)
    }
}

impl TraceReader for PerfettoReader {
    fn next_item(&mut self) -> Result<Option<Item>, TraceFileError> {
        let Some(Reverse((_, index))) = self.order.pop() else {
            self.end();
            return Ok(None);
        };
        let item = self
            .streams
            .get_mut(index)
            .and_then(|stream| stream.items.pop_front());
        self.note_next(index)?;
        for name in self.decoder.take_new() {
            self.head.recorded.insert(name.to_owned());
        }
        Ok(item)
    }

    fn head(&self) -> &TraceHead {
        &self.head
    }
}
