//! Runs a measurement.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use punctual_model::{
    Completion, LoadRecord, Nanos, Recording, RecordingId, SamplesKept, ThreadRecord,
};
use punctual_probes::{Broke, Control, Measured, OnBreak, Recorder};
use punctual_store::{Batch, commit_interval};
use punctual_trace::Level;

use super::break_handler::BreakHandler;
use super::collector::Collector;
use super::outlier_command::OutlierCommand;
use super::periodic_tasks::PeriodicTasks;
use super::phase::{Phase, RunningPhase};
use super::trace_stop::TraceStop;
use super::{Session, overhead};
use crate::SessionError;
use crate::events::InterruptionCounter;
use crate::explain::{Explainer, SwitchRecorder};
use crate::lifecycle::{
    Begun, Context, Moment, Outcome, RecordingSink, Source, Start, StoreWriter, Watcher,
};
use crate::machine::{self, Guards};

impl Session {
    /// Measures until the end or until `stop` is set. Writes rows to `store` during the run.
    ///
    /// # Errors
    /// Returns an error if something could not be started, or if the store rejects the recording at
    /// its start. A later error of the store does not end the run; see [`Outcome::store_error`].
    pub fn run(
        mut self,
        store: Option<&dyn RecordingSink>,
        watcher: &mut dyn Watcher,
        stop: &AtomicBool,
    ) -> Result<Outcome, SessionError> {
        if self.request.series.samples.is_some() && store.is_none() {
            return Err(SessionError::SamplesNotKept);
        }
        let journal = self.request.machine.journal.as_deref();
        let (tune, warning) = machine::settings::applied(journal, &self.host);
        self.warnings.extend(warning);
        let mut guards = Guards::awake(self.request.machine.dma_latency_us, &mut self.warnings);
        let explainer = self.arm(stop)?;
        let mut recording = self.head();
        recording.tune = tune;
        recording.explanation = explainer.as_ref().map(Explainer::head);
        let control = Arc::new(Control::new());
        let handler = self.break_handler(&control, explainer.as_ref());
        let host = self.host.clone();
        let mut context = Context {
            host: &host,
            store,
            watcher,
            stop,
        };
        let id = recording.id;
        let titles = recording.threads.iter().map(ThreadRecord::title).collect();
        let begun = Begun::new(recording, &mut context, self.cpus(), &[])?;
        let mut housekeeping =
            PeriodicTasks::new(titles, Start::now(), self.row_length, self.duration());
        housekeeping.explainer = explainer;
        guards.lock_memory(&mut self.warnings);
        let mut probe = ProbeThreads {
            session: self,
            control,
            handler,
            guards: Some(guards),
            housekeeping,
            waiting: VecDeque::new(),
            running: None,
            measured: Measured::default(),
            loads: Vec::new(),
            starved: false,
            moved: false,
            ended_by_watcher: false,
        };
        probe.open(id, context.watcher.wants_samples(), stop);
        begun.run(probe, &mut context)
    }

    /// Returns a handler that stops the recorder at the break and marks the break in the user's
    /// trace, if requested.
    fn break_handler(
        &mut self,
        control: &Control,
        explainer: Option<&Explainer>,
    ) -> Arc<BreakHandler> {
        let break_above = self.request.limits.break_above;
        let mark = self.request.limits.tracemark.and_then(|unit| {
            let opened = TraceStop::open(&self.host, unit, break_above);
            opened
                .map_err(|error| {
                    self.warnings
                        .push(format!("the break cannot be marked in the trace: {error}"))
                })
                .ok()
        });
        let handler = Arc::new(BreakHandler::new(
            explainer.and_then(Explainer::stop_handle),
            mark,
        ));
        control.on_break(Arc::clone(&handler) as Arc<dyn OnBreak>);
        handler
    }

