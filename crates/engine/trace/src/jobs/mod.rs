//! The job recorder: BPF programs (`bpf/jobs.bpf.c`) that write the events relevant to the jobs of
//! watched threads into rings in memory. The rings overwrite their oldest records.
//!
//! It replaces a scout and a flight recorder at a lower cost. System calls of threads that are not
//! watched produce no records. For watched threads, only the start and end of jobs are read
//! continuously. The other records are copied and decoded only if a job took too long.

mod bpf;
mod cost;
mod counters;
mod record;
mod rings;
mod stacks;
mod tail;
mod tallies;
mod timed;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use punctual_model::{Comm, Nanos, Task, event_names};

use crate::WatchError;
use crate::bpf::News;
use crate::bpf::name_missing;
use crate::clock::monotonic;
use crate::flight::{Followed, Ordered, ReleaseCall, ScoutEvent, TraceSlice};
use crate::stage::Stage;
#[cfg(test)]
pub(crate) use bpf::OBJECT;
use bpf::Programs;
pub use cost::CallCost;
pub use counters::CounterEvents;
use counters::Counters;
use record::{EXEC, FORK, JobRecord, PROCESS_EXIT, Translator};
use rings::Rings;
use stacks::StackReader;
use tail::Tail;
use tallies::Tallies;
pub use tallies::{CountedJobs, CountedWaits};

/// The settings of a job recorder.
#[derive(Clone, Copy, Debug)]
pub struct JobAsk {
    /// The largest thread ID (kernel.pid_max).
    pub pid_max: u32,
    /// Jobs that take longer wake [`JobRecorder::wait`], if the release waits of their threads are
    /// known.
    pub budget: Nanos,
    /// Maximum number of threads whose jobs are timed for this.
    pub timed: u32,
    /// Maximum number of threads whose jobs are counted in the kernel.
    pub counted: u32,
    /// Threads with this name may have to be watched ([`JobRecorder::take_joined`]); `None` for any
    /// name.
    pub joining: Option<Comm>,
    /// Counters that are read whenever a watched thread begins to sleep or enters a release wait. If
    /// the machine has none of them, the recorder works without ([`JobRecorder::no_counters`]).
    pub counters: Option<CounterEvents>,
}

/// The threads whose jobs are counted in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountAsk {
    /// The threads, each with the length above which its jobs are listed. Jobs of 10 ms and longer are
    /// always listed.
    pub threads: BTreeMap<u32, Nanos>,
    /// Beginning of the time series.
    pub origin: Nanos,
    /// Length of its rows.
    pub row_length: Nanos,
}

/// A process created by a watched thread, or a program executed by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Descent {
    /// `parent` forked `child`, which is not watched.
    Fork {
        /// The forking thread.
        parent: u32,
        /// The new process, with its initial name.
        child: Task,
    },
    /// A watched thread executed another program, and now has this name.
    Exec(Task),
}

/// Maximum number of full stages to remember.
const FULL_STAGES: usize = 64;

/// The running programs and their rings. Dropping this value stops the programs.
#[derive(Debug)]
pub struct JobRecorder {
    programs: Programs,
    tallies: Tallies,
    /// Counted jobs of threads that are no longer timed.
    counted: Vec<CountedJobs>,
    /// Number of threads that are not counted, because there were too many.
    uncounted: usize,
    rings: Rings,
    news: News,
    cpus: Vec<Tail>,
    translator: Translator,
    followed: Followed,
    ordered: Ordered<ScoutEvent>,
    /// The newest full stages, with their beginning and end.
    full: VecDeque<(Nanos, Option<Nanos>)>,
    /// Changes of the stage that have not been read yet.
    changes: Vec<ScoutEvent>,
    lost: u64,
    /// Number of threads that may have to be watched, at the last call of
    /// [`take_joined`](Self::take_joined).
    joins: u64,
    descents: Vec<Descent>,
    /// Whether a watched thread has forked, executed a program or ended.
    changed: bool,
    _counters: Option<Counters>,
    no_counters: Option<String>,
}

impl JobRecorder {
    /// Maximum number of processes and programs to remember.
    pub const MAX_DESCENTS: usize = 4096;

