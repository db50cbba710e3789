//! Finds jobs in a stream of events.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{EventKind, Nanos, SignedNanos, TraceEvent};

use super::judge::Judge;
use super::learning::{Kept, Learning};
use super::pools::{Pools, Waited};
use super::release::{FoundRelease, KindOf, Releases, Waits};
use super::seen::{Job, JobSeen};
use super::siblings::{Process, Siblings};
use super::thread_state::{
    CallNumbers, EndedWait, FutexCall, OpenJob, Outcome, Point, Stages, Step, ThreadState,
};
use super::wakers::{Wakers, thread_that_wakes};

/// Follows threads through a stream of scheduler and system call events, and finds their release
/// waits. The events must be in ascending order of time.
#[derive(Clone, Debug)]
pub struct JobFinder {
    numbers: CallNumbers,
    /// Events before this time are incomplete.
    blind: Nanos,
    stages: Stages,
    threads: BTreeMap<u32, Thread>,
    pools: Pools,
    siblings: Siblings,
    wakers: Wakers,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    state: ThreadState,
    seen: JobSeen,
    /// `Some` during the search for the first release wait or for another one.
    learning: Option<Learning>,
    /// Time at which the thread last entered its release wait, or the first event after an
    /// interruption.
    last_release: Option<Nanos>,
    /// Number of waits elsewhere since then.
    elsewhere: u64,
    /// Whether a whole full stage has passed since then.
    seen_in_full: bool,
    /// End of the last sleep in the release wait.
    busy_since: Option<Nanos>,
    /// End of the last wait, and the CPU time of the thread until it.
    last_wait: Option<(Nanos, Nanos)>,
    /// The last wait, until it has been added to those of the process.
    waited: Option<Waited>,
}

/// A search for another release wait begins if the thread has not entered its release wait for this
/// time and for [`UNUSED_PERIODS`] of its periods, and has waited elsewhere at least [`ELSEWHERE`]
/// times.
const UNUSED: Nanos = Nanos::from_secs(2);
const UNUSED_PERIODS: u64 = 20;
const ELSEWHERE: u64 = 5;

/// Another release wait is accepted only after this multiple of that time. Until then, the thread
/// may be in a long job, which ends when it enters its release wait.
const UNTIL_ACCEPTED: u64 = 5;

/// Number of waits after which the release waits are judged again, for a thread of a pool or for one
/// whose siblings end its wait.
const JUDGED: u64 = 8;

/// Number of waits after which all idle waits are judged only if the number has doubled.
const OFTEN: u64 = 256;

/// Maximum number of earlier release waits that are kept.
const EARLIER: usize = 4;

impl JobFinder {
    /// Creates a finder without any threads.
    pub const fn new(numbers: CallNumbers) -> Self {
        Self {
            numbers,
            blind: Nanos::ZERO,
            stages: Stages {
                light: false,
                both: false,
            },
            threads: BTreeMap::new(),
            pools: Pools::new(),
            siblings: Siblings::new(),
            wakers: Wakers::new(),
        }
    }

    /// Sets the process of a thread, if known. Only threads of one process can form a pool. The
    /// thread may be one that is not watched, but wakes watched ones.
    pub fn joins(&mut self, tid: u32, process: Option<Process>) {
        self.pools.joins(tid, process);
    }

    /// Returns the threads whose processes are needed.
    pub const fn needs_processes(&self) -> &BTreeSet<u32> {
        self.pools.needed()
    }

