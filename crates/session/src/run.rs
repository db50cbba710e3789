//! The life of a measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use punctual_host::Host;
use punctual_model::{
    Completion, CpuSet, HostFacts, KeptAudit, Nanos, Recording, SamplesKept, Scheduling,
    ThreadRecord,
};
use punctual_probes::{Broke, Control, Measured, OnBreak, PROBES, ProbeEntry};
use punctual_store::{Lease, StoreError, Writer};
use punctual_trace::{Level, Tracefs};

use crate::audit::Seen;
use crate::break_handler::BreakHandler;
use crate::collect::Collector;
use crate::explain::Explainer;
use crate::guards::Guards;
use crate::housekeeping::{Begin, Housekeeping};
use crate::outlier_command::OutlierCommand;
use crate::phase::{Phase, Surroundings};
use crate::quota::quota_warnings;
use crate::recording_sink::RecordingSink;
use crate::request::usual_series_interval;
use crate::time::Start;
use crate::tracemark::TraceStop;
use crate::watcher::Watcher;
use crate::{Request, SessionError, memory, overhead, rights, settings};

/// A measurement that is ready to run.
pub struct Session {
    pub(crate) request: Request,
    pub(crate) host: Host,
    pub(crate) facts: HostFacts,
    pub(crate) audit: Option<KeptAudit>,
    pub(crate) scheduling: Scheduling,
    /// Those to measure on, as they were asked for.
    cpus: CpuSet,
    pub(crate) phases: Vec<Phase>,
    pub(crate) row_length: Nanos,
    pub(crate) warnings: Vec<String>,
}

/// What a run gave.
#[derive(Debug)]
pub struct Outcome {
    /// The recording.
    pub recording: Recording,
    /// Why the store does not have all of it.
    pub store_error: Option<StoreError>,
    /// The sample that ended the run by crossing the break value.
    pub broke: Option<Broke>,
}

impl Session {
    /// Checks all that can be checked before anything is measured: CPUs,
    /// rights, the probe's parameters, how the lengths fit.
    ///
    /// # Errors
    /// What is wrong, with the value.
    pub fn prepare(request: Request, host: Host) -> Result<Self, SessionError> {
        punctual_rt::interrupt::install_interrupt_handler()?;
        memory::end_step();
        // Measuring threads allocate nothing while they measure; what they need
        // before comes from where the rest does, and goes back there.
        punctual_rt::share_heap();
        // The facts are many small reads, and the checks wait for threads: one
        // beside the other, for some programs are to measure at once.
        let (seen, checked) = thread::scope(|scope| {
            let seen = scope.spawn(|| Seen::of(&host, request.audit));
            let checked = Checked::of(&request, &host);
            (seen.join(), checked)
        });
        let checked = checked?;
        memory::end_step();
        // A panic in there is a defect; without its thread it shows itself.
        let seen = seen.unwrap_or_else(|_| Seen::of(&host, request.audit));
        let (facts, audit) = seen.judged(&checked.cpus);
        let phases = &checked.phases;
        let row_length = (request.series_interval).unwrap_or_else(|| {
            usual_series_interval(total(phases).or_else(|| request.length_by_count()))
        });
        Ok(Self {
            facts,
            audit,
            request,
            host,
            scheduling: checked.scheduling,
            cpus: checked.cpus,
            phases: checked.phases,
            row_length,
            warnings: checked.warning.into_iter().collect(),
        })
    }

    /// What the reader must know before it begins: rights that are lacking.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// How long, about, is measured before the run what recording trace events
    /// costs; `None`: none are recorded.
    pub fn measured_before(&self) -> Option<Nanos> {
        let explained = self.request.explain.is_some();
        explained.then(|| overhead::length(self.duration()))
    }

    /// How long it will last; `None`: until stopped.
    pub(crate) fn duration(&self) -> Option<Nanos> {
        total(&self.phases)
    }

