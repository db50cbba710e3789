//! Jobs of watched threads: their release waits, and their statistics.

use std::cell::RefCell;
use std::collections::BTreeMap;

use punctual_culprit::{
    Call, CallKind, CallNumbers, FoundRelease, Job, JobFinder, JobSeen, Late, SeenWaits,
};
use punctual_host::{Host, system_call_name, system_call_numbers};
use punctual_model::{
    Delay, Jobs, Nanos, ReleaseChoice, ReleaseWait, ThreadJobs, TraceEvent, WaitCall,
};
use punctual_trace::Followed;

use super::windows::Progress;

/// The kind of wait that releases the jobs of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Release {
    /// The most regular wait of the thread.
    #[default]
    Auto,
    /// A read of a timer descriptor.
    Timerfd,
    /// nanosleep(2), clock_nanosleep(2).
    Nanosleep,
    /// epoll_wait(2) and similar calls.
    Epoll,
    /// futex(2): a condition variable, a semaphore.
    Futex,
    /// A system call, by name.
    Call(String),
}

/// Parameters of watching jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRequest {
    /// Jobs that take longer are explained.
    pub budget: Nanos,
    /// Wait that releases the jobs.
    pub release: Release,
    /// Limits the watched share of time so that watching takes at most this share of one CPU;
    /// `None` to watch all the time.
    pub cost: Option<f64>,
}

/// Names of release waits in options.
const RELEASES: [(&str, Release); 5] = [
    ("auto", Release::Auto),
    ("timerfd", Release::Timerfd),
    ("nanosleep", Release::Nanosleep),
    ("epoll", Release::Epoll),
    ("futex", Release::Futex),
];

/// The text does not name a release wait.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a system call; choose one of {names}, or a system call", names = release_names())]
pub struct ReleaseError(String);

fn release_names() -> String {
    RELEASES.map(|(name, _)| name).join(", ")
}

impl std::str::FromStr for Release {
    type Err = ReleaseError;

    fn from_str(text: &str) -> Result<Self, ReleaseError> {
        if let Some((_, release)) = RELEASES.iter().find(|(name, _)| *name == text) {
            return Ok(release.clone());
        }
        // The name that events get.
        let number = system_call_numbers(text).into_iter().next();
        match number.and_then(system_call_name) {
            Some(name) => Ok(Self::Call(name.to_owned())),
            None => Err(ReleaseError(text.to_owned())),
        }
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call(name) => f.write_str(name),
            _ => {
                let known = RELEASES.iter().find(|(_, release)| release == self);
                f.write_str(known.map_or("auto", |(name, _)| name))
            }
        }
    }
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

/// Calls whose first argument is a file descriptor that threads wait for.
const DESCRIPTORS: [&str; 14] = [
    "read",
    "readv",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "accept",
    "accept4",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "io_uring_enter",
    "mq_timedreceive",
    "fsync",
    "fdatasync",
];

/// Target of a timer descriptor.
const TIMERFD: &str = "anon_inode:[timerfd]";

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
        let name = system_call_name(call.id)?;
        let sleeps = matches!(name, "nanosleep" | "clock_nanosleep");
        let fits = match &self.release {
            Release::Auto => true,
            Release::Timerfd => self.is_timerfd(tid, name, call),
            Release::Nanosleep => sleeps,
            Release::Epoll => name.starts_with("epoll_"),
            Release::Futex => name.starts_with("futex"),
            Release::Call(asked) => name == asked,
        };
        fits.then(|| match () {
            () if sleeps || self.is_timerfd(tid, name, call) => CallKind::Timer,
            () if ANY.contains(&name) => CallKind::Any,
            () => CallKind::Other,
        })
    }

    fn name(call: Call) -> String {
        system_call_name(call.id).map_or_else(|| format!("system call {}", call.id), str::to_owned)
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
            name if name.starts_with("futex") => Some(format!("futex {:#x}", call.argument)),
            "clock_nanosleep" => Some(match call.argument {
                0 => "CLOCK_REALTIME".to_owned(),
                1 => "CLOCK_MONOTONIC".to_owned(),
                7 => "CLOCK_BOOTTIME".to_owned(),
                11 => "CLOCK_TAI".to_owned(),
                clock => format!("clock {clock}"),
            }),
            _ => None,
        }
    }

    fn release(&self, tid: u32, found: &FoundRelease) -> ReleaseWait {
        ReleaseWait {
            call: Self::name(found.call),
            object: self.object(tid, found.call),
            choice: match self.release {
                Release::Auto => ReleaseChoice::Found,
                _ => ReleaseChoice::Requested,
            },
            seen: found.seen,
            period_ns: found.period,
        }
    }

    fn wait_call(&self, tid: u32, seen: &SeenWaits) -> WaitCall {
        WaitCall {
            call: Self::name(seen.call),
            object: self.object(tid, seen.call),
            count: seen.count,
            total_ns: seen.total,
            period_ns: seen.period,
        }
    }
}

/// Follows the jobs of an observation.
pub(super) struct JobWatch {
    finder: JobFinder,
    waits: Waits,
    budget: Nanos,
    over: BTreeMap<u32, u64>,
}

impl JobWatch {
    pub(super) fn new(host: &Host, request: &JobRequest) -> Self {
        let numbers = CallNumbers {
            restart: system_call_numbers("restart_syscall"),
            futex: system_call_numbers("futex"),
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
        }
    }

