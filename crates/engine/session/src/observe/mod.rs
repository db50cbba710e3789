//! Observes a running application, and explains each late wake-up of its threads.
//!
//! Our own threads do not measure anything. A scout (`punctual_trace::Scout`) delivers only the
//! wake-ups and switches of the watched threads. If one of them waited too long, the flight
//! recorder shows why.

mod background;
mod changes;
mod counted;
mod counters;
mod finder;
mod head;
mod job_statistics;
pub(crate) mod jobs;
mod late;
mod pace;
mod policies;
mod profile;
mod release;
mod reservations;
mod restarts;
mod source;
mod turns;
mod unprivileged;
mod warnings;
mod watched;
mod watched_tracks;
mod window_cost;
mod windows;

use std::cell::Cell;
use std::ffi::OsString;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use punctual_culprit::Late;
use punctual_host::Host;
use punctual_model::cause::LatenessProfile;
use punctual_model::{
    ApplicationChange, Completion, EventKind, Explanation, LoopRequirement, Nanos, ProbeRun,
    Recording,
};
use punctual_probes::Broke;
use punctual_store::Batch;
use punctual_trace::{Followed, JobRecorder, Level, ScoutEvent, Stage, TraceError};

use crate::explain::Explainer;
use crate::lifecycle::{
    Begun, Context, Moment, REFRESH, RecordingSink, Source, Start, StoreWriter, Watcher, monotonic,
};
use crate::targets::{same_clock_as_events, same_pids_as_events};
use crate::{ExplainRequest, Outcome, RecordingRequest, RunLength, SessionError, Targets};
pub(crate) use background::Background;
use counters::CounterWatch;
use finder::Finder;
use head::head;
pub use jobs::{JobDetail, JobRequest};
use pace::Pace;
use profile::ProfileWatch;
pub use release::{Release, ReleaseError, ReleaseKind};
use restarts::Restarts;
use source::EventSource;
pub use unprivileged::observe_unprivileged;
use warnings::{by_tracer, lost_warnings, uncounted, unplaced, untimed};
use watched::Watched;
use watched_tracks::WatchedTracks;
use window_cost::{taken, windows_of};
use windows::Windows;

/// Interval at which events are read, unless BPF programs wake this thread. It is so short that the
/// events of an outlier still exist when the outlier is explained.
const TURN: Duration = Duration::from_millis(20);

/// Describes the time span of each latency. The last scheduler event in it shows that the thread
/// begins to run.
const TO_SWITCH_IN: &str = "each wait begins when a thread is woken or loses its CPU, and ends \
                            with the switch to the thread. The return to user space is not \
                            included, because no recorded event shows its end";

/// Parameters of an observation.
#[derive(Clone, Debug)]
pub struct ObserveRequest {
    /// Threads to watch.
    pub targets: Targets,
    /// Follows the jobs of the threads; `None` to follow their waits for a CPU.
    pub jobs: Option<JobRequest>,
    /// Which waits to explain, and which events to record. For jobs, their budget is used in place
    /// of the threshold.
    pub explain: ExplainRequest,
    /// Records jobs with the kernel's tracer even if BPF programs could be used.
    pub no_bpf: bool,
    /// Does not read hardware counters.
    pub no_counters: bool,
    /// Also finds where late jobs spend more time than others ([`Outcome::profile`]).
    pub profile: bool,
    /// The command that runs [`punctual_host::serve_symbols`], to read programs of other users. If
    /// `None`, their functions are unknown.
    pub reader: Option<Vec<OsString>>,
    /// Length of the observation.
    pub length: RunLength,
    /// Requirement on the jobs. A check judges the recording by it afterwards.
    pub requirement: Option<LoopRequirement>,
    /// The head of the recording.
    pub recording: RecordingRequest,
}

/// Observes until the time is over, all watched threads have ended, or `stop` is set.
///
/// # Errors
/// Returns an error if there is nothing to watch, if the kernel refuses to trace, or if the store
/// rejects the recording at its start. A later error of the store does not end the observation; see
/// [`Outcome::store_error`].
pub fn observe(
    request: &ObserveRequest,
    host: &Host,
    store: Option<&dyn RecordingSink>,
    watcher: &mut dyn Watcher,
    stop: &AtomicBool,
) -> Result<Outcome, SessionError> {
    same_pids_as_events(host)?;
    same_clock_as_events(host)?;
    let watched = Watched::find(&request.targets, host)?;
    let mut recording = head(request, host, &watched);
    let aside = Aside::default();
    let observation = Observation::begin((request, &aside), host, watched, &mut recording)?;
    let mut context = Context {
        host,
        store,
        watcher,
        stop,
    };
    let cpus = host.online().unwrap_or_default();
    let begun = Begun::new(recording, &mut context, cpus, &observation.watched.tids())?;
    let mut outcome = begun.run(observation.in_background(), &mut context)?;
    outcome.profile = aside.profile.take();
    outcome.changes = aside.changes.take();
    Ok(outcome)
}

