use super::*;
use crate::LaneReader;
use punctual_model::CpuSet;

const WAYS: [&str; 3] = ["sigwait", "handler", "signalfd"];

const OTHER: Scheduling = Scheduling {
    policy: Policy::Other,
    priority: 0,
};

fn probe(given: &[(&'static str, &'static str)]) -> Signal {
    Signal::new(&Arguments::check(PARAMETERS, given.iter().copied()).unwrap())
}

fn plan(scheduling: Scheduling, duration: Nanos) -> Plan {
    let cpus = punctual_rt::affinity::current().unwrap();
    Plan {
        cpus: cpus.into_iter().take(2).collect(),
        scheduling,
        duration: Some(duration),
        duration_asked: true,
        warm_up: None,
    }
}

fn lanes(prepared: &Prepared, control: &Arc<Control>) -> (Vec<Recorder>, Vec<LaneReader>) {
    prepared.open_lanes(None, control).into_iter().unzip()
}

fn measure(given: &[(&'static str, &'static str)], scheduling: Scheduling) {
    let mut probe = probe(given);
    let duration = Nanos::from_millis(150);
    let prepared = probe.prepare(&plan(scheduling, duration)).unwrap();
    let control = Arc::new(Control::new());
    let (recorders, _readers) = lanes(&prepared, &control);
    let measured = probe.run(recorders, &control).unwrap();
    assert_eq!(measured.lanes.len(), prepared.lanes.len());
    for lane in &measured.lanes {
        let accounting = lane.accounting;
        assert!(accounting.balances(), "{given:?} {accounting:?}");
        assert_eq!(accounting.expected, 150, "{given:?} {accounting:?}");
        assert_eq!(accounting.early, 0, "{given:?}");
        assert!(accounting.recorded > 0, "{given:?} {accounting:?}");
    }
    // Each whole round is one that came back to the first thread, and it took
    // at least as long as its last hop.
    let row = &measured.tables[0].rows[0];
    assert_eq!(row[0], Cell::Count(prepared.lanes.len() as u64));
    let first = &measured.lanes[0];
    assert_eq!(row[1], Cell::Count(first.accounting.recorded));
    let Cell::Count(fastest_round) = row[2] else {
        panic!("{row:?}");
    };
    assert!(fastest_round >= first.histogram.min().unwrap().0);
}

#[test]
fn bursts_are_accounted_for_round_by_round() {
    punctual_rt::interrupt::install_interrupt_handler().unwrap();
    // 15 bursts of 10 rounds: as many rounds as the others have.
    let given = [("via", "sigwait"), ("interval", "10ms"), ("burst", "10")];
    measure(&given, OTHER);
}

#[test]
fn each_way_accounts_for_every_round_in_every_lane() {
    for via in WAYS {
        for placement in ["spread", "same"] {
            for threads in ["2", "5"] {
                let given = [("via", via), ("placement", placement), ("threads", threads)];
                measure(&given, OTHER);
            }
        }
    }
}

#[test]
fn real_time_threads_measure_too() {
    let priority = punctual_rt::max_permitted_priority().min(80);
    if priority == 0 {
        eprintln!("SKIP real_time_threads_measure_too: no right to a real-time priority");
        return;
    }
    let fifo = Scheduling {
        policy: Policy::Fifo,
        priority,
    };
    for via in WAYS {
        measure(&[("via", via), ("threads", "3")], fifo);
        measure(&[("via", via), ("placement", "same")], fifo);
    }
}

#[test]
fn a_stop_ends_a_ring_that_waits() {
    punctual_rt::interrupt::install_interrupt_handler().unwrap();
    for via in WAYS {
        let mut probe = probe(&[("via", via), ("interval", "10s"), ("threads", "4")]);
        let prepared = probe
            .prepare(&plan(OTHER, Nanos::from_secs(3_600)))
            .unwrap();
        let control = Arc::new(Control::new());
        let (recorders, _readers) = lanes(&prepared, &control);
        let stopper = std::thread::spawn({
            let control = Arc::clone(&control);
            // Once: what comes too early is repeated by the probe itself.
            move || {
                std::thread::sleep(Duration::from_millis(30));
                control.stop();
            }
        });
        let measured = probe.run(recorders, &control).unwrap();
        stopper.join().unwrap();
        for lane in measured.lanes {
            assert!(lane.accounting.expected <= 1, "{via}");
            assert!(lane.accounting.balances(), "{via}");
        }
    }
}

#[test]
fn hops_go_from_cpu_to_cpu_in_a_ring() {
    let cpus = |given: &[_]| {
        let mut plan = plan(OTHER, Nanos::from_secs(1));
        plan.cpus = CpuSet::from_iter([2, 7]);
        let prepared = probe(given).prepare(&plan).unwrap();
        prepared
            .lanes
            .iter()
            .map(|lane| (lane.from_cpu.unwrap(), lane.cpu.unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(cpus(&[("threads", "3")]), [(2, 2), (2, 7), (7, 2)]);
    assert_eq!(cpus(&[("placement", "same")]), [(2, 2), (2, 2)]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let error = probe(&[("interval", "2s")])
        .prepare(&plan(OTHER, Nanos::from_secs(1)))
        .unwrap_err();
    assert!(error.to_string().contains("interval of 2.00 s"), "{error}");
    let deadline = Scheduling {
        policy: Policy::Deadline,
        priority: 0,
    };
    let error = probe(&[])
        .prepare(&plan(deadline, Nanos::from_secs(1)))
        .unwrap_err();
    assert!(error.is_usage());
    let mut nowhere = plan(OTHER, Nanos::from_secs(1));
    nowhere.cpus = CpuSet::new();
    assert!(probe(&[]).prepare(&nowhere).is_err());
    for threads in ["1", "65"] {
        assert!(Arguments::check(PARAMETERS, [("threads", threads)]).is_err());
    }
}
