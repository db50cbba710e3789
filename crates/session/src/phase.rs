//! One condition of a run: its loads, its length, its lanes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use punctual_host::Host;
use punctual_loads::{LoadRequest, Running};
use punctual_model::{CpuSet, LoadRecord, Nanos, Scheduling};
use punctual_probes::{
    Control, HardwareTracer, LaneSpec, Measured, NoiseTracer, Plan, Prepared, Probe, ProbeError,
    Recorder, Settings,
};

use crate::collect::Collector;
use crate::guards::Elsewhere;
use crate::housekeeping::Housekeeping;
use crate::noise::KernelNoise;
use crate::request::PhaseRequest;
use crate::settings::MachineSettings;
use crate::tracer::KernelTracer;
use crate::watcher::Watcher;
use crate::{Request, RunLength, SessionError};

/// How often the lanes are drained where outliers are explained: the events of
/// one are soon overwritten, and it shall be explained within 50 ms.
const WATCHFUL: Duration = Duration::from_millis(10);

/// How often threads that are to end are woken again.
const STOP_AGAIN: Duration = Duration::from_millis(20);

/// A probe ends by itself; this long after its time it is stopped. Its start may
/// wait for a full second.
const OVERTIME: Nanos = Nanos::from_secs(4);

/// One condition of a run, ready to be measured.
pub(crate) struct Phase {
    name: Option<String>,
    loads: Vec<LoadRequest>,
    probe: Box<dyn Probe>,
    /// The way to what the probe or the run changes on the machine.
    settings: Option<Arc<MachineSettings>>,
    /// The CPUs whose idle states are limited, and the deepest that they may enter.
    idle: Option<(CpuSet, i64)>,
    /// The kernel's detector, where the probe uses it.
    tracer: Option<Arc<KernelTracer>>,
    /// Its tracers timerlat and osnoise, likewise.
    noise: Option<Arc<KernelNoise>>,
    prepared: Prepared,
}

/// What the run as a whole lends to each of its phases.
pub(crate) struct Surroundings<'a, 'b> {
    pub(crate) control: &'a Arc<Control>,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) housekeeping: &'a mut Housekeeping<'b>,
    pub(crate) warnings: &'a mut Vec<String>,
    pub(crate) watcher: &'a mut dyn Watcher,
}

impl Phase {
    /// Checks what is asked for and lets the probe look at it.
    pub(crate) fn prepare(
        request: &Request,
        phase: &PhaseRequest,
        cpus: &CpuSet,
        scheduling: Scheduling,
        host: &Host,
    ) -> Result<Self, SessionError> {
        let mut probe = (request.probe.build)(&request.arguments);
        let settings = settings(probe.as_mut(), request, host);
        let tracer = tracer(probe.as_mut(), host);
        if let Some(command) = &request.partner {
            probe.take_partner(command);
        }
        let noise = noise(probe.as_mut(), host);
        let mut prepared = probe.prepare(&Plan {
            cpus: cpus.clone(),
            scheduling,
            duration: phase.length.duration(),
            duration_asked: phase.length != RunLength::Usual,
            warm_up: request.warm_up,
        })?;
        if let Some(duration) = prepared.duration
            && prepared.warm_up >= duration
        {
            return Err(SessionError::OnlyWarmUp {
                warm_up: prepared.warm_up,
                duration,
            });
        }
        if let Some(name) = &phase.name {
            for lane in &mut prepared.lanes {
                lane.label = Some(format!("{name}: {}", lane.title()));
            }
        }
        Ok(Self {
            name: phase.name.clone(),
            loads: phase.loads.clone(),
            probe,
            settings,
            idle: request
                .deepest_idle_state
                .map(|state| (cpus.clone(), state)),
            tracer,
            noise,
            prepared,
        })
    }