    /// Loads and starts the programs. No thread is watched yet.
    ///
    /// # Errors
    /// Returns an error if the kernel has no BTF, or rejects the programs (because of missing
    /// privileges, lockdown or its version).
    pub fn start(ask: JobAsk) -> Result<Self, WatchError> {
        let (mut counters, mut no_counters) = (None, None);
        if let Some(events) = ask.counters {
            match Counters::open(events, &online_cpus()) {
                Ok(opened) => counters = Some(opened),
                Err(why) => no_counters = Some(why),
            }
        }
        let started = Programs::start(ask, counters.as_ref()).map_err(name_missing);
        let (programs, rings, news, cpus) = started?;
        let tallies = programs.tallies(ask.counted)?;
        Ok(Self {
            programs,
            tallies,
            counted: Vec::new(),
            uncounted: 0,
            cpus: (0..cpus).map(Tail::new).collect(),
            rings,
            news,
            translator: Translator::default(),
            followed: Followed::default(),
            ordered: Ordered::default(),
            full: VecDeque::from([(monotonic(), None)]),
            changes: Vec::new(),
            lost: 0,
            joins: 0,
            descents: Vec::new(),
            changed: false,
            _counters: counters,
            no_counters,
        })
    }

    /// Returns the reason why performance counters are not read. `None` if they are, or if they were
    /// not requested.
    pub fn no_counters(&self) -> Option<&str> {
        self.no_counters.as_deref()
    }

    /// Returns the number of user stacks that were not recorded, because a CPU had too many of them.
    pub fn stacks_dropped(&self) -> u64 {
        let cpus = self.cpus.iter();
        cpus.map(|tail| self.rings.stacks_dropped(tail.cpu)).sum()
    }

    /// Replaces the threads and system calls to follow.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses to change a map.
    pub fn follow(&mut self, followed: &Followed) -> Result<(), WatchError> {
        // The last jobs of threads that have ended.
        for tid in self.tallies.threads() {
            if !followed.releases.contains_key(&tid) {
                let last = self.counted_of(tid);
                self.counted.extend(last);
                self.tallies.remove(tid);
            }
        }
        self.programs.follow(&self.followed, followed)?;
        self.followed.clone_from(followed);
        Ok(())
    }

    /// Changes which timed threads are counted in the light stage. The stream contains the times at
    /// which counting begins and ends.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses to change a map.
    pub fn count(&mut self, ask: &CountAsk) -> Result<(), WatchError> {
        self.uncounted = 0;
        for tid in self.followed.releases.keys() {
            let Some(mut count) = self.programs.timed().counting(*tid) else {
                continue;
            };
            let wanted = ask.threads.get(tid);
            count.tally = wanted.and_then(|_| self.tallies.number_of(*tid));
            self.uncounted += usize::from(wanted.is_some() && count.tally.is_none());
            if let Some(limit) = wanted {
                count.list_above = *limit;
                count.rows = (ask.origin, ask.row_length);
            }
            self.programs.count(*tid, count)?;
        }
        Ok(())
    }

    /// Returns the number of threads whose jobs are not counted in the kernel, because there were too
    /// many threads. Their jobs are read.
    pub const fn uncounted(&self) -> usize {
        self.uncounted
    }

    /// Returns whether the jobs of a thread are counted in the kernel.
    pub fn is_counting(&self) -> bool {
        self.tallies.is_used()
    }

    /// Returns the jobs that the kernel has counted since the last call.
    pub fn counted(&mut self) -> Vec<CountedJobs> {
        let mut all = std::mem::take(&mut self.counted);
        for tid in self.tallies.threads() {
            all.extend(self.counted_of(tid));
        }
        all
    }

    fn counted_of(&mut self, tid: u32) -> Option<CountedJobs> {
        let delta = self.tallies.read(tid)?;
        let releases = self.programs.timed().waits(tid);
        let waits = releases.iter().zip(delta.waits);
        let waits = waits.map(
            |(ReleaseCall { id, argument, .. }, (count, total))| CountedWaits {
                tid,
                id: *id,
                argument: *argument,
                count,
                total,
            },
        );
        Some(CountedJobs {
            tid,
            rows: delta.rows,
            execution: delta.execution,
            incomplete: delta.incomplete,
            last: delta.last,
            waits: waits.filter(|waits| waits.count > 0).collect(),
            elsewhere: delta.waits[timed::WAITS].0,
            unplaced: delta.unplaced,
        })
    }

    /// Returns the counted threads with a job in progress, and its release.
    pub fn open_jobs(&self) -> BTreeMap<u32, Nanos> {
        let tids = self.tallies.threads().into_iter();
        tids.filter_map(|tid| Some((tid, self.programs.open_job(tid)?)))
            .collect()
    }

    /// Returns the waits of counted threads that were not release waits, with their total since the
    /// start.
    pub fn waits_elsewhere(&self) -> Vec<CountedWaits> {
        self.programs.waits_elsewhere()
    }

