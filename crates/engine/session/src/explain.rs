//! Explaining outliers while a measurement runs: the flight recorder is armed,
//! and what it holds is taken out when one was seen.

mod names;
mod outlier_buffer;
mod quota;
mod recorder;
mod requested;
mod stacks;
mod theft;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_culprit::{Found, Tally};
use punctual_host::{Host, OwnThread};
use punctual_model::{
    Comm, Delay, EventKind, Evidence, Explanation, HostFacts, Nanos, Outlier, TraceEvent, Victim,
    Window, WorstSample,
};
use punctual_store::{StoreError, Writer};
use punctual_trace::{
    ClockMap, Cut, JobRecorder, LateStacks, Level, Plan, StealRecorder, StopHandle, TraceError,
    Tracefs,
};

use names::Names;
use outlier_buffer::OutlierBuffer;
pub(crate) use outlier_buffer::{DESCRIPTION, PAGES, REQUESTED};
use quota::QuotaHistory;
use recorder::Recorder;
use requested::Requested;
use theft::TheftWatch;

use crate::collect::Sighting;
use crate::noise::TimerlatStacks;
use crate::time::{Start, monotonic};

/// How much is kept from before the story begins: what ran then, and what was set
/// off.
const BEFORE: Nanos = Nanos::from_millis(1);

/// And from after the actual time, for the picture.
const AFTER: Nanos = Nanos::from_micros(20);

/// How many outliers are explained in one turn at most, the worst of them: more
/// would keep this thread from its other work. The others are counted.
const AT_ONCE: usize = 200;

/// No more than fit into this time: with the turn that it takes to see them, each
/// is explained within 50 ms of its happening.
const TURN: Nanos = Nanos::from_millis(30);

/// What one takes, until that is known.
const USUAL_COST: Nanos = Nanos::from_millis(1);

/// Looks after the flight recorder of one run.
pub(crate) struct Explainer {
    flight: Recorder,
    requested: Option<Requested>,
    stacks: Option<LateStacks>,
    /// None are taken now, whatever is watched.
    stacks_shut: bool,
    /// Of the kernel's timerlat, where that is measured.
    pub(crate) timerlat_stacks: Vec<Arc<TimerlatStacks>>,
    /// What they had recorded when outliers were last explained.
    latest: Vec<TraceEvent>,
    threshold: Nanos,
    delay: Delay,
    overhead: Option<Nanos>,
    overhead_took: Option<Nanos>,
    missing: Vec<String>,
    watched: BTreeSet<u32>,
    theft: Option<TheftWatch>,
    /// `None` if the kernel accepts no BPF programs.
    steal: Option<StealRecorder>,
    quotas: QuotaHistory,
    names: Names,
    seen: u64,
    /// Of these, those that nothing can explain.
    beyond: u64,
    explained: u64,
    within: Option<Nanos>,
    /// What one outlier took to explain, lately.
    cost: Nanos,
    tally: Tally,
    buffer: OutlierBuffer,
    observer: Vec<u32>,
    by_observer: u64,
    warnings: Vec<String>,
}

