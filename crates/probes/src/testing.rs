//! What the tests of all probes need: plans, lanes, runs, and a stop in the
//! middle of one.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use punctual_model::{Arguments, Cell, CpuSet, Nanos, Parameter, Policy, Scheduling, Table};

use crate::{Control, Lane, LaneReader, LaneSettings, Measured, Plan, Prepared, Probe, Recorder};

/// Arguments that fit these parameters.
pub(crate) fn arguments(parameters: &'static [Parameter], given: &[(&str, &str)]) -> Arguments {
    Arguments::check(parameters, given.iter().copied()).unwrap()
}

/// The normal policy.
pub(crate) const OTHER: Scheduling = Scheduling {
    policy: Policy::Other,
    priority: 0,
};

/// A policy that no thread can have that is bound to a CPU.
pub(crate) const DEADLINE: Scheduling = Scheduling {
    policy: Policy::Deadline,
    priority: 0,
};

/// SCHED_FIFO at that priority.
pub(crate) fn fifo(priority: u8) -> Scheduling {
    Scheduling {
        policy: Policy::Fifo,
        priority,
    }
}

/// The highest permitted priority up to `priority`; without the right to
/// `least`, a line that says so.
pub(crate) fn permitted(least: u8, priority: u8) -> Option<Scheduling> {
    let permitted = punctual_rt::max_permitted_priority().min(priority);
    if permitted < least {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        punctual_testing::skip!("{test}: no right to a real-time priority of {least}");
        return None;
    }
    Some(fifo(permitted))
}

/// The first `most` of the CPUs there are.
pub(crate) fn cpus(most: usize) -> CpuSet {
    let cpus = punctual_rt::affinity::current().unwrap();
    cpus.into_iter().take(most).collect()
}

/// On up to two CPUs, with the usual warm-up.
pub(crate) fn plan(scheduling: Scheduling, duration: Nanos) -> Plan {
    Plan {
        cpus: cpus(2),
        scheduling,
        duration: Some(duration),
        duration_asked: true,
        warm_up: None,
    }
}

/// One lane of its own.
pub(crate) fn lane(warm_up: Nanos, control: &Arc<Control>) -> (Recorder, LaneReader) {
    let settings = LaneSettings {
        warm_up,
        break_above: None,
        rate_hz: 1_000,
    };
    Lane::open(settings, control)
}

/// Runs a probe that is prepared, and checks what holds of any run.
pub(crate) fn run(
    probe: &mut impl Probe,
    prepared: &Prepared,
    control: &Arc<Control>,
) -> Result<Measured, crate::ProbeError> {
    let (recorders, _readers): (Vec<_>, Vec<_>) = prepared.open_lanes(None, control).unzip();
    let measured = probe.run(recorders, control)?;
    assert_eq!(measured.lanes.len(), prepared.lanes.len());
    for (lane, spec) in measured.lanes.iter().zip(&prepared.lanes) {
        let (account, title) = (lane.accounting, spec.title());
        assert!(account.balances(), "{title}: {account:?}");
        assert_eq!(lane.histogram.recorded(), account.recorded, "{title}");
        assert_eq!(account.early, 0, "{title}");
    }
    Ok(measured)
}

/// Prepares and runs it.
pub(crate) fn measure(
    probe: &mut impl Probe,
    plan: &Plan,
    control: &Arc<Control>,
) -> (Prepared, Measured) {
    let prepared = probe.prepare(plan).unwrap();
    let measured = run(probe, &prepared, control).unwrap();
    (prepared, measured)
}

/// Stops a run after that long, and then again and again as the session does:
/// a thread may not sleep yet. It ends by itself.
pub(crate) fn stop_after(control: &Arc<Control>, delay: Duration) -> JoinHandle<()> {
    punctual_rt::interrupt::install_interrupt_handler().unwrap();
    let control = Arc::clone(control);
    std::thread::spawn(move || {
        std::thread::sleep(delay);
        // Nobody else has it any more once the run is over.
        while Arc::strong_count(&control) > 1 {
            control.stop();
            std::thread::sleep(Duration::from_millis(10));
        }
    })
}

/// The sentence with which a plan is refused, which is the command line's
/// fault.
pub(crate) fn refusal(probe: &mut impl Probe, plan: &Plan) -> String {
    let error = probe.prepare(plan).unwrap_err();
    assert!(error.is_usage(), "{error}");
    error.to_string()
}

/// The cell of a table's row in the column of that key.
pub(crate) fn cell<'a>(table: &'a Table, row: usize, key: &str) -> &'a Cell {
    let column = table.columns.iter().position(|c| c.key == key).unwrap();
    &table.rows[row][column]
}

/// The same, where it is a number of things.
pub(crate) fn count(table: &Table, row: usize, key: &str) -> u64 {
    match cell(table, row, key) {
        Cell::Count(count) => *count,
        other => panic!("{key}: {other:?}"),
    }
}
