//! Finds jobs in a stream of events.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use punctual_model::{Comm, EventKind, KernelPriority, Nanos, SignedNanos, TraceEvent};

use super::release::{Call, CallKind, Waits};
use super::seen::{Job, JobSeen};

/// Returns the kind of a wait, given the thread and the call; `None` if it cannot be the release.
pub(crate) type KindOf<'a> = &'a dyn Fn(u32, Call) -> Option<CallKind>;

/// Numbers of some system calls on the recorded machine. On 32-bit architectures, some calls have
/// two numbers.
#[derive(Clone, Debug, Default)]
pub struct CallNumbers {
    /// Numbers of restart_syscall(2).
    pub restart: Vec<i64>,
    /// Numbers of futex(2).
    pub futex: Vec<i64>,
    /// Numbers of sched_yield(2), which ends a job of SCHED_DEADLINE.
    pub sched_yield: Vec<i64>,
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
    /// `Some` during the search for the first release wait or for another one.
    learning: Option<Learning>,
    /// Time at which the thread last entered its release wait, or the first event after an
    /// interruption.
    last_release: Option<Nanos>,
    /// Number of waits elsewhere since then.
    elsewhere: u64,
}

/// Search for the release wait.
#[derive(Clone, Debug)]
struct Learning {
    since: Nanos,
    waits: Waits,
    /// The newest events, without a gap. When the events are replayed, a gap would look like a job.
    events: VecDeque<TraceEvent>,
    /// Start of the time in which jobs are not counted. This time ends at the oldest kept event.
    dropped_since: Option<Nanos>,
}

/// Maximum number of events kept per thread: enough for a few thousand waits.
const REMEMBERED: usize = 20_000;

/// A search for another release wait begins if the thread has not entered its release wait for this
/// time and for [`UNUSED_PERIODS`] of its periods, and has waited elsewhere at least [`ELSEWHERE`]
/// times.
const UNUSED: Nanos = Nanos::from_secs(2);
const UNUSED_PERIODS: u64 = 20;
const ELSEWHERE: u64 = 5;

/// Another release wait is accepted only after this multiple of that time. Until then, the thread
/// may be in a long job, which ends when it enters its release wait.
const UNTIL_ACCEPTED: u64 = 5;

/// Maximum number of earlier release waits that are kept.
const EARLIER: usize = 4;

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
    /// Time at which the thread gave up the rest of its SCHED_DEADLINE runtime, until the next
    /// period.
    yielded: Option<Nanos>,
    /// Whether the thread has slept in the current call without an event that shows its wake-up.
    wakeup_missing: bool,
    open: Option<Open>,
    /// Time until which the thread wants to sleep in the current call, if known.
    until: Option<Nanos>,
    /// Last wake-up of the thread.
    woken: Option<Nanos>,
    /// Whether a signal or a debugger has interrupted the release wait, which will continue.
    interrupted: bool,
    /// The stop in the release wait.
    stop: Option<Stop>,
}

/// A stop by a signal or a debugger. Until then, the thread was in its release wait.
#[derive(Clone, Copy, Debug)]
struct Stop {
    from: Nanos,
    ran_before: Nanos,
    /// Time of the wake-up for the stop.
    events_from: Nanos,
}

/// A job in progress.
#[derive(Clone, Copy, Debug)]
struct Open {
    release: Nanos,
    ran_before: Nanos,
    events_from: Nanos,
    /// Whether the thread has not left its release wait yet.
    fresh: bool,
}

/// Result of an event for a thread.
enum Step {
    Waited(Option<Call>, Nanos, Nanos),
    Completed(Open),
    AtOnce,
    /// The job was released at an unknown time during a stop of this length.
    InStop(Nanos),
    /// The release wait has ended, but no event shows when.
    ReleaseUnknown,
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

    /// Processes an event. Returns the jobs that ended with this event. If it completed the search
    /// for the thread's release wait, earlier jobs are included.
    pub fn take(
        &mut self,
        event: &TraceEvent,
        watched: &dyn Fn(u32) -> bool,
        kind: KindOf<'_>,
    ) -> Vec<Job> {
        let (one, other) = match &event.kind {
            EventKind::Switch { prev, next, .. } => (prev.pid, Some(next.pid)),
            EventKind::Waking { task, .. } | EventKind::ProcessExit { task } => (task.pid, None),
            EventKind::SysEnter { .. }
            | EventKind::SysExit { .. }
            | EventKind::SleepUntil { .. } => (event.pid, None),
            _ => return Vec::new(),
        };
        // Wake-ups up to this time may be missing, so the sleep before a missing wake-up would look
        // like a job.
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
        let waits = thread.seen.waits.count;
        let mut jobs: Vec<Job> = thread.step(tid, event, numbers).into_iter().collect();
        if let Some(learning) = &mut thread.learning {
            learning.keep(event);
        }
        if thread.seen.waits.count > waits && thread.search_ends(event.time) {
            jobs.extend(thread.learnt(tid, numbers, kind));
        }
        jobs
    }

