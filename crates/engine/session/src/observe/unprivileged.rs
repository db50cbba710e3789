//! Observes the threads of the same user without privileges, by their context switches and the counts
//! of the scheduler. They show when a job ran and when it waited for a CPU. They do not show the cause.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use punctual_culprit::Late;
use punctual_host::{Host, system_call_name};
use punctual_model::{
    Blame, Comm, Completion, Delay, Explanation, Jobs, KernelPriority, Nanos, Outlier, ProbeRun,
    Recording, ReleaseChoice, ReleaseWait, SignedNanos, ThreadJobs, Victim, grouped,
};
use punctual_probes::Broke;
use punctual_store::Batch;
use punctual_trace::ThreadSwitches;

use super::head::head;
use super::watched::Watched;
use super::watched_tracks::{WatchedTracks, scheduling_of};
use super::{Background, ObserveRequest};
use crate::explain::{OutlierBuffer, OutlierStatistics, RawOutlier};
use crate::lifecycle::{
    Begun, Context, Moment, RecordingSink, Source, Start, StoreWriter, Watcher, monotonic,
};
use crate::switches::{SwitchJob, SwitchJobs, missing_events, shares, window};
use crate::targets::same_clock_as_events;
use crate::{Outcome, SessionError};

/// Interval at which few threads are read: so short that a job of a period of some ms is the only one
/// between two readings of the scheduler's counts.
const TURN: Duration = Duration::from_millis(2);
/// Interval at which many threads are read.
const SLOW_TURN: Duration = Duration::from_millis(20);
const FEW: usize = 16;

/// Maximum number of threads: each has its own ring of the kernel.
const MOST: usize = 256;

/// Number of turns between two looks at the system calls of sleeping threads.
const LOOK: u64 = 16;

/// Maximum number of outliers that are kept for the watcher between two reports.
const NEW: usize = 1_000;

/// The recording has no system calls, so each sleep ends a job.
const SLEEP: &str = "any sleep";

/// Observes threads of the same user like [`observe`](super::observe), but without tracing: with the
/// context switches that perf_event_open(2) records for them, and /proc/PID/schedstat.
///
/// # Errors
/// Returns an error if there is nothing to watch, if the kernel refuses to record the switches of all
/// threads, or if the store rejects the recording at its start.
pub fn observe_unprivileged(
    request: &ObserveRequest,
    host: &Host,
    store: Option<&dyn RecordingSink>,
    watcher: &mut dyn Watcher,
    stop: &AtomicBool,
) -> Result<Outcome, SessionError> {
    same_clock_as_events(host)?;
    let watched = Watched::find(&request.targets, host)?;
    let mut recording = head(request, host, &watched);
    let mut observation = Unprivileged::begin(request, host, watched, &recording)?;
    recording.started = observation.start.wall;
    recording.explanation = Some(observation.explanation());
    let mut context = Context {
        host,
        store,
        watcher,
        stop,
    };
    let cpus = host.online().unwrap_or_default();
    let begun = Begun::new(recording, &mut context, cpus, &observation.watched.tids())?;
    observation.background = Some(Background::begin(SLOW_TURN, None));
    begun.run(observation, &mut context)
}

/// A thread whose switches are recorded.
struct Thread {
    switches: ThreadSwitches,
    jobs: SwitchJobs,
    comm: Comm,
    /// How often the thread was found in each system call while it slept.
    calls: BTreeMap<i64, u64>,
}

struct Unprivileged<'a> {
    request: &'a ObserveRequest,
    host: Host,
    watched: Watched,
    tracks: WatchedTracks,
    start: Start,
    row_length: Nanos,
    background: Option<Background>,
    threads: BTreeMap<u32, Thread>,
    /// Threads that are not recorded, with the last reason.
    refused: BTreeMap<u32, String>,
    statistics: OutlierStatistics,
    buffer: OutlierBuffer,
    new: Vec<Outlier>,
    /// The jobs, by the index of the thread in the recording.
    jobs: BTreeMap<u32, ThreadJobs>,
    /// Total time of late jobs: waiting for a CPU, and running.
    late: (Nanos, Nanos),
    turns: u64,
    warnings: Vec<String>,
}

