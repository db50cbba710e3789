//! How far one CPU's ring was read.

use std::collections::VecDeque;

use punctual_model::Nanos;

use super::record::Record;
use super::rings::Rings;

/// One CPU.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) cpu: u32,
    /// The next record to read.
    next: u64,
    /// Whether the last look stopped at a record that was being written.
    waits: bool,
}

/// Records that were overwritten before they were read.
pub(super) struct Missed {
    pub(super) until: Nanos,
    pub(super) lost: u64,
}

impl Tail {
    pub(super) const fn of(cpu: u32) -> Self {
        Self {
            cpu,
            next: 0,
            waits: false,
        }
    }

    /// Hands over the records since the last call.
    pub(super) fn follow(
        &mut self,
        rings: &Rings,
        mut take: impl FnMut(&Record),
    ) -> Option<Missed> {
        let begun = rings.begun(self.cpu);
        let mut lost = 0;
        let mut until = Nanos::ZERO;
        let mut skip_to = |next: &mut u64, to: u64| {
            lost += to.saturating_sub(*next);
            *next = to.max(*next);
        };
        skip_to(&mut self.next, rings.oldest(begun));
        let mut stopped = false;
        while self.next < begun {
            match rings.at(self.cpu, self.next) {
                Some(record) => {
                    if until == Nanos::ZERO {
                        until = record.time();
                    }
                    take(&record);
                    self.next += 1;
                }
                None => {
                    let oldest = rings.oldest(rings.begun(self.cpu));
                    if oldest > self.next {
                        until = Nanos::ZERO;
                        skip_to(&mut self.next, oldest);
                    } else if self.waits {
                        // Written for longer than a look takes: given up.
                        self.waits = false;
                        let next = self.next + 1;
                        skip_to(&mut self.next, next);
                    } else {
                        stopped = true;
                        break;
                    }
                }
            }
        }
        self.waits = stopped;
        (lost > 0).then_some(Missed { until, lost })
    }

    /// The records of an interval and the last before it, oldest first, and whether
    /// none between them was overwritten.
    pub(super) fn between(&self, rings: &Rings, from: Nanos, to: Nanos) -> (Vec<Record>, bool) {
        let begun = rings.begun(self.cpu);
        let mut found = VecDeque::new();
        let mut number = begun;
        while number > rings.oldest(begun) {
            number -= 1;
            let Some(record) = rings.at(self.cpu, number) else {
                // The newest may be in the making; older ones are overwritten.
                match found.is_empty() && begun - number < IN_THE_MAKING {
                    true => continue,
                    false => return (found.into(), false),
                }
            };
            if record.time() <= to {
                found.push_front(record);
            }
            if record.time() < from && record.kind() != super::record::STACK {
                return (found.into(), true);
            }
        }
        (found.into(), number == 0)
    }
}

/// So many records at most are written at once on a CPU: handlers on top of each other.
const IN_THE_MAKING: u64 = 8;
