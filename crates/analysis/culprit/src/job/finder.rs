//! Finds jobs in a stream of events.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{Comm, EventKind, Histogram, KernelPriority, Nanos, SignedNanos, TraceEvent};

use super::release::{Call, CallKind, FoundRelease, SeenWaits, Waits};

/// A completed job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub comm: Comm,
    /// Its priority at the last switch.
    pub prio: KernelPriority,
    /// The CPU on which it completed the job.
    pub cpu: u32,
    /// End of its release wait.
    pub release: Nanos,
    /// Time at which the thread returned to its release wait.
    pub completion: Nanos,
    /// CPU time from release to completion.
    pub ran: Nanos,
}

impl Job {
    /// Returns the time from release to completion.
    pub const fn response(&self) -> Nanos {
        self.completion.saturating_sub(self.release)
    }
}

/// Statistics of the jobs of a thread.
#[derive(Clone, Debug, Default)]
pub struct JobSeen {
    /// Its release wait; `None` if not found.
    pub release: Option<FoundRelease>,
    /// Number of completed jobs.
    pub jobs: u64,
    /// Number of jobs that were released without waiting.
    pub at_once: u64,
    /// Number of jobs without an observed end.
    pub incomplete: u64,
    waits: Waits,
    /// CPU time of each job.
    pub execution: Histogram,
}

impl JobSeen {
    /// Returns the number of waits of any kind.
    pub const fn waits(&self) -> u64 {
        self.waits.count
    }

    /// Returns the places where the thread waited, in descending order of total time.
    pub fn seen_waits(&self) -> Vec<SeenWaits> {
        self.waits.seen_waits()
    }
}

/// Returns the kind of a wait, given the thread and the call; `None` if it cannot be the release.
pub(crate) type KindOf<'a> = &'a dyn Fn(u32, Call) -> Option<CallKind>;

/// Numbers of some system calls on the recorded machine. 32-bit architectures have two numbers for
/// some.
#[derive(Clone, Debug, Default)]
pub struct CallNumbers {
    /// Numbers of restart_syscall(2).
    pub restart: Vec<i64>,
    /// Numbers of futex(2).
    pub futex: Vec<i64>,
}

/// Follows threads through a stream of scheduler and system call events, and finds their release
/// waits. The events must be in ascending order of time.
#[derive(Clone, Debug)]
pub struct JobFinder {
    numbers: CallNumbers,
    /// Events before this time are incomplete.
    blind: Nanos,
    threads: BTreeMap<u32, Thread>,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    state: State,
    seen: JobSeen,
    /// `Some` until the release wait is found.
    learning: Option<Learning>,
}

/// Events that are kept until the release wait is found.
#[derive(Clone, Debug)]
struct Learning {
    since: Nanos,
    events: Vec<TraceEvent>,
}

/// Maximum number of events kept per thread: enough for a few thousand waits.
const REMEMBERED: usize = 20_000;

#[derive(Clone, Copy, Debug, Default)]
struct State {
    comm: Comm,
    prio: KernelPriority,
    /// The current system call, and its entry time.
    call: Option<(Call, Nanos)>,
    last_call: Option<Call>,
    running: Option<Nanos>,
    ran: Nanos,
    asleep: Option<Nanos>,
    open: Option<Open>,
}

/// A job in progress.
#[derive(Clone, Copy, Debug)]
struct Open {
    release: Nanos,
    ran_before: Nanos,
    /// Whether the thread has not left its release wait yet.
    fresh: bool,
}

/// Result of an event for a thread.
enum Step {
    Waited(Option<Call>, Nanos, Nanos),
    Completed(Open),
    AtOnce,
}

/// Return values of an interrupted system call that continues later: ERESTARTSYS to
/// ERESTART_RESTARTBLOCK (`include/linux/errno.h`).
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

impl JobFinder {
    /// Creates a finder without any threads.
    pub const fn new(numbers: CallNumbers) -> Self {
        Self {
            numbers,
            blind: Nanos::ZERO,
            threads: BTreeMap::new(),
        }
    }

    /// Processes an event. Returns the jobs that ended with it. If it completed the search for the
    /// thread's release wait, earlier jobs are included.
    pub fn take(
        &mut self,
        event: &TraceEvent,
        watched: &dyn Fn(u32) -> bool,
        kind: KindOf<'_>,
    ) -> Vec<Job> {
        let (one, other) = match &event.kind {
            EventKind::Switch { prev, next, .. } => (prev.pid, Some(next.pid)),
            EventKind::Waking { task, .. } | EventKind::ProcessExit { task } => (task.pid, None),
            EventKind::SysEnter { .. } | EventKind::SysExit { .. } => (event.pid, None),
            _ => return Vec::new(),
        };
        // Wake-ups up to this time may be missing, so the sleep before one would look like a job.
        if event.time < self.blind {
            return Vec::new();
        }
        let mut jobs = Vec::new();
        for tid in [Some(one), other].into_iter().flatten() {
            if tid != 0 && watched(tid) {
                jobs.extend(self.take_of(tid, event, kind));
            }
        }
        jobs
    }

