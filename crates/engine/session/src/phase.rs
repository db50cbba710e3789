//! One condition of a run: its loads, its length, its lanes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use punctual_host::Host;
use punctual_loads::{LoadRequest, Running};
use punctual_model::{CpuSet, LoadRecord, Nanos, Scheduling};
use punctual_probes::{Control, LaneSpec, Measured, Plan, ProbeError, Ready, Recorder};

use crate::collect::Collector;
use crate::guards::Elsewhere;
use crate::housekeeping::Housekeeping;
use crate::noise::TimerlatStacks;
use crate::request::PhaseRequest;
use crate::resources::{Machine, Used};
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
    /// What the probe or the run uses of the machine.
    used: Used,
    /// The CPUs whose idle states are limited, and the deepest that they may enter.
    idle: Option<(CpuSet, i64)>,
    ready: Ready,
}

/// What all phases of a run share.
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
        let plan = Plan {
            cpus: cpus.clone(),
            scheduling,
            duration: phase.length.duration(),
            duration_asked: phase.length != RunLength::Usual,
            warm_up: request.warm_up,
            may_be_empty: request.may_be_empty,
        };
        let machine = Machine::new(request, host);
        let mut ready = (request.probe.prepare)(&request.arguments, &plan, &machine)?;
        if let Some(duration) = ready.duration
            && ready.warm_up >= duration
        {
            return Err(SessionError::OnlyWarmUp {
                warm_up: ready.warm_up,
                duration,
            });
        }
        if let Some(name) = &phase.name {
            for lane in &mut ready.lanes {
                lane.label = Some(format!("{name}: {}", lane.title()));
            }
        }
        Ok(Self {
            name: phase.name.clone(),
            loads: phase.loads.clone(),
            used: machine.used(),
            idle: request
                .deepest_idle_state
                .map(|state| (cpus.clone(), state)),
            ready,
        })
    }

    /// Whether one of the kernel's tracers timerlat and osnoise runs in it.
    pub(crate) fn has_noise(&self) -> bool {
        self.used.noise.is_some()
    }

    /// Timerlat's stacks, where it runs.
    pub(crate) fn timerlat_stacks(&self) -> Option<Arc<TimerlatStacks>> {
        self.used.noise.as_ref().map(|noise| noise.stacks())
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(crate) fn lanes_mut(&mut self) -> impl Iterator<Item = &mut LaneSpec> {
        self.ready.lanes.iter_mut()
    }

    pub(crate) fn lanes(&self) -> &[LaneSpec] {
        &self.ready.lanes
    }

    pub(crate) fn lanes_are_alike(&self) -> bool {
        self.ready.alike
    }

    pub(crate) fn duration(&self) -> Option<Nanos> {
        self.ready.duration
    }

    pub(crate) fn warm_up(&self) -> Nanos {
        self.ready.warm_up
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
        let limits = request.requirement.latencies();
        let opened = self.ready.open_lanes(request.break_above, control);
        (first..)
            .zip(self.lanes().iter().zip(opened))
            .take_while(|_| !stop.load(Ordering::Relaxed))
            .map(|(thread, (spec, (mut recorder, reader)))| {
                recorder.count_above(&limits);
                let warm_up = self.ready.warm_up;
                let collector = Collector::new(thread, spec, reader, after, warm_up, resolution);
                (recorder, collector)
            })
            .unzip()
    }

    /// Starts its loads, measures, stops them. What the loads were comes with
    /// an error, too.
    pub(crate) fn run(
        mut self,
        recorders: Vec<Recorder>,
        around: &mut Surroundings<'_, '_>,
    ) -> (Result<Measured, SessionError>, Vec<LoadRecord>) {
        let mut running = Vec::new();
        for load in std::mem::take(&mut self.loads) {
            match load.start() {
                Ok(load) => running.push(load),
                Err(error) => {
                    let records = stop(running, self.name.as_deref(), &mut Vec::new());
                    return (Err(error.into()), records);
                }
            }
        }
        let measured = match self.limit_idle(around.warnings) {
            Ok(()) => measure(self.ready, recorders, &mut running, around),
            Err(error) => Err(error),
        };
        // Whatever became of the probe.
        self.used.undo(around.warnings);
        let records = stop(running, self.name.as_deref(), around.warnings);
        (measured, records)
    }

    /// Disables idle states, where that is asked for.
    fn limit_idle(&self, warnings: &mut Vec<String>) -> Result<(), SessionError> {
        if let (Some(settings), Some((cpus, deepest))) = (&self.used.settings, &self.idle) {
            let said = settings.limit_idle(cpus, *deepest);
            warnings.extend(said.map_err(SessionError::IdleStates)?);
        }
        Ok(())
    }
}

/// Stops the loads of a phase, and warns of those that did nothing.
fn stop(loads: Vec<Running>, phase: Option<&str>, warnings: &mut Vec<String>) -> Vec<LoadRecord> {
    let stopped = loads.into_iter().map(|load| LoadRecord {
        phase: phase.map(str::to_owned),
        ..load.stop()
    });
    let records: Vec<LoadRecord> = stopped.collect();
    let idle = records
        .iter()
        .filter(|record| record.did_nothing() && !record.failed);
    warnings.extend(idle.map(|record| format!("the load {} did nothing", record.name)));
    records
}

/// Runs the probe on a thread of its own, and does the housekeeping on this one.
fn measure(
    ready: Ready,
    recorders: Vec<Recorder>,
    loads: &mut [Running],
    around: &mut Surroundings<'_, '_>,
) -> Result<Measured, SessionError> {
    let elsewhere = Elsewhere::than(&cpus_of(&ready.lanes));
    let start = around.housekeeping.start;
    let began = start.elapsed();
    let deadline = ready.duration.map(|duration| began + duration + OVERTIME);
    let run = ready.run;
    let control = around.control;
    let (done, finished) = mpsc::channel::<Result<Measured, ProbeError>>();
    let result = thread::scope(|scope| {
        let runner = scope.spawn(move || {
            // The receiver lives as long as the scope.
            let _ = done.send(run(recorders, control));
        });
        let mut reported = Instant::now();
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
            if reported.elapsed() < every && wait < every {
                continue;
            }
            reported = Instant::now();
            for load in &mut *loads {
                // The record of the load says how it ended.
                load.check();
            }
            around.housekeeping.report(around.watcher);
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

/// The CPUs of both ends of these lanes.
fn cpus_of(lanes: &[LaneSpec]) -> CpuSet {
    let ends = lanes.iter().flat_map(|lane| [lane.cpu, lane.from_cpu]);
    ends.flatten().collect()
}
