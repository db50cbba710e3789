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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{task, us};

    fn thread(prio: i16) -> Task {
        task("t", 5, prio)
    }

    /// Returns whether a CPU that makes its fourth switch at this time must have seen the thread.
    fn is_seen(queued: Queued, now: u64) -> bool {
        queued.is_certain(us(now), 3)
    }

    #[test]
    fn cpu_sees_a_woken_thread_after_a_moment() {
        assert!(is_seen(Queued::preempted(thread(9), us(100)), 100));
        let shown = || Queued::woken(thread(9), us(100), true, 3);
        assert!(is_seen(shown(), 150) && !is_seen(shown(), 149));
        // Without its enqueueing, a switch in between is needed.
        let woken = |switches| Queued::woken(thread(9), us(100), false, switches);
        assert!(is_seen(woken(2), 200) && !is_seen(woken(2), 199));
        assert!(!is_seen(woken(3), 900));
    }

    #[test]
    fn moved_thread_is_seen_by_its_new_cpu() {
        let moved = |queued: Queued| queued.moved(us(500), 3);
        let preempted = moved(Queued::preempted(thread(9), us(100)));
        assert!(is_seen(preempted, 550) && !is_seen(preempted, 549));
        let shown = moved(Queued::woken(thread(9), us(100), true, 0));
        assert!(is_seen(shown, 550) && !is_seen(shown, 549));
        assert!(!shown.in_order);
        let woken = moved(Queued::woken(thread(9), us(100), false, 0));
        assert!(!is_seen(woken, 900));
        assert!(woken.is_certain(us(600), 4) && !woken.is_certain(us(599), 4));
        assert_eq!(woken.task.pid, 5);
    }

    #[test]
    fn real_time_threads_of_equal_priority_are_in_order() {
        let queued = |prio, since| Queued::woken(thread(prio), us(since), true, 0);
        let before =
            |own: Queued, other: Queued, prio: i16| own.is_before(&other, KernelPriority(prio));
        assert!(before(queued(9, 100), queued(9, 151), 9));
        assert!(!before(queued(9, 100), queued(9, 150), 9));
        assert!(!before(queued(9, 151), queued(9, 100), 9));
        // All three priorities must be equal, and be those of FIFO or round-robin threads.
        for (own, other, now) in [
            (8, 9, 9),
            (9, 8, 9),
            (9, 9, 8),
            (120, 120, 120),
            (-1, -1, -1),
        ] {
            assert!(
                !before(queued(own, 100), queued(other, 900), now),
                "{own} {other} {now}"
            );
        }
        assert!(before(queued(0, 100), queued(0, 900), 0));
        // The place of a preempted thread is another one.
        let preempted = |since| Queued::preempted(thread(9), us(since));
        assert!(!before(preempted(100), queued(9, 900), 9));
        assert!(!before(queued(9, 100), preempted(900), 9));
    }
}