    fn take_of(&mut self, tid: u32, event: &TraceEvent, kind: KindOf<'_>) -> Vec<Job> {
        let numbers = &self.numbers;
        let thread = self
            .threads
            .entry(tid)
            .or_insert_with(|| Thread::new(event.time));
        let Some(learning) = &mut thread.learning else {
            return thread.step(tid, event, numbers).into_iter().collect();
        };
        if learning.events.len() < REMEMBERED {
            learning.events.push(event.clone());
        }
        let step = thread.state.step(tid, event, None, numbers);
        if let Some(Step::Waited(call, from, to)) = step {
            thread.seen.waits.add(call, from, to);
            if learning.is_over(event.time, thread.seen.waits.count) {
                return thread.learnt(tid, numbers, kind);
            }
        }
        Vec::new()
    }

    /// Marks events up to this time as lost. Waits and jobs that began earlier have no length, and
    /// the remaining events up to this time are ignored.
    pub fn blind_until(&mut self, time: Nanos) {
        self.blind = self.blind.max(time);
        self.interrupt(|_| true);
    }

    /// Marks a pause in the analysis since `end`. A job that began before it is incomplete; later
    /// ones are not counted.
    pub fn pause_since(&mut self, end: Nanos) {
        self.interrupt(|release| release < end);
    }

    /// Ends all jobs in progress. `counts` returns whether a job with this release time counts as
    /// incomplete.
    fn interrupt(&mut self, counts: impl Fn(Nanos) -> bool) {
        for thread in self.threads.values_mut() {
            let open = thread.state.open;
            thread.seen.incomplete += u64::from(open.is_some_and(|open| counts(open.release)));
            thread.seen.waits.interrupt();
            let State {
                comm, prio, ran, ..
            } = thread.state;
            thread.state = State {
                comm,
                prio,
                ran,
                ..State::default()
            };
            // The kept events would be replayed later, and the interruption would look like a job.
            if let Some(learning) = &mut thread.learning {
                learning.events.clear();
            }
        }
    }

    /// Returns the release time of the oldest unfinished job.
    pub fn oldest_open(&self) -> Option<Nanos> {
        let open = self.threads.values().filter_map(|one| one.state.open);
        open.map(|open| open.release).min()
    }

    /// Forgets the state of a thread whose ID was reused.
    pub fn forget(&mut self, tid: u32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.state = State::default();
        }
    }

    /// Chooses the release wait of the remaining threads. Returns their jobs.
    pub fn finish(&mut self, kind: KindOf<'_>) -> Vec<Job> {
        let numbers = &self.numbers;
        let threads = self.threads.iter_mut();
        let learning = threads.filter(|(_, thread)| thread.learning.is_some());
        let jobs = learning.flat_map(|(tid, thread)| thread.learnt(*tid, numbers, kind));
        let jobs = jobs.collect();
        for thread in self.threads.values_mut() {
            thread.seen.incomplete += u64::from(thread.state.open.take().is_some());
        }
        jobs
    }

    /// Returns the system calls that end and begin jobs, for the threads whose release wait is
    /// known.
    pub fn calls(&self) -> Vec<i64> {
        let found = self.threads.values().filter_map(|one| one.seen.release);
        let mut calls: BTreeSet<i64> = found.map(|found| found.call.id).collect();
        if !calls.is_empty() {
            calls.extend(&self.numbers.restart);
        }
        calls.into_iter().collect()
    }

    /// Returns whether the release wait of a thread is still unknown. Finding it requires all
    /// system calls of the thread.
    pub fn is_learning(&self, tid: u32) -> bool {
        let thread = self.threads.get(&tid);
        thread.is_none_or(|thread| thread.seen.release.is_none())
    }

    /// Returns the statistics of each thread.
    pub fn seen(&self) -> impl Iterator<Item = (u32, &JobSeen)> {
        self.threads
            .iter()
            .map(|(tid, thread)| (*tid, &thread.seen))
    }
}

impl Thread {
    fn new(since: Nanos) -> Self {
        Self {
            learning: Some(Learning {
                since,
                events: Vec::new(),
            }),
            ..Self::default()
        }
    }

