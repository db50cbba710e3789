//! How far one CPU's ring was read.

use std::collections::VecDeque;

use punctual_model::Nanos;

use super::record::Record;
use super::rings::{Marked, Rings};

/// One CPU.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) cpu: u32,
    /// The next mark to read.
    next: u64,
    /// Whether the last look stopped at a mark that was being written.
    waits: bool,
}

/// Marked records that were overwritten before they were read.
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

    /// Hands over the marked records since the last call.
    pub(super) fn follow(
        &mut self,
        rings: &Rings,
        mut take: impl FnMut(&Record),
    ) -> Option<Missed> {
        let marked = rings.marked(self.cpu);
        let mut lost = 0;
        let mut until = Nanos::ZERO;
        let mut skip_to = |next: &mut u64, to: u64| {
            lost += to.saturating_sub(*next);
            *next = to.max(*next);
        };
        skip_to(&mut self.next, rings.oldest(marked));
        let mut stopped = false;
        while self.next < marked {
            match rings.marked_at(self.cpu, self.next) {
                Marked::Record(record) => {
                    if until == Nanos::ZERO {
                        until = record.time();
                    }
                    take(&record);
                    self.next += 1;
                }
                Marked::Overwritten => {
                    until = Nanos::ZERO;
                    let next = self.next + 1;
                    skip_to(&mut self.next, next);
                }
                Marked::Unwritten => {
                    let oldest = rings.oldest(rings.marked(self.cpu));
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

#[cfg(test)]
mod tests {
    use super::super::rings::testing::rings;
    use super::*;

    /// The times of the records that are read, what is lost, and since when nothing is.
    fn read(tail: &mut Tail, rings: &Rings) -> (Vec<u64>, u64, Option<Nanos>) {
        let mut times = Vec::new();
        let missed = tail.follow(rings, |record| times.push(record.time().0));
        let (lost, until) = missed.map_or((0, None), |missed| (missed.lost, Some(missed.until)));
        (times, lost, until)
    }

    #[test]
    fn marked_records_alone_are_read_once() {
        let rings = rings(8, 6, &[Some(1), Some(4)]);
        let mut tail = Tail::of(0);
        assert_eq!(read(&mut tail, &rings), (vec![11, 41], 0, None));
        assert_eq!(read(&mut tail, &rings), (vec![], 0, None));
    }

    #[test]
    fn overwritten_marks_and_records_are_lost() {
        let all: Vec<_> = (0..6).map(Some).collect();
        let expected = (vec![21, 31, 41, 51], 2, Some(Nanos(21)));
        assert_eq!(read(&mut Tail::of(0), &rings(4, 6, &all)), expected);
        // Here the marks are all there.
        let few = rings(4, 9, &[Some(0), Some(3), Some(5), Some(8)]);
        let expected = (vec![51, 81], 2, Some(Nanos(51)));
        assert_eq!(read(&mut Tail::of(0), &few), expected);
    }

    #[test]
    fn a_mark_in_the_making_is_waited_for_once() {
        let rings = rings(8, 3, &[Some(0), None, Some(2)]);
        let mut tail = Tail::of(0);
        assert_eq!(read(&mut tail, &rings), (vec![1], 0, None));
        assert_eq!(read(&mut tail, &rings), (vec![21], 1, Some(Nanos(21))));
    }
}