    /// Measures, until the end or until `stop` is set. Rows are written to
    /// `store` as the run goes.
    ///
    /// # Errors
    /// What could not be started; a store that refuses the recording at its
    /// start. A store that fails later ends nothing: see
    /// [`Outcome::store_error`].
    pub fn run(
        mut self,
        store: Option<&dyn RecordingSink>,
        watcher: &mut dyn Watcher,
        stop: &AtomicBool,
    ) -> Result<Outcome, SessionError> {
        if self.request.samples && store.is_none() {
            return Err(SessionError::SamplesNotKept);
        }
        memory::end_step();
        let journal = self.request.journal.as_deref();
        let (tune, warning) = settings::applied(journal, &self.host);
        self.warnings.extend(warning);
        let mut guards = Guards::awake(self.request.dma_latency_us, &mut self.warnings);
        let explainer = self.arm(stop)?;
        let mut recording = self.head();
        recording.tune = tune;
        recording.explanation = explainer.as_ref().map(Explainer::head);
        let (now, later) = match store.map(|store| (store, store.comes_first())) {
            Some((store, true)) => (
                Some(store.begin(&recording, &crate::lease(&self.host))?),
                None,
            ),
            Some((store, false)) => (
                None,
                Some(begin_later(store, &recording, crate::lease(&self.host))),
            ),
            None => (None, None),
        };
        watcher.begin(&recording);
        let control = Arc::new(Control::new());
        let handler = self.break_handler(&control, explainer.as_ref());
        let before = self.host.counters();
        let quotas = self.host.quotas(&[]);
        let mut power = self
            .host
            .watch_power(self.host.online().unwrap_or_default());
        let used_before = punctual_rt::process_usage();
        let titles = recording.threads.iter().map(ThreadRecord::title).collect();
        let mut housekeeping =
            Housekeeping::new(titles, Start::now(), self.row_length, self.duration(), now);
        housekeeping.begin = later;
        housekeeping.explainer = explainer;
        let cpus = self.cpus();
        guards.lock_memory(&mut self.warnings);
        let measured = self.run_phases(&mut recording, &control, stop, &mut housekeeping, watcher);
        housekeeping.turn(&self.warnings);
        housekeeping.report(watcher);
        watcher.end();
        self.warnings.extend(handler.warnings());

        let start = housekeeping.start;
        let counted = start.elapsed();
        let used = punctual_rt::process_usage();
        let counters = self.host.counters();
        recording.interference = counters.since(&before, &cpus, counted);
        recording.interference.groups = quotas.finish();
        power.finish(&mut recording.interference);
        let threads = recording.threads.iter().map(|thread| thread.scheduling);
        let throttled = quota_warnings(&recording.interference, threads);
        self.warnings.extend(throttled);
        drop(guards);
        memory::end_step();
        housekeeping.finish(&self.warnings);
        if let Some(command) = housekeeping.command.take() {
            self.warnings.extend(command.finish());
        }
        let measured = match measured {
            Ok(measured) => measured,
            Err(error) => {
                take_back(store, recording, housekeeping);
                return Err(error);
            }
        };
        let began = housekeeping.began();
        recording.started = start.wall_at(began);
        recording.duration_ns = counted - (began - start.monotonic);
        recording.completion = match () {
            () if control.broke().is_some() => Completion::Break,
            () if stop.load(Ordering::Relaxed) => Completion::Stopped,
            () => Completion::Finished,
        };
        self.fill(&mut recording, measured, &mut housekeeping);
        recording.observer.cpu_time_ns =
            Nanos::from(used.cpu_time) - Nanos::from(used_before.cpu_time);
        recording.observer.peak_memory_bytes = used.peak_memory_bytes;
        let outcome = Outcome {
            broke: control.broke(),
            ..self.finish_store(recording, housekeeping)
        };
        memory::end_step();
        Ok(outcome)
    }

    /// Has the recorder stop at the break, and the break marked in the user's trace,
    /// where that is asked for.
    fn break_handler(
        &mut self,
        control: &Control,
        explainer: Option<&Explainer>,
    ) -> Arc<BreakHandler> {
        let limit = self.request.break_above;
        let mark = self.request.tracemark.and_then(|unit| {
            let opened = TraceStop::open(&self.host, unit, limit);
            opened
                .map_err(|error| self.warnings.push(format!("no trace mark: {error}")))
                .ok()
        });
        let handler = Arc::new(BreakHandler::new(
            explainer.and_then(Explainer::stop_handle),
            mark,
        ));
        control.on_break(Arc::clone(&handler) as Arc<dyn OnBreak>);
        handler
    }

