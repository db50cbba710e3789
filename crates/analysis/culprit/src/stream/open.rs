//! Waits that the end of a trace cuts off.

use std::collections::{BTreeSet, HashMap};

use punctual_model::{Delay, EventKind, KernelPriority, Nanos, Task, ThreadState, TraceEvent};

use super::{LateReactions, THREADS};

/// Maximum number of waits without an end that are kept.
const MOST: usize = 20;

/// A wait for a CPU that had not ended at the end of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenWait {
    /// The thread.
    pub thread: Task,
    /// The event that began the wait.
    pub delay: Delay,
    /// Whether the thread was stopped, and not just preempted.
    pub is_stopped: bool,
    /// Its beginning.
    pub since: Nanos,
    /// Time of the last event of the trace.
    pub end: Nanos,
    /// The number of the system call that the thread was in, with its beginning.
    pub call: Option<(i64, Nanos)>,
}

impl OpenWait {
    /// Returns the time from its beginning to the end of the trace.
    pub const fn least(&self) -> Nanos {
        self.end.saturating_sub(self.since)
    }

    /// Returns what the thread did at the end.
    pub const fn state(&self) -> ThreadState {
        if self.is_stopped {
            ThreadState::Stopped
        } else {
            ThreadState::Ready
        }
    }
}

/// The system call of each thread, from its entry to its exit.
#[derive(Debug, Default)]
pub(super) struct OpenCalls {
    calls: HashMap<u32, (i64, Nanos)>,
    /// Calls that a thread left without a recorded exit: the exits may be filtered out.
    without_exit: BTreeSet<i64>,
    /// Whether exits are recorded by number, and by name.
    exits: [bool; 2],
}

impl OpenCalls {
    pub(super) fn event(&mut self, event: &TraceEvent) {
        match &event.kind {
            EventKind::SysEnter { id, .. } => {
                if self.calls.len() >= THREADS && !self.calls.contains_key(&event.pid) {
                    return;
                }
                let before = self.calls.insert(event.pid, (*id, event.time));
                self.without_exit.extend(before.map(|(id, _)| id));
            }
            EventKind::SysExit { id, .. } => {
                self.exits[usize::from(*id < 0)] = true;
                self.calls.remove(&event.pid);
            }
            EventKind::ProcessExit { task } => {
                self.calls.remove(&task.pid);
            }
            _ => {}
        }
    }

    /// Forgets the calls, because exits may be missing.
    pub(super) fn lost(&mut self) {
        self.calls.clear();
    }

    /// Returns the call of a thread, if its exit would have been recorded.
    fn of(&self, tid: u32) -> Option<(i64, Nanos)> {
        let (id, since) = *self.calls.get(&tid)?;
        let is_sure = self.exits[usize::from(id < 0)] && !self.without_exit.contains(&id);
        is_sure.then_some((id, since))
    }
}

impl LateReactions {
    /// Notes the waits that the end of the trace cuts off, if they are already long enough to be
    /// explained. Another trace may follow in the same file.
    pub(super) fn cut_off(&mut self) {
        // Without an end, the CPU on which a wait ends is unknown.
        if self.wanted.jobs.is_some() || self.wanted.cpu.is_some() {
            return;
        }
        let end = self.now;
        for waiting in self.finder.open() {
            let Some(thread) = self.names.get(&waiting.tid).copied() else {
                continue;
            };
            let wait = OpenWait {
                thread,
                delay: waiting.delay,
                is_stopped: waiting.is_stopped,
                since: waiting.expected,
                end,
                call: self.calls.of(waiting.tid),
            };
            // The thread may have run while events are missing.
            if wait.since >= self.last_gap && self.is_long(&wait) {
                self.found.open.push(wait);
            }
        }
        let names_threads = self.wanted.names_threads();
        let open = &mut self.found.open;
        open.sort_by_key(|wait| {
            let first = is_first(wait.thread.prio, names_threads);
            (!first, std::cmp::Reverse(wait.least()), wait.thread.pid)
        });
        open.truncate(MOST);
    }

    fn is_long(&self, wait: &OpenWait) -> bool {
        let (length, wanted) = (wait.least(), &self.wanted);
        let first = is_first(wait.thread.prio, wanted.names_threads());
        let kept = if first { &self.real_time } else { &self.others };
        let is_long = match wanted.threshold {
            Some(threshold) => length > threshold,
            None => length > Nanos::ZERO && kept.takes(length),
        };
        is_long
            && wanted.has_thread((wait.thread.pid, wait.thread.comm))
            && wanted.overlaps(wait.since, wait.end)
    }
}

/// Returns whether a wait is shown even if there are real-time threads.
pub(super) const fn is_first(prio: KernelPriority, names_threads: bool) -> bool {
    names_threads || prio.is_real_time()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{event, task, us};

    fn enter(at: u64, tid: u32, id: i64) -> TraceEvent {
        event(at, tid, EventKind::SysEnter { id, args: [0, 0] })
    }

    fn exit(at: u64, tid: u32, id: i64) -> TraceEvent {
        event(at, tid, EventKind::SysExit { id, ret: 0 })
    }

    fn after(events: &[TraceEvent]) -> OpenCalls {
        let mut calls = OpenCalls::default();
        for event in events {
            calls.event(event);
        }
        calls
    }

    #[test]
    fn call_lasts_from_its_entry_to_its_exit() {
        let mut calls = after(&[
            enter(1, 7, 0),
            exit(2, 7, 0),
            enter(3, 7, 230),
            enter(4, 8, 1),
        ]);
        assert_eq!(calls.of(7), Some((230, us(3))));
        assert_eq!(calls.of(8), Some((1, us(4))));
        assert_eq!(calls.of(9), None);
        let ends = EventKind::ProcessExit {
            task: task("t", 8, 120),
        };
        calls.event(&event(5, 8, ends));
        assert_eq!((calls.of(7), calls.of(8)), (Some((230, us(3))), None));
        calls.event(&exit(6, 7, 230));
        assert_eq!(calls.of(7), None);
        calls.event(&enter(7, 7, 230));
        calls.lost();
        assert_eq!(calls.of(7), None);
    }

    /// If no exit is recorded, the call may have ended long ago.
    #[test]
    fn call_is_known_only_if_its_exit_would_be() {
        assert_eq!(after(&[enter(1, 7, 230)]).of(7), None);
        // Calls with a number and those with a name have different events.
        assert_eq!(after(&[exit(1, 7, -4), enter(2, 7, 230)]).of(7), None);
        assert_eq!(after(&[exit(1, 7, 0), enter(2, 7, -4)]).of(7), None);
        let named = after(&[exit(1, 7, -9), enter(2, 7, -4)]);
        assert_eq!(named.of(7), Some((-4, us(2))));
        // The exit of this call was not recorded before, in any thread.
        let filtered = [
            exit(1, 7, 0),
            enter(2, 8, 230),
            enter(3, 8, 1),
            enter(4, 7, 230),
        ];
        let filtered = after(&filtered);
        assert_eq!((filtered.of(7), filtered.of(8)), (None, Some((1, us(3)))));
    }

    #[test]
    fn open_wait_lasts_at_least_until_the_end() {
        let wait = |is_stopped| OpenWait {
            thread: task("t", 7, 120),
            delay: Delay::Taken,
            is_stopped,
            since: us(30),
            end: us(100),
            call: None,
        };
        assert_eq!(wait(true).least(), us(70));
        assert_eq!(wait(true).state(), ThreadState::Stopped);
        assert_eq!(wait(false).state(), ThreadState::Ready);
    }
}
