//! Helpers for the tests of all probes: plans, workers, runs, and a stop during a run.

use std::ffi::OsString;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use punctual_model::{Arguments, Cell, CpuSet, Nanos, Parameter, Policy, Scheduling, Table};

use crate::entry::Probe;
use crate::{
    Control, HardwareTracer, Measured, NoiseTracer, Plan, ProbeError, Ready, Recorder,
    RecorderSlot, Resources, Settings, TracerError, WorkerReader, WorkerSettings, WorkerSpec,
};

/// Returns arguments for these parameters.
pub(crate) fn arguments(parameters: &'static [Parameter], given: &[(&str, &str)]) -> Arguments {
    Arguments::check(parameters, given.iter().copied()).unwrap()
}

/// The normal policy.
pub(crate) const OTHER: Scheduling = Scheduling {
    policy: Policy::Other,
    priority: 0,
};

/// A policy that a thread cannot have if it is bound to a CPU.
pub(crate) const DEADLINE: Scheduling = Scheduling {
    policy: Policy::Deadline,
    priority: 0,
};

/// Returns SCHED_FIFO with this priority.
pub(crate) fn fifo(priority: u8) -> Scheduling {
    Scheduling {
        policy: Policy::Fifo,
        priority,
    }
}

/// Returns the highest permitted priority that is at most `priority`. Prints a line that says that
/// the test is skipped if `least` is not permitted.
pub(crate) fn permitted(least: u8, priority: u8) -> Option<Scheduling> {
    let permitted = punctual_rt::max_permitted_priority().min(priority);
    if permitted < least {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        punctual_testing::skip!(Right, "{test}: no right to a real-time priority of {least}");
        return None;
    }
    Some(fifo(permitted))
}

/// Returns the first `most` of the existing CPUs.
pub(crate) fn cpus(most: usize) -> CpuSet {
    let cpus = punctual_rt::affinity::current().unwrap();
    cpus.into_iter().take(most).collect()
}

/// Returns a plan for up to two CPUs, with the default warm-up.
pub(crate) fn plan(scheduling: Scheduling, duration: Nanos) -> Plan {
    Plan {
        cpus: cpus(2),
        scheduling,
        duration: Some(duration),
        duration_asked: true,
        warm_up: None,
        may_be_empty: false,
    }
}

/// Opens a single worker.
pub(crate) fn worker(warm_up: Nanos, control: &Arc<Control>) -> (Recorder, WorkerReader) {
    let settings = WorkerSettings {
        warm_up,
        break_above: None,
        rate_hz: 1_000,
    };
    RecorderSlot::open(settings, control)
}

/// The resources that a test offers to a probe.
#[derive(Clone, Default)]
pub(crate) struct Offer {
    pub(crate) settings: Option<Arc<dyn Settings>>,
    pub(crate) hardware: Option<Arc<dyn HardwareTracer>>,
    pub(crate) noise: Option<Arc<dyn NoiseTracer>>,
    pub(crate) partner: Option<Vec<OsString>>,
}

impl Resources for Offer {
    fn settings(&self, _: &'static [&'static str]) -> Option<Arc<dyn Settings>> {
        self.settings.clone()
    }
    fn hardware_tracer(&self) -> Option<Arc<dyn HardwareTracer>> {
        self.hardware.clone()
    }
    fn noise_tracer(&self) -> Option<Arc<dyn NoiseTracer>> {
        self.noise.clone()
    }
    fn partner(&self) -> Option<&[OsString]> {
        self.partner.as_deref()
    }
}

/// An error message of a simulated kernel.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Said(pub(crate) &'static str);

/// Answers for a simulated tracer, which may be started unless it `refuses`.
pub(crate) fn unless_refused(refuses: Option<&'static str>) -> Result<(), TracerError> {
    refuses.map_or(Ok(()), |text| Err(TracerError::refused(Said(text))))
}

/// Prepares a probe that needs no resources besides the plan.
pub(crate) fn prepare(probe: impl Probe, plan: &Plan) -> Result<Ready, ProbeError> {
    probe.prepare(plan, &Offer::default())
}

/// Runs a prepared probe, and checks the invariants of any run.
pub(crate) fn run(ready: Ready, control: &Arc<Control>) -> Result<Measured, ProbeError> {
    let (recorders, _readers): (Vec<_>, Vec<_>) = ready.open_workers(None, control).unzip();
    let measured = (ready.run)(recorders, control)?;
    assert_eq!(measured.workers.len(), ready.workers.len());
    for (worker, spec) in measured.workers.iter().zip(&ready.workers) {
        let (account, title) = (worker.accounting, spec.title());
        assert!(account.balances(), "{title}: {account:?}");
        assert_eq!(worker.histogram.recorded(), account.recorded, "{title}");
        assert_eq!(account.early, 0, "{title}");
    }
    Ok(measured)
}

/// Runs a probe after preparing it. Also returns its workers.
pub(crate) fn run_all(
    ready: Result<Ready, ProbeError>,
    control: &Arc<Control>,
) -> (Vec<WorkerSpec>, Measured) {
    let ready = ready.unwrap();
    let workers = ready.workers.clone();
    (workers, run(ready, control).unwrap())
}

/// Prepares and runs a probe that needs no resources besides the plan.
pub(crate) fn measure(
    probe: impl Probe,
    plan: &Plan,
    control: &Arc<Control>,
) -> (Vec<WorkerSpec>, Measured) {
    run_all(prepare(probe, plan), control)
}

/// Stops a run after this delay, and then repeats the stop, as the session does, because a thread
/// may not have been asleep yet. The returned thread ends by itself.
pub(crate) fn stop_after(control: &Arc<Control>, delay: Duration) -> JoinHandle<()> {
    punctual_rt::interrupt::install_interrupt_handler().unwrap();
    let control = Arc::clone(control);
    std::thread::spawn(move || {
        std::thread::sleep(delay);
        // Once the run has ended, this is the only reference left.
        while Arc::strong_count(&control) > 1 {
            control.stop();
            std::thread::sleep(Duration::from_millis(10));
        }
    })
}

/// Returns the error message for a rejected plan, which must be a usage error.
pub(crate) fn refusal(probe: impl Probe, plan: &Plan) -> String {
    refusal_of(prepare(probe, plan))
}

/// Returns the error message for a rejected plan, no matter which kind of error it is.
pub(crate) fn refusal_of_any(probe: impl Probe, plan: &Plan) -> String {
    prepare(probe, plan).err().unwrap().to_string()
}

/// Returns the error message of a probe that was offered resources.
pub(crate) fn refusal_of(refused: Result<Ready, ProbeError>) -> String {
    let error = refused.err().unwrap();
    assert!(error.is_usage(), "{error}");
    error.to_string()
}

/// Returns the cell of a table's row in the column with this key.
pub(crate) fn cell<'a>(table: &'a Table, row: usize, key: &str) -> &'a Cell {
    let column = table.columns.iter().position(|c| c.key == key).unwrap();
    &table.rows[row][column]
}

/// Returns the cell's value if it is a count.
pub(crate) fn count(table: &Table, row: usize, key: &str) -> u64 {
    match cell(table, row, key) {
        Cell::Count(count) => *count,
        other => panic!("{key}: {other:?}"),
    }
}