    /// The CPUs that are measured: those that threads are bound to, and all that
    /// were asked for where one is bound to none.
    pub(crate) fn cpus(&self) -> CpuSet {
        let lanes = self.phases.iter().flat_map(Phase::lanes);
        let bound: Option<CpuSet> = lanes.map(|lane| lane.cpu).collect();
        bound.unwrap_or_else(|| self.cpus.clone())
    }

    /// Arms the flight recorder where outliers are to be explained, and measures
    /// what it costs.
    fn arm(&mut self, stop: &AtomicBool) -> Result<Option<Explainer>, SessionError> {
        let (Some(asked), Ok(delay)) = (self.request.explain, self.request.probe.explained) else {
            return Ok(None);
        };
        let has_noise = self.phases.iter().any(Phase::has_noise);
        let level = match has_noise {
            true => asked.level.max(Level::Noise),
            false => asked.level,
        };
        let mut explainer = Explainer::arm(&self.host, level, asked.threshold, delay)?;
        explainer.record_too(&self.host, &self.request.events)?;
        explainer.take_stacks(&self.host);
        for phase in &self.phases {
            explainer.timerlat_stacks.extend(phase.timerlat_stacks());
        }
        if let Some(interval) = self.request.arguments.interval() {
            explainer.looking_each(interval);
        }
        let began = Instant::now();
        let rise = overhead::measure(
            &self.request,
            &self.cpus,
            self.scheduling,
            self.duration(),
            &mut explainer,
            stop,
        );
        if rise.is_none() && !stop.load(Ordering::Relaxed) {
            let why = match has_noise {
                true => "the kernel's tracer is not started without them",
                false => "in the time there is, too few samples came without them and with them",
            };
            self.warnings.push(format!(
                "by how much recording the events raises the median is not known: {why}"
            ));
        }
        explainer.set_rise(rise, Nanos::from(began.elapsed()));
        explainer.switch(true)?;
        Ok(Some(explainer))
    }

    /// One phase after the other.
    fn run_phases(
        &mut self,
        recording: &mut Recording,
        control: &Arc<Control>,
        stop: &AtomicBool,
        housekeeping: &mut Housekeeping<'_>,
        watcher: &mut dyn Watcher,
    ) -> Result<Measured, SessionError> {
        let mut all = Measured {
            lanes: Vec::new(),
            tables: Vec::new(),
            warnings: Vec::new(),
        };
        let mut after = Nanos::ZERO;
        let mut ready = Vec::new();
        // All lanes are opened first: their memory is touched before anything
        // is measured, and the store knows of all threads from the start.
        for phase in &self.phases {
            let first = housekeeping.collectors.len() as u32;
            let (recorders, collectors) = phase.open(&self.request, control, stop, first, after);
            housekeeping.collectors.extend(collectors);
            if watcher.wants_samples() {
                (housekeeping.collectors.iter_mut()).for_each(Collector::watch_samples);
            }
            ready.push(recorders);
            after += phase.duration().unwrap_or_default();
        }
        if let Some(mut explainer) = housekeeping.explainer.take() {
            explainer.begin(&self.host, &self.facts, self.cpus().iter());
            housekeeping.explain_with(explainer);
        }
        if let Some(asked) = self.request.on_outlier.clone() {
            housekeeping.run_at_outliers(OutlierCommand::new(asked, recording.id));
        }
        for (phase, recorders) in std::mem::take(&mut self.phases).into_iter().zip(ready) {
            if control.stopping() || stop.load(Ordering::Relaxed) {
                break;
            }
            let mut around = Surroundings {
                control,
                stop,
                housekeeping,
                warnings: &mut self.warnings,
                watcher,
            };
            let name = phase.name().map(str::to_owned);
            let (measured, loads) = phase.run(recorders, &mut around);
            recording.load.extend(loads);
            let mut measured = measured?;
            if let Some(name) = name {
                for table in &mut measured.tables {
                    table.title = format!("{name}: {}", table.title);
                }
            }
            all.lanes.append(&mut measured.lanes);
            all.tables.append(&mut measured.tables);
            all.warnings.append(&mut measured.warnings);
        }
        Ok(all)
    }

