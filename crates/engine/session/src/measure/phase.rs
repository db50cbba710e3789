//! A phase of a run: its loads, length and workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use punctual_host::Host;
use punctual_loads::{LoadRequest, Running};
use punctual_model::{CpuSet, LoadRecord, Nanos, Scheduling};
use punctual_probes::{Control, Measured, Plan, ProbeError, Ready, Recorder, WorkerSpec};

use super::collector::Collector;
use super::rescue::{Rescue, other_threads};
use crate::lifecycle::{Moment, Start};
use crate::machine::{Elsewhere, Machine, TimerlatStacks, Used};
use crate::request::PhaseRequest;
use crate::{Request, RunLength, SessionError};

/// Interval at which the workers are drained if outliers are explained. Events are soon
/// overwritten, and each outlier must be explained within 50 ms.
const WATCHFUL: Duration = Duration::from_millis(10);

/// Interval at which threads that should end are woken.
const STOP_AGAIN: Duration = Duration::from_millis(20);

/// A probe normally ends by itself. Otherwise, it is stopped this long after its planned end. The
/// margin is needed because its start may wait for a full second.
const OVERTIME: Nanos = Nanos::from_secs(4);

/// From this time after its planned end on, a probe is stopped if its threads get no CPU time. Its
/// start may have waited for a full second.
const LATE_START: Nanos = Nanos::from_millis(1_500);

/// If its threads have not ended this long after they were asked to, the run ends without them.
const STUCK: Duration = Duration::from_secs(30);

/// A phase of a run, ready to be measured.
pub(crate) struct Phase {
    name: Option<String>,
    loads: Vec<LoadRequest>,
    /// Resources of the machine that the probe or the run uses.
    used: Used,
    /// CPUs whose idle states are limited, and the deepest state that they may enter.
    idle: Option<(CpuSet, i64)>,
    ready: Ready,
}