/// Results of an observation that are not part of its recording.
#[derive(Default)]
struct Aside {
    profile: Cell<Option<LatenessProfile>>,
    changes: Cell<Vec<ApplicationChange>>,
}

impl ObserveRequest {
    /// Returns the duration above which a wait or job is explained.
    fn threshold(&self) -> Nanos {
        self.jobs
            .as_ref()
            .map_or(self.explain.threshold, |jobs| jobs.budget)
    }

    /// Returns whether stops by the runtime of Go programs are recorded, which needs BPF programs.
    fn records_stops(&self) -> bool {
        self.jobs.is_some() && !self.no_bpf
    }

    /// Returns the level of events; jobs require the system calls of the watched threads.
    fn events(&self) -> Level {
        match self.jobs {
            Some(_) => self.explain.level.max(Level::Jobs),
            None => self.explain.level,
        }
    }
}

/// An observation in progress.
struct Observation<'a> {
    request: &'a ObserveRequest,
    host: Host,
    explainer: Explainer,
    source: EventSource,
    finder: Finder,
    /// `None` if hardware counters are not read.
    counters: Option<CounterWatch>,
    /// `None` if late jobs are not compared with others.
    profile: Option<ProfileWatch<'a>>,
    /// `Some` if the cost is limited.
    windows: Option<Windows>,
    followed: Followed,
    watched: Watched,
    tracks: WatchedTracks,
    start: Start,
    row_length: Nanos,
    background: Option<Background>,
    pace: Pace,
    /// Whether the jobs of all threads are read in this window.
    reads_all: bool,
    restarts: Restarts,
    /// Number of waits without an end event.
    without_end: u64,
    warnings: Vec<String>,
    aside: &'a Aside,
}

impl<'a> Observation<'a> {
    fn begin(
        (request, aside): (&'a ObserveRequest, &'a Aside),
        host: &Host,
        watched: Watched,
        recording: &mut Recording,
    ) -> Result<Self, SessionError> {
        let (source, mut explainer, no_programs) = EventSource::arm(request, host)?;
        explainer.record_too(host, &request.explain.events)?;
        explainer.read_symbols_with(request.reader.clone());
        let counters = CounterWatch::begin(request, &mut explainer);
        let profile = (request.profile)
            .then(|| ProfileWatch::begin(host, request.reader.clone(), &aside.profile))
            .transpose()?;
        if !request.no_bpf {
            explainer.take_stacks(host);
        }
        let cpus = host.online().unwrap_or_default();
        explainer.begin(host, &recording.host, cpus.iter());
        explainer.switch(true)?;
        let windows = windows_of(request, &mut explainer)?;
        let tids = watched.tids();
        let finder = Finder::new(request, host);
        let followed = finder.followed(tids.clone(), &|_| false);
        source.follow(&mut explainer, &followed)?;
        explainer.watch(tids.iter().copied());
        if request.records_stops() {
            explainer.watch_runtimes(&tids);
        }
        explainer.late_are(host, &tids);
        let start = Start::now();
        recording.started = start.wall;
        recording.explanation = Some(explainer.head());
        Ok(Self {
            request,
            host: host.clone(),
            tracks: WatchedTracks::new(&recording.threads, &watched),
            explainer,
            source,
            windows,
            finder,
            counters,
            profile,
            followed,
            watched,
            start,
            row_length: recording.series.interval_ns,
            background: None,
            pace: Pace::new(monotonic()),
            reads_all: false,
            restarts: Restarts::default(),
            without_end: 0,
            warnings: no_programs.map(by_tracer).into_iter().collect(),
            aside,
        })
    }

    /// Gives this thread a background policy during the observation.
    fn in_background(mut self) -> Self {
        let programs = self.explainer.programs();
        let news = programs.and_then(|programs| programs.news().ok());
        self.background = Some(Background::begin(TURN, news));
        self.explainer.observed_by(&self.host.own_threads());
        self
    }