    /// Hands the recording to the store.
    fn finish_store(&self, mut recording: Recording, housekeeping: Housekeeping<'_>) -> Outcome {
        let mut store_error = housekeeping.store_error;
        if let Some(mut writer) = housekeeping.writer {
            if self.request.samples {
                match writer.seal() {
                    Ok(kept) => {
                        recording.samples = Some(SamplesKept {
                            dropped: recording.series.dropped,
                            ..kept
                        });
                    }
                    Err(error) => {
                        store_error.get_or_insert(error);
                    }
                }
            }
            match writer.finish(&recording) {
                // All that an earlier failure kept back is in it now.
                Ok(()) => store_error = None,
                Err(error) => {
                    store_error.get_or_insert(error);
                }
            }
        }
        Outcome {
            recording,
            store_error,
            broke: None,
        }
    }
}

/// Whether outliers of a probe can be explained at all.
///
/// # Errors
/// They cannot; it says why, and of which probes they can.
pub fn can_be_explained(probe: &ProbeEntry) -> Result<(), SessionError> {
    let Err(why) = probe.explained else {
        return Ok(());
    };
    let able = PROBES.iter().filter(|probe| probe.explained.is_ok());
    let able: Vec<&str> = able.map(|probe| probe.name).collect();
    Err(SessionError::NotExplained {
        probe: probe.name,
        why,
        able: able.join(", "),
    })
}

/// Whether outliers can be explained, where they are to be.
fn may_explain(request: &Request, host: &Host) -> Result<(), SessionError> {
    if request.explain.is_none() {
        return Ok(());
    }
    can_be_explained(request.probe)?;
    Ok(Tracefs::find(host.root())?.may_arm()?)
}

fn begin_later<'a>(store: &'a dyn RecordingSink, recording: &Recording, lease: Lease) -> Begin<'a> {
    let recording = recording.clone();
    Box::new(move || store.begin(&recording, &lease))
}

/// What becomes of a recording whose probe failed. Where something was
/// measured, it stays in the store as it is, and reads as interrupted once this
/// program has ended; where nothing was, it goes.
fn take_back(
    store: Option<&dyn RecordingSink>,
    mut recording: Recording,
    housekeeping: Housekeeping<'_>,
) {
    if housekeeping.has_begun() {
        return;
    }
    recording.completion = Completion::Interrupted;
    let finish = |writer: Writer| writer.finish(&recording);
    if let (Some(store), Some(Ok(()))) = (store, housekeeping.writer.map(finish)) {
        // The failure of the probe is what is reported; an empty recording
        // that stays does no harm.
        let _ = store.delete(recording.id);
    }
}

/// What was found to be possible.
struct Checked {
    cpus: CpuSet,
    scheduling: Scheduling,
    warning: Option<String>,
    phases: Vec<Phase>,
}

impl Checked {
    fn of(request: &Request, host: &Host) -> Result<Self, SessionError> {
        let cpus = cpus_to_measure(request, host)?;
        let (scheduling, warning) = rights::scheduling(request, host)?;
        rights::may_use(&cpus)?;
        may_explain(request, host)?;
        let mut phases = request
            .phases
            .iter()
            .map(|phase| Phase::prepare(request, phase, &cpus, scheduling, host))
            .collect::<Result<Vec<_>, _>>()?;
        let mut lanes: Vec<_> = phases.iter_mut().flat_map(Phase::lanes_mut).collect();
        memory::fit(&mut lanes, host.memory_available())?;
        Ok(Self {
            cpus,
            scheduling,
            warning,
            phases,
        })
    }
}

/// How long all phases last; `None` where one lasts until it is stopped.
fn total(phases: &[Phase]) -> Option<Nanos> {
    phases
        .iter()
        .try_fold(Nanos::ZERO, |sum, phase| Some(sum + phase.duration()?))
}

fn cpus_to_measure(request: &Request, host: &Host) -> Result<CpuSet, SessionError> {
    let online = host.online()?;
    let cpus = match &request.cpus {
        Some(cpus) => cpus.clone(),
        None => host.allowed()?.intersection(&online),
    };
    let missing = cpus.difference(&online);
    if !missing.is_empty() {
        return Err(SessionError::NotOnline { missing, online });
    }
    if cpus.is_empty() {
        return Err(SessionError::NoCpu);
    }
    Ok(cpus)
}