    /// Chooses the release wait and replays the kept events. If no wait qualifies, the search
    /// continues.
    fn learnt(&mut self, tid: u32, numbers: &CallNumbers, kind: KindOf<'_>) -> Vec<Job> {
        let Some(learning) = self.learning.take() else {
            return Vec::new();
        };
        let Some(found) = self.seen.waits.choose(&|call| kind(tid, call)) else {
            self.learning = Some(learning);
            return Vec::new();
        };
        self.seen.release = Some(found);
        let waits = std::mem::take(&mut self.seen.waits);
        self.state = State::default();
        let events = learning.events.iter();
        let jobs = events
            .filter_map(|event| self.step(tid, event, numbers))
            .collect();
        self.seen.waits = waits;
        jobs
    }

    fn step(&mut self, tid: u32, event: &TraceEvent, numbers: &CallNumbers) -> Option<Job> {
        let release = self.seen.release.map(|found| found.call);
        if let EventKind::ProcessExit { .. } = event.kind {
            self.seen.incomplete += u64::from(self.state.open.take().is_some());
            return None;
        }
        match self.state.step(tid, event, release, numbers)? {
            Step::Waited(call, from, to) => self.seen.waits.add(call, from, to),
            Step::AtOnce => self.seen.at_once += 1,
            Step::Completed(open) => {
                let job = Job {
                    tid,
                    comm: self.state.comm,
                    prio: self.state.prio,
                    cpu: event.cpu,
                    release: open.release,
                    completion: event.time.max(open.release),
                    ran: self
                        .state
                        .ran_until(event.time)
                        .saturating_sub(open.ran_before),
                };
                self.seen.jobs += 1;
                let ran = i64::try_from(job.ran.0).unwrap_or(i64::MAX);
                self.seen.execution.record(SignedNanos(ran));
                return Some(job);
            }
        }
        None
    }
}

impl Learning {
    /// Returns whether there were enough waits in the elapsed time.
    fn is_over(&self, now: Nanos, count: u64) -> bool {
        let elapsed = now.saturating_sub(self.since);
        (elapsed >= Nanos::from_millis(300) && count >= 30)
            || (elapsed >= Nanos::from_secs(2) && count >= 5)
            || (elapsed >= Nanos::from_secs(10) && count >= 2)
    }
}

impl State {
    fn ran_until(&self, now: Nanos) -> Nanos {
        let open = self
            .running
            .map_or(Nanos::ZERO, |since| now.saturating_sub(since));
        self.ran + open
    }

    fn is_in(&self, release: Option<Call>) -> bool {
        release.is_some() && self.call.map(|(call, _)| call) == release
    }

    fn step(
        &mut self,
        tid: u32,
        event: &TraceEvent,
        release: Option<Call>,
        numbers: &CallNumbers,
    ) -> Option<Step> {
        let now = event.time;
        match &event.kind {
            EventKind::SysEnter { id, args } => {
                let mask = if numbers.futex.contains(id) { !7 } else { !0 };
                let again = numbers.restart.contains(id);
                let call = if again {
                    self.last_call?
                } else {
                    Call {
                        id: *id,
                        argument: args[0] & mask,
                    }
                };
                self.call = Some((call, now));
                self.last_call = Some(call);
                (!again && self.is_in(release)).then(|| self.open.take().map(Step::Completed))?
            }
            EventKind::SysExit { ret, .. } => {
                let here = self.is_in(release);
                let entered = self.call.take();
                if RESTARTS.contains(ret) {
                    // A signal is not a release.
                    self.open.take_if(|open| here && open.fresh);
                    return None;
                }
                if let Some(open) = &mut self.open {
                    open.fresh = false;
                } else if let Some((_, since)) = entered.filter(|_| here) {
                    let ran_before = self.ran_until(since);
                    self.open = Some(Open {
                        release: since,
                        ran_before,
                        fresh: false,
                    });
                    return Some(Step::AtOnce);
                }
                None
            }
            EventKind::Switch {
                prev, prev_state, ..
            } if prev.pid == tid => {
                (self.comm, self.prio) = (prev.comm, prev.prio);
                self.ran = self.ran_until(now);
                self.running = None;
                if !prev_state.is_runnable() && !prev_state.is_stopped() && !prev_state.is_traced()
                {
                    self.asleep = Some(now);
                    // The thread checked its condition and continued to wait.
                    let here = self.is_in(release);
                    self.open.take_if(|open| here && open.fresh);
                }
                None
            }
            EventKind::Switch { next, .. } => {
                (self.comm, self.prio) = (next.comm, next.prio);
                (self.running, self.asleep) = (Some(now), None);
                None
            }
            EventKind::Waking { .. } => {
                let since = self.asleep.take()?;
                if self.is_in(release) {
                    self.open = Some(Open {
                        release: now,
                        ran_before: self.ran,
                        fresh: true,
                    });
                }
                Some(Step::Waited(self.call.map(|(call, _)| call), since, now))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "finder_tests.rs"]
mod tests;
