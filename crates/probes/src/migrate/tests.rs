use super::*;
use punctual_model::{Cell, CpuSet};

fn arguments(given: &[(&'static str, &'static str)]) -> Arguments {
    Arguments::check(PARAMETERS, given.iter().copied()).unwrap()
}

fn plan(policy: Policy, priority: u8, duration: Nanos) -> Plan {
    let cpus = punctual_rt::affinity::current().unwrap();
    Plan {
        cpus: CpuSet::from_iter(cpus.into_iter().take(2)),
        scheduling: Scheduling { policy, priority },
        duration: Some(duration),
        duration_asked: true,
        warm_up: None,
    }
}

fn run(migrate: &mut Migrate, prepared: &Prepared, control: &Arc<Control>) -> Measured {
    let (recorders, _readers): (Vec<_>, Vec<_>) =
        prepared.open_lanes(None, control).into_iter().unzip();
    let measured = migrate.run(recorders, control).unwrap();
    assert_eq!(measured.lanes.len(), prepared.lanes.len());
    for lane in &measured.lanes {
        assert!(lane.accounting.balances(), "{:?}", lane.accounting);
    }
    measured
}

fn judged(measured: &Measured) -> (u64, u64) {
    match measured.tables[0].rows[0][..2] {
        [Cell::Count(judged), Cell::Count(not_judged)] => (judged, not_judged),
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn every_round_is_accounted_for_and_judged() {
    if punctual_rt::max_permitted_priority() < 10 {
        eprintln!("SKIP no right to real-time priority 10");
        return;
    }
    let mut migrate = Migrate::new(&arguments(&[("run", "1ms"), ("interval", "10ms")]));
    let plan = plan(Policy::Fifo, 10, Nanos::from_millis(400));
    let prepared = migrate.prepare(&plan).unwrap();
    assert_eq!(prepared.lanes.len(), plan.cpus.len());
    let measured = run(&mut migrate, &prepared, &Arc::new(Control::new()));
    for lane in &measured.lanes {
        assert_eq!(lane.accounting.expected, 40);
        assert_eq!(lane.accounting.warm_up, 4);
    }
    let (judged, not_judged) = judged(&measured);
    assert_eq!(judged + not_judged, 36);
}

#[test]
fn threads_of_a_normal_policy_go_through_the_same_rounds() {
    let mut migrate = Migrate::new(&arguments(&[("run", "1ms"), ("interval", "10ms")]));
    let other = Scheduling {
        policy: Policy::Other,
        priority: 0,
    };
    let cpus = punctual_rt::affinity::current().unwrap();
    migrate.plan = Some(MigratePlan {
        cpus: cpus[..1].to_vec(),
        ranks: vec![other; 2],
        duration: Some(Nanos::from_millis(200)),
        warm_up: Nanos::ZERO,
    });
    let prepared = Prepared {
        lanes: vec![LaneSpec {
            label: None,
            cpu: None,
            from_cpu: None,
            scheduling: other,
            rate_hz: 100,
        }],
        duration: None,
        warm_up: Nanos::ZERO,
    };
    let measured = run(&mut migrate, &prepared, &Arc::new(Control::new()));
    assert_eq!(measured.lanes[0].accounting.expected, 20);
    let (judged, not_judged) = judged(&measured);
    assert_eq!(judged + not_judged, 20);
}

#[test]
fn a_stop_ends_it() {
    punctual_rt::interrupt::install_interrupt_handler().unwrap();
    if punctual_rt::max_permitted_priority() < 10 {
        eprintln!("SKIP no right to real-time priority 10");
        return;
    }
    let mut migrate = Migrate::new(&arguments(&[("interval", "60s")]));
    let prepared = migrate
        .prepare(&plan(Policy::RoundRobin, 10, Nanos::from_secs(7_200)))
        .unwrap();
    let control = Arc::new(Control::new());
    let stopper = std::thread::spawn({
        let control = Arc::clone(&control);
        move || {
            for _ in 0..100 {
                std::thread::sleep(Duration::from_millis(10));
                control.stop();
            }
        }
    });
    let measured = run(&mut migrate, &prepared, &control);
    assert!(measured.lanes.iter().all(|l| l.accounting.expected <= 1));
    drop(stopper);
}

#[test]
fn ranks_go_down_from_the_priority() {
    let fifo = |priority| Scheduling {
        policy: Policy::Fifo,
        priority,
    };
    let priorities = |cpus, priority| -> Vec<u8> {
        let ranks = ranks(cpus, fifo(priority)).unwrap();
        ranks.iter().map(|rank| rank.priority).collect()
    };
    assert_eq!(priorities(2, 95), [93, 94, 95]);
    assert_eq!(priorities(98, 99).len(), 99);
    let error = ranks(3, fifo(3)).unwrap_err().to_string();
    assert!(error.contains("3 CPUs need 4 priorities"), "{error}");
    assert!(ranks(600, fifo(99)).is_err());
}

#[test]
fn what_does_not_fit_is_refused() {
    let second = Nanos::from_secs(1);
    let mut migrate = Migrate::new(&arguments(&[]));
    let error = migrate.prepare(&plan(Policy::Other, 0, second));
    assert!(error.unwrap_err().to_string().contains("fifo or rr"));
    let mut migrate = Migrate::new(&arguments(&[("run", "11ms")]));
    let error = migrate.prepare(&plan(Policy::Fifo, 50, second));
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("half of the interval")
    );
}
