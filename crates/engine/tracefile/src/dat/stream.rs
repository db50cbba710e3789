//! Decodes the items of one CPU in one buffer, page by page.

use std::collections::VecDeque;

use punctual_model::Nanos;
use punctual_trace::{Layout, Lost, Page};

use super::clock::Clock;
use super::limits::MOST_HELD;
use super::pages::Pages;
use super::record_decoder::{Decoded, RecordDecoder};
use super::warnings::Warnings;
use crate::input::ReadSeek;
use crate::{Item, TraceFileError, TraceHead};

/// State that the streams of all CPUs share.
pub(super) struct Shared {
    pub(super) source: Box<dyn ReadSeek>,
    pub(super) records: RecordDecoder,
    pub(super) clock: Clock,
    pub(super) warnings: Warnings,
    pub(super) head: TraceHead,
    /// Number of items in the last page of each stream.
    pub(super) held: usize,
}

/// The items of one CPU in one buffer.
#[derive(Debug)]
pub(super) struct Stream {
    cpu: u32,
    buffer: usize,
    layout: Layout,
    pages: Pages,
    /// Decoded items, sorted by time.
    items: VecDeque<Item>,
    /// Number of items in the last page.
    held: usize,
    /// Time of the last record.
    last: Nanos,
    lost: Gap,
}

impl Stream {
    pub(super) const fn new(cpu: u32, buffer: usize, layout: Layout, pages: Pages) -> Self {
        Self {
            cpu,
            buffer,
            layout,
            pages,
            items: VecDeque::new(),
            held: 0,
            last: Nanos::ZERO,
            lost: Gap(None),
        }
    }

    /// Reads pages until at least one item is available. Returns the time of the next item, or
    /// `None` at the end.
    #[inline]
    pub(super) fn next_time(
        &mut self,
        shared: &mut Shared,
    ) -> Result<Option<Nanos>, TraceFileError> {
        while self.items.is_empty() {
            shared.held -= std::mem::take(&mut self.held);
            if !self.read_page(shared)? {
                return Ok(None);
            }
            self.held = self.items.len();
            shared.held += self.held;
            if shared.held > MOST_HELD {
                return Err(TraceFileError::TooManyEvents { most: MOST_HELD });
            }
        }
        Ok(self.items.front().map(Item::time))
    }

    /// Removes and returns the next item.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Item> {
        self.items.pop_front()
    }

    /// Decodes the next page. Returns `false` at the end.
    fn read_page(&mut self, shared: &mut Shared) -> Result<bool, TraceFileError> {
        let Some((bytes, offset)) = self.pages.next(shared.source.as_mut())? else {
            return Ok(self.end(shared));
        };
        let cpu = self.cpu;
        let Ok(page) = Page::parse(self.layout, bytes) else {
            shared.warnings.bad_page.add(cpu, offset);
            self.lost.some();
            return Ok(true);
        };
        match page.lost() {
            None => (),
            Some(Lost::Count(count)) => self.lost.count(count),
            Some(Lost::Some) => self.lost.some(),
        }
        let (mut is_back, mut is_unreadable) = (false, false);
        let mut records = page.records();
        for record in records.by_ref() {
            let time = shared.clock.nanos(cpu, record.time);
            if time < self.last {
                is_back = true;
                self.lost.some();
                continue;
            }
            self.last = time;
            if let Some(lost) = self.lost.take(cpu, time) {
                self.items.push_back(lost);
            }
            let Shared { records, head, .. } = &mut *shared;
            match records.decode(self.buffer, cpu, time, record.data, head) {
                Decoded::Item(item) => self.items.push_back(item),
                Decoded::Nothing => (),
                Decoded::Double => shared.warnings.double = true,
                Decoded::Unreadable => {
                    is_unreadable = true;
                    self.lost.some();
                }
            }
        }
        let is_broken = records.is_broken();
        if is_broken {
            self.lost.some();
        }
        for (is_so, count) in [
            (is_broken, &mut shared.warnings.bad_page),
            (is_back, &mut shared.warnings.back),
            (is_unreadable, &mut shared.warnings.unreadable),
        ] {
            if is_so {
                count.add(cpu, offset);
            }
        }
        Ok(true)
    }

    /// Adds the events that were lost at the end of the data. Returns whether an item was added for
    /// them.
    fn end(&mut self, shared: &mut Shared) -> bool {
        if let Some(broken) = self.pages.broken.take() {
            shared.warnings.add(format!(
                "the data of CPU {} is incomplete: {broken}",
                self.cpu
            ));
            self.lost.some();
        }
        let lost = self.lost.take(self.cpu, self.last);
        let is_any = lost.is_some();
        self.items.extend(lost);
        is_any
    }
}

/// Events that were lost before the next record. If the inner value is `None`, their number is
/// unknown.
#[derive(Debug, Default)]
struct Gap(Option<Option<u64>>);

impl Gap {
    /// Adds a known number of lost events.
    fn count(&mut self, count: u64) {
        self.0 = Some(match self.0 {
            None => Some(count),
            Some(before) => before.map(|before| before.saturating_add(count)),
        });
    }

    /// Adds an unknown number of lost events.
    const fn some(&mut self) {
        self.0 = Some(None);
    }

    fn take(&mut self, cpu: u32, until: Nanos) -> Option<Item> {
        let count = self.0.take()?;
        Some(Item::Lost { cpu, count, until })
    }
}
