//! Sorts the items of all CPUs by time. perf writes the buffers of the CPUs one after the other, in
//! rounds, and each round ends with a record.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use punctual_model::Nanos;

use crate::Item;

/// Maximum number of items that are held back. Two rounds of a machine with 64 CPUs and the usual
/// buffers contain less than a quarter of this.
const MOST_HELD: usize = 1 << 21;

#[derive(Debug)]
struct Held(Nanos, u64, Item);

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
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
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// Items that are held back until no earlier item can follow.
#[derive(Debug, Default)]
pub(super) struct Order {
    held: BinaryHeap<Reverse<Held>>,
    number: u64,
    newest: Nanos,
    /// Items up to this time are complete.
    complete: Nanos,
    /// Latest time in the rounds before the current one.
    of_rounds: Nanos,
    /// Time of the last item that was returned.
    returned: Nanos,
    is_at_end: bool,
}

impl Order {
    /// Adds an item. Returns `false` if a later one has been returned already.
    pub(super) fn push(&mut self, item: Item) -> bool {
        let time = item.time();
        if time < self.returned {
            return false;
        }
        self.number += 1;
        self.newest = self.newest.max(time);
        self.held.push(Reverse(Held(time, self.number, item)));
        true
    }

    /// Ends a round: no item that follows is earlier than the latest one of the round before.
    pub(super) fn end_round(&mut self) {
        self.complete = self.of_rounds;
        self.of_rounds = self.newest;
    }

    /// Ends the input.
    pub(super) const fn end(&mut self) {
        self.is_at_end = true;
    }

    pub(super) const fn newest(&self) -> Nanos {
        self.newest
    }

    /// Returns the next item if no earlier item is expected any more.
    pub(super) fn pop(&mut self) -> Option<Item> {
        let Reverse(Held(time, ..)) = self.held.peek()?;
        if !self.is_at_end && *time > self.complete && self.held.len() <= MOST_HELD {
            return None;
        }
        let Reverse(Held(time, _, item)) = self.held.pop()?;
        self.returned = time;
        Some(item)
    }
}
