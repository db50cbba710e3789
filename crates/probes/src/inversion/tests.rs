use super::*;
use crate::LaneReader;
use punctual_model::{CpuSet, Policy};

fn fifo(priority: u8) -> Scheduling {
    Scheduling {
        policy: Policy::Fifo,
        priority,
    }
}

fn probe(given: &[(&'static str, &'static str)]) -> Inversion {
    Inversion::new(&Arguments::check(PARAMETERS, given.iter().copied()).unwrap())
}

fn plan(scheduling: Scheduling, duration: Nanos) -> Plan {
    let cpu = punctual_rt::affinity::current().unwrap()[0];
    Plan {
        cpus: CpuSet::from_iter([cpu]),
        scheduling,
        duration: Some(duration),
        duration_asked: true,
        warm_up: Some(Nanos::ZERO),
    }
}

/// A priority to test at, or a line that says why there is none.
fn priority(test: &str) -> Option<u8> {
    let priority = punctual_rt::max_permitted_priority().min(60);
    if priority < LOWEST {
        eprintln!("SKIP {test}: no right to a real-time priority of {LOWEST}");
        return None;
    }
    Some(priority)
}

fn lanes(prepared: &Prepared, control: &Arc<Control>) -> (Vec<Recorder>, Vec<LaneReader>) {
    prepared.open_lanes(None, control).into_iter().unzip()
}

#[test]
fn a_plain_lock_waits_for_the_middle_thread_and_inheritance_does_not() {
    let Some(priority) =
        priority("a_plain_lock_waits_for_the_middle_thread_and_inheritance_does_not")
    else {
        return;
    };
    let mut probe = probe(&[("hold", "50us"), ("spin", "1ms"), ("interval", "10ms")]);
    let prepared = probe
        .prepare(&plan(fifo(priority), Nanos::from_millis(200)))
        .unwrap();
    let control = Arc::new(Control::new());
    let (recorders, _readers) = lanes(&prepared, &control);
    let measured = probe.run(recorders, &control).unwrap();
    assert_eq!(measured.lanes.len(), 2);
    for lane in &measured.lanes {
        assert!(lane.accounting.balances(), "{:?}", lane.accounting);
        assert_eq!(lane.accounting.expected, 10);
        assert!(lane.accounting.recorded > 0);
    }
    // The plain lock has to wait for the spin in each cycle that went as it
    // should; how long the other waits depends on the machine, that it is not
    // overtaken does not.
    let [plain, inherit] = &measured.tables[0].rows[..] else {
        panic!("{:?}", measured.tables);
    };
    let recorded = |lane: usize| measured.lanes[lane].accounting.recorded;
    assert_eq!(plain[1], Cell::from("plain"));
    assert_eq!(plain[2], Cell::from(Nanos::from_micros(1_050)));
    assert_eq!(plain[6], Cell::from(recorded(0)), "{measured:?}");
    assert!(measured.lanes[0].histogram.min().unwrap() >= Nanos::from_millis(1));
    assert_eq!(inherit[2], Cell::from(Nanos::from_micros(50)));
    assert_eq!(inherit[6], Cell::from(0), "{measured:?}");
    assert_eq!(inherit[7], Cell::from(recorded(1)));
    // The low thread's work is what it waits for in any case.
    assert!(measured.lanes[1].histogram.max().unwrap() >= Nanos::from_micros(20));
    assert!(measured.warnings.is_empty(), "{:?}", measured.warnings);
}

#[test]
fn a_stop_ends_it_between_cycles() {
    let Some(priority) = priority("a_stop_ends_it_between_cycles") else {
        return;
    };
    punctual_rt::interrupt::install_interrupt_handler().unwrap();
    let mut probe = probe(&[("interval", "10s")]);
    let prepared = probe
        .prepare(&plan(fifo(priority), Nanos::from_secs(3_600)))
        .unwrap();
    let control = Arc::new(Control::new());
    let (recorders, _readers) = lanes(&prepared, &control);
    let stopper = std::thread::spawn({
        let control = Arc::clone(&control);
        move || {
            std::thread::sleep(Duration::from_millis(30));
            control.stop();
        }
    });
    let measured = probe.run(recorders, &control).unwrap();
    stopper.join().unwrap();
    let expected: u64 = measured
        .lanes
        .iter()
        .map(|lane| lane.accounting.expected)
        .sum();
    assert!(expected <= 1);
    assert!(measured.lanes.iter().all(|lane| lane.accounting.balances()));
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |given: &[_], scheduling| {
        let error = probe(given)
            .prepare(&plan(scheduling, Nanos::from_secs(1)))
            .unwrap_err();
        assert!(error.is_usage());
        error.to_string()
    };
    let other = Scheduling {
        policy: Policy::Other,
        priority: 0,
    };
    let error = refused(&[], other);
    assert!(
        error.contains("under other") && error.contains("CAP_SYS_NICE"),
        "{error}"
    );
    let error = refused(&[], fifo(2));
    assert!(error.contains("--priority 3 or more, not 2"), "{error}");
    let error = refused(&[("spin", "10ms")], fifo(50));
    assert!(error.contains("at least 20.2 ms"), "{error}");
    let error = refused(&[("interval", "600ms")], fifo(50));
    assert!(error.contains("for each lock"), "{error}");
}

#[test]
fn lanes_are_cpus_by_locks() {
    let labels = |given: &[_]| {
        let mut plan = plan(fifo(50), Nanos::from_secs(1));
        plan.cpus = CpuSet::from_iter([1, 4]);
        let prepared = probe(given).prepare(&plan).unwrap();
        prepared
            .lanes
            .into_iter()
            .map(|lane| lane.label.unwrap())
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