    /// Whether one of the kernel's tracers timerlat and osnoise runs in it.
    pub(crate) fn has_noise(&self) -> bool {
        self.noise.is_some()
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(crate) fn lanes_mut(&mut self) -> impl Iterator<Item = &mut LaneSpec> {
        self.prepared.lanes.iter_mut()
    }

    pub(crate) fn lanes(&self) -> &[LaneSpec] {
        &self.prepared.lanes
    }

    pub(crate) fn lanes_are_alike(&self) -> bool {
        self.probe.lanes_are_alike()
    }

    pub(crate) fn duration(&self) -> Option<Nanos> {
        self.prepared.duration
    }

    pub(crate) fn warm_up(&self) -> Nanos {
        self.prepared.warm_up
    }

    pub(crate) fn cpus(&self) -> CpuSet {
        let ends = self.lanes().iter();
        ends.flat_map(|lane| [lane.cpu, lane.from_cpu])
            .flatten()
            .collect()
    }

    /// Opens its lanes, until the run is to `stop`; the first is thread `first` of
    /// the recording, and its rows in the time series begin `after` the start.
    pub(crate) fn open(
        &self,
        request: &Request,
        control: &Arc<Control>,
        stop: &AtomicBool,
        first: u32,
        after: Nanos,
    ) -> (Vec<Recorder>, Vec<Collector>) {
        let resolution = request.samples.then_some(request.sample_resolution);
        let opened = self.prepared.open_lanes(request.break_above, control);
        (first..)
            .zip(self.lanes().iter().zip(opened))
            .take_while(|_| !stop.load(Ordering::Relaxed))
            .map(|(thread, (spec, (recorder, reader)))| {
                let warm_up = self.prepared.warm_up;
                let collector = Collector::new(thread, spec, reader, after, warm_up, resolution);
                (recorder, collector)
            })
            .unzip()
    }

    /// Starts its loads, measures, stops them. What the loads were comes with
    /// an error, too.
    pub(crate) fn run(
        &mut self,
        recorders: Vec<Recorder>,
        around: &mut Surroundings<'_, '_>,
    ) -> (Result<Measured, SessionError>, Vec<LoadRecord>) {
        let mut running = Vec::new();
        for load in std::mem::take(&mut self.loads) {
            match load.start() {
                Ok(load) => running.push(load),
                Err(error) => {
                    return (Err(error.into()), self.stop(running, &mut Vec::new()));
                }
            }
        }
        let measured = match self.limit_idle(around.warnings) {
            Ok(()) => self.measure(recorders, &mut running, around),
            Err(error) => Err(error),
        };
        // Whatever became of the probe.
        if let Some(settings) = &self.settings {
            around.warnings.extend(settings.revert());
        }
        if let Some(tracer) = &self.tracer {
            around.warnings.extend(tracer.stop().err());
        }
        if let Some(noise) = &self.noise {
            around.warnings.extend(noise.stop().err());
        }
        (measured, self.stop(running, around.warnings))
    }

    /// Stops loads, and warns of those that did nothing.
    fn stop(&self, loads: Vec<Running>, warnings: &mut Vec<String>) -> Vec<LoadRecord> {
        let stopped = loads.into_iter().map(|load| LoadRecord {
            phase: self.name.clone(),
            ..load.stop()
        });
        let records: Vec<LoadRecord> = stopped.collect();
        let idle = records
            .iter()
            .filter(|record| record.did_nothing() && !record.failed);
        warnings.extend(idle.map(|record| format!("the load {} did nothing", record.name)));
        records
    }

    /// Disables idle states, where that is asked for.
    fn limit_idle(&self, warnings: &mut Vec<String>) -> Result<(), SessionError> {
        if let (Some(settings), Some((cpus, deepest))) = (&self.settings, &self.idle) {
            let said = settings.limit_idle(cpus, *deepest);
            warnings.extend(said.map_err(SessionError::IdleStates)?);
        }
        Ok(())
    }

    /// Runs the probe on a thread of its own, and does the housekeeping on this one.
    fn measure(
        &mut self,
        recorders: Vec<Recorder>,
        loads: &mut [Running],
        around: &mut Surroundings<'_, '_>,
    ) -> Result<Measured, SessionError> {
        let elsewhere = Elsewhere::than(&self.cpus());
        let start = around.housekeeping.start;
        let began = start.elapsed();
        let deadline = self
            .prepared
            .duration
            .map(|duration| began + duration + OVERTIME);
        let probe = &mut self.probe;
        let control = around.control;
        let (done, finished) = mpsc::channel::<Result<Measured, ProbeError>>();
        let result = thread::scope(|scope| {
            let runner = scope.spawn(move || {
                // The receiver lives as long as the scope.
                let _ = done.send(probe.run(recorders, control));
            });
            let mut told = Instant::now();
            let result = loop {
                let every = around.watcher.every();
                let wait = match around.housekeeping.explainer {
                    Some(_) => every.min(WATCHFUL),
                    None if control.stopping() => every.min(STOP_AGAIN),
                    None => every,
                };
                match finished.recv_timeout(wait) {
                    Ok(result) => break result.map_err(SessionError::from),
                    Err(RecvTimeoutError::Disconnected) => break Err(SessionError::Panicked),
                    Err(RecvTimeoutError::Timeout) => {}
                }
                let overdue = deadline.is_some_and(|deadline| start.elapsed() > deadline);
                if around.stop.load(Ordering::Relaxed) || overdue || control.stopping() {
                    control.stop();
                }
                around.housekeeping.turn(around.warnings);
                if told.elapsed() < every && wait < every {
                    continue;
                }
                told = Instant::now();
                for load in &mut *loads {
                    // The record of the load says how it ended.
                    load.check();
                }
                around.housekeeping.tell(around.watcher);
            };
            // What came last is explained as soon as what came before.
            around.housekeeping.turn(around.warnings);
            // A panic is already in `result`.
            let _ = runner.join();
            result
        });
        drop(elsewhere);
        result
    }
}

/// The way to the settings that the probe changes, which it is handed.
fn settings(probe: &mut dyn Probe, request: &Request, host: &Host) -> Option<Arc<MachineSettings>> {
    let knobs = probe.knobs();
    if knobs.is_empty() && request.deepest_idle_state.is_none() {
        return None;
    }
    let journal = request.journal.clone();
    let settings = Arc::new(MachineSettings::new(host.clone(), journal, knobs));
    if knobs.is_empty() {
        return Some(settings);
    }
    probe.take_settings(Arc::clone(&settings) as Arc<dyn Settings>);
    Some(settings)
}

/// The kernel's detector of hardware latency, which the probe is handed.
fn tracer(probe: &mut dyn Probe, host: &Host) -> Option<Arc<KernelTracer>> {
    if !probe.wants_tracer() {
        return None;
    }
    let tracer = Arc::new(KernelTracer::new(host.clone()));
    probe.take_tracer(Arc::clone(&tracer) as Arc<dyn HardwareTracer>);
    Some(tracer)
}

/// The kernel's tracers timerlat and osnoise, which the probe is handed.
fn noise(probe: &mut dyn Probe, host: &Host) -> Option<Arc<KernelNoise>> {
    if !probe.wants_noise() {
        return None;
    }
    let noise = Arc::new(KernelNoise::new(host.clone()));
    probe.take_noise(Arc::clone(&noise) as Arc<dyn NoiseTracer>);
    Some(noise)
}
