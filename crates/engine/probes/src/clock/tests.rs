//! Tests the probe on real threads.

use std::sync::Mutex;

use punctual_model::{Cell, Scheduling, Table};

use super::*;
use crate::testing::{self, DEADLINE, OTHER, permitted};
use crate::{SettingsError, WorkerSpec};

fn clocks(given: &[(&str, &str)]) -> ClockProbe {
    ClockProbe::new(&testing::arguments(PARAMETERS, given))
}

fn plan(duration: Option<Nanos>, scheduling: Scheduling) -> Plan {
    Plan {
        cpus: testing::cpus(usize::MAX),
        duration,
        ..testing::plan(scheduling, Nanos::ZERO)
    }
}

fn other(millis: u64) -> Plan {
    plan(Some(Nanos::from_millis(millis)), OTHER)
}

fn measure(probe: ClockProbe, plan: &Plan, control: &Arc<Control>) -> (Vec<WorkerSpec>, Measured) {
    checked(testing::prepare(probe, plan), control)
}

fn checked(
    ready: Result<Ready, ProbeError>,
    control: &Arc<Control>,
) -> (Vec<WorkerSpec>, Measured) {
    let (workers, measured) = testing::run_all(ready, control);
    assert!(measured.workers.iter().all(|l| l.accounting.missed == 0));
    (workers, measured)
}

fn table<'a>(measured: &'a Measured, name: &str) -> &'a Table {
    measured.tables.iter().find(|t| t.name == name).unwrap()
}

fn cell<'a>(table: &'a Table, row: &[Cell], key: &str) -> (&'a str, Cell) {
    let place = table.columns.iter().position(|c| c.key == key).unwrap();
    (&table.columns[place].title, row[place].clone())
}

#[test]
fn every_clock_gets_an_equal_part() {
    let probe = clocks(&[]);
    let (workers, measured) = measure(probe, &other(400), &Arc::new(Control::new()));
    let expected: Vec<u64> = measured
        .workers
        .iter()
        .map(|l| l.accounting.expected)
        .collect();
    let (least, most) = (
        expected.iter().min().unwrap(),
        expected.iter().max().unwrap(),
    );
    assert!(*least > 0 && most - least <= 10, "{expected:?}");
    assert!(
        measured
            .workers
            .iter()
            .all(|worker| worker.accounting.recorded > 0)
    );
    assert!(workers.len() >= PosixClock::ALL.len());

    let clocks = table(&measured, "clocks");
    assert_eq!(clocks.rows.len(), workers.len());
    for (row, worker) in clocks.rows.iter().zip(&workers) {
        let name = worker.label.clone().unwrap();
        assert_eq!(cell(clocks, row, "clock").1, Cell::Text(name.clone()));
        let known = |key| cell(clocks, row, key).1 != Cell::Unknown;
        assert!(known("without_kernel"), "{name}");
        assert!(known("in_a_row_ns"), "{name}");
        assert_eq!(known("system_call_ns"), name != reader::TSC, "{name}");
        assert_eq!(known("getres_ns"), name != reader::TSC, "{name}");
        // Even coarse clocks step at least every 10 ms.
        assert!(known("step_ns"), "{name}");
    }
    let agreement = table(&measured, "agreement");
    assert!(!agreement.rows.is_empty());
}

#[test]
fn many_reads_can_make_one_sample() {
    let probe = clocks(&[("batch", "64"), ("reads", "2")]);
    let (_, measured) = measure(probe, &other(100), &Arc::new(Control::new()));
    assert!(measured.workers[0].accounting.expected % 2 == 0);
}

#[test]
fn clock_is_ruler_without_counter() {
    let mut probe = clocks(&[]);
    probe.tsc = None;
    let (workers, measured) = measure(probe, &other(150), &Arc::new(Control::new()));
    assert_eq!(workers.len(), PosixClock::ALL.len());
    assert!(
        measured
            .warnings
            .iter()
            .any(|w| w.contains("means of 64 reads"))
    );
    assert!(measured.workers[0].accounting.recorded > 0);
}

#[test]
fn real_time_thread_leaves_half_the_cpu() {
    let Some(fifo) = permitted(1, 1) else {
        return;
    };
    let plan = plan(Some(Nanos::from_millis(300)), fifo);
    // On a busy machine, the thread may get no CPU time in a run.
    let ran = (0..10).any(|_| {
        // Each round takes longer than the run: 100 samples of 256 reads.
        let probe = clocks(&[("reads", "100"), ("batch", "256")]);
        let begun = std::time::Instant::now();
        let (_, measured) = measure(probe, &plan, &Arc::new(Control::new()));
        let took = Nanos::from(begun.elapsed());
        let used = measured.workers[0].usage.cpu_time_ns;
        // The thread pauses for as long as it reads, but a turn may start just before the end.
        assert!(used < Nanos(took.0 / 4 * 3), "{used} of {took}");
        used > Nanos::ZERO
    });
    assert!(ran);
}