    /// Arms the flight recorder and measures its overhead, if outliers must be explained.
    fn arm(&mut self, stop: &AtomicBool) -> Result<Option<Explainer>, SessionError> {
        let (Some(asked), Ok(delay)) = (&self.request.explain, self.request.probe.explained) else {
            return Ok(None);
        };
        if let Some(why) = self.not_traced.clone() {
            let switches = SwitchRecorder::new(&self.host, why)?;
            let mut explainer =
                Explainer::with_switches(&self.host, switches, asked.threshold, delay)?;
            if let Some(interval) = self.request.arguments.interval() {
                explainer.looking_each(interval);
            }
            return Ok(Some(explainer));
        }
        let has_noise = self.phases.iter().any(Phase::has_noise);
        let level = if has_noise {
            asked.level.max(Level::Noise)
        } else {
            asked.level
        };
        let mut explainer = Explainer::arm(&self.host, level, asked.threshold, delay)?;
        explainer.record_too(&self.host, &asked.events)?;
        explainer.take_stacks(&self.host);
        explainer.count_steal(&self.host);
        for phase in &self.phases {
            explainer.add_timerlat_stacks(phase.timerlat_stacks());
        }
        if let Some(interval) = self.request.arguments.interval() {
            explainer.looking_each(interval);
        }
        let began = Instant::now();
        let overhead = overhead::measure(
            &self.request,
            &self.cpus,
            self.scheduling,
            self.duration(),
            &mut explainer,
            stop,
        );
        if overhead.is_none() && !stop.load(Ordering::Relaxed) {
            let why = if has_noise {
                "the kernel's tracer cannot run without tracing"
            } else {
                "too few samples with and without tracing"
            };
            self.warnings
                .push(format!("tracing overhead unknown: {why}"));
        }
        explainer.set_overhead(overhead, Nanos::from(began.elapsed()));
        explainer.switch(true)?;
        Ok(Some(explainer))
    }
}

/// The threads of a probe, in consecutive phases.
struct ProbeThreads {
    session: Session,
    control: Arc<Control>,
    handler: Arc<BreakHandler>,
    /// Kept until the threads have ended.
    guards: Option<Guards>,
    housekeeping: PeriodicTasks,
    /// Phases that have not begun yet.
    waiting: VecDeque<(Phase, Vec<Recorder>)>,
    running: Option<RunningPhase>,
    measured: Measured,
    loads: Vec<LoadRecord>,
    /// Whether threads got no CPU time and had to be ended.
    starved: bool,
    /// Whether a thread was taken off its CPU.
    moved: bool,
    /// Whether the watcher has ended the run.
    ended_by_watcher: bool,
}

impl ProbeThreads {
    /// Opens the workers of all phases, so that their memory is touched before the measurement, and
    /// the store knows all threads from the start.
    fn open(&mut self, recording: RecordingId, watches_samples: bool, stop: &AtomicBool) {
        let Self {
            session,
            housekeeping,
            ..
        } = self;
        let cpus = session.cpus();
        let mut after = Nanos::ZERO;
        for phase in std::mem::take(&mut session.phases) {
            let first = housekeeping.collectors.len() as u32;
            let (recorders, collectors) =
                phase.open(&session.request, &self.control, stop, first, after);
            housekeeping.collectors.extend(collectors);
            after += phase.duration().unwrap_or_default();
            self.waiting.push_back((phase, recorders));
        }
        if watches_samples {
            (housekeeping.collectors.iter_mut()).for_each(Collector::watch_samples);
        }
        if let Some(mut explainer) = housekeeping.explainer.take() {
            explainer.begin(&session.host, &session.facts, cpus.iter());
            let nohz_full = session.facts.processor.nohz_full.get();
            housekeeping.ticks = nohz_full
                .and_then(|full| InterruptionCounter::of_ticks(&session.host, &cpus, full));
            housekeeping.explain_with(explainer);
        }
        if let Some(asked) = session.request.limits.on_outlier.clone() {
            housekeeping.run_at_outliers(OutlierCommand::new(asked, recording));
        }
    }

    /// Starts the next phase. Returns `false` if there is none.
    fn start_next(&mut self) -> Result<bool, SessionError> {
        let Some((phase, recorders)) = self.waiting.pop_front() else {
            return Ok(false);
        };
        let warnings = &mut self.session.warnings;
        let start = &self.housekeeping.start;
        self.running = Some(phase.start(recorders, &self.control, start, warnings)?);
        Ok(true)
    }

