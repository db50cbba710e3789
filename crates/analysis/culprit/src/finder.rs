//! Late wake-ups in a stream of events.

use std::collections::BTreeMap;

use punctual_model::{Comm, Delay, EventKind, KernelPriority, Nanos, TaskState, TraceEvent};

/// A wait for the CPU, after a wake-up or an involuntary switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// The thread.
    pub tid: u32,
    /// Name of the thread.
    pub comm: Comm,
    /// Priority of the thread at that time.
    pub prio: KernelPriority,
    /// CPU on which the thread continued to run.
    pub cpu: u32,
    /// Events at the beginning and the end of the wait.
    pub delay: Delay,
    /// Time at which it was woken or switched out.
    pub expected: Nanos,
    /// Time at which it was switched in.
    pub actual: Nanos,
    /// Start of the relevant events. Usually `expected`; for a stopped thread, the wake-up before
    /// it. This is because a signal first wakes a sleeping thread, which stops as soon as it has a
    /// CPU.
    pub events_from: Nanos,
}

impl Late {
    /// Returns the length of the wait.
    pub const fn latency(&self) -> Nanos {
        self.actual.saturating_sub(self.expected)
    }
}

/// A completed wait of a watched thread, with its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// At or below the threshold.
    InTime(Late),
    /// Above the threshold.
    TooLong(Late),
}

/// A wait without an end event. The thread has run in the meantime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WithoutEnd {
    /// The thread.
    pub tid: u32,
    /// Time at which it was woken or switched out.
    pub since: Nanos,
}

/// A wait that has not ended yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenLate {
    /// The thread.
    pub tid: u32,
    /// The event at the beginning of the wait.
    pub delay: Delay,
    /// Whether a signal or a debugger stopped the thread.
    pub is_stopped: bool,
    /// Time at which it was woken or switched out.
    pub expected: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    since: Nanos,
    delay: Delay,
    is_stopped: bool,
    events_from: Nanos,
    /// Whether the thread was off the CPU when it was woken. A thread that is still running and
    /// about to sleep can also be woken. In that case, it does not wait.
    sure: bool,
    /// Whether the thread has been put into a run queue since (`sched_wakeup`).
    queued: bool,
}

/// Last switch event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastSwitch {
    /// The thread was switched in, after it had waited since this time.
    Running(Option<Nanos>),
    /// The thread was switched out.
    Off,
}

/// Maximum time from a wake-up until a stop signal takes effect. If more time passes, the wake-up
/// is not part of the stop: the thread has run in between, and older events are not needed.
const LONGEST_BEFORE_STOP: Nanos = Nanos::from_millis(100);

/// Follows threads through a stream of scheduler events (`sched_waking`, `sched_wakeup`,
/// `sched_switch`). The events must be in ascending order of time.
///
/// Some kernels write no event for some switches, and events can be lost. If a thread is woken or
/// switched out while it seems to be waiting, it has run in between. The length of such a wait is
/// unknown, so it is only counted ([`take_without_end`](Self::take_without_end)).
#[derive(Clone, Debug)]
pub struct LateWakeUps {
    threshold: Nanos,
    waiting: BTreeMap<u32, Waiting>,
    seen: BTreeMap<u32, LastSwitch>,
    without_end: Vec<WithoutEnd>,
    blind_until: Nanos,
}

impl LateWakeUps {
    /// Creates a finder that reports waits longer than `threshold` as late.
    pub const fn new(threshold: Nanos) -> Self {
        Self {
            threshold,
            waiting: BTreeMap::new(),
            seen: BTreeMap::new(),
            without_end: Vec::new(),
            blind_until: Nanos::ZERO,
        }
    }

    /// Marks events before this time as lost. A thread that was waiting at that time may have run
    /// since.
    pub fn blind_until(&mut self, time: Nanos) {
        self.blind_until = self.blind_until.max(time);
        self.seen.clear();
    }

    /// Records that a thread ran even though no switch to it was recorded.
    pub fn has_run(&mut self, tid: u32) {
        if let Some(waited) = self.waiting.remove(&tid) {
            self.has_no_end(tid, waited);
        }
        self.seen.remove(&tid);
    }

    /// Returns the waits without an end event since the last call.
    pub fn take_without_end(&mut self) -> Vec<WithoutEnd> {
        std::mem::take(&mut self.without_end)
    }

