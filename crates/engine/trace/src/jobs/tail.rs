//! Keeps the read position in the listed records of one CPU, and finds the CPU's records in an
//! interval.

use std::collections::VecDeque;

use punctual_model::Nanos;

use super::record::JobRecord;
use super::rings::{Listed, Rings};

/// The read position in the listed records of one CPU.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) cpu: u32,
    /// Number of the next entry to read.
    next: u64,
    /// Time of the last record that was passed on.
    latest: Nanos,
    /// Whether the last read stopped at an entry that was still being written.
    waits: bool,
}

/// Records that were overwritten before they were read.
pub(super) struct Missed {
    /// Time of the last record before the lost records.
    pub(super) from: Nanos,
    /// Time of the first record after the lost records; `None` if there is none yet.
    pub(super) until: Option<Nanos>,
    pub(super) lost: u64,
}

impl Tail {
    pub(super) const fn new(cpu: u32) -> Self {
        Self {
            cpu,
            next: 0,
            latest: Nanos::ZERO,
            waits: false,
        }
    }

    /// Passes to `take` the records that have been listed since the last call.
    pub(super) fn follow(
        &mut self,
        rings: &Rings,
        mut take: impl FnMut(&JobRecord),
    ) -> Option<Missed> {
        let listed = rings.listed(self.cpu);
        let first = self.next.max(rings.oldest(listed));
        let mut lost = first - self.next;
        self.next = first;
        let mut from = (lost > 0).then_some(self.latest);
        let mut until = None;
        let mut stopped = false;
        while self.next < listed {
            let record = match rings.entry(self.cpu, self.next) {
                Listed::Record(number) => rings.at(self.cpu, number),
                Listed::Gone => None,
                // The entry is still being written after a whole polling interval, so skip it.
                Listed::NotYet if self.waits => {
                    self.waits = false;
                    None
                }
                Listed::NotYet => {
                    stopped = true;
                    break;
                }
            };
            self.next += 1;
            if let Some(record) = record {
                self.latest = record.time();
                until.get_or_insert(self.latest);
                take(&record);
            } else {
                // Combine two gaps into one, because the records between them cannot be used
                // either.
                from.get_or_insert(self.latest);
                until = None;
                lost += 1;
            }
        }
        self.waits = stopped;
        from.map(|from| Missed { from, until, lost })
    }

    /// Returns the records of an interval and the last record before it, oldest first. Also returns
    /// whether these records are complete.
    pub(super) fn between(&self, rings: &Rings, from: Nanos, to: Nanos) -> (Vec<JobRecord>, bool) {
        let begun = rings.begun(self.cpu);
        let mut found = VecDeque::new();
        let mut number = begun;
        while number > rings.oldest(begun) {
            number -= 1;
            let Some(record) = rings.at(self.cpu, number) else {
                // The newest records may be incomplete. An older record that cannot be read must
                // have been overwritten.
                if found.is_empty() && begun - number < IN_THE_MAKING {
                    continue;
                } else {
                    return (found.into(), false);
                }
            };
            if record.time() <= to {
                found.push_front(record);
            }
            if record.time() < from && record.is_event() {
                return (found.into(), true);
            }
        }
        (found.into(), number == 0)
    }
}

/// Maximum number of records that nested handlers on one CPU can be writing at the same time.
const IN_THE_MAKING: u64 = 8;