    /// Processes an event. Returns the jobs that ended with this event. If it completed the search
    /// for the thread's release wait, earlier jobs are included.
    pub fn take(
        &mut self,
        event: &TraceEvent,
        watched: &dyn Fn(u32) -> bool,
        kind: KindOf<'_>,
    ) -> Vec<Job> {
        self.wakers.take(event);
        let (one, other) = match &event.kind {
            EventKind::Switch { prev, next, .. } => (prev.pid, Some(next.pid)),
            EventKind::Waking { task, .. } | EventKind::ProcessExit { task } => (task.pid, None),
            EventKind::SysEnter { .. }
            | EventKind::SysExit { .. }
            | EventKind::SleepUntil { .. }
                if self.stages.light =>
            {
                return Vec::new();
            }
            EventKind::SysEnter { .. }
            | EventKind::SysExit { .. }
            | EventKind::SleepUntil { .. }
            | EventKind::SleepsIn { .. } => (event.pid, None),
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
        let stages = self.stages;
        let waker_is_watched = self.threads.contains_key(&event.pid);
        let thread = self
            .threads
            .entry(tid)
            .or_insert_with(|| Thread::new(event.time, stages));
        let waits = thread.seen.waits.count;
        let since = thread.released();
        let mut jobs: Vec<Job> = thread
            .step(tid, event, &self.numbers, stages)
            .into_iter()
            .collect();
        if let Some(learning) = &mut thread.learning {
            learning.keep(Kept::Event(event.clone()));
        }
        if thread.seen.waits.count == waits {
            return jobs;
        }
        if let Some(waited) = thread.waited.take() {
            self.pools.add(tid, waited, kind);
            self.note_end(tid, event, waited, since);
            if let EventKind::Waking { .. } = event.kind {
                let is_sibling = match thread_that_wakes(event) {
                    Some(by) => self.pools.are_siblings(tid, by),
                    None => Some(false),
                };
                let by = is_sibling.map(|is| is.then_some((event.pid, waker_is_watched)));
                self.siblings.add(tid, waited.0, by);
            }
        }
        let Some(thread) = self.threads.get_mut(&tid) else {
            return jobs;
        };
        let ends = thread.search_ends(event.time, stages);
        if !ends && !thread.is_to_be_judged() {
            return jobs;
        }
        let judge = Judge {
            tid,
            event_wait: self.pools.event_wait(tid),
            siblings: &self.siblings,
            numbers: &self.numbers,
            kind,
        };
        if ends {
            jobs.extend(thread.learnt(judge));
        } else {
            thread.judge_again(judge);
        }
        jobs
    }

    /// Notes what ended a wait. `since`: release of the job in which the thread waited, or end of its
    /// wait before.
    fn note_end(&mut self, tid: u32, event: &TraceEvent, waited: Waited, since: Option<Nanos>) {
        let (call, from, _) = waited;
        let waker = self.threads.get(&event.pid);
        let is_futex = self.numbers.futex.contains(&call.id);
        let waker = waker.map(|one| (is_futex && one.seen.waits.has(call), one.released()));
        let since = since.unwrap_or(from);
        if let Some(end) = self.wakers.end(event, (from, since), waker)
            && let Some(thread) = self.threads.get_mut(&tid)
        {
            thread.waits().for_each(|waits| waits.ended(call, end));
        }
    }

    /// Changes the stage at this time. In the light stage, the sleeps show the system calls.
    pub fn enter(&mut self, light: bool, at: Nanos) {
        if light == self.stages.light {
            return;
        }
        self.stages = Stages { light, both: true };
        for thread in self.threads.values_mut() {
            thread.change_stage(self.stages, at);
        }
    }

    /// In the light stage, returns whether the current job of a thread began before this time, or
    /// whether a thread seems to have stopped using its release wait. The full stage shows which it
    /// is.
    pub fn needs_full_stage(&self, before: Nanos) -> bool {
        self.threads.values().any(|thread| {
            let is_long = thread
                .state
                .open_since()
                .is_some_and(|release| release < before);
            let searches = thread.seen.release.is_some() && thread.learning.is_some();
            (is_long || searches) && !thread.seen_in_full
        })
    }

    /// Marks events up to this time as lost. Waits and jobs that began earlier have no length, and
    /// the remaining events up to this time are ignored.
    pub fn blind_until(&mut self, time: Nanos) {
        self.blind = self.blind.max(time);
        self.interrupt();
    }

    /// Ends all jobs in progress.
    fn interrupt(&mut self) {
        for thread in self.threads.values_mut() {
            thread.seen.incomplete += u64::from(thread.state.interrupt());
            (thread.busy_since, thread.last_wait) = (None, None);
            thread.seen.waits.interrupt();
            (thread.last_release, thread.elsewhere) = (None, 0);
            // The kept events would be replayed later, and the interruption would look like a job.
            if let Some(learning) = &mut thread.learning {
                learning.interrupt(self.stages);
            }
            // The thread may have entered its release wait in the meantime.
            if thread.seen.release.is_some() {
                thread.learning = None;
            }
        }
    }

    /// Returns the release time of the oldest unfinished job.
    pub fn oldest_open(&self) -> Option<Nanos> {
        let threads = self.threads.values();
        threads.filter_map(|thread| thread.state.open_since()).min()
    }

    /// Forgets the state of a thread whose ID was reused.
    pub fn forget(&mut self, tid: u32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.state = ThreadState::default();
        }
        self.pools.forget(tid);
        self.siblings.forget(tid);
    }

