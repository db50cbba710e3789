//! Jobs of watched threads: their release waits, and their statistics.

use std::cell::RefCell;
use std::collections::BTreeMap;

use punctual_culprit::{
    Call, CallKind, CallNumbers, Counted, FoundRelease, Job, JobFinder, JobSeen, Late, OpenJobSeen,
    Process, RefusedCalls, SeenWaits,
};
use punctual_host::{Host, system_call_name, system_call_numbers};
use punctual_model::{
    Delay, Jobs, Nanos, ReleaseChoice, ReleaseWait, ThreadJobs, TraceEvent, WaitCall,
};
use punctual_trace::{
    CountedJobs, CountedWaits, Followed, ListedJob, ReleaseCall, ScoutEvent, Stage,
};

use super::counted::CountedWatch;
use super::release::{DESCRIPTORS, Release, ReleaseKind};
use super::reservations::{Reservations, reserved_by};
use super::windows::Progress;

/// Parameters of watching jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRequest {
    /// Jobs that take longer are explained.
    pub budget: Nanos,
    /// Wait that releases the jobs.
    pub release: Release,
    /// How much of the jobs is recorded.
    pub detail: JobDetail,
}

/// How much of the jobs is recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JobDetail {
    /// The light stage, and windows of the full stage, which use at most this share of one CPU; by
    /// default, [`JobDetail::COST`]. Without BPF programs, the full stage, unless a share is given.
    Windows(Option<f64>),
    /// The full stage, all the time.
    Full,
}

impl JobDetail {
    /// Default share of one CPU for windows of the full stage.
    pub const COST: f64 = 0.02;
}

/// System calls that wait for one of many events.
const ANY: [&str; 8] = [
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "io_uring_enter",
];

/// System calls that only wait for files, because other objects refuse them.
const STORAGE: [&str; 13] = [
    "fsync",
    "fdatasync",
    "sync",
    "syncfs",
    "sync_file_range",
    "msync",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "fallocate",
];

/// Target of a timer descriptor.
const TIMERFD: &str = "anon_inode:[timerfd]";

/// The call that ends a job of SCHED_DEADLINE (sched(7)).
const YIELD: &str = "sched_yield";

/// A job in progress that takes longer than this and than its budget opens a window.
const LONG: Nanos = Nanos::from_secs(1);

/// Number of the system call that stands for each sleep in a trace without system calls.
pub(crate) const SLEEP: i64 = -2;

/// Maximum number of wait calls that are reported.
const PLACES: usize = 8;

/// Information about waits that events do not contain: names, and targets of descriptors.
struct Waits {
    host: Host,
    release: Release,
    /// Read on first use, because the descriptor may be closed later.
    descriptors: RefCell<BTreeMap<(u32, u64), Option<String>>>,
}

impl Waits {
    fn target(&self, tid: u32, fd: u64) -> Option<String> {
        let mut known = self.descriptors.borrow_mut();
        let read = || self.host.descriptor(tid, fd);
        known.entry((tid, fd)).or_insert_with(read).clone()
    }

    fn is_timerfd(&self, tid: u32, name: &str, call: Call) -> bool {
        name == "read"
            && self
                .target(tid, call.argument)
                .is_some_and(|target| target == TIMERFD)
    }