    /// Returns the waits that have not ended yet, except those of threads that may be running.
    pub fn open(&self) -> impl Iterator<Item = OpenLate> {
        let sure = self.waiting.iter().filter(|(_, waiting)| waiting.sure);
        sure.map(|(tid, waiting)| OpenLate {
            tid: *tid,
            delay: waiting.delay,
            is_stopped: waiting.is_stopped,
            expected: waiting.since,
        })
    }

    /// Processes an event. `watched` selects the threads. Returns the wait that ended with this
    /// event, if any.
    pub fn take(&mut self, event: &TraceEvent, watched: &dyn Fn(u32) -> bool) -> Option<Wait> {
        match &event.kind {
            EventKind::Waking { task, .. } if watched(task.pid) => {
                self.woken(task.pid, event.time, false);
                None
            }
            EventKind::Wakeup { task, .. } if watched(task.pid) => {
                match self.waiting.get_mut(&task.pid) {
                    // If `sched_waking` is also recorded, it belongs to the same wake-up.
                    Some(waiting) if !waiting.queued => waiting.queued = true,
                    _ => self.woken(task.pid, event.time, true),
                }
                None
            }
            EventKind::Switch {
                prev,
                prev_state,
                next,
            } => {
                if watched(prev.pid) {
                    self.leaves(prev.pid, *prev_state, event.time);
                }
                let waited = self.waiting.remove(&next.pid);
                if watched(next.pid) {
                    let since = waited.map(|waited| waited.since);
                    self.seen.insert(next.pid, LastSwitch::Running(since));
                }
                let waited = waited?;
                if waited.since < self.blind_until {
                    self.has_no_end(next.pid, waited);
                    return None;
                }
                let late = Late {
                    tid: next.pid,
                    comm: next.comm,
                    prio: next.prio,
                    cpu: event.cpu,
                    delay: waited.delay,
                    expected: waited.since,
                    actual: event.time.max(waited.since),
                    events_from: waited.events_from,
                };
                Some(if late.latency() > self.threshold {
                    Wait::TooLong(late)
                } else {
                    Wait::InTime(late)
                })
            }
            EventKind::ProcessExit { task } => {
                self.waiting.remove(&task.pid);
                self.seen.remove(&task.pid);
                None
            }
            _ => None,
        }
    }

    fn woken(&mut self, tid: u32, time: Nanos, queued: bool) {
        // A thread that runs can be woken repeatedly. No event shows whether this thread ran before
        // the trace, so its second `sched_wakeup` without `sched_waking` counts.
        let first_seen = queued && !self.seen.contains_key(&tid);
        match self.waiting.get(&tid).copied() {
            // A stop also ends with a wake-up, but in this case the wait began when the thread was
            // stopped.
            Some(before) if before.delay == Delay::Taken => return,
            // No thread is woken twice without running in between.
            Some(before) => self.has_no_end(
                tid,
                Waiting {
                    sure: before.sure || first_seen,
                    ..before
                },
            ),
            None => {}
        }
        let woken = Waiting {
            since: time,
            delay: Delay::Wakeup,
            is_stopped: false,
            events_from: time,
            sure: self.seen.get(&tid) == Some(&LastSwitch::Off),
            queued,
        };
        self.waiting.insert(tid, woken);
    }

    fn leaves(&mut self, tid: u32, state: TaskState, time: Nanos) {
        let before = self.seen.insert(tid, LastSwitch::Off);
        let waited = self.waiting.remove(&tid);
        if let Some(waited) = waited {
            self.has_no_end(tid, waited);
        }
        let stopped = state.is_stopped() || state.is_traced();
        if state.is_runnable() || stopped {
            // The thread still seemed to be waiting, so the switch to it was not recorded.
            let woken = match before {
                Some(LastSwitch::Running(Some(since))) => Some(since),
                _ => waited.map(|waited| waited.since),
            };
            let near = |woken: &Nanos| stopped && *woken + LONGEST_BEFORE_STOP > time;
            let taken = Waiting {
                since: time,
                delay: Delay::Taken,
                is_stopped: stopped,
                events_from: woken.filter(near).unwrap_or(time),
                sure: true,
                queued: true,
            };
            self.waiting.insert(tid, taken);
        }
    }

    fn has_no_end(&mut self, tid: u32, waited: Waiting) {
        if waited.sure {
            let since = waited.since;
            self.without_end.push(WithoutEnd { tid, since });
        }
    }
}

#[cfg(test)]
#[path = "finder_tests.rs"]
mod tests;