    /// Chooses the release wait of the remaining threads. Returns the jobs of these threads.
    pub fn finish(&mut self, kind: KindOf<'_>) -> Vec<Job> {
        let numbers = &self.numbers;
        let (threads, pools) = (self.threads.iter_mut(), &mut self.pools);
        let siblings = &self.siblings;
        let learning = threads.filter(|(_, thread)| thread.seen.release.is_none());
        let jobs = learning.flat_map(|(tid, thread)| {
            let judge = Judge {
                tid: *tid,
                event_wait: pools.event_wait(*tid),
                siblings,
                numbers,
                kind,
            };
            thread.learnt(judge)
        });
        let jobs = jobs.collect();
        for thread in self.threads.values_mut() {
            thread.seen.incomplete += u64::from(thread.state.abandon());
        }
        jobs
    }

    /// Returns the system calls that end and begin jobs, for the threads whose release wait is
    /// known.
    pub fn calls(&self) -> Vec<i64> {
        let found = self.threads.values().map(|one| one.seen.releases());
        let found = found.flat_map(Releases::all);
        let mut calls: BTreeSet<i64> = found.map(|call| call.id).collect();
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
    fn new(since: Nanos, stages: Stages) -> Self {
        Self {
            learning: Some(Learning::new(since, stages)),
            ..Self::default()
        }
    }

    /// Returns the end of the last release wait, or of the last wait if the release wait is unknown.
    fn released(&self) -> Option<Nanos> {
        let last_wait = self.last_wait.map(|(to, _)| to);
        self.busy_since
            .filter(|_| self.seen.release.is_some())
            .or(last_wait)
    }

    /// Begins a search for another release wait if the thread seems to have stopped using its
    /// current one, as in a program that sleeps during its start and then waits for a timer.
    /// Returns whether a search has enough waits.
    fn search_ends(&mut self, now: Nanos, stages: Stages) -> bool {
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
            Some(learning) => {
                // In the light stage, a release wait without a sleep is not seen.
                let is_sure = !stages.both || self.seen_in_full;
                unused / UNTIL_ACCEPTED >= long && is_sure && is_over(learning)
            }
            None => {
                if unused >= long && self.elsewhere >= ELSEWHERE {
                    self.seen_in_full = false;
                    self.learning = Some(Learning {
                        dropped_since: Some(since),
                        ..Learning::new(now, stages)
                    });
                }
                false
            }
        }
    }

