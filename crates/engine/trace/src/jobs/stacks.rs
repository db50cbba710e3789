//! Joins the records of stacks. Each record contains a part of a stack, and belongs to the event
//! before it.

use punctual_model::{EventKind, TraceEvent};

use super::record::{self, JobRecord};
use crate::flight::{StackPart, WaitRecord};

/// Reads the records of one CPU in order.
#[derive(Debug)]
pub(super) struct StackReader {
    cpu: u32,
    /// The thread of the last event, and the thread that it woke.
    last: (u32, Option<u32>),
    /// The kind of the last record of a stack, while its parts are complete.
    open: Option<(u8, u8)>,
    pub(super) found: Vec<WaitRecord>,
}

impl StackReader {
    pub(super) const fn new(cpu: u32) -> Self {
        Self {
            cpu,
            last: (0, None),
            open: None,
            found: Vec::new(),
        }
    }

    /// Sets the event that the next records belong to.
    pub(super) fn follows(&mut self, event: &TraceEvent) {
        let woken = match &event.kind {
            EventKind::Waking { task, .. } => Some(task.pid),
            _ => None,
        };
        (self.last, self.open) = ((event.pid, woken), None);
    }

    /// Adds the kernel stack of a thread that begins to sleep, as an event. The first record of a
    /// stack creates the event, and further records of that stack extend it.
    pub(super) fn add_event(&self, events: &mut Vec<TraceEvent>, record: &JobRecord) {
        let (part, frames) = record.frames();
        if part == 0 {
            events.push(TraceEvent {
                time: record.time(),
                cpu: self.cpu,
                pid: self.last.0,
                flags: 0,
                preempt_count: 0,
                kind: EventKind::KernelStack {
                    frames: frames.to_vec(),
                },
            });
            return;
        }
        if let Some(TraceEvent {
            kind: EventKind::KernelStack { frames: known },
            cpu,
            ..
        }) = events.last_mut()
            && *cpu == self.cpu
        {
            known.extend_from_slice(frames);
        }
    }

    /// Adds a part of another stack. Parts after a missing one are left out.
    pub(super) fn add(&mut self, record: &JobRecord) {
        let kind = record.kind();
        let (part, of_waker) = match kind {
            record::USER_STACK => (StackPart::User, false),
            record::USER_WORDS => (StackPart::Words, false),
            record::WAKER_STACK => (StackPart::Kernel, true),
            record::INTERRUPT_STACK => (StackPart::Interrupt, true),
            record::WAKER_USER_STACK => (StackPart::User, true),
            record::WAKER_USER_WORDS => (StackPart::Words, true),
            _ => return,
        };
        let (tid, woken) = self.last;
        let (number, words) = record.frames();
        if of_waker != woken.is_some() {
            return;
        }
        if number == 0 {
            self.found.push(WaitRecord {
                time: record.time(),
                tid,
                woken,
                part,
                words: words.to_vec(),
            });
        } else if self.open == Some((kind, number - 1))
            && let Some(known) = self.found.last_mut()
        {
            known.words.extend_from_slice(words);
        } else {
            return;
        }
        self.open = Some((kind, number));
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{Comm, KernelPriority, Nanos, Task};

    use super::*;

    fn part(kind: u8, number: u8, count: u8) -> JobRecord {
        let mut record = JobRecord([9; 8]);
        record.0[1] = u64::from_ne_bytes([0, 0, 0, 0, kind, 0, count, number]);
        record
    }

    fn event(pid: u32, woken: Option<u32>) -> TraceEvent {
        let task = |pid| Task {
            comm: Comm::default(),
            pid,
            prio: KernelPriority(120),
        };
        TraceEvent {
            time: Nanos(1),
            cpu: 0,
            pid,
            flags: 0,
            preempt_count: 0,
            kind: match woken {
                Some(woken) => EventKind::Waking {
                    task: task(woken),
                    target_cpu: 0,
                },
                None => EventKind::SleepUntil { until: Nanos(2) },
            },
        }
    }

    #[test]
    fn parts_become_stacks_of_threads() {
        let mut reader = StackReader::new(0);
        // The event that these records belong to was overwritten.
        reader.add(&part(record::WAKER_STACK, 0, 6));
        reader.follows(&event(7, None));
        reader.add(&part(record::USER_STACK, 0, 9));
        reader.add(&part(record::USER_STACK, 1, 3));
        reader.add(&part(record::USER_WORDS, 0, 6));
        reader.add(&part(record::USER_WORDS, 2, 6));
        reader.follows(&event(8, Some(7)));
        reader.add(&part(record::WAKER_STACK, 1, 6));
        reader.add(&part(record::WAKER_USER_STACK, 0, 2));
        let found: Vec<_> = (reader.found.iter())
            .map(|one| (one.tid, one.woken, one.part, one.words.len()))
            .collect();
        assert_eq!(
            found,
            [
                (7, None, StackPart::User, 9),
                (7, None, StackPart::Words, 6),
                (8, Some(7), StackPart::User, 2),
            ]
        );
    }
}