impl Explainer {
    /// Arms a recorder; its events are off until [`switch`](Self::switch).
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
        let names = Names::of(host, level);
        let flight = tracefs.arm(plan, host.own_process(), names.text_begin())?;
        Self::of(
            host,
            Recorder::Tracer(Box::new(flight)),
            names,
            threshold,
            delay,
        )
    }

    /// The same with programs that are loaded already.
    pub(crate) fn with_programs(
        host: &Host,
        programs: JobRecorder,
        threshold: Nanos,
        delay: Delay,
    ) -> Result<Self, TraceError> {
        let names = Names::of(host, Level::Jobs);
        let recorder = Recorder::Programs(Box::new(programs));
        Self::of(host, recorder, names, threshold, delay)
    }

    fn of(
        host: &Host,
        flight: Recorder,
        names: Names,
        threshold: Nanos,
        delay: Delay,
    ) -> Result<Self, TraceError> {
        Ok(Self {
            buffer: OutlierBuffer::new(flight.describe()?),
            missing: flight.missing(),
            flight,
            requested: None,
            stacks: None,
            stacks_shut: false,
            timerlat_stacks: Vec::new(),
            latest: Vec::new(),
            threshold,
            delay,
            overhead: None,
            overhead_took: None,
            watched: BTreeSet::new(),
            theft: None,
            steal: None,
            quotas: QuotaHistory::begin(host, &[]),
            names,
            seen: 0,
            beyond: 0,
            explained: 0,
            within: None,
            cost: USUAL_COST,
            tally: Tally::new(),
            observer: Vec::new(),
            by_observer: 0,
            warnings: Vec::new(),
        })
    }

    /// The probe looks each `interval`.
    pub(crate) fn looking_each(&mut self, interval: Nanos) {
        self.tally = Tally::new().looking_each(interval);
    }

    /// The threads of this program: what they take is counted apart.
    pub(crate) fn observed_by(&mut self, own: &[OwnThread]) {
        self.observer = own.iter().map(|own| own.tid.unsigned_abs()).collect();
    }

    /// Explained outliers whose largest share this program took itself.
    pub(crate) const fn by_observer(&self) -> u64 {
        self.by_observer
    }

    /// How times of the trace stand to CLOCK_MONOTONIC.
    pub(crate) const fn clock(&self) -> ClockMap {
        self.flight.clock()
    }

    pub(crate) const fn threshold(&self) -> Nanos {
        self.threshold
    }

    /// What stops the recorder at a break.
    pub(crate) fn stop_handle(&self) -> Option<Arc<StopHandle>> {
        self.flight.stop_handle()
    }

    /// Has the events recorded, or not.
    pub(crate) fn switch(&mut self, on: bool) -> Result<(), TraceError> {
        if let Some(requested) = &mut self.requested {
            requested.switch(on)?;
        }
        self.switch_steal(on);
        self.flight.switch(on)
    }

    /// By how much the events raised the probe's median, and how long it took to
    /// find out.
    pub(crate) fn set_overhead(&mut self, overhead: Option<Nanos>, took: Nanos) {
        (self.overhead, self.overhead_took) = (overhead, Some(took));
    }

    /// Reads the counters that outliers are held against.
    pub(crate) fn begin(
        &mut self,
        host: &Host,
        facts: &HostFacts,
        cpus: impl Iterator<Item = u32>,
    ) {
        let cpus: Vec<u32> = cpus.collect();
        self.theft = Some(TheftWatch::begin(host, facts, &cpus));
    }

    /// The threads that are late are others than this process's own: their control
    /// groups count.
    pub(crate) fn late_are(&mut self, host: &Host, tids: &[u32]) {
        self.quotas = QuotaHistory::begin(host, tids);
    }

    /// Records of these threads what is recorded of watched ones only.
    pub(crate) fn watch(&mut self, tids: impl Iterator<Item = u32>) {
        let tids: BTreeSet<u32> = tids.collect();
        if tids != self.watched {
            let list: Vec<u32> = tids.iter().copied().collect();
            if let Err(error) = self.flight.watch(&list) {
                self.warn(error.to_string());
            }
            self.watched = tids;
            self.watch_stacks();
        }
    }

    /// Counts outliers that nothing can explain.
    pub(crate) const fn see(&mut self, count: u64) {
        self.seen += count;
        self.beyond += count;
    }

    /// Counts outliers that the user made by stopping the process: nobody on the
    /// machine took their time.
    pub(crate) const fn pass_over(&mut self, count: u64) {
        self.seen += count;
    }

    /// What is known of the explanation before anything is explained: should the
    /// program be killed, it is what the outliers that are kept belong to.
    pub(crate) fn head(&self) -> Explanation {
        let requested = self.requested.iter().flat_map(Requested::names);
        Explanation {
            threshold_ns: self.threshold,
            events: self.flight.recorded(),
            requested_events: requested.collect(),
            missing_events: self.missing.clone(),
            rise_ns: self.overhead,
            rise_took_ns: self.overhead_took,
            ..Explanation::default()
        }
    }

    /// Explains what was seen, and keeps the worst in the store as it goes: a
    /// killed program loses no explanation.
    ///
    /// # Errors
    /// What the store says; what it did not take is tried again next time.
    pub(crate) fn explain(
        &mut self,
        mut seen: Vec<Sighting>,
        start: &Start,
        mut writer: Option<&mut Writer>,
    ) -> Result<(), StoreError> {
        self.quotas.look();
        if seen.is_empty() {
            self.theft.iter_mut().for_each(TheftWatch::look);
            return Ok(());
        }
        let ends = seen.iter().map(|one| one.expected + one.latency + AFTER);
        let until = ends.max().unwrap_or_default();
        if let Err(error) = self.flight.take_out_until(until) {
            self.warn(format!("{error}: outliers from here on are not explained"));
        }
        if let Some(requested) = &mut self.requested
            && let Err(error) = requested.take_out_until(until)
        {
            self.warn(format!(
                "{error}: events of --event are missing from here on"
            ));
        }
        if let Some(theft) = &mut self.theft {
            theft.look_after(until, self.steal.as_ref());
        }
        let from = seen.iter().map(|one| one.expected).min();
        self.read_stacks(from.unwrap_or_default());
        seen.sort_by_key(|sighting| sighting.expected);
        let first = self.seen + 1;
        self.seen += seen.len() as u64;
        let mut numbered: Vec<(u64, Sighting)> = (first..).zip(seen).collect();
        numbered.sort_by_key(|(_, sighting)| std::cmp::Reverse(sighting.latency));
        let fit = TURN.0 / self.cost.0.max(1);
        numbered.truncate((fit as usize).clamp(1, AT_ONCE));
        numbered.sort_by_key(|(number, _)| *number);
        let (count, began) = (numbered.len() as u64, monotonic());
        let mut stored = Ok(());
        for (number, sighting) in numbered {
            self.explain_one(number, &sighting, start);
            stored = stored.and(self.buffer.store(writer.as_deref_mut()));
        }
        // Between what it was and what it is now: one alone says little.
        let now = Nanos(monotonic().saturating_sub(began).0 / count.max(1));
        self.cost = Nanos(self.cost.0.midpoint(now.0));
        stored
    }

    fn explain_one(&mut self, number: u64, sighting: &Sighting, start: &Start) {
        let actual = sighting.expected + sighting.latency;
        // Of what came after the break only the beginning was recorded.
        let stopped = self.flight.stop_handle();
        let stopped = stopped.and_then(|handle| handle.stopped_at());
        if stopped.is_some_and(|at| at < actual) {
            return;
        }
        let from = sighting.story_from.saturating_sub(BEFORE);
        let Sighting { tid, cpu, .. } = *sighting;
        let delay = sighting.delay.unwrap_or(self.delay);
        let cut = match delay {
            Delay::Job => self.flight.cut_all(from, actual + AFTER),
            _ => self.flight.cut(tid, cpu, from, actual + AFTER),
        };
        if !cut.events.iter().any(|event| event.time <= actual) {
            return;
        }
        let Cut {
            events,
            lost,
            pages,
        } = cut;
        let mut window = self.window_of(sighting, delay, events, lost);
        self.names.fill(&mut window);
        if delay == Delay::Job {
            punctual_culprit::keep_concerned(&mut window);
        }
        let Found { blame, by_observer } = punctual_culprit::find(&window);
        self.by_observer += u64::from(by_observer);
        self.explained += 1;
        let after = monotonic().saturating_sub(actual);
        self.within = self.within.max(Some(after));
        self.tally.add(number, sighting.expected, &blame);
        let mut asked_for = Vec::new();
        if let Some(requested) = &mut self.requested {
            let (events, pages) = requested.between(from, actual + AFTER);
            window.events.extend(events);
            asked_for = pages;
            // Stable: events of one CPU at one time stay in their order.
            window.events.sort_by_key(|event| event.time);
        }
        let outlier = Outlier {
            number,
            time: start.wall_at(sighting.expected),
            monotonic_ns: sighting.expected,
            cpu: sighting.cpu,
            thread: sighting.thread,
            latency_ns: sighting.latency,
            blame,
        };
        self.buffer.add(outlier, window, &pages, &asked_for);
    }

    /// The events of an outlier with its stacks, and what counters show beside them.
    fn window_of(
        &mut self,
        sighting: &Sighting,
        delay: Delay,
        mut events: Vec<TraceEvent>,
        lost: u64,
    ) -> Window {
        let Sighting {
            tid, expected, cpu, ..
        } = *sighting;
        let actual = expected + sighting.latency;
        let cpu = cpu.or_else(|| ended_on(&events, tid)).unwrap_or_default();
        let stacks = self.stacks_of((tid, cpu), (expected, actual + AFTER), &events);
        events.extend(stacks);
        // Stable: events of one CPU at one time stay in their order.
        events.sort_by_key(|event| event.time);
        let throttles = self.quotas.between(expected, actual);
        let in_group = self.quotas.inside(&throttles, &events);
        let around = (sighting.story_from, actual);
        let theft = self.theft.as_mut();
        let counted = theft.map(|theft| theft.evidence(cpu, around, &events, self.steal.as_ref()));
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
            clock_error: self.flight.clock().error,
            symbols: BTreeMap::new(),
            calls: BTreeMap::new(),
            evidence: Evidence {
                throttles,
                in_group,
                observer: self.observer.clone(),
                ..counted.unwrap_or_default()
            },
        }
    }

    /// The main cause of an outlier, where it was explained and kept.
    pub(crate) fn cause(&self, expected: Nanos, latency: Nanos) -> Option<String> {
        let mut outliers = self.buffer.outliers();
        let found =
            outliers.find(|one| (one.monotonic_ns, one.latency_ns) == (expected, latency))?;
        Some(found.blame.culprit.clone())
    }

    /// Fills in who took the time of the worst samples.
    pub(crate) fn blame(&self, worst: &mut [WorstSample]) {
        for sample in worst {
            let same = |outlier: &&Outlier| {
                (outlier.thread, outlier.monotonic_ns) == (sample.thread, sample.monotonic_ns)
            };
            let found = self.buffer.outliers().find(same);
            sample.blame = found.map(|outlier| outlier.blame.clone());
        }
    }

    /// Ends the recorder. Returns what was found out.
    pub(crate) fn finish(self, warnings: &mut Vec<String>) -> Explanation {
        self.add_warnings(warnings);
        let mut outliers: Vec<Outlier> = self.buffer.outliers().cloned().collect();
        outliers.sort_by_key(|outlier| outlier.number);
        let explanation = Explanation {
            seen: self.seen,
            explained: self.explained,
            explained_within_ns: self.within,
            outliers,
            causes: self.tally.causes(),
            periods: self.tally.periods(),
            ..self.head()
        };
        let requested = self.requested.map_or(Ok(()), Requested::stop);
        for error in [self.flight.stop(), requested]
            .into_iter()
            .filter_map(Result::err)
        {
            warnings.push(format!("{error}; the next command of punctual tries again"));
        }
        explanation
    }

    /// What the reader must know.
    fn add_warnings(&self, warnings: &mut Vec<String>) {
        warnings.extend(self.flight.warnings());
        warnings.extend(self.requested.iter().flat_map(Requested::warnings));
        warnings.extend(self.warnings.iter().cloned());
        if self.beyond > 0 {
            warnings.push(format!(
                "{} outliers are no span of a thread's time (means of several), and cannot be explained",
                punctual_model::grouped(self.beyond)
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

/// The CPU that the thread was last seen on.
fn ended_on(events: &[TraceEvent], tid: u32) -> Option<u32> {
    let on = |event: &&TraceEvent| match &event.kind {
        EventKind::Switch { next, .. } => next.pid == tid,
        _ => event.pid == tid,
    };
    events.iter().rev().find(on).map(|event| event.cpu)
}

/// The thread's name, by the events.
fn name_of(events: &[TraceEvent], tid: u32) -> Comm {
    let named = |event: &TraceEvent| match &event.kind {
        EventKind::Switch { next, .. } if next.pid == tid => Some(next.comm),
        EventKind::Switch { prev, .. } if prev.pid == tid => Some(prev.comm),
        EventKind::Waking { task, .. } if task.pid == tid => Some(task.comm),
        _ => None,
    };
    events.iter().find_map(named).unwrap_or_default()
}
