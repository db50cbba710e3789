//! Finds jobs in a stream of events.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{EventKind, Nanos, TraceEvent};

use super::call::Call;
use super::judge::Judge;
use super::learning::Kept;
use super::pools::{Pools, Waited};
use super::release::{KindOf, Releases};
use super::seen::{Job, JobSeen, OpenJobSeen};
use super::siblings::{Process, Siblings};
use super::thread::Thread;
use super::thread_state::{CallNumbers, Stages, ThreadState};
use super::wakers::{Wakers, thread_that_wakes};

/// Follows threads through a stream of scheduler and system call events, and finds their release
/// waits. The events must be in ascending order of time.
#[derive(Clone, Debug)]
pub struct JobFinder {
    numbers: CallNumbers,
    /// Events before this time are incomplete.
    blind: Nanos,
    pub(super) stages: Stages,
    pub(super) threads: BTreeMap<u32, Thread>,
    pools: Pools,
    siblings: Siblings,
    wakers: Wakers,
}

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
            EventKind::TimerDue { pid, .. } => (*pid, None),
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
        if thread.is_counted {
            return Vec::new();
        }
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

    /// Notes what ended a wait. `since` is the release of the thread's job, or the end of its previous
    /// wait.
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
            // The end of the counting may be among the lost events.
            thread.is_counted = false;
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
            thread.seen.open = thread.state.open_since().map(|release| {
                let (state, call) = thread.state.at_end();
                OpenJobSeen {
                    release,
                    state,
                    call,
                }
            });
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

    /// Returns the release waits of a thread, at most four.
    pub fn releases(&self, tid: u32) -> impl Iterator<Item = Call> {
        let thread = self.threads.get(&tid);
        let releases = thread.map(|thread| thread.seen.releases());
        releases.into_iter().flat_map(Releases::all)
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
