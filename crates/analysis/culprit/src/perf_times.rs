//! Sums the run time of each thread and its waits for a CPU exactly as perf sched does.
//!
//! This is based on `tools/perf/builtin-sched.c` of Linux 6.1: `timehist_sched_change_event` for the
//! run time, and `latency_switch_event` and `latency_wakeup_event` for the waits. perf counts across
//! missing events, counts a wait of 0 at the first switch to an unknown thread, ignores
//! `sched_waking`, and treats a thread of state `R+` as sleeping.

use std::collections::{BTreeMap, HashMap};

use punctual_model::{EventKind, Nanos, Task, TaskState, ThreadTimes, TraceEvent, TraceThreads};

use crate::thread_times::{MOST, longest_first, note};

/// The last state of a thread (`thread_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Since this time.
    Sleeping(Nanos),
    /// Since this time.
    WaitsForCpu(Nanos),
    Other,
}

#[derive(Debug)]
struct Thread {
    times: ThreadTimes,
    state: State,
}

/// Sums the times of all threads.
#[derive(Debug, Default)]
pub struct PerfSums {
    threads: HashMap<u32, Thread>,
    /// Time of the last switch on each CPU.
    last: BTreeMap<u32, Nanos>,
    found: TraceThreads,
}

impl PerfSums {
    /// Processes an event. The events must be in ascending order of time. `has_exited`: whether the ID
    /// of the thread that ran was already free, so that perf does not know the thread.
    pub fn event(&mut self, event: &TraceEvent, has_exited: bool) {
        let time = event.time;
        match &event.kind {
            EventKind::Switch {
                prev,
                prev_state,
                next,
            } => {
                note(&mut self.found, event);
                self.ran(event, prev, has_exited);
                self.leave(prev, *prev_state, time);
                self.enter(next, time);
            }
            EventKind::Wakeup { task, .. } => {
                note(&mut self.found, event);
                let thread = self.thread(task, State::Sleeping(time));
                if let Some(thread) = thread
                    && let State::Sleeping(since) = thread.state
                    && since <= time
                {
                    thread.state = State::WaitsForCpu(time);
                }
            }
            _ => (),
        }
    }

    /// Processes the run time that the event `sched_stat_runtime` states (`latency_runtime_event`).
    pub fn run_time(&mut self, time: Nanos, task: &Task, ran: Nanos) {
        if !self.threads.contains_key(&task.pid) {
            self.thread(task, State::WaitsForCpu(time));
        }
        if let Some(thread) = self.threads.get_mut(&task.pid) {
            let sum = thread.times.stated.unwrap_or_default();
            thread.times.stated = Some(Nanos(sum.0.saturating_add(ran.0)));
        }
    }

    /// Counts a gap. perf ignores it.
    pub const fn lost(&mut self) {
        self.found.gaps += 1;
    }

    /// Returns the threads, those with the longest wait first.
    pub fn finish(mut self) -> TraceThreads {
        let threads = self.threads.into_values().map(|thread| thread.times);
        let has_run =
            |times: &ThreadTimes| times.switches + times.woken.count > 0 || times.stated.is_some();
        self.found.threads = threads.filter(has_run).collect();
        longest_first(&mut self.found.threads);
        self.found.as_perf = true;
        self.found
    }

    /// Returns a thread other than the idle thread. `state`: that of a new one.
    fn thread(&mut self, task: &Task, state: State) -> Option<&mut Thread> {
        if task.is_idle() {
            return None;
        }
        if self.threads.len() >= MOST && !self.threads.contains_key(&task.pid) {
            self.found.omitted += 1;
            return None;
        }
        let times = ThreadTimes::default();
        let new = Thread { times, state };
        let thread = self.threads.entry(task.pid).or_insert(new);
        thread.times.task = *task;
        Some(thread)
    }

    /// A thread has run since the last switch of the CPU.
    fn ran(&mut self, event: &TraceEvent, task: &Task, has_exited: bool) {
        let since = self.last.insert(event.cpu, event.time);
        if has_exited {
            return;
        }
        if let Some(thread) = self.thread(task, State::Other) {
            let ran = since.map_or(Nanos::ZERO, |since| event.time.saturating_sub(since));
            thread.times.run = Nanos(thread.times.run.0.saturating_add(ran.0));
            thread.times.switches += 1;
        }
    }

    fn leave(&mut self, task: &Task, state: TaskState, time: Nanos) {
        if let Some(thread) = self.thread(task, State::Other) {
            thread.state = match state {
                TaskState(0) => State::WaitsForCpu(time),
                _ => State::Sleeping(time),
            };
        }
    }

    fn enter(&mut self, task: &Task, time: Nanos) {
        if let Some(thread) = self.thread(task, State::WaitsForCpu(time))
            && let State::WaitsForCpu(since) = thread.state
        {
            thread.state = State::Other;
            if since <= time {
                thread.times.woken.add(since, time);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread_times::testing::{delays, switch, wakeup, waking};

    #[test]
    fn waits_are_those_of_perf() {
        let mut sums = PerfSums::default();
        for event in [
            // A thread that perf does not know yet waits for no time.
            switch(100, 0, 0, 7),
            switch(150, 7, 1, 0),
            waking(160, 7),
            wakeup(170, 7),
            switch(200, 0, 0, 7),
            // perf counts R as a preemption, but not R+.
            switch(300, 7, 0x100, 8),
            switch(400, 8, 0, 7),
            switch(500, 7, 1, 8),
        ] {
            sums.event(&event, false);
        }
        sums.event(&switch(600, 8, 0x10, 7), true);
        // The first event of a thread begins a wait.
        let task = |pid| punctual_model::Task {
            pid,
            ..Default::default()
        };
        sums.run_time(Nanos(610), &task(7), Nanos(1_000));
        sums.run_time(Nanos(620), &task(9), Nanos(20));
        sums.run_time(Nanos(630), &task(9), Nanos(30));
        sums.event(&switch(650, 0, 0, 9), false);
        let found = sums.finish();
        let [first, second, third] = &found.threads[..] else {
            panic!("{:?}", found.threads);
        };
        assert_eq!((first.task.pid, first.woken), (8, delays(2, 100, 100, 500)));
        assert_eq!((second.task.pid, second.woken), (7, delays(2, 30, 30, 200)));
        // The switch at 400 ended a run of thread 8, and perf saw no wake-up of thread 7.
        assert_eq!((second.run, second.switches), (Nanos(50 + 100 + 100), 3));
        assert_eq!((second.stated, first.stated), (Some(Nanos(1_000)), None));
        assert_eq!(
            (third.stated, third.woken),
            (Some(Nanos(50)), delays(1, 30, 30, 650))
        );
        // perf does not know who ran before the switch at 600.
        assert_eq!((first.run, first.switches), (Nanos(100), 1));
    }
}