    /// Returns the kind of a wait; `None` if it is not a requested one.
    fn kind(&self, tid: u32, call: Call) -> Option<CallKind> {
        if call.id == SLEEP {
            return (self.release == Release::default()).then_some(CallKind::Any);
        }
        let name = system_call_name(call.id)?;
        let sleeps = matches!(name, "nanosleep" | "clock_nanosleep");
        let of_kind = match &self.release.kind {
            ReleaseKind::Auto => true,
            ReleaseKind::Timerfd => self.is_timerfd(tid, name, call),
            ReleaseKind::Nanosleep => sleeps,
            ReleaseKind::Epoll => name.starts_with("epoll_"),
            ReleaseKind::Futex => name.starts_with("futex"),
            ReleaseKind::Call(asked) => name == asked,
        };
        let of_descriptor = (self.release.descriptor).is_none_or(|fd| call.argument == fd);
        // A yield is only a wait under SCHED_DEADLINE, where it waits for the next period.
        let is_timer = sleeps || name == YIELD || self.is_timerfd(tid, name, call);
        (of_kind && of_descriptor).then(|| match () {
            () if is_timer => CallKind::Timer,
            () if ANY.contains(&name) => CallKind::Any,
            () if STORAGE.contains(&name) => CallKind::Storage,
            () => CallKind::Other,
        })
    }

    /// Returns the object that a call waits for.
    fn object(&self, tid: u32, call: Call) -> Option<String> {
        match system_call_name(call.id)? {
            name if DESCRIPTORS.contains(&name) => {
                let fd = call.argument;
                Some(match self.target(tid, fd) {
                    Some(target) => format!("descriptor {fd} ({target})"),
                    None => format!("descriptor {fd}"),
                })
            }
            "futex_waitv" => Some(format!("list of futexes at {:#x}", call.argument)),
            name if name.starts_with("futex") => Some(format!("futex {:#x}", call.argument)),
            "clock_nanosleep" => Some(match call.argument {
                0 => "CLOCK_REALTIME".to_owned(),
                1 => "CLOCK_MONOTONIC".to_owned(),
                7 => "CLOCK_BOOTTIME".to_owned(),
                11 => "CLOCK_TAI".to_owned(),
                clock => format!("clock {clock}"),
            }),
            YIELD => Some(
                "for SCHED_DEADLINE threads, jobs begin when the thread starts to run".to_owned(),
            ),
            _ => None,
        }
    }

    fn release(&self, tid: u32, found: &FoundRelease) -> ReleaseWait {
        ReleaseWait {
            call: wait_name(found.call),
            object: self.object(tid, found.call),
            choice: if self.release == Release::default() {
                ReleaseChoice::Found
            } else {
                ReleaseChoice::Requested
            },
            seen: found.seen,
            period_ns: found.period,
        }
    }

    fn wait_call(&self, tid: u32, seen: &SeenWaits) -> WaitCall {
        WaitCall {
            call: wait_name(seen.call),
            object: self.object(tid, seen.call),
            count: seen.count,
            total_ns: seen.total,
            period_ns: seen.period,
        }
    }
}

/// Returns the name of a system call; `None` for any sleep.
pub(crate) fn call_name(call: Call) -> Option<String> {
    let unnamed = || format!("system call {}", call.id);
    (call.id != SLEEP).then(|| system_call_name(call.id).map_or_else(unnamed, str::to_owned))
}

fn wait_name(call: Call) -> String {
    call_name(call).unwrap_or_else(|| "any sleep".to_owned())
}

/// Follows the jobs of an observation.
pub(crate) struct JobWatch {
    finder: JobFinder,
    waits: Waits,
    budget: Nanos,
    over: BTreeMap<u32, u64>,
    reservations: Reservations,
    /// Calls whose refusal is reported.
    policy_calls: Vec<i64>,
    pub(super) counted: CountedWatch,
}

impl JobWatch {
    pub(crate) fn new(host: &Host, request: &JobRequest) -> Self {
        let numbers = CallNumbers {
            restart: system_call_numbers("restart_syscall"),
            futex: system_call_numbers("futex"),
            sched_yield: system_call_numbers(YIELD),
        };
        Self {
            finder: JobFinder::new(numbers),
            waits: Waits {
                host: host.clone(),
                release: request.release.clone(),
                descriptors: RefCell::default(),
            },
            budget: request.budget,
            over: BTreeMap::new(),
            reservations: Reservations::default(),
            policy_calls: (RefusedCalls::CALLS.into_iter())
                .flat_map(system_call_numbers)
                .collect(),
            counted: CountedWatch::default(),
        }
    }