#[test]
fn a_stop_ends_it_in_every_part() {
    for after in [1, 30, 700] {
        let probe = clocks(&[("interval", "1s")]);
        let control = Arc::new(Control::new());
        testing::stop_after(&control, Duration::from_millis(after));
        let endless = plan(None, OTHER);
        let (_, measured) = measure(probe, &endless, &control);
        assert!(measured.workers.len() >= PosixClock::ALL.len());
    }
}

/// A machine with clock sources, one of them rejected by the kernel.
#[derive(Default)]
struct Sources {
    offered: Vec<&'static str>,
    set: Mutex<Vec<String>>,
    locked: bool,
}

impl Settings for Sources {
    fn offered(&self, setting: &str) -> Result<Vec<String>, SettingsError> {
        assert_eq!(setting, CLOCK_SOURCE);
        Ok(self.offered.iter().map(|s| (*s).to_owned()).collect())
    }

    fn may_change(&self, _setting: &str) -> Result<(), SettingsError> {
        if self.locked {
            Err(SettingsError::refused(testing::Said("not root")))
        } else {
            Ok(())
        }
    }

    fn set(&self, _setting: &str, value: &str) -> Result<(), SettingsError> {
        self.set.lock().unwrap().push(value.to_owned());
        match value {
            "sundial" => Err(SettingsError::refused(testing::Said("it reads 'tsc'"))),
            _ => Ok(()),
        }
    }
}

fn with_sources(sources: Sources, plan: &Plan) -> (Result<Ready, ProbeError>, Arc<Sources>) {
    let sources = Arc::new(sources);
    let offer = testing::Offer {
        settings: Some(Arc::clone(&sources) as Arc<dyn Settings>),
        ..testing::Offer::default()
    };
    (clocks(&[("sources", "yes")]).prepare(plan, &offer), sources)
}

#[test]
fn each_source_is_measured_or_reported_refused() {
    let offered = Sources {
        offered: vec!["tsc", "sundial", "hpet"],
        ..Sources::default()
    };
    let (ready, sources) = with_sources(offered, &other(600));
    let (workers, measured) = checked(ready, &Arc::new(Control::new()));
    assert_eq!(*sources.set.lock().unwrap(), ["tsc", "sundial", "hpet"]);
    let labels: Vec<&str> = workers.iter().filter_map(|l| l.label.as_deref()).collect();
    assert_eq!(
        labels[..3],
        ["tsc MONOTONIC", "tsc REALTIME", "tsc MONOTONIC_RAW"]
    );
    assert_eq!(labels[6], "hpet MONOTONIC");
    for (place, worker) in measured.workers.iter().enumerate() {
        let measured = !(3..6).contains(&place);
        assert_eq!(
            worker.accounting.expected > 0,
            measured,
            "{}",
            labels[place]
        );
        assert_eq!(
            worker.accounting.warm_up > 0,
            measured,
            "each has its own warm-up"
        );
    }
    let warning = "the clock source sundial was not measured: it reads 'tsc'";
    assert!(measured.warnings.iter().any(|w| w == warning));
    let rows = &table(&measured, "sources").rows;
    assert_eq!(rows.len(), 9);
    assert_eq!(rows[3][2], Cell::Unknown);
    assert_ne!(rows[6][2], Cell::Unknown);
}

#[test]
fn impossible_request_is_refused_before_start() {
    let offered = |locked, plan: &Plan| {
        let sources = Sources {
            offered: vec!["tsc", "hpet"],
            locked,
            ..Sources::default()
        };
        let (refused, sources) = with_sources(sources, plan);
        assert!(sources.set.lock().unwrap().is_empty());
        testing::refusal_of(refused)
    };
    let alone = clocks(&[("sources", "yes")]);
    assert!(testing::refusal(alone, &other(100)).contains("none may be changed"));
    assert_eq!(offered(true, &other(100)), "--sources: not root");
    assert!(offered(false, &plan(None, OTHER)).contains("--duration"));
    let too_long = Plan {
        warm_up: Some(Nanos::from_millis(60)),
        ..other(100)
    };
    assert!(offered(false, &too_long).contains("own warm-up"));
    let deadline = plan(None, DEADLINE);
    assert!(testing::refusal(clocks(&[]), &deadline).contains("SCHED_DEADLINE"));
}

#[test]
fn hardware_clock_must_be_one() {
    let refused = |given: &[(&str, &str)]| testing::refusal(clocks(given), &other(100));
    for (device, why) in [
        ("/dev/null", "/dev/null is not a PTP clock"),
        ("/dev/no-such-clock", "such as /dev/ptp0"),
    ] {
        let text = refused(&[("phc", device)]);
        assert!(text.starts_with("--phc: ") && text.contains(why), "{text}");
    }
    let text = refused(&[("phc", "/dev/ptp0"), ("reads", "26")]);
    assert!(text.contains("at most 25 times"), "{text}");
    for (name, value) in [("sources", "true"), ("batch", "2")] {
        let text = refused(&[("phc", "/dev/ptp0"), (name, value)]);
        assert!(text.contains(&format!("--{name} has no effect")), "{text}");
    }
}