impl Phase {
    /// Checks the request, and prepares the probe.
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
            for worker in &mut ready.workers {
                worker.label = Some(format!("{name}: {}", worker.title()));
            }
        }
        Ok(Self {
            name: phase.name.clone(),
            loads: phase.loads.clone(),
            used: machine.used(),
            idle: request
                .machine
                .deepest_idle_state
                .map(|state| (cpus.clone(), state)),
            ready,
        })
    }

    /// Returns whether the kernel's timerlat or osnoise tracer runs in this phase.
    pub(crate) fn has_noise(&self) -> bool {
        self.used.noise.is_some()
    }

    /// Returns the stacks of timerlat, if it runs.
    pub(crate) fn timerlat_stacks(&self) -> Option<Arc<TimerlatStacks>> {
        self.used.noise.as_ref().map(|noise| noise.stacks())
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(crate) fn workers_mut(&mut self) -> impl Iterator<Item = &mut WorkerSpec> {
        self.ready.workers.iter_mut()
    }

    pub(crate) fn workers(&self) -> &[WorkerSpec] {
        &self.ready.workers
    }

    pub(crate) fn workers_are_alike(&self) -> bool {
        self.ready.alike
    }

    pub(crate) fn duration(&self) -> Option<Nanos> {
        self.ready.duration
    }

    pub(crate) fn warm_up(&self) -> Nanos {
        self.ready.warm_up
    }

    /// Opens the workers, but ends early if `stop` is set. The first worker becomes thread `first`
    /// of the recording; its rows begin `after` the start of the time series.
    pub(crate) fn open(
        &self,
        request: &Request,
        control: &Arc<Control>,
        stop: &AtomicBool,
        first: u32,
        after: Nanos,
    ) -> (Vec<Recorder>, Vec<Collector>) {
        let resolution = request.series.samples;
        let requirement = &request.limits.requirement;
        let limits = requirement.latencies();
        let opened = self.ready.open_workers(request.limits.break_above, control);
        (first..)
            .zip(self.workers().iter().zip(opened))
            .take_while(|_| !stop.load(Ordering::Relaxed))
            .map(|(thread, (spec, (mut recorder, reader)))| {
                recorder.count_above(&limits);
                recorder.count_windows(requirement.windows());
                let warm_up = self.ready.warm_up;
                let collector = Collector::new(thread, spec, reader, after, warm_up, resolution);
                (recorder, collector)
            })
            .unzip()
    }

    /// Starts the loads, then the probe on a separate thread.
    pub(crate) fn start(
        mut self,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
        start: &Start,
        warnings: &mut Vec<String>,
    ) -> Result<RunningPhase, SessionError> {
        let mut loads = Vec::new();
        for load in std::mem::take(&mut self.loads) {
            match load.start() {
                Ok(load) => loads.push(load),
                Err(error) => {
                    stop(loads, self.name.as_deref(), &mut Vec::new());
                    return Err(error.into());
                }
            }
        }
        if let Err(error) = self.limit_idle(warnings) {
            self.used.undo(warnings);
            stop(loads, self.name.as_deref(), warnings);
            return Err(error);
        }
        let elsewhere = Elsewhere::than(&cpus_of(&self.ready.workers));
        let began = start.elapsed();
        let end = (self.ready.duration).map(|duration| began + duration);
        let (done, finished) = mpsc::channel();
        let (run, shared) = (self.ready.run, Arc::clone(control));
        let thread = thread::spawn(move || {
            // The receiver exists until this thread is joined.
            let _ = done.send(run(recorders, &shared));
        });
        Ok(RunningPhase {
            name: self.name,
            used: self.used,
            loads,
            control: Arc::clone(control),
            end,
            finished,
            result: None,
            thread: Some(thread),
            stopping: None,
            stuck_after: STUCK,
            rescue: Rescue::default(),
            elsewhere,
        })
    }

    /// Disables idle states, if requested.
    fn limit_idle(&self, warnings: &mut Vec<String>) -> Result<(), SessionError> {
        if let (Some(settings), Some((cpus, deepest))) = (&self.used.settings, &self.idle) {
            let said = settings.limit_idle(cpus, *deepest);
            warnings.extend(said.map_err(SessionError::IdleStates)?);
        }
        Ok(())
    }
}

/// A phase that is being measured.
pub(crate) struct RunningPhase {
    name: Option<String>,
    used: Used,
    loads: Vec<Running>,
    control: Arc<Control>,
    /// Its planned end, relative to the start of the run.
    end: Option<Nanos>,
    finished: Receiver<Result<Measured, ProbeError>>,
    result: Option<Result<Measured, SessionError>>,
    thread: Option<JoinHandle<()>>,
    /// When the threads were first asked to end.
    stopping: Option<Instant>,
    stuck_after: Duration,
    rescue: Rescue,
    /// Keeps the polling thread off the measured CPUs.
    elsewhere: Elsewhere,
}

