//! The life of a measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use punctual_model::{Completion, Nanos, Recording, SamplesKept, ThreadRecord};
use punctual_probes::{Broke, Control, Measured, OnBreak};
use punctual_store::{Lease, StoreError, Writer};
use punctual_trace::Level;

use crate::break_handler::BreakHandler;
use crate::collect::Collector;
use crate::explain::Explainer;
use crate::guards::Guards;
use crate::housekeeping::{Begin, Housekeeping};
use crate::outlier_command::OutlierCommand;
use crate::phase::{Phase, Surroundings};
use crate::quota::quota_warnings;
use crate::recording_sink::RecordingSink;
use crate::time::Start;
use crate::tracemark::TraceStop;
use crate::watcher::Watcher;
use crate::{Session, SessionError, overhead, settings};

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
        explainer.count_steal(&self.host);
        for phase in &self.phases {
            explainer.timerlat_stacks.extend(phase.timerlat_stacks());
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
            let why = match has_noise {
                true => "the kernel's tracer is not started without them",
                false => "in the time there is, too few samples came without them and with them",
            };
            self.warnings.push(format!(
                "by how much recording the events raises the median is not known: {why}"
            ));
        }
        explainer.set_overhead(overhead, Nanos::from(began.elapsed()));
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