    pub(super) fn take(&mut self, event: &TraceEvent, watched: &dyn Fn(u32) -> bool) -> Vec<Late> {
        let Self { finder, waits, .. } = self;
        let jobs = finder.take(event, watched, &|tid, call| waits.kind(tid, call));
        self.spans(jobs)
    }

    /// Returns the jobs of threads whose release wait is only found at the end.
    pub(super) fn finish(&mut self) -> Vec<Late> {
        let Self { finder, waits, .. } = self;
        let jobs = finder.finish(&|tid, call| waits.kind(tid, call));
        self.spans(jobs)
    }

    fn spans(&mut self, jobs: Vec<Job>) -> Vec<Late> {
        for job in &jobs {
            if job.response() > self.budget {
                *self.over.entry(job.tid).or_default() += 1;
            }
        }
        let span = |job: Job| Late {
            tid: job.tid,
            comm: job.comm,
            prio: job.prio,
            cpu: job.cpu,
            delay: Delay::Job,
            expected: job.release,
            actual: job.completion,
            events_from: job.release,
        };
        jobs.into_iter().map(span).collect()
    }

    pub(super) fn blind_until(&mut self, time: Nanos) {
        self.finder.blind_until(time);
    }

    pub(super) fn pause_since(&mut self, end: Nanos) {
        self.finder.pause_since(end);
    }

    pub(super) fn progress(&self) -> Progress {
        Progress {
            learning: self.finder.calls().is_empty(),
            oldest_open: self.finder.oldest_open(),
        }
    }

    /// Returns the threads and waits to follow from now on. If the release wait of a thread is
    /// known, only this wait is followed, so that its other system calls cause no loss of events.
    pub(super) fn followed(&self, tids: Vec<u32>) -> Followed {
        let learning = tids.iter().copied();
        Followed {
            learning: learning
                .filter(|tid| self.finder.is_learning(*tid))
                .collect(),
            calls: self.finder.calls(),
            tids,
        }
    }

    pub(super) fn forget(&mut self, tid: u32) {
        self.finder.forget(tid);
    }

    /// Returns the results. `place`: index of a thread in the recording.
    pub(super) fn jobs(&self, by_observer: u64, place: impl Fn(u32) -> u32) -> Jobs {
        let mut threads: BTreeMap<u32, ThreadJobs> = BTreeMap::new();
        for (tid, seen) in self.finder.seen() {
            let thread = place(tid);
            let jobs = threads.entry(thread).or_insert_with(|| ThreadJobs {
                thread,
                ..ThreadJobs::default()
            });
            self.add(jobs, tid, seen);
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
    fn add(&self, jobs: &mut ThreadJobs, tid: u32, seen: &JobSeen) {
        let release = seen.release.as_ref();
        if jobs.release.is_none() {
            jobs.release = release.map(|found| self.waits.release(tid, found));
        }
        jobs.jobs += seen.jobs;
        jobs.over_budget += self.over.get(&tid).copied().unwrap_or(0);
        jobs.released_at_once += seen.at_once;
        jobs.incomplete += seen.incomplete;
        jobs.waits += seen.waits();
        jobs.execution.merge(&seen.execution);
        let places = seen.seen_waits();
        jobs.wait_calls
            .extend(places.iter().map(|place| self.waits.wait_call(tid, place)));
        jobs.wait_calls
            .sort_by_key(|place| std::cmp::Reverse(place.total_ns));
        jobs.wait_calls.truncate(PLACES);
    }
}

/// Returns warnings about missing jobs.
pub(super) fn warnings(jobs: &Jobs, has_calls: bool, title: impl Fn(u32) -> String) -> Vec<String> {
    let mut warnings = Vec::new();
    if !has_calls {
        warnings.push(
            "raw_syscalls:sys_enter is not in this kernel: release waits cannot be found, no job \
             is known; --wait shows the waits for a CPU"
                .to_owned(),
        );
        return warnings;
    }
    let without: Vec<&ThreadJobs> = jobs
        .threads
        .iter()
        .filter(|one| one.release.is_none())
        .collect();
    let named: Vec<String> = without
        .iter()
        .take(5)
        .map(|one| title(one.thread))
        .collect();
    if !without.is_empty() {
        let more = without.len().saturating_sub(named.len());
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        warnings.push(format!(
            "no release wait found for {}{more}: the thread waited fewer than 5 times, or in no \
             call that matches --release; its jobs are unknown",
            named.join(", ")
        ));
    }
    let incomplete: u64 = jobs.threads.iter().map(|one| one.incomplete).sum();
    if incomplete > jobs.threads.len() as u64 {
        warnings.push(format!(
            "{} jobs have no known end (lost events, or the end of the thread or the run) and \
             are not counted",
            punctual_model::grouped(incomplete)
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_wait_is_name_or_system_call() {
        for (name, release) in &RELEASES {
            assert_eq!(name.parse().as_ref(), Ok(release));
            assert_eq!(release.to_string(), *name);
        }
        let call: Release = "read".parse().unwrap();
        assert_eq!(call, Release::Call("read".to_owned()));
        let error = "tea-break".parse::<Release>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "'tea-break' is not a system call; choose one of auto, timerfd, nanosleep, epoll, futex, \
             or a system call"
        );
    }
}
