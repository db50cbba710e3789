//! Sums the run time of each thread in a trace, and its waits for a CPU.
//!
//! A wait begins at the wake-up of a sleeping thread, or at the switch that takes the CPU from a
//! runnable one, and ends when the thread runs, similar to `perf sched latency`. Unlike perf, this counts
//! neither a wait of 0 for a thread that is seen for the first time, nor times across missing events.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use punctual_model::{EventKind, Nanos, Task, ThreadTimes, TraceEvent, TraceThreads};

/// Maximum number of threads. There can be more only in a damaged trace.
pub(crate) const MOST: usize = 1 << 17;

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// It runs, or its state is unknown.
    Nothing,
    /// It sleeps until it is woken.
    WakeUp,
    /// It was woken at this time, and waits for a CPU.
    CpuSinceWakeUp(Nanos),
    /// It lost its CPU at this time, and waits for one.
    CpuSincePreemption(Nanos),
}

#[derive(Debug)]
struct Thread {
    times: ThreadTimes,
    waits: Waits,
}

/// Counts an event.
pub(crate) fn note(found: &mut TraceThreads, event: &TraceEvent) {
    found.events += 1;
    found.cpus.insert(event.cpu);
    let from = found.span.map_or(event.time, |(from, _)| from);
    found.span = Some((from, event.time));
}

/// Sorts the threads by their longest waits.
pub(crate) fn longest_first(threads: &mut [ThreadTimes]) {
    threads.sort_by_key(|thread| {
        let longest = thread.woken.max.max(thread.preempted.max);
        (Reverse(longest), thread.task.pid)
    });
}

/// Sums the times of all threads.
#[derive(Debug, Default)]
pub struct ThreadSums {
    threads: HashMap<u32, Thread>,
    /// The running thread of each CPU, and the time at which it began.
    running: BTreeMap<u32, (u32, Nanos)>,
    found: TraceThreads,
}

impl ThreadSums {
    /// Processes an event. The events must be in ascending order of time.
    pub fn event(&mut self, event: &TraceEvent) {
        let (time, cpu) = (event.time, event.cpu);
        match &event.kind {
            EventKind::Switch {
                prev,
                prev_state,
                next,
            } => {
                note(&mut self.found, event);
                self.leave(cpu, prev, prev_state.is_runnable(), time);
                self.enter(cpu, next, time);
            }
            EventKind::Waking { task, .. } | EventKind::Wakeup { task, .. } => {
                note(&mut self.found, event);
                // A thread that has not been seen before sleeps.
                if let Some(thread) = self.thread(task, Waits::WakeUp)
                    && thread.waits == Waits::WakeUp
                {
                    thread.waits = Waits::CpuSinceWakeUp(time);
                }
            }
            _ => (),
        }
    }

    /// Forgets the states of all threads, because events of a CPU are missing: any of them may have
    /// run there.
    pub fn lost(&mut self, cpu: u32) {
        self.found.gaps += 1;
        self.running.remove(&cpu);
        for thread in self.threads.values_mut() {
            thread.waits = Waits::Nothing;
        }
    }

    /// Returns the threads, those with the longest wait first.
    pub fn finish(mut self) -> TraceThreads {
        let threads = self.threads.into_values().map(|thread| thread.times);
        self.found.threads = threads.collect();
        longest_first(&mut self.found.threads);
        self.found
    }

    /// Returns a thread other than the idle thread. `waits`: the state of a new one.
    fn thread(&mut self, task: &Task, waits: Waits) -> Option<&mut Thread> {
        if task.is_idle() {
            return None;
        }
        if self.threads.len() >= MOST && !self.threads.contains_key(&task.pid) {
            self.found.omitted += 1;
            return None;
        }
        let thread = self.threads.entry(task.pid).or_insert_with(|| Thread {
            times: ThreadTimes::default(),
            waits,
        });
        thread.times.task = *task;
        Some(thread)
    }

