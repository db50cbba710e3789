//! Explains outliers of threads of the same user without tracing: by their context switches and the
//! counts of the scheduler, which need no privilege.

use std::collections::{BTreeMap, VecDeque};

use punctual_host::Host;
use punctual_model::{Blame, Comm, Delay, Nanos, Victim, Window, counted, grouped};
use punctual_trace::{Level, ThreadSwitches, TraceError};

use super::raw_outlier::RawOutlier;
use crate::SessionError;
use crate::lifecycle::monotonic;
use crate::request::ExplainRequest;
use crate::switches::{SwitchJob, SwitchJobs, explained};

/// Maximum number of jobs of a thread that are kept.
const KEPT: usize = 4_000;

/// How long an outlier waits for the next sleep of its thread, which makes its records complete.
const PATIENCE: Nanos = Nanos::from_millis(100);

/// Records the switches of the watched threads.
pub(crate) struct SwitchRecorder {
    host: Host,
    threads: BTreeMap<u32, Track>,
    /// Threads that are not recorded, with the reason.
    refused: BTreeMap<u32, String>,
    /// Outliers whose records are not yet complete.
    waiting: Vec<RawOutlier>,
    /// Whether the run ends, so that no outlier can wait.
    ends: bool,
    /// Why the events of the machine are not recorded.
    why: String,
}

impl ExplainRequest {
    /// Returns whether outliers can be explained without tracing if the kernel refuses tracing to
    /// this user. Some options need it.
    pub(crate) fn can_use_switches(&self, refused: &TraceError) -> bool {
        refused.is_refused() && self.level == Level::Default && self.events.is_empty()
    }
}

struct Track {
    switches: ThreadSwitches,
    jobs: SwitchJobs,
    past: VecDeque<SwitchJob>,
    comm: Comm,
    /// Time of the last reading.
    read: Nanos,
}

impl Track {
    fn turn(&mut self) {
        let at = monotonic();
        let counts = self.switches.counts();
        let found = self.jobs.take(self.switches.read(), counts, at);
        self.past.extend(found);
        let beyond = self.past.len().saturating_sub(KEPT);
        self.past.drain(..beyond);
        self.read = at;
    }

    /// Returns whether the records of an interval are complete: the thread has slept after it, or it
    /// did not sleep since its start.
    fn covers(&self, from: Nanos, to: Nanos) -> bool {
        let ended = self.past.back().is_some_and(|job| job.end >= to);
        let began = self.jobs.open().is_some_and(|job| job.began <= from);
        ended || (began && self.read >= to)
    }
}

impl SwitchRecorder {
    /// Creates a recorder without threads. `why`: why the events of the machine are not recorded.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses to record the switches of this thread.
    pub(crate) fn new(host: &Host, why: String) -> Result<Self, SessionError> {
        may_record(host)?;
        Ok(Self {
            host: host.clone(),
            threads: BTreeMap::new(),
            refused: BTreeMap::new(),
            waiting: Vec::new(),
            ends: false,
            why,
        })
    }

    /// Also records these threads. The records of ended threads are kept for their last outliers.
    pub(super) fn watch(&mut self, tids: &[u32]) {
        for tid in tids {
            if self.threads.contains_key(tid) || self.refused.contains_key(tid) {
                continue;
            }
            match ThreadSwitches::open(self.host.root(), *tid) {
                Ok(switches) => {
                    let track = Track {
                        comm: comm(&self.host, *tid),
                        switches,
                        jobs: SwitchJobs::default(),
                        past: VecDeque::new(),
                        read: Nanos::ZERO,
                    };
                    self.threads.insert(*tid, track);
                }
                Err(error) => {
                    self.refused.insert(*tid, error.to_string());
                }
            }
        }
    }

    /// Lets no outlier wait from now on.
    pub(super) const fn end(&mut self) {
        self.ends = true;
    }

    /// Reads the switches. Returns the outliers, including earlier ones, whose records are complete, or
    /// that have waited long enough for them.
    pub(super) fn ready(&mut self, seen: Vec<RawOutlier>) -> Vec<RawOutlier> {
        self.threads.values_mut().for_each(Track::turn);
        self.waiting.extend(seen);
        let (threads, ends, now) = (&self.threads, self.ends, monotonic());
        let is_ready = |one: &mut RawOutlier| {
            let actual = one.expected + one.latency;
            let track = threads.get(&one.tid);
            ends || now.saturating_sub(actual) > PATIENCE
                || track.is_none_or(|track| track.covers(one.expected, actual))
        };
        self.waiting.extract_if(.., is_ready).collect()
    }

    /// Returns the causes of an outlier and its timeline.
    pub(super) fn explain(&self, outlier: &RawOutlier, delay: Delay) -> (Blame, Window) {
        let track = self.threads.get(&outlier.tid);
        let jobs: Vec<&SwitchJob> = track
            .map(|track| track.past.iter().chain(track.jobs.open()).collect())
            .unwrap_or_default();
        let last = jobs.last().map(|job| job.cpu);
        let victim = Victim {
            tid: outlier.tid,
            comm: track.map_or_else(Comm::default, |track| track.comm),
            scheduling: Some(outlier.scheduling),
            cpu: outlier.cpu.or(last).unwrap_or_default(),
        };
        let span = (outlier.expected, outlier.expected + outlier.latency);
        let (window, shares) = explained(victim.clone(), delay, span, &jobs, outlier.period);
        let blame = Blame {
            victim,
            delay,
            moved: None,
            culprit_end_ns: None,
            events_lost: 0,
            clock_error_ns: Nanos::ZERO,
            by_observer: false,
            shares,
            words: None,
        };
        (blame, window)
    }

    /// Returns warnings about what cannot be seen.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = vec![format!(
            "explained without root, by the context switches of the measuring threads: what ran while \
             they waited for a CPU, what happened before they were woken, and interrupts cannot be \
             seen. Root sees them ({})",
            self.why
        )];
        let lost: u64 = self.threads.values().map(|track| track.jobs.lost).sum();
        if lost > 0 {
            warnings.push(format!("{} context switches were lost", grouped(lost)));
        }
        if let Some((tid, why)) = self.refused.iter().next() {
            let refused = counted(self.refused.len() as u64, "thread", "threads");
            warnings.push(format!("{refused} not recorded, such as {tid}: {why}"));
        }
        warnings
    }
}

fn comm(host: &Host, tid: u32) -> Comm {
    let tasks = host.tasks_of(tid);
    let task = tasks.iter().find(|task| task.tid == tid);
    Comm::new(task.map_or("", |task| &task.comm).as_bytes())
}

/// Checks whether the kernel records the switches of threads of this user.
///
/// # Errors
/// Returns an error if it does not.
pub(crate) fn may_record(host: &Host) -> Result<(), SessionError> {
    let own = rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .unsigned_abs();
    let opened = ThreadSwitches::open(host.root(), own);
    let refused = |error: std::io::Error| SessionError::SwitchesRefused(error.to_string());
    opened.map(drop).map_err(refused)
}