impl RunningPhase {
    /// Waits for the end of the probe, but not beyond the next poll.
    pub(crate) fn wait(&mut self, report: Duration, explains: bool) {
        if self.result.is_some() {
            return;
        }
        let wait = if explains {
            report.min(WATCHFUL)
        } else if self.control.stopping() {
            report.min(STOP_AGAIN)
        } else {
            report
        };
        match self.finished.recv_timeout(wait) {
            Ok(result) => self.result = Some(result.map_err(SessionError::from)),
            Err(RecvTimeoutError::Disconnected) => self.result = Some(Err(SessionError::Panicked)),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.result.is_some()
    }

    /// Stops the probe if the user requests it or if its time is over. Then rescues its threads if
    /// they get no CPU time, and gives up those that do not end.
    pub(crate) fn stop_if_due(&mut self, moment: Moment) {
        let late_by = |time| (self.end).is_some_and(|end| moment.elapsed > end + time);
        let overdue = late_by(OVERTIME);
        if late_by(LATE_START) {
            self.rescue.look();
        }
        if !(moment.stopped || overdue || self.was_starved() || self.control.stopping()) {
            return;
        }
        self.control.stop();
        self.rescue.look();
        let since = self.stopping.get_or_insert_with(Instant::now);
        if since.elapsed() > self.stuck_after {
            self.result = Some(Err(SessionError::Stuck {
                after: self.stuck_after.into(),
                threads: other_threads(),
            }));
            // Joining them could take until the next boot.
            self.thread = None;
        }
    }

    /// Returns whether threads got no CPU time, so that the run did not end as planned.
    pub(crate) fn was_starved(&self) -> bool {
        self.rescue.was_needed()
    }

    /// Detects loads that have ended.
    pub(crate) fn check_loads(&mut self) {
        for load in &mut self.loads {
            // The result of the check is in the record of the load.
            load.check();
        }
    }

    /// Joins the probe's thread, undoes its changes, and stops the loads. Returns their records.
    pub(crate) fn end(
        mut self,
        warnings: &mut Vec<String>,
    ) -> Result<(Measured, Vec<LoadRecord>), SessionError> {
        self.join();
        warnings.extend(self.rescue.warnings());
        if self.was_starved() {
            self.elsewhere.stay();
        }
        self.used.undo(warnings);
        let records = stop(
            std::mem::take(&mut self.loads),
            self.name.as_deref(),
            warnings,
        );
        let mut measured = self.result.take().unwrap_or(Err(SessionError::Panicked))?;
        if let Some(name) = &self.name {
            for table in &mut measured.tables {
                table.title = format!("{name}: {}", table.title);
            }
        }
        Ok((measured, records))
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic is already part of the result.
            let _ = thread.join();
        }
    }
}

impl Drop for RunningPhase {
    /// Stops the probe, no matter how the run ended.
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.control.stop();
            self.join();
        }
    }
}

/// Stops the loads of a phase, and warns about those that did nothing.
fn stop(loads: Vec<Running>, phase: Option<&str>, warnings: &mut Vec<String>) -> Vec<LoadRecord> {
    let averages = (!loads.is_empty())
        .then(|| Host::live().load_averages())
        .flatten();
    let stopped = loads.into_iter().map(|load| LoadRecord {
        phase: phase.map(str::to_owned),
        load_averages: averages.clone(),
        ..load.stop()
    });
    let records: Vec<LoadRecord> = stopped.collect();
    let idle = records
        .iter()
        .filter(|record| record.did_nothing() && !record.failed);
    warnings.extend(idle.map(|record| format!("the load {} did nothing", record.name)));
    records
}

/// Returns the CPUs of both ends of these workers.
fn cpus_of(workers: &[WorkerSpec]) -> CpuSet {
    let ends = workers
        .iter()
        .flat_map(|worker| [worker.cpu, worker.from_cpu]);
    ends.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_do_not_end_are_given_up() {
        let (done, finished) = mpsc::channel();
        let (hold, held) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let _ = held.recv();
            drop(done);
        });
        let mut running = RunningPhase {
            name: None,
            used: Used::default(),
            loads: Vec::new(),
            control: Arc::new(Control::new()),
            end: Some(Nanos::ZERO),
            finished,
            result: None,
            thread: Some(thread),
            stopping: None,
            stuck_after: Duration::from_millis(50),
            rescue: Rescue::default(),
            elsewhere: Elsewhere::than(&CpuSet::default()),
        };
        let overdue = Moment {
            elapsed: OVERTIME + OVERTIME,
            over: false,
            stopped: false,
        };
        while !running.has_ended() {
            running.wait(Duration::from_millis(5), false);
            running.stop_if_due(overdue);
        }
        // It sleeps, so it is not starved.
        assert!(!running.was_starved());
        let error = running.end(&mut Vec::new()).err().unwrap();
        let told = error.to_string();
        assert!(told.contains("still running 50.0 ms after"), "{told}");
        assert!(told.contains("(state S)"), "{told}");
        drop(hold);
    }
}