    /// Chooses the release wait and replays the kept events. If no wait qualifies, the search
    /// continues.
    fn learnt(&mut self, judge: Judge<'_>) -> Vec<Job> {
        let Judge {
            tid, numbers, kind, ..
        } = judge;
        let Some(mut learning) = self.learning.take() else {
            return Vec::new();
        };
        judge.mark_mutual(&mut learning.waits);
        let Some(found) = learning.waits.choose(&|call| kind(tid, call)) else {
            self.learning = Some(learning);
            return Vec::new();
        };
        self.seen.candidates = learning.waits.candidates(&|call| kind(tid, call));
        self.replaces(found);
        judge.find_second(&mut self.seen);
        judge.find_idle(&mut self.seen);
        if let (Some(since), Some(first)) = (learning.dropped_since, learning.kept.front()) {
            self.seen.not_counted += first.time().saturating_sub(since);
        }
        let waits = std::mem::take(&mut self.seen.waits);
        self.state = ThreadState::default();
        let mut stages = learning.stages;
        let mut jobs = Vec::new();
        for kept in learning.kept {
            match kept {
                Kept::Event(event) => jobs.extend(self.step(tid, &event, numbers, stages)),
                Kept::Stage(next, at) => {
                    stages = next;
                    self.change_stage(stages, at);
                }
            }
        }
        self.seen.waits = waits;
        self.waited = None;
        jobs
    }

    /// Replaces the release wait. The job in progress began with the earlier one.
    fn replaces(&mut self, found: FoundRelease) {
        let earlier = self.seen.release.replace(found);
        if self.seen.earlier.len() < EARLIER {
            self.seen.earlier.extend(earlier);
        }
        self.seen.incomplete += u64::from(self.state.abandon());
    }

    /// Returns whether to judge the release waits again after a wait.
    const fn is_to_be_judged(&self) -> bool {
        let is_single = self.seen.second_release.is_none();
        self.seen.release.is_some() && (is_single || self.seen.waits.count.is_multiple_of(JUDGED))
    }

    /// Judges the release waits again, with all waits so far: one of them may be a lock, or the
    /// thread may belong to a pool.
    fn judge_again(&mut self, judge: Judge<'_>) {
        let Some(release) = self.seen.release else {
            return;
        };
        let is_mutual = self.seen.waits.count.is_multiple_of(JUDGED)
            && judge.siblings.are_mutual(judge.tid, release.call);
        if is_mutual {
            judge.mark_mutual(&mut self.seen.waits);
        }
        if (is_mutual || self.seen.waits.is_lock(release.call))
            && let Some(found) = (self.seen.waits).choose(&|call| (judge.kind)(judge.tid, call))
            && found.call != release.call
        {
            self.replaces(found);
        }
        let count = self.seen.waits.count;
        let is_turn = count.is_multiple_of(JUDGED) && (count < OFTEN || count.is_power_of_two());
        let has_second = judge.find_second(&mut self.seen);
        let has_idle = (has_second || is_turn) && judge.find_idle(&mut self.seen);
        if has_second || has_idle {
            self.seen.incomplete += u64::from(self.state.abandon());
        }
    }

    /// Changes the stage. A job in progress may then be several jobs.
    fn change_stage(&mut self, stages: Stages, at: Nanos) {
        self.seen_in_full |= stages.light;
        if let Some(open) = self.state.change_stage(stages.light) {
            self.note_busy(open.release.at, at);
        }
        if let Some(learning) = &mut self.learning {
            learning.keep(Kept::Stage(stages, at));
        }
    }

    /// Notes that the thread was busy with several jobs from its last wait until now.
    fn note_busy(&mut self, release: Nanos, now: Nanos) {
        self.seen.incomplete += 1;
        let since = self.busy_since.unwrap_or(release);
        let length = now.saturating_sub(since);
        if self.seen.busy.is_none_or(|(_, longest)| length > longest) {
            self.seen.busy = Some((since, length));
        }
    }

    fn waits(&mut self) -> impl Iterator<Item = &mut Waits> {
        let learning = self.learning.as_mut().map(|learning| &mut learning.waits);
        [&mut self.seen.waits].into_iter().chain(learning)
    }

