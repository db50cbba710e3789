//! Late wake-ups in a stream of events.

use std::collections::BTreeMap;

use punctual_model::{Comm, Delay, EventKind, KernelPriority, Nanos, TraceEvent};

/// A wake-up, or a turn taken away, that lasted for longer than the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub comm: Comm,
    /// Its priority then.
    pub prio: KernelPriority,
    /// The CPU on which it went on.
    pub cpu: u32,
    /// From what to what.
    pub delay: Delay,
    /// When it was woken, or its CPU taken.
    pub expected: Nanos,
    /// When it was switched in.
    pub actual: Nanos,
    /// Where its story begins: at `expected`, or, of one that was stopped, when
    /// it was woken before: what stops a sleeping thread wakes it first, to stop
    /// once it has got a CPU.
    pub story_from: Nanos,
}

impl Late {
    /// How long it had to wait.
    pub const fn latency(&self) -> Nanos {
        self.actual.saturating_sub(self.expected)
    }
}

/// One wait of a watched thread that came to its end, late or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It was below the threshold, or at it.
    InTime(Late),
    /// It was above.
    TooLong(Late),
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    since: Nanos,
    delay: Delay,
    story_from: Nanos,
}

/// A thread that was woken longer ago than this before it was stopped ran for a
/// while: no events are wanted from so far back.
const LONGEST_BEFORE_STOP: Nanos = Nanos::from_millis(100);

/// Follows threads through a stream of scheduler events (`sched_waking`,
/// `sched_wakeup`, `sched_switch`), which must come by rising time.
#[derive(Clone, Debug)]
pub struct LateWakeUps {
    threshold: Nanos,
    waiting: BTreeMap<u32, Waiting>,
    /// Of those that run, since when they had waited for it.
    running: BTreeMap<u32, Nanos>,
}

impl LateWakeUps {
    /// Waits longer than `threshold` are late.
    pub const fn new(threshold: Nanos) -> Self {
        Self {
            threshold,
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
        }
    }

    /// Takes an event. `watched` says which threads are of interest. Returns a
    /// wait that ended with this event.
    pub fn take(&mut self, event: &TraceEvent, watched: &dyn Fn(u32) -> bool) -> Option<Wait> {
        match &event.kind {
            EventKind::Waking { task, .. } | EventKind::Wakeup { task, .. }
                if watched(task.pid) =>
            {
                // A stopped thread is woken as well, and went on waiting since
                // it was stopped; of two wake-ups the first counts.
                self.waiting.entry(task.pid).or_insert(Waiting {
                    since: event.time,
                    delay: Delay::Wakeup,
                    story_from: event.time,
                });
                None
            }
            EventKind::Switch {
                prev,
                prev_state,
                next,
            } => {
                if watched(prev.pid) {
                    // Of one that is still waiting the switch in was not told.
                    let waited = self.waiting.get(&prev.pid).map(|waiting| waiting.since);
                    let woken = self.running.remove(&prev.pid).or(waited);
                    let stopped = prev_state.is_stopped() || prev_state.is_traced();
                    let near = |woken: &Nanos| *woken + LONGEST_BEFORE_STOP > event.time;
                    match prev_state.is_runnable() || stopped {
                        true => self.waiting.insert(
                            prev.pid,
                            Waiting {
                                since: event.time,
                                delay: Delay::Taken,
                                story_from: woken
                                    .filter(|woken| stopped && near(woken))
                                    .unwrap_or(event.time),
                            },
                        ),
                        false => self.waiting.remove(&prev.pid),
                    };
                }
                let waited = self.waiting.remove(&next.pid)?;
                self.running.insert(next.pid, waited.since);
                let late = Late {
                    tid: next.pid,
                    comm: next.comm,
                    prio: next.prio,
                    cpu: event.cpu,
                    delay: waited.delay,
                    expected: waited.since,
                    actual: event.time.max(waited.since),
                    story_from: waited.story_from,
                };
                Some(match late.latency() > self.threshold {
                    true => Wait::TooLong(late),
                    false => Wait::InTime(late),
                })
            }
            EventKind::ProcessExit { task } => {
                self.waiting.remove(&task.pid);
                self.running.remove(&task.pid);
                None
            }
            _ => None,
        }
    }
}
