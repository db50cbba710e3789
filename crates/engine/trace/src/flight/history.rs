//! The latest pages read from one CPU's ring buffer.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::ring::{BadPage, Layout, Lost, Page};

/// A page read from the ring buffer.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    /// The filled part of the page, followed by the number of events that were lost before it.
    pub(crate) bytes: Arc<[u8]>,
    /// The times of the page and of its last record, on the trace clock.
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) records: u64,
    pub(crate) lost: Option<Lost>,
    /// Whether reading the page stopped at an invalid record.
    pub(crate) broken: bool,
}

impl Taken {
    fn read(layout: Layout, bytes: &[u8]) -> Result<Option<Self>, BadPage> {
        let page = Page::parse(layout, bytes)?;
        let mut walk = page.records();
        let records = walk.by_ref().count() as u64;
        if page.committed() == 0 && page.lost().is_none() {
            return Ok(None);
        }
        let filled = layout.data_at + page.committed() + usize::from(layout.long_bytes);
        Ok(Some(Self {
            bytes: bytes[..filled.min(bytes.len())].into(),
            first: page.time(),
            last: walk.time().max(page.time()),
            records,
            lost: page.lost(),
            broken: walk.is_broken(),
        }))
    }
}

/// The pages kept for one CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pages: VecDeque<Taken>,
    bytes: usize,
    /// Number of events in dropped pages.
    let_go: u64,
    /// Number of invalid pages.
    pub(crate) bad: u64,
}

impl History {
    /// Adds the next page.
    pub(crate) fn push(&mut self, layout: Layout, bytes: &[u8]) {
        match Taken::read(layout, bytes) {
            Ok(Some(mut page)) => {
                // The events of an invalid page count as lost before this page.
                if std::mem::take(&mut self.bad) > 0 {
                    page.lost.get_or_insert(Lost::Some);
                }
                self.bytes += page.bytes.len();
                self.pages.push_back(page);
            }
            Ok(None) => {}
            Err(_) => self.bad += 1,
        }
    }

    /// Returns whether the last page begins after `time`, on the trace clock.
    pub(crate) fn begins_after(&self, time: u64) -> bool {
        self.pages.back().is_some_and(|page| page.first > time)
    }

    /// Drops the oldest pages until at most `bytes` remain.
    pub(crate) fn keep(&mut self, bytes: usize) {
        while self.bytes > bytes
            && let Some(page) = self.pages.pop_front()
        {
            self.bytes -= page.bytes.len();
            self.let_go += page.records;
        }
    }

    /// Returns the last few pages, the only ones that can contain new records.
    pub(crate) fn latest(&self) -> impl Iterator<Item = &Taken> {
        const FEW: usize = 8;
        self.pages.range(self.pages.len().saturating_sub(FEW)..)
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the pages that may contain events from `from` to `to`, on the trace clock. The first
    /// page may begin earlier.
    pub(crate) fn between(&self, from: u64, to: u64) -> impl Iterator<Item = &Taken> {
        let next = |place: usize| self.pages.get(place + 1);
        self.pages
            .iter()
            .enumerate()
            .filter(move |(place, page)| {
                // The page with the last event before `from` shows which thread ran at that time.
                let before = page.last < from && next(*place).is_none_or(|next| next.first >= from);
                before || (page.last >= from && page.first <= to)
            })
            .map(|(_, page)| page)
    }

    /// Returns a lower bound for the number of events lost between `from` and `to`.
    pub(crate) fn lost(&self, from: u64, to: u64) -> u64 {
        let mut lost = 0;
        let mut end_before = None;
        for (place, page) in self.pages.iter().enumerate() {
            let gap = match (place, self.let_go) {
                (0, let_go) if let_go > 0 => Some(let_go),
                _ => page.lost.map(Lost::at_least),
            };
            let begins_before = end_before.is_none_or(|end| end <= to);
            if let Some(gap) = gap
                && begins_before
                && page.first >= from
            {
                lost += gap;
            }
            lost += u64::from(page.broken && page.last <= to && page.last >= from);
            end_before = Some(page.last);
        }
        lost + self.bad
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