    pub(crate) fn take(&mut self, event: &TraceEvent, watched: &dyn Fn(u32) -> bool) -> Vec<Late> {
        let Self { finder, waits, .. } = self;
        while let Some(tid) = finder.needs_processes().first().copied() {
            let process = waits.host.process_of(tid).map(|id| Process {
                id,
                family: waits.host.fork_family(id),
            });
            finder.joins(tid, process);
        }
        let jobs = finder.take(event, watched, &|tid, call| waits.kind(tid, call));
        self.spans(jobs)
    }

    /// Returns the jobs of threads whose release wait is found only at the end.
    pub(crate) fn finish(&mut self) -> Vec<Late> {
        let Self { finder, waits, .. } = self;
        let jobs = finder.finish(&|tid, call| waits.kind(tid, call));
        self.spans(jobs)
    }

    /// Returns the jobs that had not ended at the end, with their threads.
    pub(crate) fn open_jobs(&self) -> impl Iterator<Item = (u32, OpenJobSeen)> {
        let seen = self.finder.seen();
        seen.filter_map(|(tid, seen)| Some((tid, seen.open?)))
    }

    fn spans(&mut self, jobs: Vec<Job>) -> Vec<Late> {
        for job in &jobs {
            if job.response() > self.budget {
                *self.over.entry(job.tid).or_default() += 1;
            }
            self.reservations.count(job, reserved_by);
        }
        let span = |job: Job| Late {
            tid: job.tid,
            comm: job.comm,
            prio: job.prio,
            cpu: job.cpu,
            delay: Delay::Job,
            expected: job.release,
            actual: job.completion,
            events_from: job.events_from,
        };
        jobs.into_iter().map(span).collect()
    }

    pub(crate) fn blind_until(&mut self, time: Nanos) {
        self.finder.blind_until(time);
    }

    fn enter(&mut self, stage: Stage, at: Nanos) {
        self.counted.enter(stage);
        self.finder.enter(stage == Stage::Light, at);
    }

    /// Returns the time at which the oldest job in progress becomes a long one.
    pub(super) fn next_long_job(&self) -> Option<Nanos> {
        let oldest = self.finder.oldest_open();
        oldest.map(|release| release + self.budget.max(LONG))
    }

    /// Returns whether no release wait is known yet.
    pub(super) fn is_learning(&self) -> bool {
        self.finder.calls().is_empty()
    }

    /// Returns the state of the jobs. `active`: whether a watched thread has done anything since the
    /// last window began.
    pub(super) fn progress(&self, now: Nanos, active: bool) -> Progress {
        let long = self.budget.max(LONG);
        Progress {
            active,
            learning: self.is_learning(),
            oldest_open: (self.finder.oldest_open().into_iter())
                .chain(self.counted.oldest_open())
                .min(),
            long_job: self.finder.needs_full_stage(now.saturating_sub(long))
                || self.counted.needs_full_stage(now.saturating_sub(long)),
        }
    }

    /// Returns the threads and waits to follow from now on. If the release wait of a thread is
    /// known, only this wait is followed, so that its other system calls cause no loss of events.
    pub(super) fn followed(&self, tids: Vec<u32>, has_ended: &dyn Fn(u32) -> bool) -> Followed {
        let learning = tids.iter().copied();
        let mut calls = self.finder.calls();
        // Without a known release wait, all calls are followed.
        if !calls.is_empty() {
            calls.extend(&self.policy_calls);
        }
        let known = tids.iter().copied().filter(|tid| !has_ended(*tid));
        let releases = known.map(|tid| (tid, self.releases(tid)));
        Followed {
            releases: releases.filter(|(_, waits)| !waits.is_empty()).collect(),
            learning: learning
                .filter(|tid| self.finder.is_learning(*tid))
                .collect(),
            calls,
            tids,
        }
    }