impl<'a> Unprivileged<'a> {
    fn begin(
        request: &'a ObserveRequest,
        host: &Host,
        watched: Watched,
        recording: &Recording,
    ) -> Result<Self, SessionError> {
        let mut observation = Self {
            request,
            host: host.clone(),
            tracks: WatchedTracks::new(&recording.threads, &watched),
            watched,
            start: Start::now(),
            row_length: recording.series.interval_ns,
            background: None,
            threads: BTreeMap::new(),
            refused: BTreeMap::new(),
            statistics: OutlierStatistics::new(request.threshold()),
            buffer: OutlierBuffer::new(None),
            new: Vec::new(),
            jobs: BTreeMap::new(),
            late: (Nanos::ZERO, Nanos::ZERO),
            turns: 0,
            warnings: Vec::new(),
        };
        observation.follow();
        match observation.refused.values().next() {
            Some(why) if observation.threads.is_empty() => {
                Err(SessionError::SwitchesRefused(why.clone()))
            }
            _ => Ok(observation),
        }
    }

    /// Records the switches of threads that are not yet recorded.
    fn follow(&mut self) {
        for tid in self.watched.tids() {
            let known = self.threads.contains_key(&tid) || self.refused.contains_key(&tid);
            if known || !self.watched.has(tid) {
                continue;
            }
            if self.threads.len() >= MOST {
                let why = format!("at most {MOST} threads are recorded");
                self.refused.insert(tid, why);
                continue;
            }
            match ThreadSwitches::open(self.host.root(), tid) {
                Ok(switches) => {
                    let name = self.watched.first.get(&tid);
                    let thread = Thread {
                        switches,
                        jobs: SwitchJobs::default(),
                        comm: Comm::new(name.map_or("", String::as_str).as_bytes()),
                        calls: BTreeMap::new(),
                    };
                    self.threads.insert(tid, thread);
                }
                Err(error) => {
                    self.refused.insert(tid, error.to_string());
                }
            }
        }
    }

    /// Reads the switches, and explains the jobs that took too long.
    fn read(&mut self, store: &mut StoreWriter<'_>) {
        let looks = self.turns.is_multiple_of(LOOK);
        self.turns += 1;
        let mut late = Vec::new();
        for (tid, thread) in &mut self.threads {
            let at = monotonic();
            let counts = thread.switches.counts();
            let found = thread.jobs.take(thread.switches.read(), counts, at);
            if looks
                && thread.jobs.is_asleep()
                && let Some(call) = thread.switches.call()
            {
                *thread.calls.entry(call).or_default() += 1;
            }
            let comm = thread.comm;
            late.extend(found.into_iter().map(|job| (*tid, comm, job)));
        }
        late.retain(|(tid, comm, job)| self.record(*tid, *comm, job));
        let sightings = late.iter().map(|(tid, _, job)| RawOutlier {
            thread: self.tracks.track_index(*tid),
            tid: *tid,
            cpu: Some(job.cpu),
            scheduling: scheduling_of(*tid),
            expected: job.release(),
            latency: job.end.saturating_sub(job.release()),
            story_from: job.release(),
            delay: Some(Delay::Job),
            period: None,
        });
        let numbered = self.statistics.choose(sightings.collect());
        for (number, sighting) in numbered {
            let job = (late.iter())
                .find(|(tid, _, job)| (*tid, job.release()) == (sighting.tid, sighting.expected));
            if let Some((_, comm, job)) = job {
                self.explain(number, &sighting, *comm, job);
            }
        }
        let stored = self.buffer.store(store.writer());
        store.note(stored);
    }