    /// Marks events up to this time as lost. Waits and jobs that began earlier have no length, and
    /// the remaining events up to this time are ignored.
    pub fn blind_until(&mut self, time: Nanos) {
        self.blind = self.blind.max(time);
        self.interrupt(|_| true);
    }

    /// Records that the analysis has been paused since `end`. Jobs that began before the pause are
    /// incomplete; jobs that began during it are not counted.
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
            (thread.last_release, thread.elsewhere) = (None, 0);
            // The kept events would be replayed later, and the interruption would look like a job.
            if let Some(learning) = &mut thread.learning {
                learning.events.clear();
                learning.waits.interrupt();
                learning.dropped_since = None;
            }
            // The thread may have entered its release wait in the meantime.
            if thread.seen.release.is_some() {
                thread.learning = None;
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

    /// Chooses the release wait of the remaining threads. Returns the jobs of these threads.
    pub fn finish(&mut self, kind: KindOf<'_>) -> Vec<Job> {
        let numbers = &self.numbers;
        let threads = self.threads.iter_mut();
        let learning = threads.filter(|(_, thread)| thread.seen.release.is_none());
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

    /// Returns whether the search for a thread's release wait is still in progress. The search
    /// requires all system calls of the thread.
    pub fn is_learning(&self, tid: u32) -> bool {
        let thread = self.threads.get(&tid);
        thread.is_none_or(|thread| thread.learning.is_some())
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
            learning: Some(Learning::new(since)),
            ..Self::default()
        }
    }

    /// Begins a search for another release wait if the thread seems to have stopped using its
    /// current one, as in a program that sleeps during its start and then waits for a timer.
    /// Returns whether a search has enough waits.
    fn search_ends(&mut self, now: Nanos) -> bool {
        let is_over = |learning: &Learning| learning.is_over(now);
        let (Some(release), Some(since)) = (self.seen.release, self.last_release) else {
            return self.learning.as_ref().is_some_and(is_over);
        };
        let periods = release
            .period
            .unwrap_or_default()
            .0
            .saturating_mul(UNUSED_PERIODS);
        let long = UNUSED.0.max(periods);
        let unused = now.saturating_sub(since).0;
        match &self.learning {
            Some(learning) => unused / UNTIL_ACCEPTED >= long && is_over(learning),
            None => {
                if unused >= long && self.elsewhere >= ELSEWHERE {
                    self.learning = Some(Learning {
                        dropped_since: Some(since),
                        ..Learning::new(now)
                    });
                }
                false
            }
        }
    }

    /// Chooses the release wait and replays the kept events. If no wait qualifies, the search
    /// continues.
    fn learnt(&mut self, tid: u32, numbers: &CallNumbers, kind: KindOf<'_>) -> Vec<Job> {
        let Some(learning) = self.learning.take() else {
            return Vec::new();
        };
        let Some(found) = learning.waits.choose(&|call| kind(tid, call)) else {
            self.learning = Some(learning);
            return Vec::new();
        };
        self.seen.candidates = learning.waits.candidates(&|call| kind(tid, call));
        let earlier = self.seen.release.replace(found);
        if self.seen.earlier.len() < EARLIER {
            self.seen.earlier.extend(earlier);
        }
        self.seen.incomplete += u64::from(self.state.open.is_some());
        if let (Some(since), Some(first)) = (learning.dropped_since, learning.events.front()) {
            self.seen.not_counted += first.time.saturating_sub(since);
        }
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
        let step = self.state.step(tid, event, release, numbers);
        self.last_release.get_or_insert(event.time);
        if matches!(event.kind, EventKind::SysEnter { .. }) && self.state.is_in(release) {
            (self.last_release, self.elsewhere) = (Some(event.time), 0);
            self.learning = None;
        }
        match step? {
            Step::Waited(call, from, to) => {
                self.seen.waits.add(call, from, to);
                self.elsewhere += u64::from(call != release);
                if let Some(learning) = &mut self.learning {
                    learning.waits.add(call, from, to);
                }
            }
            Step::AtOnce => self.seen.at_once += 1,
            Step::InStop(length) => {
                self.seen.at_once += 1;
                self.seen.while_stopped += 1;
                self.seen.longest_stop = self.seen.longest_stop.max(length);
            }
            Step::ReleaseUnknown => self.seen.incomplete += 1,
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
                    events_from: open.events_from.min(open.release),
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
    fn new(since: Nanos) -> Self {
        Self {
            since,
            waits: Waits::default(),
            events: VecDeque::new(),
            dropped_since: None,
        }
    }

    fn keep(&mut self, event: &TraceEvent) {
        if self.events.len() >= REMEMBERED
            && let Some(dropped) = self.events.pop_front()
        {
            self.dropped_since.get_or_insert(dropped.time);
        }
        self.events.push_back(event.clone());
    }

    /// Returns whether there have been enough waits in the time so far.
    fn is_over(&self, now: Nanos) -> bool {
        let (elapsed, count) = (now.saturating_sub(self.since), self.waits.count);
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

    /// Handles the end of a wait. If it was the release wait, a job begins.
    fn wakes(&mut self, since: Nanos, now: Nanos, release: Option<Call>) -> Step {
        if self.is_in(release) {
            self.open = Some(Open {
                release: now,
                ran_before: self.ran,
                events_from: now,
                fresh: true,
            });
        }
        Step::Waited(self.call.map(|(call, _)| call), since, now)
    }

    /// Begins a job that was released without a wait at `since`. If the thread was stopped in its
    /// release wait until then, the job may have been due during the stop.
    fn begins_at_once(&mut self, since: Nanos, stop: Option<Stop>) -> Option<Step> {
        let due = stop.zip(self.until);
        if let Some((stop, due)) =
            due.filter(|(stop, due)| (stop.events_from..=since).contains(due))
        {
            self.open = Some(Open {
                release: due,
                ran_before: stop.ran_before,
                events_from: stop.events_from,
                fresh: false,
            });
            return None;
        }
        self.open = Some(Open {
            release: since,
            ran_before: self.ran_until(since),
            events_from: since,
            fresh: false,
        });
        Some(stop.map_or(Step::AtOnce, |stop| {
            Step::InStop(since.saturating_sub(stop.from))
        }))
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
                self.wakeup_missing = false;
                if !again {
                    self.until = None;
                }
                if !self.is_in(release) {
                    (self.interrupted, self.stop) = (false, None);
                }
                (!again && self.is_in(release)).then(|| self.open.take().map(Step::Completed))?
            }
            EventKind::SysExit { ret, .. } => {
                let here = self.is_in(release);
                let entered = self.call.take();
                if RESTARTS.contains(ret) {
                    // A signal is not a release.
                    self.open.take_if(|open| here && open.fresh);
                    self.interrupted = here && self.open.is_none();
                    return None;
                }
                self.interrupted = false;
                let stop = self.stop.take().filter(|_| here);
                // The switch back to the thread may be missing as well.
                let wakeup_missing = std::mem::take(&mut self.wakeup_missing)
                    | self.asleep.take().is_some()
                    | self.yielded.take().is_some();
                if let Some(open) = &mut self.open {
                    open.fresh = false;
                } else if here && wakeup_missing {
                    return Some(Step::ReleaseUnknown);
                } else if let Some((_, since)) = entered.filter(|_| here) {
                    return self.begins_at_once(since, stop);
                }
                None
            }
            EventKind::SleepUntil { until } => {
                if self.call.is_some() {
                    self.until = Some(*until);
                }
                None
            }
            EventKind::Switch {
                prev, prev_state, ..
            } if prev.pid == tid => {
                (self.comm, self.prio) = (prev.comm, prev.prio);
                self.ran = self.ran_until(now);
                self.running = None;
                let yields = self
                    .call
                    .is_some_and(|(call, _)| numbers.sched_yield.contains(&call.id));
                if yields && prev_state.is_runnable() && prev.prio.0 < 0 {
                    self.yielded = Some(now);
                }
                if prev_state.is_stopped() || prev_state.is_traced() {
                    if self.interrupted && self.stop.is_none() {
                        self.stop = Some(Stop {
                            from: now,
                            ran_before: self.ran,
                            events_from: self.woken.unwrap_or(now),
                        });
                    }
                } else if !prev_state.is_runnable() {
                    self.asleep = Some(now);
                    // The job was not due at the end of the stop.
                    self.stop = None;
                    // The thread checked its condition and continued to wait.
                    let here = self.is_in(release);
                    self.open.take_if(|open| here && open.fresh);
                }
                None
            }
            EventKind::Switch { next, .. } => {
                (self.comm, self.prio) = (next.comm, next.prio);
                self.running = Some(now);
                self.wakeup_missing |= self.asleep.take().is_some();
                // No event shows when the next period began, so the job begins here.
                let since = self.yielded.take()?;
                Some(self.wakes(since, now, release))
            }
            EventKind::Waking { .. } => {
                let since = self.asleep.take()?;
                self.woken = Some(now);
                Some(self.wakes(since, now, release))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "finder_tests.rs"]
mod tests;