    /// Reads the events, and explains the waits and jobs that took too long.
    fn read(&mut self, store: &mut StoreWriter<'_>) -> Result<(), TraceError> {
        let mut late = Vec::new();
        let events = self.source.read(&mut self.explainer)?;
        if let Some(profile) = &mut self.profile {
            profile.read(|tid| self.tracks.track_index(tid));
        }
        let has_counted = self.read_counts(!events.is_empty());
        self.note_activity(has_counted || !events.is_empty());
        for event in events {
            let event = match event {
                ScoutEvent::Event(event) => event,
                ScoutEvent::Counter(reading) => {
                    self.counters
                        .iter_mut()
                        .for_each(|watch| watch.take(&reading));
                    continue;
                }
                ScoutEvent::Gap { until, .. } => {
                    self.counters.iter_mut().for_each(CounterWatch::lost);
                    self.finder.blind_until(until);
                    continue;
                }
                other => {
                    let listed = self.finder.jobs().map(|jobs| jobs.notice(&other));
                    let listed = listed.into_iter().flatten();
                    late.extend(listed.filter(|found| self.record(found, false)));
                    continue;
                }
            };
            self.tracks.policies.event(&event);
            let watched = &self.watched;
            let found = self.finder.take(&event, &|tid| watched.has(tid));
            if let EventKind::ProcessExit { task } = &event.kind {
                self.watched.end(task);
            }
            late.extend(found.into_iter().filter(|found| self.record(found, true)));
        }
        // Waits without an end have no length, but they are not missed periods.
        self.without_end += self.finder.without_end();
        if let (Some(windows), Some(programs)) = (&mut self.windows, self.explainer.programs()) {
            for one in &late {
                windows.saw(programs.stage_of(one.expected, one.actual));
            }
        }
        self.explain(&late, store);
        Ok(())
    }

    /// Opens and closes windows of the full stage.
    fn change_stage(&mut self) -> Result<(), SessionError> {
        let Self {
            windows,
            finder,
            explainer,
            ..
        } = self;
        let (Some(windows), Some(jobs), Some(programs)) =
            (windows, finder.jobs(), explainer.programs())
        else {
            return Ok(());
        };
        let (now, cost) = (monotonic(), windows.cost());
        let progress = jobs.progress(now, self.pace.active);
        let step = windows.step(now, progress, || taken(programs, cost));
        if let Some(stage) = step {
            self.pace.active &= stage == Stage::Light;
            programs.enter(stage)?;
            explainer.shut_stacks(stage == Stage::Light);
        }
        // Before the next refresh.
        let reads = windows.reads();
        if reads != std::mem::replace(&mut self.reads_all, reads) {
            self.choose_counted()?;
        }
        Ok(())
    }

    /// Counts a wait or a job. Returns whether it took too long. The kernel lists only long jobs,
    /// which are not typical.
    fn record(&mut self, found: &Late, is_typical: bool) -> bool {
        let since = found.expected.saturating_sub(self.start.monotonic);
        self.tracks.record(found, since, self.row_length);
        self.pace.measured = true;
        let late = found.latency() > self.request.threshold();
        if let Some(profile) = &mut self.profile {
            profile.take(found, late, self.tracks.track_index(found.tid));
        }
        if let Some(watch) = &mut self.counters {
            let counters = watch.job(found, is_typical);
            if late {
                self.explainer
                    .counted((found.tid, found.expected), counters);
            }
        }
        late
    }
}