    /// Counts a job. Returns whether it took too long.
    fn record(&mut self, tid: u32, comm: Comm, job: &SwitchJob) -> bool {
        let release = job.release();
        let late = Late {
            tid,
            comm,
            prio: KernelPriority::UNKNOWN,
            cpu: job.cpu,
            delay: Delay::Job,
            expected: release,
            actual: job.end,
            events_from: release,
        };
        let since = release.saturating_sub(self.start.monotonic);
        self.tracks.record(&late, since, self.row_length);
        let is_late = late.latency() > self.request.threshold();
        let thread = self.tracks.track_index(tid);
        let jobs = self.jobs.entry(thread).or_default();
        jobs.jobs += 1;
        jobs.over_budget += u64::from(is_late);
        if is_late {
            self.late.0 += late.latency().saturating_sub(job.ran);
            self.late.1 += job.ran;
        }
        let ran = i64::try_from(job.ran.0).unwrap_or(i64::MAX);
        jobs.execution.record(SignedNanos(ran));
        is_late
    }

    fn explain(&mut self, number: u64, sighting: &RawOutlier, comm: Comm, job: &SwitchJob) {
        let victim = Victim {
            tid: sighting.tid,
            comm,
            scheduling: Some(sighting.scheduling),
            cpu: job.cpu,
        };
        let blame = Blame {
            victim: victim.clone(),
            delay: Delay::Job,
            moved: None,
            culprit_end_ns: None,
            events_lost: 0,
            clock_error_ns: Nanos::ZERO,
            by_observer: false,
            shares: shares(job),
            words: None,
        };
        let after = monotonic().saturating_sub(job.end);
        (self.statistics).explained(number, sighting.expected, after, &blame);
        let outlier = sighting.explained(number, &self.start, blame);
        if self.new.len() < NEW {
            self.new.push(outlier.clone());
        }
        self.buffer.add(outlier, window(victim, job), &[], &[]);
    }

    fn explanation(&self) -> Explanation {
        Explanation {
            missing_events: missing_events(),
            ..self.statistics.explanation()
        }
    }

    /// Returns the jobs of each thread.
    fn jobs(&mut self) -> Jobs {
        for (tid, thread) in &self.threads {
            let index = self.tracks.track_index(*tid);
            let jobs = self.jobs.entry(index).or_default();
            jobs.incomplete += thread.jobs.incomplete;
            jobs.waits += thread.jobs.sleeps;
            let most = thread.calls.iter().max_by_key(|(_, count)| **count);
            let most = most.and_then(|(call, _)| system_call_name(*call));
            jobs.release.get_or_insert_with(|| ReleaseWait {
                call: SLEEP.to_owned(),
                object: most.map(|name| format!("mostly {name}")),
                choice: ReleaseChoice::Found,
                seen: thread.jobs.sleeps,
                period_ns: None,
            });
        }
        let jobs = std::mem::take(&mut self.jobs);
        Jobs {
            budget_ns: self.request.threshold(),
            caused_by_observer: 0,
            windows: None,
            threads: (jobs.into_iter())
                .map(|(thread, jobs)| ThreadJobs { thread, ..jobs })
                .collect(),
        }
    }

    /// Adds warnings about what cannot be seen.
    fn warn_at_end(&mut self) {
        let all = || self.threads.values().map(|thread| &thread.jobs);
        let lost: u64 = all().map(|jobs| jobs.lost).sum();
        let without: u64 = all().map(|jobs| jobs.without_wait.0).sum();
        let longest = all().map(|jobs| jobs.without_wait.1).max();
        let longest = longest.unwrap_or_default();
        let mut warnings = Vec::new();
        let (waited, ran) = self.late;
        if ran > Nanos::ZERO {
            warnings.push(format!(
                "all late jobs together waited {waited} for a CPU, and ran for {ran}"
            ));
        }
        warnings.extend([NOT_SEEN.to_owned(), EACH_SLEEP.to_owned()]);
        if without > 0 {
            let at_most = match longest {
                Nanos::ZERO => String::new(),
                longest => format!(", but at most {longest}"),
            };
            warnings.push(format!(
                "the wait between the wake-up and the beginning is unknown for {} jobs{at_most}: it \
                 is not in their response times",
                grouped(without)
            ));
        }
        if lost > 0 {
            warnings.push(format!("{} context switches were lost", grouped(lost)));
        }
        if let Some((tid, why)) = self.refused.iter().next() {
            warnings.push(format!(
                "{} not recorded, such as {tid}: {why}",
                punctual_model::counted(self.refused.len() as u64, "thread", "threads")
            ));
        }
        self.warnings.extend(warnings);
        self.warnings.extend(self.buffer.warning());
        let targets = &self.request.targets;
        let changes = self.watched.changes.all(targets, false, &self.host);
        self.warnings
            .extend(changes.into_iter().map(|change| change.text));
        self.warnings.extend_from_slice(self.watched.notes());
    }
}

