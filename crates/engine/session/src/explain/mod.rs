//! Explains outliers while a measurement runs: arms the flight recorder, and reads its events after
//! each outlier.

mod evidence;
mod export;
mod go_stops;
mod in_events;
mod job_evidence;
mod jvm;
mod names;
mod outlier_buffer;
mod quota;
mod raw_outlier;
mod recorder;
mod requested;
mod stacks;
mod statistics;
mod switch_recorder;
mod theft;
mod wait_stacks;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::sync::Arc;

use punctual_host::{Host, OwnThread};
use punctual_model::cause::{Detail, Name};
use punctual_model::{
    Blame, Delay, Explanation, HardwareCounters, HostFacts, Nanos, Outlier, TopSample, TraceEvent,
    Victim, Window,
};
use punctual_store::{StoreError, Writer};
use punctual_trace::{
    ClockMap, JobRecorder, Level, Plan, RawPage, Stage, StopHandle, TraceError, TraceSlice, Tracefs,
};

use evidence::EvidenceSources;
pub use export::export_trace;
use in_events::{ended_on, name_of};
use job_evidence::JobEvidence;
use names::Names;
pub(crate) use outlier_buffer::OutlierBuffer;
pub(crate) use raw_outlier::RawOutlier;
use recorder::Recorder;
use requested::Requested;
use stacks::StackWatch;
pub(crate) use statistics::OutlierStatistics;
pub(crate) use switch_recorder::{SwitchRecorder, may_record};
pub(crate) use wait_stacks::UserCode;

use crate::lifecycle::{Start, monotonic};
use crate::machine::TimerlatStacks;

/// Time before the outlier's window whose events are kept, to show what ran before.
const BEFORE: Nanos = Nanos::from_millis(1);
/// Time after the wake-up whose events are kept, for the plot.
const AFTER: Nanos = Nanos::from_micros(20);
/// Maximum number of outliers that are kept for the watcher between two reports.
const NEW: usize = 1_000;

/// Controls the flight recorder of one run.
pub(crate) struct Explainer {
    flight: Recorder,
    requested: Option<Requested>,
    stacks: StackWatch,
    delay: Delay,
    missing: Vec<String>,
    watched: BTreeSet<u32>,
    host: Host,
    evidence: EvidenceSources,
    job_evidence: JobEvidence,
    names: Names,
    statistics: OutlierStatistics,
    buffer: OutlierBuffer,
    /// The outliers since the last report to the watcher.
    new: Vec<Outlier>,
    warnings: Vec<String>,
}

impl Explainer {
    /// Arms a recorder. Its events remain off until [`switch`](Self::switch) is called.
    pub(crate) fn arm(
        host: &Host,
        level: Level,
        threshold: Nanos,
        delay: Delay,
    ) -> Result<Self, TraceError> {
        let tracefs = Tracefs::find(host.root())?;
        let cpus = host.present().map_or(1, |cpus| cpus.len());
        let plan = Plan {
            level,
            bytes_per_cpu: Plan::default_bytes(cpus),
        };
        let names = Names::new(host, level);
        let flight = tracefs.arm(plan, host.own_process(), names.text_begin())?;
        Self::new(
            host,
            Recorder::Tracer(Box::new(flight)),
            names,
            threshold,
            delay,
        )
    }

    /// Creates an explainer with programs that are already loaded.
    pub(crate) fn with_programs(
        host: &Host,
        programs: JobRecorder,
        threshold: Nanos,
        delay: Delay,
    ) -> Result<Self, TraceError> {
        let names = Names::new(host, Level::Jobs);
        let recorder = Recorder::Programs(Box::new(programs));
        Self::new(host, recorder, names, threshold, delay)
    }

    /// Creates an explainer that records only the switches of the watched threads.
    pub(crate) fn with_switches(
        host: &Host,
        switches: SwitchRecorder,
        threshold: Nanos,
        delay: Delay,
    ) -> Result<Self, TraceError> {
        let names = Names::new(host, Level::Default);
        Self::new(host, Recorder::Switches(switches), names, threshold, delay)
    }