    /// Changes the stage. The programs start in the full stage. Returns once all programs of the
    /// stage are attached; the stream contains the time of the change.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses to attach a program, or to change a map.
    pub fn enter(&mut self, stage: Stage) -> Result<(), WatchError> {
        if stage == self.stage() {
            return Ok(());
        }
        let at = match stage {
            // The full stage begins after its last program is attached, and ends before the first
            // is detached.
            Stage::Full => {
                self.programs.enter(true)?;
                let now = monotonic();
                self.full.push_back((now, None));
                now
            }
            Stage::Light => {
                let now = monotonic();
                if let Some((_, until)) = self.full.back_mut() {
                    *until = Some(now);
                }
                self.programs.enter(false)?;
                now
            }
        };
        if self.full.len() > FULL_STAGES {
            self.full.pop_front();
        }
        self.changes.push(ScoutEvent::Stage { at, stage });
        Ok(())
    }

    fn stage(&self) -> Stage {
        match self.full.back() {
            Some((_, None)) => Stage::Full,
            _ => Stage::Light,
        }
    }

    /// Returns the stage of an interval. If only a part of the interval is in the full stage, this
    /// is the light one.
    pub fn stage_of(&self, from: Nanos, to: Nanos) -> Stage {
        let covers = |(since, until): &(Nanos, Option<Nanos>)| {
            *since <= from && until.is_none_or(|until| to <= until)
        };
        if self.full.iter().any(covers) {
            Stage::Full
        } else {
            Stage::Light
        }
    }

    /// Waits until a job of a followed thread has taken longer than the budget, until a watched
    /// thread forks, executes a program or ends, or until a part of a ring has been written. Jobs of
    /// threads that are still learnt do not end the wait. After [`HELD_BACK`](crate::HELD_BACK),
    /// [`read`](Self::read) returns the events. A signal also ends the wait, and so does `other`, when
    /// it is readable.
    pub fn wait(&self, other: Option<BorrowedFd<'_>>, timeout: Duration) {
        self.news.wait(other, timeout);
    }

    /// Returns a descriptor that is readable while [`wait`](Self::wait) would not wait.
    ///
    /// # Errors
    /// Returns an error if there are too many open files.
    pub fn news(&self) -> io::Result<OwnedFd> {
        self.news.descriptor()
    }

    /// Returns whether a watched thread has forked, executed a program or ended since the last call.
    pub const fn take_changed(&mut self) -> bool {
        std::mem::replace(&mut self.changed, false)
    }

    /// Returns whether a thread may have got the name of [`JobAsk::joining`] or joined a control group
    /// since the last call. A new thread that has both from its creation is not noticed.
    pub fn take_joined(&mut self) -> bool {
        let cpus = self.cpus.iter();
        let joins = cpus.map(|tail| self.rings.joins(tail.cpu)).sum();
        std::mem::replace(&mut self.joins, joins) != joins || !self.programs.shows_joins()
    }

    /// Returns the number of threads whose long jobs do not end the wait, because there were too
    /// many threads.
    pub const fn untimed(&self) -> usize {
        self.programs.untimed()
    }

    /// Returns the watched threads.
    pub fn watched(&self) -> &[u32] {
        &self.followed.tids
    }

    /// Measures the cost of recording a system call by making a few thousand calls on the calling
    /// thread. No thread is watched afterwards.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses to restart a program, or to change a map.
    pub fn measure_cost(&mut self) -> Result<CallCost, WatchError> {
        self.enter(Stage::Light)?;
        let alone = cost::of_a_call();
        self.enter(Stage::Full)?;
        let other = cost::of_a_call();
        self.follow(&Followed {
            tids: vec![punctual_rt::current_tid().as_raw().unsigned_abs()],
            ..Followed::default()
        })?;
        let watched = cost::of_a_call();
        self.follow(&Followed::default())?;
        // Discard the records of this measurement, because they belong to no job.
        self.read();
        Ok(CallCost {
            other: other.saturating_sub(alone),
            watched: watched.saturating_sub(alone),
        })
    }

    /// Returns the total cost of recording system calls so far, on all CPUs.
    pub fn taken(&self, cost: CallCost) -> Nanos {
        let calls = self.cpus.iter().map(|tail| self.rings.calls(tail.cpu));
        calls.fold(Nanos::ZERO, |sum, calls| sum + cost.total(calls))
    }