    fn leave(&mut self, cpu: u32, task: &Task, is_runnable: bool, time: Nanos) {
        let ran = self.running.remove(&cpu);
        let since = ran.filter(|(pid, _)| *pid == task.pid);
        self.found.switches_missing += u64::from(ran.is_some() && since.is_none());
        if let Some(thread) = self.thread(task, Waits::Nothing) {
            if let Some((_, since)) = since {
                let ran = time.saturating_sub(since);
                thread.times.run = Nanos(thread.times.run.0.saturating_add(ran.0));
            }
            thread.waits = if is_runnable {
                Waits::CpuSincePreemption(time)
            } else {
                Waits::WakeUp
            };
        }
    }

    fn enter(&mut self, cpu: u32, task: &Task, time: Nanos) {
        self.running.insert(cpu, (task.pid, time));
        if let Some(thread) = self.thread(task, Waits::Nothing) {
            thread.times.switches += 1;
            match std::mem::replace(&mut thread.waits, Waits::Nothing) {
                Waits::CpuSinceWakeUp(since) => thread.times.woken.add(since, time),
                Waits::CpuSincePreemption(since) => thread.times.preempted.add(since, time),
                Waits::Nothing | Waits::WakeUp => (),
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use punctual_model::{
        Comm, Delays, EventKind, KernelPriority, Nanos, Task, TaskState, TraceEvent,
    };

    fn task(pid: u32) -> Task {
        Task {
            pid,
            comm: Comm::new(b"a"),
            prio: KernelPriority(120),
        }
    }

    fn event(time: u64, kind: EventKind) -> TraceEvent {
        TraceEvent {
            time: Nanos(time),
            cpu: 0,
            pid: 0,
            flags: 0,
            preempt_count: 0,
            kind,
        }
    }

    pub(crate) fn switch(time: u64, prev: u32, state: u32, next: u32) -> TraceEvent {
        let (prev, next) = (task(prev), task(next));
        let prev_state = TaskState(state);
        event(
            time,
            EventKind::Switch {
                prev,
                prev_state,
                next,
            },
        )
    }

    pub(crate) fn waking(time: u64, pid: u32) -> TraceEvent {
        let (task, target_cpu) = (task(pid), 0);
        event(time, EventKind::Waking { task, target_cpu })
    }

    pub(crate) fn delays(count: u64, total: u64, max: u64, max_end: u64) -> Delays {
        Delays {
            count,
            total: Nanos(total),
            max: Nanos(max),
            max_end: Nanos(max_end),
        }
    }

    pub(crate) fn wakeup(time: u64, pid: u32) -> TraceEvent {
        let kind = EventKind::Wakeup {
            task: task(pid),
            target_cpu: 0,
            new: false,
        };
        event(time, kind)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{delays, switch, waking};
    use super::*;

    #[test]
    fn waits_are_from_wake_up_and_from_preemption() {
        let mut sums = ThreadSums::default();
        for event in [
            waking(100, 7),
            switch(130, 0, 0, 7),
            // It is running, so this wake-up is no wait.
            waking(140, 7),
            switch(200, 7, 0x100, 8),
            switch(250, 8, 1, 7),
            switch(300, 7, 1, 0),
            waking(400, 7),
            // The same wake-up, on the other CPU.
            waking(405, 7),
            switch(410, 0, 0, 7),
        ] {
            sums.event(&event);
        }
        let found = sums.finish();
        assert_eq!(found.span, Some((Nanos(100), Nanos(410))));
        let [first, second] = &found.threads[..] else {
            panic!("{:?}", found.threads);
        };
        assert_eq!((first.task.pid, first.switches), (7, 3));
        assert_eq!(first.run, Nanos(70 + 50));
        assert_eq!(first.woken, delays(2, 40, 30, 130));
        assert_eq!(first.preempted, delays(1, 50, 50, 250));
        assert_eq!((second.run, second.switches), (Nanos(50), 1));
        assert_eq!(second.woken.mean(), None);
    }

    #[test]
    fn a_gap_ends_waits_and_runs() {
        let mut sums = ThreadSums::default();
        sums.event(&switch(100, 0, 0, 7));
        sums.event(&waking(110, 8));
        sums.lost(0);
        sums.event(&switch(900, 7, 1, 8));
        sums.event(&switch(950, 9, 1, 0));
        let found = sums.finish();
        assert_eq!((found.gaps, found.switches_missing), (1, 1));
        let all = found.threads.iter();
        assert!(
            all.map(|thread| thread.run.0 + thread.woken.count)
                .all(|sum| sum == 0)
        );
    }
}
