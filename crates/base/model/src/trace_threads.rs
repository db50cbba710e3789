//! Run time of the threads in a trace, and their waits for a CPU.

use std::collections::BTreeSet;

use crate::{Nanos, Task};

/// The waits of a thread for a CPU that have the same reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Number of waits.
    pub count: u64,
    /// Sum of their lengths.
    pub total: Nanos,
    /// Length of the longest one.
    pub max: Nanos,
    /// Time at which the longest one ended.
    pub max_end: Nanos,
}

impl Delays {
    /// Adds a wait.
    pub fn add(&mut self, from: Nanos, to: Nanos) {
        let length = to.saturating_sub(from);
        self.count += 1;
        self.total = Nanos(self.total.0.saturating_add(length.0));
        if length > self.max {
            (self.max, self.max_end) = (length, to);
        }
    }

    /// Returns the mean length, or `None` if there is no wait.
    pub fn mean(&self) -> Option<Nanos> {
        self.total.0.checked_div(self.count).map(Nanos)
    }
}

/// Run time and waits of a thread in a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// The thread, with its last name and priority.
    pub task: Task,
    /// Time on a CPU, as far as the trace shows both the beginning and the end.
    pub run: Nanos,
    /// Sum of the run times that events state (`sched:sched_stat_runtime`). Absent if there are none,
    /// or unless counted as perf does.
    pub stated: Option<Nanos>,
    /// Number of switches to the thread. As perf counts: number of its runs.
    pub switches: u64,
    /// Waits from a wake-up until the thread ran. As perf counts: all waits.
    pub woken: Delays,
    /// Waits from a switch to another thread, while this one was runnable, until it ran again.
    pub preempted: Delays,
}

impl ThreadTimes {
    /// Returns all waits for a CPU.
    pub fn waits(&self) -> Delays {
        let (mut all, other) = (self.woken, self.preempted);
        all.count += other.count;
        all.total = Nanos(all.total.0.saturating_add(other.total.0));
        if other.max > all.max {
            (all.max, all.max_end) = (other.max, other.max_end);
        }
        all
    }
}

/// Run time and waits of all threads in a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceThreads {
    /// The file, as the user named it.
    pub file: String,
    /// Its format.
    pub format: String,
    /// Whether run time and waits are counted as perf sched does.
    pub as_perf: bool,
    /// CPUs that have events.
    pub cpus: BTreeSet<u32>,
    /// Number of switches and wake-ups.
    pub events: u64,
    /// Times of the first and the last of them.
    pub span: Option<(Nanos, Nanos)>,
    /// The threads, those with the longest wait first.
    pub threads: Vec<ThreadTimes>,
    /// Number of threads that are not listed, because there are too many.
    pub omitted: u64,
    /// Number of gaps with lost events.
    pub gaps: u64,
    /// Number of switches from another thread than the one that ran before, so that a switch is
    /// missing.
    pub switches_missing: u64,
    /// Warnings about missing data, one sentence for each.
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_keep_the_longest_and_its_end() {
        let mut delays = Delays::default();
        assert_eq!(delays.mean(), None);
        for (from, to) in [(10, 14), (20, 29), (30, 39), (50, 40)] {
            delays.add(Nanos(from), Nanos(to));
        }
        // Of equal waits, the first one is kept. A wait that ends before it begins has no length.
        let expected = Delays {
            count: 4,
            total: Nanos(22),
            max: Nanos(9),
            max_end: Nanos(29),
        };
        assert_eq!(delays, expected);
        assert_eq!(delays.mean(), Some(Nanos(5)));
        delays.add(Nanos(0), Nanos(u64::MAX));
        assert_eq!(
            (delays.total, delays.max),
            (Nanos(u64::MAX), Nanos(u64::MAX))
        );
    }

    #[test]
    fn waits_are_those_after_a_wake_up_and_after_a_preemption() {
        let of = |waits: &[(u64, u64)]| {
            let mut delays = Delays::default();
            waits
                .iter()
                .for_each(|(from, to)| delays.add(Nanos(*from), Nanos(*to)));
            delays
        };
        let (short, long) = ([(10, 12), (20, 24)], [(30, 39)]);
        let all = of(&[short.as_slice(), &long].concat());
        for (woken, preempted) in [(of(&short), of(&long)), (of(&long), of(&short))] {
            let times = ThreadTimes {
                woken,
                preempted,
                ..ThreadTimes::default()
            };
            assert_eq!(times.waits(), all);
        }
        // Equal maxima: that after a wake-up is named.
        let (first, second) = (of(&[(10, 14)]), of(&[(20, 24)]));
        let times = ThreadTimes {
            woken: first,
            preempted: second,
            ..ThreadTimes::default()
        };
        assert_eq!(times.waits().max_end, Nanos(14));
    }
}