    fn releases(&self, tid: u32) -> Vec<ReleaseCall> {
        let waits = self.finder.releases(tid);
        let wait = |call: Call| ReleaseCall {
            id: call.id,
            argument: call.argument,
            ignored: match system_call_name(call.id) {
                Some("futex") => Call::IGNORED_OF_FUTEX,
                _ => 0,
            },
        };
        waits.map(wait).collect()
    }

    pub(super) fn forget(&mut self, tid: u32) {
        self.finder.forget(tid);
    }

    /// Returns the threads whose jobs the kernel should count. A job that does not end is followed
    /// here: the thread may have stopped using its release wait.
    pub(super) fn countable(&self, now: Nanos) -> Vec<u32> {
        let before = now.saturating_sub(LONG);
        let all = self.finder.countable();
        all.filter(|tid| !self.counted.is_open_since(*tid, before))
            .collect()
    }

    /// Handles a change of the stage or of how the jobs of a thread become known. Returns the job, if
    /// it is one that the kernel has listed.
    pub(super) fn notice(&mut self, event: &ScoutEvent) -> Vec<Late> {
        match event {
            ScoutEvent::Stage { at, stage } => self.enter(*stage, *at),
            ScoutEvent::Taken { tid, .. } => self.finder.taken(*tid),
            ScoutEvent::Returned { at, tid, open } => {
                self.counted.returned(*tid);
                self.finder.returned(*tid, *at, *open);
            }
            ScoutEvent::Job(job) => return self.listed(job),
            ScoutEvent::Event(_) | ScoutEvent::Counter(_) | ScoutEvent::Gap { .. } => {}
        }
        Vec::new()
    }

    /// Counts a job that the kernel has timed but not counted.
    fn listed(&mut self, job: &ListedJob) -> Vec<Late> {
        let job = Job {
            tid: job.tid,
            comm: job.comm,
            prio: job.prio,
            cpu: job.cpu,
            release: job.release,
            completion: job.completion,
            ran: job.ran,
            events_from: job.release,
        };
        self.finder.add_listed(&job);
        self.spans(vec![job])
    }

    /// Adds what the kernel has counted.
    pub(super) fn add_counted(&mut self, counted: &CountedJobs) {
        let of_release = counted.waits.iter().map(|waits| waits.count).sum::<u64>();
        let all = Counted {
            execution: &counted.execution,
            incomplete: counted.incomplete,
            waits: of_release + counted.elsewhere,
        };
        self.finder.add_counted(counted.tid, all);
        self.counted.unplaced += counted.unplaced;
        self.add_counted_waits(&counted.waits);
    }

    /// Adds the places of waits that the kernel has counted.
    pub(super) fn add_counted_waits(&mut self, waits: &[CountedWaits]) {
        for one in waits {
            let ignored = match system_call_name(one.id) {
                Some("futex") => Call::IGNORED_OF_FUTEX,
                _ => 0,
            };
            let call = Call {
                id: one.id,
                argument: one.argument & !ignored,
            };
            (self.finder).add_counted_waits(one.tid, call, (one.count, one.total));
        }
    }

    /// Returns the results. `place`: index of a thread in the recording.
    pub(crate) fn jobs(
        &self,
        (by_observer, start, end): (u64, Nanos, Nanos),
        place: impl Fn(u32) -> u32,
    ) -> Jobs {
        let mut threads: BTreeMap<u32, ThreadJobs> = BTreeMap::new();
        for (tid, seen) in self.finder.seen() {
            let thread = place(tid);
            let jobs = threads.entry(thread).or_insert_with(|| ThreadJobs {
                thread,
                ..ThreadJobs::default()
            });
            self.add(jobs, (tid, seen), [start, end]);
        }
        Jobs {
            budget_ns: self.budget,
            caused_by_observer: by_observer,
            windows: None,
            threads: threads.into_values().collect(),
        }
    }

