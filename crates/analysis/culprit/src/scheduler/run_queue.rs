//! The run queue of a CPU, as far as events show it.

use std::collections::BTreeMap;

use punctual_model::{KernelPriority, Nanos, Task};

/// Shortly after a wake-up, the CPU may have chosen the next thread without seeing the woken one. The
/// time is also larger than the error of the clocks of different CPUs.
pub(super) const MARGIN: Nanos = Nanos::from_micros(50);

/// Time after which a wake-up by another CPU has arrived, if the CPU has switched since.
const ARRIVED: Nanos = Nanos::from_micros(100);

/// The threads that wait for a CPU.
#[derive(Debug, Default)]
pub(super) struct RunQueue {
    pub(super) waiting: BTreeMap<u32, Queued>,
    /// The thread that runs, if known.
    pub(super) current: Option<u32>,
    /// Number of switches.
    pub(super) switches: u64,
}

/// A thread in a run queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub(super) task: Task,
    pub(super) since: Nanos,
    how: How,
    /// Whether the place in the queue is that of a wake-up: at the end.
    pub(super) in_order: bool,
}

/// How a thread came into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// It was switched out while it was runnable.
    Preempted,
    /// An event shows that it was put into the queue.
    Shown,
    /// It was woken when the CPU had made this number of switches. No event shows the rest.
    Woken(u64),
}

impl Queued {
    pub(super) const fn preempted(task: Task, since: Nanos) -> Self {
        Self {
            task,
            since,
            how: How::Preempted,
            in_order: false,
        }
    }

    pub(super) const fn woken(task: Task, since: Nanos, shown: bool, switches: u64) -> Self {
        Self {
            task,
            since,
            how: if shown {
                How::Shown
            } else {
                How::Woken(switches)
            },
            in_order: shown,
        }
    }

    /// The thread is moved to another CPU that has made `switches` switches.
    pub(super) const fn moved(self, now: Nanos, switches: u64) -> Self {
        Self {
            since: now,
            how: match self.how {
                How::Woken(_) => How::Woken(switches),
                How::Shown | How::Preempted => How::Shown,
            },
            in_order: false,
            ..self
        }
    }

    /// Returns whether the CPU must have seen the thread when it chose the next one. `switches`:
    /// number of its earlier switches.
    pub(super) fn is_certain(&self, now: Nanos, switches: u64) -> bool {
        match self.how {
            How::Preempted => true,
            How::Shown => self.since + MARGIN <= now,
            How::Woken(before) => self.since + ARRIVED <= now && switches > before,
        }
    }

    /// Returns whether this thread comes before `other`, which has the real-time priority `prio`.
    pub(super) fn is_before(&self, other: &Self, prio: KernelPriority) -> bool {
        let same = self.task.prio == prio && other.task.prio == prio && prio.0 >= 0;
        let in_order = self.in_order && other.in_order;
        same && prio.is_real_time() && in_order && self.since + MARGIN < other.since
    }
}
