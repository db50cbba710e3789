use super::*;
use crate::testing::{self, OTHER, fifo, permitted};
use punctual_model::CpuSet;
use std::time::Duration;

fn probe(given: &[(&str, &str)]) -> Inversion {
    Inversion::new(&testing::arguments(PARAMETERS, given))
}

/// On one CPU, without a warm-up.
fn plan(scheduling: Scheduling, duration: Nanos) -> Plan {
    Plan {
        cpus: testing::cpus(1),
        warm_up: Some(Nanos::ZERO),
        ..testing::plan(scheduling, duration)
    }
}

#[test]
fn only_plain_lock_awaits_middle_thread() {
    let Some(fifo) = permitted(LOWEST, 60) else {
        return;
    };
    let probe = probe(&[("hold", "50us"), ("spin", "1ms"), ("interval", "10ms")]);
    let plan = plan(fifo, Nanos::from_millis(200));
    let (_, measured) = testing::measure(probe, &plan, &Arc::new(Control::new()));
    assert_eq!(measured.workers.len(), 2);
    for worker in &measured.workers {
        assert_eq!(worker.accounting.expected, 10);
        assert!(worker.accounting.recorded > 0);
    }
    // In each successful cycle, a thread that takes the plain lock must wait for the spin. The wait
    // for the other lock depends on the machine, but the middle thread never runs first.
    let [plain, inherit] = &measured.tables[0].rows[..] else {
        panic!("{:?}", measured.tables);
    };
    let recorded = |worker: usize| measured.workers[worker].accounting.recorded;
    assert_eq!(plain[1], Cell::from("plain"));
    assert_eq!(plain[2], Cell::from(Nanos::from_micros(1_050)));
    assert_eq!(plain[6], Cell::from(recorded(0)), "{measured:?}");
    assert!(measured.workers[0].histogram.min().unwrap() >= Nanos::from_millis(1));
    assert_eq!(inherit[2], Cell::from(Nanos::from_micros(50)));
    assert_eq!(inherit[6], Cell::from(0), "{measured:?}");
    assert_eq!(inherit[7], Cell::from(recorded(1)));
    // The high thread waits at least for the work of the low thread.
    assert!(measured.workers[1].histogram.max().unwrap() >= Nanos::from_micros(20));
    assert!(measured.warnings.is_empty(), "{:?}", measured.warnings);
}

#[test]
fn a_stop_ends_it_between_cycles() {
    let Some(fifo) = permitted(LOWEST, 60) else {
        return;
    };
    let probe = probe(&[("interval", "10s")]);
    let control = Arc::new(Control::new());
    testing::stop_after(&control, Duration::from_millis(30));
    let plan = plan(fifo, Nanos::from_secs(3_600));
    let (_, measured) = testing::measure(probe, &plan, &control);
    let expected: u64 = measured
        .workers
        .iter()
        .map(|worker| worker.accounting.expected)
        .sum();
    assert!(expected <= 1);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |given: &[_], scheduling| {
        testing::refusal(probe(given), &plan(scheduling, Nanos::from_secs(1)))
    };
    let error = refused(&[], OTHER);
    assert!(
        error.contains("policy other") && error.contains("CAP_SYS_NICE"),
        "{error}"
    );
    let error = refused(&[], fifo(2));
    assert!(
        error.contains("--priority 3 or higher instead of 2"),
        "{error}"
    );
    let error = refused(&[("spin", "10ms")], fifo(50));
    assert!(error.contains("at least 20.2 ms"), "{error}");
    let error = refused(&[("interval", "600ms")], fifo(50));
    assert!(error.contains("for each lock"), "{error}");
}

#[test]
fn workers_are_cpus_by_locks() {
    let labels = |given: &[_]| {
        let mut plan = plan(fifo(50), Nanos::from_secs(1));
        plan.cpus = CpuSet::from_iter([1, 4]);
        let ready = testing::prepare(probe(given), &plan).unwrap();
        ready
            .workers
            .into_iter()
            .map(|worker| worker.label.unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        labels(&[]),
        [
            "plain, CPU 1",
            "inherit, CPU 1",
            "plain, CPU 4",
            "inherit, CPU 4"
        ]
    );
    assert_eq!(
        labels(&[("lock", "inherit")]),
        ["inherit, CPU 1", "inherit, CPU 4"]
    );
}

#[test]
fn two_locks_are_not_taken_together() {
    let plan = plan(fifo(50), Nanos::from_secs(1));
    let alike = |given: &[_]| testing::prepare(probe(given), &plan).unwrap().alike;
    assert!(!alike(&[]));
    assert!(alike(&[("lock", "inherit")]));
}
