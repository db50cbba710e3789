//! Sorts items by time within a bounded window.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use punctual_model::Nanos;

use crate::Item;

/// The number of items held back, so that a later line may precede them.
const WINDOW: usize = 4_096;

/// Sort key of an item: part of the file, time, number of the item. Items of one time keep their
/// order in the file.
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

/// Items that wait for earlier ones.
#[derive(Debug, Default)]
pub(super) struct Order {
    held: BinaryHeap<Reverse<Held>>,
    /// Counts the starts of a new trace in the file.
    part: u64,
    number: u64,
    newest: Option<Nanos>,
    /// Part and time of the item that was returned last.
    returned: Option<(u64, Nanos)>,
}

impl Order {
    /// Starts a new trace: items that follow come after all that were added.
    pub(super) fn restart(&mut self) {
        self.part += 1;
        self.newest = None;
    }

    /// Returns whether a trace was started after the first one.
    pub(super) const fn is_restarted(&self) -> bool {
        self.part > 0
    }

    /// Returns the latest time of this trace.
    pub(super) const fn newest(&self) -> Option<Nanos> {
        self.newest
    }

    /// Returns whether an item of this time would come too late to be sorted.
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

    /// Returns the next item, if no earlier one is expected any more.
    pub(super) fn pop(&mut self, at_end: bool) -> Option<Item> {
        let is_old = |held: &Reverse<Held>| held.0.0.0 < self.part;
        let ready = at_end || self.held.len() > WINDOW || self.held.peek().is_some_and(is_old);
        let Reverse(Held((part, time, _), item)) = ready.then(|| self.held.pop()).flatten()?;
        self.returned = Some((part, time));
        Some(item)
    }
}