    fn new(
        host: &Host,
        flight: Recorder,
        names: Names,
        threshold: Nanos,
        delay: Delay,
    ) -> Result<Self, TraceError> {
        Ok(Self {
            buffer: OutlierBuffer::new(flight.describe()?),
            missing: flight.missing(Stage::Full),
            flight,
            requested: None,
            host: host.clone(),
            stacks: StackWatch::default(),
            delay,
            watched: BTreeSet::new(),
            evidence: EvidenceSources::new(host),
            job_evidence: JobEvidence::new(host),
            names,
            statistics: OutlierStatistics::new(threshold),
            new: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// Sets the wake-up interval of the probe.
    pub(crate) fn looking_each(&mut self, interval: Nanos) {
        self.statistics.looking_each(interval);
    }

    /// Sets the threads of this program; outliers that they cause are counted separately.
    pub(crate) fn observed_by(&mut self, own: &[OwnThread]) {
        self.evidence.observed_by(own);
    }

    /// Also reads these stacks of the kernel's timerlat tracer.
    pub(crate) fn add_timerlat_stacks(
        &mut self,
        stacks: impl IntoIterator<Item = Arc<TimerlatStacks>>,
    ) {
        self.stacks.add_timerlat(stacks);
    }

    /// Also records stacks, if this kernel accepts BPF programs. Otherwise, outliers are explained
    /// without stacks.
    pub(crate) fn take_stacks(&mut self, host: &Host) {
        self.stacks.begin(host, self.threshold());
    }

    /// Stops recording stacks, no matter which threads are watched in the meantime, or resumes it
    /// for the watched threads.
    pub(crate) fn shut_stacks(&mut self, shut: bool) {
        let failed = self.stacks.shut(shut, &self.watched);
        failed.into_iter().for_each(|text| self.warn(text));
    }

    /// Starts BPF programs that record steal time in ns and the lengths of handlers. They are
    /// switched with the events, so the measured overhead includes them. They are not used when
    /// watching an application, because each event would cost it time.
    pub(crate) fn count_steal(&mut self, host: &Host) {
        self.evidence.count_steal(theft::steal_recorder(host));
    }

    /// Sets the command that runs [`punctual_host::serve_symbols`].
    pub(crate) fn read_symbols_with(&mut self, reader: Option<Vec<OsString>>) {
        self.job_evidence.read_symbols_with(reader);
    }

    /// Also records when the runtime of the watched Go programs stops all goroutines.
    pub(crate) fn watch_runtimes(&mut self, tids: &[u32]) {
        let warnings = self.job_evidence.watch_runtimes(tids);
        warnings.into_iter().for_each(|text| self.warn(text));
    }

    /// Returns the number of explained outliers whose largest share was caused by this program.
    pub(crate) const fn by_observer(&self) -> u64 {
        self.statistics.by_observer
    }

    /// Returns the offset between times of the trace and CLOCK_MONOTONIC.
    pub(crate) const fn clock(&self) -> ClockMap {
        self.flight.clock()
    }

    pub(crate) const fn threshold(&self) -> Nanos {
        self.statistics.threshold()
    }

    /// Returns the handle that stops the recorder at a break.
    pub(crate) fn stop_handle(&self) -> Option<Arc<StopHandle>> {
        self.flight.stop_handle()
    }

    /// Turns the recording of events on or off.
    pub(crate) fn switch(&mut self, on: bool) -> Result<(), TraceError> {
        if let Some(requested) = &mut self.requested {
            requested.switch(on)?;
        }
        let failed = self.evidence.switch_steal(on);
        failed.into_iter().for_each(|text| self.warn(text));
        self.flight.switch(on)
    }

    /// Sets how much the events raised the probe's median, and how long measuring this took.
    pub(crate) const fn set_overhead(&mut self, overhead: Option<Nanos>, took: Nanos) {
        self.statistics.set_overhead(overhead, took);
    }

    /// Reads the initial values of the counters that serve as evidence for outliers.
    pub(crate) fn begin(
        &mut self,
        host: &Host,
        facts: &HostFacts,
        cpus: impl Iterator<Item = u32>,
    ) {
        let cpus: Vec<u32> = cpus.collect();
        self.evidence.begin(host, facts, &cpus);
    }

    /// Sets the late threads if they do not belong to this process, so that their control groups
    /// are checked.
    pub(crate) fn late_are(&mut self, host: &Host, tids: &[u32]) {
        self.evidence.late_are(host, tids);
    }

    /// Sets the watched threads, to which some of the recorded events are limited.
    pub(crate) fn watch(&mut self, tids: impl Iterator<Item = u32>) {
        let tids: BTreeSet<u32> = tids.collect();
        if tids != self.watched {
            let list: Vec<u32> = tids.iter().copied().collect();
            if let Err(error) = self.flight.watch(&list) {
                self.warn(error.to_string());
            }
            self.watched = tids;
            let failed = self.stacks.watch(&self.watched);
            failed.into_iter().for_each(|text| self.warn(text));
        }
    }

    /// Sets the hardware counters of a job that is explained next.
    pub(crate) fn counted(&mut self, job: (u32, Nanos), counters: HardwareCounters) {
        self.job_evidence.counted(job, counters);
    }

    /// Counts outliers that cannot be explained.
    pub(crate) const fn see(&mut self, count: u64) {
        self.statistics.pass_over(count);
        self.statistics.beyond += count;
    }

    /// Counts outliers that occurred because the user stopped the process. They are not explained,
    /// because nothing on the machine took that time.
    pub(crate) const fn pass_over(&mut self, count: u64) {
        self.statistics.pass_over(count);
    }

    /// Returns the metadata of the explanation before any outlier is explained. If the program is
    /// killed, this metadata describes the stored outliers.
    pub(crate) fn head(&self) -> Explanation {
        let requested = self.requested.iter().flat_map(Requested::names);
        Explanation {
            events: self.flight.recorded(),
            requested_events: requested.collect(),
            missing_events: self.missing.clone(),
            ..self.statistics.explanation()
        }
    }

    /// Returns whether [`explain`](Self::explain) must be called often even if there are no outliers.
    pub(crate) fn needs_turns(&self) -> bool {
        self.evidence.needs_turns()
    }

    /// Explains the outliers, and stores the largest immediately, so that a killed program loses no
    /// explanation.
    ///
    /// # Errors
    /// Returns an error of the store. Outliers that were not stored are retried in the next call.
    pub(crate) fn explain(
        &mut self,
        seen: Vec<RawOutlier>,
        start: &Start,
        mut writer: Option<&mut Writer>,
    ) -> Result<(), StoreError> {
        self.evidence.look_at_quotas();
        let seen = match &mut self.flight {
            Recorder::Switches(switches) => switches.ready(seen),
            _ => seen,
        };
        if seen.is_empty() {
            self.evidence.look();
            return Ok(());
        }
        let ends = seen.iter().map(|one| one.expected + one.latency + AFTER);
        let until = ends.max().unwrap_or_default();
        if let Err(error) = self.flight.take_out_until(until) {
            self.warn(format!("{error}: later outliers are not explained"));
        }
        if let Some(requested) = &mut self.requested
            && let Err(error) = requested.take_out_until(until)
        {
            self.warn(format!("{error}: later events of --event are missing"));
        }
        self.evidence.look_after(until);
        let from = seen.iter().map(|one| one.expected).min();
        self.stacks.read(from.unwrap_or_default());
        let numbered = self.statistics.choose(seen);
        let (count, began) = (numbered.len() as u64, monotonic());
        let mut stored = Ok(());
        for (number, sighting) in numbered {
            self.explain_one(number, &sighting, start);
            stored = stored.and(self.buffer.store(writer.as_deref_mut()));
        }
        self.job_evidence.clear_counters();
        let time = monotonic().saturating_sub(began);
        self.statistics.took(count, time);
        stored
    }

    fn explain_one(&mut self, number: u64, sighting: &RawOutlier, start: &Start) {
        let actual = sighting.expected + sighting.latency;
        // If the outlier ended after the break, only its beginning was recorded.
        let stopped = self.flight.stop_handle();
        let stopped = stopped.and_then(|handle| handle.stopped_at());
        if stopped.is_some_and(|at| at < actual) {
            return;
        }
        let from = sighting.story_from.saturating_sub(BEFORE);
        let RawOutlier { tid, cpu, .. } = *sighting;
        let delay = sighting.delay.unwrap_or(self.delay);
        if let Recorder::Switches(switches) = &self.flight {
            let (blame, window) = switches.explain(sighting, delay);
            return self.keep((number, sighting, start), blame, window, &[], &[]);
        }
        let stage = self.flight.stage_of(sighting.expected, actual);
        let cut = match delay {
            Delay::Job => self.flight.cut_all(from, actual + AFTER, stage),
            _ => self.flight.slice_for(tid, cpu, from, actual + AFTER),
        };
        if !cut.events.iter().any(|event| event.time <= actual) {
            return;
        }
        let TraceSlice {
            events,
            lost,
            stacks,
            wakers,
            pages,
        } = cut;
        let mut window = self.window_of(sighting, delay, events, lost);
        self.job_evidence.add_to(&mut window, &stacks);
        if delay == Delay::Job && stage == Stage::Light {
            window.missing_events = self.flight.missing(stage);
            window.light_stage = Some(self.flight.watched_of(&window.events));
            let name = |(pid, comm)| Name {
                pid: Some(pid),
                comm,
            };
            window.evidence.wakers = wakers.into_iter().map(name).collect();
            window.evidence.interrupt_wakeups =
                self.names.interrupt_wakeups(&window.events, &stacks);
        }
        self.names.fill(&mut window);
        let mut preempted = None;
        if delay == Delay::Job {
            preempted = self.preempted_meanwhile(&window);
            punctual_culprit::keep_concerned(&mut window);
        }
        let mut blame = punctual_culprit::explain(&mut window);
        if let Some(preempted) = preempted {
            punctual_culprit::add_preempted(&mut blame, preempted);
        }
        let mut asked_for = Vec::new();
        if let Some(requested) = &mut self.requested {
            let (events, pages) = requested.between(from, actual + AFTER);
            window.events.extend(events);
            asked_for = pages;
            // The sort is stable: events of one CPU with equal times keep their order.
            window.events.sort_by_key(|event| event.time);
        }
        self.keep((number, sighting, start), blame, window, &pages, &asked_for);
    }

    /// Counts an explained outlier, and keeps it.
    fn keep(
        &mut self,
        (number, sighting, start): (u64, &RawOutlier, &Start),
        blame: Blame,
        window: Window,
        pages: &[RawPage],
        asked_for: &[RawPage],
    ) {
        let actual = sighting.expected + sighting.latency;
        let after = monotonic().saturating_sub(actual);
        self.statistics
            .explained(number, sighting.expected, after, &blame);
        let outlier = Outlier {
            light_stage: window.light_stage.is_some(),
            ..sighting.explained(number, start, blame)
        };
        if self.new.len() < NEW {
            self.new.push(outlier.clone());
        }
        self.buffer.add(outlier, window, pages, asked_for);
    }

    /// Explains all outliers in the next call of [`explain`](Self::explain), even if their records are
    /// not complete.
    pub(crate) const fn end(&mut self) {
        if let Recorder::Switches(switches) = &mut self.flight {
            switches.end();
        }
    }

    /// Returns and removes the outliers that were explained since the last call, at most [`NEW`].
    pub(crate) fn take_new(&mut self) -> Vec<Outlier> {
        std::mem::take(&mut self.new)
    }

    /// Returns a thread of the same process that a job may have waited for in user space.
    fn preempted_meanwhile(&self, window: &Window) -> Option<Detail> {
        let process = self.host.process_of(window.victim.tid)?;
        let is_sibling = |tid| self.host.process_of(tid) == Some(process);
        punctual_culprit::preempted_meanwhile(window, &is_sibling)
    }

    /// Builds the window of an outlier: its events and stacks, and the evidence from counters.
    fn window_of(
        &mut self,
        sighting: &RawOutlier,
        delay: Delay,
        mut events: Vec<TraceEvent>,
        lost: u64,
    ) -> Window {
        let RawOutlier {
            tid, expected, cpu, ..
        } = *sighting;
        let actual = expected + sighting.latency;
        let cpu = cpu.or_else(|| ended_on(&events, tid)).unwrap_or_default();
        let stacks = (self.stacks).of_outlier((tid, cpu), (expected, actual + AFTER), &events);
        events.extend(stacks);
        // The sort is stable: events of one CPU with equal times keep their order.
        events.sort_by_key(|event| event.time);
        let evidence = self.evidence.of(sighting, cpu, actual, &events);
        Window {
            victim: Victim {
                tid,
                comm: name_of(&events, tid),
                scheduling: Some(sighting.scheduling),
                cpu,
            },
            delay,
            expected,
            actual,
            events,
            lost,
            left_out: 0,
            missing_events: self.missing.clone(),
            light_stage: None,
            clock_error: self.flight.clock().error,
            symbols: BTreeMap::new(),
            calls: BTreeMap::new(),
            evidence,
            host: Vec::new(),
            segments: Vec::new(),
            activity: Vec::new(),
        }
    }

    /// Returns the main cause of an outlier, if it was explained and kept.
    pub(crate) fn cause(&self, expected: Nanos, latency: Nanos) -> Option<String> {
        let mut outliers = self.buffer.outliers();
        let found =
            outliers.find(|one| (one.monotonic_ns, one.latency_ns) == (expected, latency))?;
        Some(found.blame.culprit())
    }

    /// Fills in the causes of the largest samples.
    pub(crate) fn blame(&self, largest: &mut [TopSample]) {
        for sample in largest {
            let same = |outlier: &&Outlier| {
                (outlier.thread, outlier.monotonic_ns) == (sample.thread, sample.monotonic_ns)
            };
            let found = self.buffer.outliers().find(same);
            sample.blame = found.map(|outlier| outlier.blame.clone());
        }
    }

    /// Ends the recorder and returns the explanation.
    pub(crate) fn finish(mut self, warnings: &mut Vec<String>) -> Explanation {
        self.add_warnings(warnings);
        let mut outliers = self.buffer.take_outliers();
        outliers.sort_by_key(|outlier| outlier.number);
        let explanation = Explanation {
            resemblances: punctual_culprit::alike(&outliers),
            outliers,
            ..self.head()
        };
        let requested = self.requested.map_or(Ok(()), Requested::stop);
        for error in [self.flight.stop(), requested]
            .into_iter()
            .filter_map(Result::err)
        {
            warnings.push(format!("{error}; the next punctual command tries again"));
        }
        explanation
    }

    /// Adds warnings for the reader of the recording.
    fn add_warnings(&self, warnings: &mut Vec<String>) {
        warnings.extend(self.flight.warnings());
        warnings.extend(self.requested.iter().flat_map(Requested::warnings));
        warnings.extend(self.warnings.iter().cloned());
        if self.statistics.beyond > 0 {
            warnings.push(format!(
                "{} not explained: each is the mean of several samples, not a single time span",
                punctual_model::counted(self.statistics.beyond, "outlier", "outliers")
            ));
        }
        warnings.extend(self.buffer.warning());
    }

    fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }
}