    /// Returns the scheduler events and system calls of the watched threads, in ascending order of
    /// time. Only a later call returns events that are newer than [`HELD_BACK`](crate::HELD_BACK).
    pub fn read(&mut self) -> Vec<ScoutEvent> {
        // Whatever is written from now on wakes again.
        self.news.clear();
        let now = monotonic();
        let mut all = std::mem::take(&mut self.changes);
        for tail in &mut self.cpus {
            let cpu = tail.cpu;
            let (translator, descents) = (&mut self.translator, &mut self.descents);
            let changed = &mut self.changed;
            let gap = tail.follow(&self.rings, |record| {
                note_descent(descents, record);
                *changed |= matches!(record.kind(), FORK | EXEC | PROCESS_EXIT);
                translator.learn(record);
                all.extend(record.counter().map(ScoutEvent::Counter));
                all.extend(record.counting(cpu));
                all.extend(Translator::before(record, cpu).map(ScoutEvent::Event));
                let event = translator.event(record, cpu);
                all.extend(event.map(ScoutEvent::Event));
            });
            if let Some(gap) = gap {
                self.lost += gap.lost;
                // All records read so far are older than now.
                let until = gap.until.unwrap_or(now);
                let from = gap.from;
                all.push(ScoutEvent::Gap { from, until });
            }
        }
        // If a gap starts at the time of an event, the gap is sorted after the event.
        let is_record =
            |one: &ScoutEvent| !matches!(one, ScoutEvent::Gap { .. } | ScoutEvent::Stage { .. });
        let key = |one: &ScoutEvent| (one.time(), !is_record(one));
        self.ordered.add(all, now, key)
    }

    /// Returns the events of all CPUs in an interval, and the last event of each CPU before it. Of
    /// the light stage, only the events that this stage records for watched threads are returned.
    pub fn slice(&mut self, from: Nanos, to: Nanos, stage: Stage) -> TraceSlice {
        let mut cut = TraceSlice::default();
        // Skip the records before a full stage, because they are incomplete: a state that they show
        // may have ended unnoticed before this time.
        let complete = match stage {
            Stage::Full => self.full.iter().rfind(|(since, _)| *since <= to),
            Stage::Light => None,
        };
        let complete = complete.map_or(Nanos::ZERO, |(since, _)| *since);
        let read = |tail: &Tail| (tail.cpu, tail.between(&self.rings, from, to));
        let of_cpus: Vec<_> = self.cpus.iter().map(read).collect();
        for record in of_cpus.iter().flat_map(|(_, (records, _))| records) {
            self.translator.learn(record);
        }
        for (cpu, (records, whole)) in of_cpus {
            cut.lost += u64::from(!whole);
            let mut stacks = StackReader::new(cpu);
            for record in records.iter().filter(|one| one.time() >= complete) {
                if stage == Stage::Light && !record.is_of_light_stage() {
                    continue;
                }
                cut.wakers.extend(record.waker());
                cut.events.extend(Translator::before(record, cpu));
                if let Some(event) = self.translator.event(record, cpu) {
                    stacks.follows(&event);
                    cut.events.push(event);
                } else if record.kind() == record::STACK {
                    stacks.add_event(&mut cut.events, record);
                } else {
                    stacks.add(record);
                }
            }
            cut.stacks.append(&mut stacks.found);
        }
        // The sort is stable: events of one CPU with equal times keep their order.
        cut.events.sort_by_key(|event| event.time);
        cut
    }

    /// Returns the minimum number of records that were overwritten before they were read.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the processes created and the programs executed by watched threads, at most
    /// [`Self::MAX_DESCENTS`].
    pub fn descents(&self) -> &[Descent] {
        &self.descents
    }

    /// Returns the recorded events, under their names in [`event_names`].
    pub fn recorded(&self) -> Vec<String> {
        let named = event_names().filter(|name| self.programs.records(name, Stage::Full));
        named.map(str::to_owned).collect()
    }

    /// Returns the events that are not recorded in a stage, and whose information is therefore
    /// missing.
    pub fn missing(&self, stage: Stage) -> Vec<String> {
        let missing = event_names().filter(|name| !self.programs.records(name, stage));
        missing.map(str::to_owned).collect()
    }

    /// Returns the events that the programs cannot record on this kernel, each with the reason.
    pub const fn unseen(&self) -> &BTreeMap<String, String> {
        self.programs.unseen()
    }
}

fn online_cpus() -> Vec<u32> {
    aya::util::online_cpus().unwrap_or_default()
}

fn note_descent(descents: &mut Vec<Descent>, record: &JobRecord) {
    const THREAD: u32 = 1;
    if descents.len() >= JobRecorder::MAX_DESCENTS {
        return;
    }
    match record.kind() {
        // Skip new threads of the same process, because they are found in /proc.
        FORK if record.number() != THREAD => descents.push(Descent::Fork {
            parent: record.pid(),
            child: record.task(),
        }),
        EXEC => descents.push(Descent::Exec(record.task())),
        _ => {}
    }
}
