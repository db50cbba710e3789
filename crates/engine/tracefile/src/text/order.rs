//! Sorts items by time within a bounded window.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use punctual_model::Nanos;

use crate::Item;

/// Number of items that are held back, because a line that comes later in the file may precede them
/// in time.
const WINDOW: usize = 4_096;

/// Sort key of an item: the number of the trace in the file, the time, and the number of the item.
/// Items with the same time keep their order in the file.
type SortKey = (u64, Nanos, u64);

#[derive(Debug)]
struct Held(SortKey, Item);

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

/// Items that are held back until no earlier item can follow.
#[derive(Debug, Default)]
pub(super) struct Order {
    held: BinaryHeap<Reverse<Held>>,
    /// Number of the current trace in the file, from 0.
    part: u64,
    number: u64,
    newest: Option<Nanos>,
    /// Trace number and time of the last item that was returned.
    returned: Option<(u64, Nanos)>,
}

impl Order {
    /// Begins another trace. The following items come after all items that have been added so far.
    pub(super) fn restart(&mut self) {
        self.part += 1;
        self.newest = None;
    }

    /// Returns whether another trace has begun after the first one.
    pub(super) const fn is_restarted(&self) -> bool {
        self.part > 0
    }

    /// Returns the latest time in the current trace.
    pub(super) const fn newest(&self) -> Option<Nanos> {
        self.newest
    }

    /// Returns whether an item with this time is too late to be sorted, because a later item has
    /// already been returned.
    pub(super) fn is_late(&self, time: Nanos) -> bool {
        self.returned
            .is_some_and(|(part, last)| part == self.part && time < last)
    }

    /// Adds an item.
    pub(super) fn push(&mut self, time: Nanos, item: Item) {
        self.number += 1;
        self.newest = self.newest.max(Some(time));
        let key = (self.part, time, self.number);
        self.held.push(Reverse(Held(key, item)));
    }

    /// Returns the next item if no earlier item is expected any more.
    pub(super) fn pop(&mut self, at_end: bool) -> Option<Item> {
        let is_old = |held: &Reverse<Held>| held.0.0.0 < self.part;
        let ready = at_end || self.held.len() > WINDOW || self.held.peek().is_some_and(is_old);
        let Reverse(Held((part, time, _), item)) = ready.then(|| self.held.pop()).flatten()?;
        self.returned = Some((part, time));
        Some(item)
    }
}