    fn end(&mut self, running: RunningPhase) -> Result<(), SessionError> {
        self.starved |= running.was_starved();
        let (mut measured, mut loads) = running.end(&mut self.session.warnings)?;
        self.loads.append(&mut loads);
        self.measured.workers.append(&mut measured.workers);
        self.measured.tables.append(&mut measured.tables);
        self.measured.warnings.append(&mut measured.warnings);
        Ok(())
    }

    fn completion(&self, stopped: bool) -> Completion {
        if self.control.broke().is_some() || self.ended_by_watcher {
            Completion::Break
        } else if stopped {
            Completion::Stopped
        } else if self.starved || self.moved {
            Completion::Interrupted
        } else {
            Completion::Finished
        }
    }
}

impl Source for ProbeThreads {
    fn start(&self) -> Start {
        self.housekeeping.start
    }

    /// Probes end by themselves.
    fn duration(&self) -> Option<Nanos> {
        None
    }

    fn warnings(&mut self) -> &mut Vec<String> {
        &mut self.session.warnings
    }

    fn wait(&mut self, watcher: &dyn Watcher) {
        let explains = self.housekeeping.explainer.is_some();
        if let Some(running) = &mut self.running {
            running.wait(watcher.every(), explains);
        }
    }

    fn poll(
        &mut self,
        store: &mut StoreWriter<'_>,
        moment: Moment,
    ) -> Result<Option<Completion>, SessionError> {
        match self.running.take() {
            Some(mut running) if !running.has_ended() => {
                running.stop_if_due(moment);
                self.running = Some(running);
                self.housekeeping.poll(store);
                if let Some(why) = self.housekeeping.moved.take().filter(|_| !self.moved) {
                    self.moved = true;
                    self.session.warnings.push(why);
                    self.control.stop();
                }
                return Ok(None);
            }
            Some(ended) => {
                // The last outliers are explained as promptly as the earlier ones.
                self.housekeeping.poll(store);
                self.end(ended)?;
            }
            None => {}
        }
        let ends = self.control.stopping() || moment.stopped;
        if !ends && self.start_next()? {
            return Ok(None);
        }
        self.housekeeping.poll(store);
        Ok(Some(self.completion(moment.stopped)))
    }

    fn refresh(&mut self) -> Result<(), SessionError> {
        if let Some(running) = &mut self.running {
            running.check_loads();
        }
        Ok(())
    }

    fn commit_interval(&self) -> Nanos {
        commit_interval(self.housekeeping.row_length)
    }

    fn report_interval(&self, watcher: &dyn Watcher) -> Nanos {
        Nanos::from(watcher.every())
    }

    fn batch(&self, elapsed: Nanos) -> Batch {
        self.housekeeping.batch(elapsed, &self.session.warnings)
    }

    fn committed(&mut self) {
        self.housekeeping.rows.committed();
    }

    fn report(&mut self, watcher: &mut dyn Watcher, _: Nanos) {
        self.housekeeping.report(watcher);
        if watcher.ends() && !self.control.stopping() {
            self.ended_by_watcher = true;
            self.control.stop();
        }
    }

    fn has_measured(&self) -> bool {
        self.housekeeping.has_begun()
    }

    fn finish(mut self, recording: &mut Recording, store: &mut StoreWriter<'_>) -> Option<Broke> {
        self.guards = None;
        let Self {
            mut session,
            mut housekeeping,
            ..
        } = self;
        session.warnings.extend(self.handler.warnings());
        housekeeping.finish(store);
        if let Some(command) = housekeeping.command.take() {
            session.warnings.extend(command.finish());
        }
        let start = housekeeping.start;
        let began = housekeeping.began();
        recording.started = start.wall_at(began);
        recording.duration_ns = recording.duration_ns - (began - start.monotonic);
        recording.load = self.loads;
        session.fill(recording, self.measured, &mut housekeeping);
        if session.request.series.samples.is_some() {
            match store.writer().map(|writer| writer.seal()) {
                Some(Ok(kept)) => {
                    recording.samples = Some(SamplesKept {
                        dropped: recording.series.dropped,
                        ..kept
                    });
                }
                Some(Err(error)) => {
                    recording
                        .warnings
                        .push(format!("samples are not kept: {error}"));
                }
                None => {}
            }
        }
        self.control.broke()
    }
}