const NOT_SEEN: &str = "observed without root: what ran while the threads waited for a CPU, and their \
    system calls, page faults and interrupts, cannot be seen. Root, or CAP_BPF and CAP_PERFMON, shows \
    them";

const EACH_SLEEP: &str = "each sleep ends a job, because system calls cannot be seen: a wait for a lock, \
    a device or another thread divides a job in two. Each job begins with a wake-up, so the delay of a \
    timer does not count";

impl Source for Unprivileged<'_> {
    fn start(&self) -> Start {
        self.start
    }

    fn duration(&self) -> Option<Nanos> {
        self.request.length.duration()
    }

    fn warnings(&mut self) -> &mut Vec<String> {
        &mut self.warnings
    }

    fn wait(&mut self, _: &dyn Watcher) {
        let few = self.threads.len() <= FEW;
        thread::sleep(if few { TURN } else { SLOW_TURN });
    }

    fn poll(
        &mut self,
        store: &mut StoreWriter<'_>,
        moment: Moment,
    ) -> Result<Option<Completion>, SessionError> {
        self.read(store);
        if let Some(background) = &self.background {
            background.turn();
        }
        let gone = self.turns.is_multiple_of(LOOK) && self.watched.all_gone(&self.host);
        Ok(moment.completion().or(gone.then_some(Completion::Finished)))
    }

    fn refresh(&mut self) -> Result<(), SessionError> {
        let (tracks, threads) = (&mut self.tracks, &mut self.threads);
        let anew = |tid| {
            tracks.forget(tid);
            threads.remove(&tid);
        };
        self.watched
            .refresh(&self.request.targets, &self.host, anew);
        self.tracks.rename(&self.watched);
        self.follow();
        Ok(())
    }

    fn batch(&self, elapsed: Nanos) -> Batch {
        Batch {
            elapsed,
            rows: self.tracks.uncommitted_rows(self.row_length),
            accounting: self.tracks.accounting(),
            top_samples: self.tracks.top_samples(&self.start),
            warnings: self.warnings.clone(),
            ..Batch::default()
        }
    }

    fn committed(&mut self) {
        self.tracks.rows.committed();
    }

    fn report(&mut self, watcher: &mut dyn Watcher, elapsed: Nanos) {
        if watcher.wants_details() {
            watcher.latencies(&self.tracks.latencies());
            watcher.outliers(&std::mem::take(&mut self.new));
        }
        watcher.progress(&self.tracks.snapshot(elapsed, self.duration(), &self.start));
    }

    fn finish(mut self, recording: &mut Recording, store: &mut StoreWriter<'_>) -> Option<Broke> {
        self.background = None;
        self.read(store);
        let targets = &self.request.targets;
        self.watched.refresh(targets, &self.host, |_| {});
        self.warn_at_end();
        self.tracks.rename(&self.watched);
        let names = self.request.targets.named(&self.watched.first);
        let parameters = &mut recording.probe.parameters;
        parameters.insert(ProbeRun::WATCHED.to_owned(), names.into());
        recording.top_samples = self.tracks.top_samples(&self.start);
        let jobs = self.jobs();
        let mut outliers = self.buffer.take_outliers();
        outliers.sort_by_key(|outlier| outlier.number);
        recording.explanation = Some(Explanation {
            events_lost: self.threads.values().map(|thread| thread.jobs.lost).sum(),
            jobs: Some(jobs),
            outliers,
            ..self.explanation()
        });
        recording.series.rows = self.tracks.fill(&mut recording.threads, self.row_length);
        recording.verdict = recording.judge();
        recording.warnings = self.warnings;
        None
    }
}
