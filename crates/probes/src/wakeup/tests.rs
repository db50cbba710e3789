use super::*;
use crate::LaneReader;
use punctual_model::Accounting;

const WAYS: [&str; 11] = [
    "futex", "mutex", "mutex-pi", "condvar", "barrier", "sem", "sem-sysv", "pipe", "eventfd", "mq",
    "socket",
];

const OTHER: Scheduling = Scheduling {
    policy: Policy::Other,
    priority: 0,
};

fn probe(given: &[(&'static str, &'static str)]) -> Wakeup {
    Wakeup::new(&Arguments::check(PARAMETERS, given.iter().copied()).unwrap())
}

fn plan(cpus: impl IntoIterator<Item = u32>, scheduling: Scheduling, duration: Nanos) -> Plan {
    Plan {
        cpus: cpus.into_iter().collect(),
        scheduling,
        duration: Some(duration),
        duration_asked: true,
        warm_up: None,
    }
}

/// The first two CPUs there are, or the only one.
fn cpus() -> Vec<u32> {
    let mut cpus = punctual_rt::affinity::current().unwrap();
    cpus.truncate(2);
    cpus
}

fn lanes(prepared: &Prepared, control: &Arc<Control>) -> (Vec<Recorder>, Vec<LaneReader>) {
    prepared.open_lanes(None, control).into_iter().unzip()
}

fn measure(via: &'static str, scheduling: Scheduling) -> Vec<Accounting> {
    measure_with(&[("via", via)], scheduling)
}

fn measure_with(given: &[(&'static str, &'static str)], scheduling: Scheduling) -> Vec<Accounting> {
    let via = given[0].1;
    let mut probe = probe(given);
    let duration = Nanos::from_millis(200);
    let prepared = probe.prepare(&plan(cpus(), scheduling, duration)).unwrap();
    let control = Arc::new(Control::new());
    let (recorders, _readers) = lanes(&prepared, &control);
    let measured = probe.run(recorders, &control).unwrap();
    assert_eq!(measured.lanes.len(), prepared.lanes.len());
    for lane in &measured.lanes {
        assert!(lane.accounting.balances(), "{via} {:?}", lane.accounting);
        assert_eq!(lane.histogram.recorded(), lane.accounting.recorded);
        // The post comes before the wake-up, whatever the way.
        assert_eq!(lane.accounting.early, 0, "{via}");
    }
    measured.lanes.iter().map(|lane| lane.accounting).collect()
}

#[test]
fn each_way_accounts_for_every_exchange() {
    punctual_rt::interrupt::install_interrupt_handler().unwrap();
    for via in WAYS {
        let lanes = measure(via, OTHER);
        // 200 exchanges in all, shared evenly in whole turns but for the last.
        let expected: u64 = lanes.iter().map(|lane| lane.expected).sum();
        assert_eq!(expected, 200, "{via}");
        for lane in &lanes {
            assert!(lane.recorded > 0, "{via} {lane:?}");
        }
    }
}

#[test]
fn real_time_threads_measure_too() {
    let priority = punctual_rt::max_permitted_priority().min(80);
    if priority < 2 {
        eprintln!("SKIP real_time_threads_measure_too: no right to a real-time priority");
        return;
    }
    punctual_rt::interrupt::install_interrupt_handler().unwrap();
    let fifo = Scheduling {
        policy: Policy::Fifo,
        priority,
    };
    for via in WAYS {
        let expected: u64 = measure(via, fifo).iter().map(|lane| lane.expected).sum();
        assert_eq!(expected, 200, "{via}");
    }
}

#[test]
fn unmeasured_exchanges_are_not_in_the_account() {
    punctual_rt::interrupt::install_interrupt_handler().unwrap();
    if punctual_rt::max_permitted_priority() < 2 {
        eprintln!("SKIP warm exchanges: no right to a real-time priority of 2");
        return;
    }
    let fifo = Scheduling {
        policy: Policy::Fifo,
        priority: 2,
    };
    for via in WAYS {
        let lanes = measure_with(&[("via", via), ("pairs", "same"), ("warm", "")], fifo);
        let expected: u64 = lanes.iter().map(|lane| lane.expected).sum();
        assert_eq!(expected, 200, "{via}");
        assert!(lanes.iter().all(|lane| lane.recorded > 0), "{via}");
    }
    let mut probe = probe(&[("warm", "")]);
    let refused = probe.prepare(&plan(cpus(), fifo, Nanos::from_millis(200)));
    assert!(refused.unwrap_err().to_string().contains("--pairs same"));
}