    /// Threads that were created later share an index. The release wait of the first one is used
    /// for all of them.
    fn add(&self, jobs: &mut ThreadJobs, (tid, seen): (u32, &JobSeen), [start, end]: [Nanos; 2]) {
        let release = seen.release.as_ref();
        if jobs.release.is_none() {
            jobs.release = release.map(|found| self.waits.release(tid, found));
        }
        if jobs.second_release.is_none() {
            let second = seen.second_release.filter(|found| found.seen > 0);
            jobs.second_release = second.map(|found| self.waits.release(tid, &found));
        }
        if jobs.also_idle_in.is_empty() {
            let others = seen.also_idle.iter();
            jobs.also_idle_in = others.map(|found| self.waits.release(tid, found)).collect();
        }
        if jobs.candidates.is_empty() {
            let places = seen.candidates.iter().take(PLACES);
            jobs.candidates = places
                .map(|place| self.waits.wait_call(tid, place))
                .collect();
        }
        if jobs.earlier_releases.is_empty() {
            let earlier = (seen.earlier.iter()).map(|found| self.waits.release(tid, found));
            jobs.earlier_releases = earlier.collect();
        }
        jobs.not_counted_ns = jobs.not_counted_ns.max(seen.not_counted);
        jobs.jobs += seen.jobs;
        jobs.over_budget += self.over.get(&tid).copied().unwrap_or(0);
        jobs.released_at_once += seen.at_once;
        jobs.released_while_stopped += seen.while_stopped;
        jobs.longest_stop_ns = jobs.longest_stop_ns.max(seen.longest_stop);
        let counted_open = self.counted.open(tid);
        jobs.incomplete += seen.incomplete + u64::from(counted_open.is_some());
        let open = (seen.open.map(|open| open.release))
            .or(counted_open)
            .map(|since| end.saturating_sub(since));
        jobs.open_ns = jobs.open_ns.max(open.unwrap_or_default());
        if let Some((since, length)) = seen.busy
            && length > jobs.busy_ns
        {
            (jobs.busy_since_ns, jobs.busy_ns) = (since.saturating_sub(start), length);
        }
        jobs.waits += seen.waits();
        jobs.execution.merge(&seen.execution);
        self.reservations.add(&mut jobs.reservation, tid);
        let places = seen.seen_waits();
        jobs.wait_calls
            .extend(places.iter().map(|place| self.waits.wait_call(tid, place)));
        jobs.wait_calls
            .sort_by_key(|place| std::cmp::Reverse(place.total_ns));
        jobs.wait_calls.truncate(PLACES);
    }
}

/// Returns warnings about missing jobs.
pub(crate) fn warnings(jobs: &Jobs, has_calls: bool, title: impl Fn(u32) -> String) -> Vec<String> {
    let mut warnings = Vec::new();
    if !has_calls {
        warnings.push(
            "this kernel has no event raw_syscalls:sys_enter, so release waits and jobs cannot be \
             found; --wait shows the waits for a CPU"
                .to_owned(),
        );
        return warnings;
    }
    let without: Vec<&ThreadJobs> = jobs
        .threads
        .iter()
        .filter(|one| one.release.is_none())
        .collect();
    if !without.is_empty() {
        let named: Vec<String> = without.iter().map(|one| title(one.thread)).collect();
        warnings.push(format!(
            "no release wait found for {}: the thread waited fewer than 5 times, or not in \
             a call that matches --release. The jobs of the thread are unknown. If the thread \
             polls without waiting, mark its jobs with the kit, and use 'app record --explain'",
            punctual_model::listed(&named, 5)
        ));
    }
    let incomplete: u64 = jobs.threads.iter().map(|one| one.incomplete).sum();
    if incomplete > jobs.threads.len() as u64 {
        warnings.push(format!(
            "{} jobs are not counted, because their release or their end is unknown (missing \
             events, or the end of the thread or the run)",
            punctual_model::grouped(incomplete)
        ));
    }
    warnings
}