impl Source for Observation<'_> {
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
        self.wait_for_turn();
    }

    fn commit_interval(&self) -> Nanos {
        self.pace.commit_interval(REFRESH)
    }

    fn poll(
        &mut self,
        store: &mut StoreWriter<'_>,
        moment: Moment,
    ) -> Result<Option<Completion>, SessionError> {
        self.read(store)?;
        self.change_stage()?;
        if let Some(background) = &self.background {
            background.turn();
        }
        let ended = match moment.completion() {
            None => self.ends_with_threads(store, moment.elapsed)?,
            ended => ended,
        };
        // The last names of the threads.
        self.pace.changed |= ended.is_some();
        Ok(ended)
    }

    /// Also watches threads that have been created in the meantime.
    fn refresh(&mut self) -> Result<(), SessionError> {
        let Self {
            tracks,
            finder,
            counters,
            ..
        } = self;
        let anew = |tid| {
            tracks.forget(tid);
            finder.forget(tid);
            counters.iter_mut().for_each(|watch| watch.forget(tid));
        };
        let targets = &self.request.targets;
        let is_open = !matches!(targets, Targets::Pids(_));
        let mut new = false;
        let programs = self.explainer.programs();
        let joined = is_open && programs.is_none_or(JobRecorder::take_joined);
        if self.pace.must_list(monotonic(), is_open, joined) {
            new = self.watched.refresh(targets, &self.host, anew);
            self.tracks.rename(&self.watched);
            if is_open {
                self.note_restart();
            }
        }
        let has_ended = |tid| !self.watched.has(tid);
        let followed = self.finder.followed(self.watched.tids(), &has_ended);
        if new || followed != self.followed {
            self.source.follow(&mut self.explainer, &followed)?;
            if let Some(profile) = &mut self.profile {
                profile.follow(&followed)?;
            }
            self.explainer.watch(followed.tids.iter().copied());
            if self.request.records_stops() {
                self.explainer.watch_runtimes(&followed.tids);
            }
            self.pace.attend(monotonic());
            self.followed = followed;
        }
        self.choose_counted()
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
        self.pace.measured = false;
    }

    fn report(&mut self, watcher: &mut dyn Watcher, elapsed: Nanos) {
        if watcher.wants_details() {
            watcher.latencies(&self.tracks.latencies());
            watcher.outliers(&self.explainer.take_new());
        }
        if watcher.wants_jobs(elapsed)
            && let Some(jobs) = self.jobs_so_far()
        {
            watcher.jobs(elapsed, self.tracks.rows_so_far(self.row_length), jobs);
        }
        watcher.progress(&self.tracks.snapshot(elapsed, self.duration(), &self.start));
    }

    fn finish(mut self, recording: &mut Recording, store: &mut StoreWriter<'_>) -> Option<Broke> {
        // The observation is over, so this thread gets its former policy back.
        self.background = None;
        let lost = self.source.lost(&mut self.explainer);
        self.finish_counts();
        let jobs = self.jobs(store);
        // The threads and their names were searched when the run ended.
        let targets = &self.request.targets;
        self.tracks.rename(&self.watched);
        let names = self.request.targets.named(&self.watched.first);
        let parameters = &mut recording.probe.parameters;
        parameters.insert(ProbeRun::WATCHED.to_owned(), names.into());
        match &jobs {
            Some(jobs) => {
                let title = |thread: u32| self.tracks.title(thread);
                let missing = jobs::warnings(jobs, self.source.has_calls(), title);
                self.warnings.extend(missing);
            }
            None => self.warnings.push(TO_SWITCH_IN.to_owned()),
        }
        self.warnings.extend(lost_warnings(lost, self.without_end));
        let restarted = self.restarts.are_some();
        let changes = self.watched.changes.all(targets, restarted, &self.host);
        let changes: Vec<_> = self.restarts.change().into_iter().chain(changes).collect();
        let texts = changes.iter().map(|change| change.text.clone());
        self.warnings.extend(texts.chain(self.restarts.end()));
        self.aside.changes.set(changes);
        self.warnings.extend(self.source.reset_by_others());
        self.warnings.extend_from_slice(self.watched.notes());
        if let Some(programs) = self.explainer.programs() {
            self.warnings.extend(untimed(programs.untimed()));
            if let Finder::Jobs(jobs) = &self.finder {
                self.warnings
                    .extend(uncounted(jobs.counted.uncounted, source::COUNTED));
                self.warnings.extend(unplaced(jobs.counted.unplaced));
            }
            let notes = source::descents(programs.descents(), |tid| self.watched.has(tid));
            self.warnings.extend(notes);
        }
        recording.top_samples = self.tracks.top_samples(&self.start);
        self.explainer.blame(&mut recording.top_samples);
        recording.explanation = Some(Explanation {
            events_lost: lost,
            jobs,
            waits_without_end: self.without_end,
            policy_changes: policies::changes(&mut self.tracks.policies, &self.start),
            refused_calls: policies::refused(&self.tracks.policies, |tid| {
                self.tracks.title(self.tracks.track_index(tid))
            }),
            ..self.explainer.finish(&mut self.warnings)
        });
        if let Err(error) = self.source.stop() {
            self.warnings
                .push(format!("{error}; the next punctual command tries again"));
        }
        recording.series.rows = self.tracks.fill(&mut recording.threads, self.row_length);
        if let Some(profile) = self.profile {
            self.warnings.extend(profile.warnings());
            profile.finish(recording);
        }
        recording.verdict = recording.judge();
        recording.warnings = self.warnings;
        None
    }
}