#[test]
fn a_stop_ends_each_way_in_the_middle_of_a_wait() {
    punctual_rt::interrupt::install_interrupt_handler().unwrap();
    for via in WAYS {
        // Long enough to be a stop and not the end.
        let mut probe = probe(&[("via", via), ("interval", "10s")]);
        let prepared = probe
            .prepare(&plan(cpus(), OTHER, Nanos::from_secs(3_600)))
            .unwrap();
        let control = Arc::new(Control::new());
        let (recorders, _readers) = lanes(&prepared, &control);
        let (told, over) = std::sync::mpsc::channel();
        let running = std::thread::spawn({
            let control = Arc::clone(&control);
            move || {
                let measured = probe.run(recorders, &control);
                told.send(()).unwrap();
                measured
            }
        });
        std::thread::sleep(Duration::from_millis(20));
        while over.recv_timeout(Duration::from_millis(10)).is_err() {
            control.stop();
        }
        let measured = running.join().unwrap().unwrap();
        let expected: Vec<u64> = measured
            .lanes
            .iter()
            .map(|lane| lane.accounting.expected)
            .collect();
        assert!(expected.iter().sum::<u64>() <= 1, "{via} {expected:?}");
    }
}

#[test]
fn pairs_are_chosen_from_the_cpus() {
    let chosen = |pairs, cpus: &[u32]| {
        probe(&[("pairs", pairs)])
            .choose(&cpus.iter().copied().collect())
            .unwrap()
    };
    assert_eq!(chosen("all", &[1, 3]), [(1, 1), (1, 3), (3, 1), (3, 3)]);
    assert_eq!(chosen("same", &[1, 3]), [(1, 1), (3, 3)]);
    assert_eq!(chosen("neighbours", &[1, 3, 4]), [(1, 3), (3, 4), (4, 1)]);
    // The only CPU is its own neighbour.
    assert_eq!(chosen("neighbours", &[2]), [(2, 2)]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |given: &[_], cpus, scheduling, duration| {
        let error = probe(given)
            .prepare(&plan(cpus, scheduling, duration))
            .unwrap_err();
        assert!(error.is_usage());
        error.to_string()
    };
    let second = Nanos::from_secs(1);
    let error = refused(&[], 0..17, OTHER, second);
    assert!(error.contains("17 CPUs has 289 pairs"), "{error}");
    assert!(error.contains("--cpus"), "{error}");
    let error = refused(&[("interval", "400ms")], 0..2, OTHER, second);
    assert!(error.contains("4 pairs"), "{error}");
    let deadline = Scheduling {
        policy: Policy::Deadline,
        priority: 0,
    };
    let error = refused(&[], 0..1, deadline, second);
    assert!(error.contains("SCHED_DEADLINE"), "{error}");
    // More CPUs are no matter where it is not their square.
    for pairs in ["same", "neighbours"] {
        let prepared = probe(&[("pairs", pairs)]).prepare(&plan(0..64, OTHER, second));
        assert_eq!(prepared.unwrap().lanes.len(), 64);
    }
}

#[test]
fn lanes_name_both_ends() {
    let mut probe = probe(&[]);
    let duration = Nanos::from_secs(10);
    let prepared = probe.prepare(&plan([2, 5], OTHER, duration)).unwrap();
    let ends: Vec<_> = prepared
        .lanes
        .iter()
        .map(|lane| (lane.from_cpu, lane.cpu))
        .collect();
    assert_eq!(
        ends,
        [(2, 2), (2, 5), (5, 2), (5, 5)].map(|(from, to)| (Some(from), Some(to)))
    );
    // A tenth of the share of each.
    assert_eq!(prepared.warm_up, Nanos::from_millis(250));
}

#[test]
fn the_poster_is_just_below() {
    let fifo = |priority| Scheduling {
        policy: Policy::Fifo,
        priority,
    };
    assert_eq!(below(fifo(80)), fifo(79));
    assert_eq!(below(fifo(1)), fifo(1));
    assert_eq!(below(OTHER), OTHER);
}