    /// Notes the futex calls that show whether a futex is a lock.
    fn note_futex(&mut self, event: &TraceEvent, numbers: &CallNumbers) {
        let (EventKind::SysEnter { id, args } | EventKind::SleepsIn { id, args }) = event.kind
        else {
            return;
        };
        match numbers.futex_call(id, args) {
            Some(FutexCall::Wakes(call)) => self.waits().for_each(|waits| waits.wakes_at(call)),
            Some(FutexCall::LocksPi(call)) => self.waits().for_each(|waits| waits.locks_pi(call)),
            Some(FutexCall::Waits(_)) | None => {}
        }
    }

    fn step(
        &mut self,
        tid: u32,
        event: &TraceEvent,
        numbers: &CallNumbers,
        stages: Stages,
    ) -> Option<Job> {
        let release = self.seen.releases();
        self.note_futex(event, numbers);
        if let EventKind::ProcessExit { .. } = event.kind {
            self.seen.incomplete += u64::from(self.state.abandon());
            return None;
        }
        let step = self.state.step(tid, event, release, (numbers, stages));
        self.last_release.get_or_insert(event.time);
        let enters = matches!(
            event.kind,
            EventKind::SysEnter { .. } | EventKind::SleepsIn { .. }
        );
        if enters && self.state.is_in(release) {
            (self.last_release, self.elsewhere) = (Some(event.time), 0);
            self.seen_in_full = false;
            self.learning = None;
        }
        match step? {
            Step::Waited(wait) => {
                self.note_wait(wait, release.has(wait.call), stages);
                None
            }
            Step::Job(Outcome::Completed(open, end)) => {
                Some(self.completed(tid, event.cpu, open, end))
            }
            Step::Job(outcome) => {
                self.note_outcome(outcome, event.time);
                None
            }
        }
    }

    fn note_wait(&mut self, wait: EndedWait, is_release: bool, stages: Stages) {
        let EndedWait {
            call,
            from,
            to,
            ran,
        } = wait;
        if let Some((_, before)) = self.last_wait.replace((to, ran)) {
            let (run, asleep) = (ran.saturating_sub(before), to.saturating_sub(from));
            self.waits().for_each(|waits| waits.bursts.add(run, asleep));
        }
        self.elsewhere += u64::from(!is_release);
        if is_release {
            (self.busy_since, self.seen_in_full) = (Some(to), false);
        }
        for waits in self.waits() {
            waits.add(call, (from, to), !stages.light);
        }
        self.waited = call.map(|call| (call, from, to));
    }

    /// Notes an outcome without a completed job.
    fn note_outcome(&mut self, outcome: Outcome, now: Nanos) {
        let seen = &mut self.seen;
        match outcome {
            Outcome::Completed(..) => {}
            Outcome::AtOnce => seen.at_once += 1,
            Outcome::InStop(length) => {
                seen.at_once += 1;
                seen.while_stopped += 1;
                seen.longest_stop = seen.longest_stop.max(length);
            }
            Outcome::Several(release) => {
                seen.at_once += 1;
                self.note_busy(release, now);
            }
            Outcome::ReleaseUnknown => seen.incomplete += 1,
        }
    }

    fn completed(&mut self, tid: u32, cpu: u32, open: OpenJob, end: Point) -> Job {
        let release = open.release.at;
        let job = Job {
            tid,
            comm: self.state.comm,
            prio: self.state.prio,
            cpu,
            release,
            completion: end.at.max(release),
            ran: end.ran.saturating_sub(open.release.ran),
            events_from: open.events_from.min(release),
        };
        self.seen.jobs += 1;
        let ran = i64::try_from(job.ran.0).unwrap_or(i64::MAX);
        self.seen.execution.record(SignedNanos(ran));
        job
    }
}

#[cfg(test)]
#[path = "finder_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "stage_tests.rs"]
mod stage_tests;

#[cfg(test)]
#[path = "pool_tests.rs"]
mod pool_tests;

#[cfg(test)]
#[path = "sibling_tests.rs"]
mod sibling_tests;

#[cfg(test)]
#[path = "idle_tests.rs"]
mod idle_tests;
