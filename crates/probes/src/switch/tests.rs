use super::*;
use punctual_model::CpuSet;

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

fn run(switch: &mut Switch, plan: &Plan, control: &Arc<Control>) -> Measured {
    let prepared = switch.prepare(plan).unwrap();
    let (recorders, _readers): (Vec<_>, Vec<_>) =
        prepared.open_lanes(None, control).into_iter().unzip();
    let measured = switch.run(recorders, control).unwrap();
    assert_eq!(measured.lanes.len(), prepared.lanes.len());
    for lane in &measured.lanes {
        assert!(lane.accounting.balances(), "{:?}", lane.accounting);
        assert_eq!(lane.histogram.recorded(), lane.accounting.recorded);
    }
    measured
}

#[test]
fn each_way_accounts_for_every_switch() {
    let mut switch = Switch::new(&arguments(&[("interval", "5ms"), ("batch", "20")]));
    let plan = plan(Policy::Other, 0, Nanos::from_millis(200));
    let measured = run(&mut switch, &plan, &Arc::new(Control::new()));
    for lane in &measured.lanes {
        // 40 batches, a quarter of them of each way.
        assert_eq!(lane.accounting.expected, 10 * 20);
    }
    let recorded = |way: usize| measured.lanes[way].accounting.recorded;
    assert!(recorded(0) > 0 && recorded(2) > 0 && recorded(3) > 0);
}

#[test]
fn at_real_time_priority_a_yield_switches() {
    if punctual_rt::max_permitted_priority() < 10 {
        eprintln!("SKIP no right to real-time priority 10");
        return;
    }
    let given = [("interval", "10ms"), ("batch", "20")];
    let mut switch = Switch::new(&arguments(&given));
    let plan = plan(Policy::Fifo, 10, Nanos::from_millis(400));
    let measured = run(&mut switch, &plan, &Arc::new(Control::new()));
    for lane in &measured.lanes {
        assert_eq!(lane.accounting.expected, 10 * 20);
        assert!(lane.accounting.recorded > 0, "{:?}", lane.accounting);
        assert_eq!(lane.accounting.early, 0);
    }
    assert!(measured.warnings.is_empty());
}

#[test]
fn a_stop_ends_it_in_the_middle_of_a_batch() {
    punctual_rt::interrupt::install_interrupt_handler().unwrap();
    for way in ["alone", "yield", "pipe", "process"] {
        let given = [("way", way), ("interval", "200ms"), ("batch", "100000")];
        let mut switch = Switch::new(&arguments(&given));
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
        let plan = plan(Policy::Other, 0, Nanos::from_secs(7_200));
        let measured = run(&mut switch, &plan, &control);
        assert!(measured.lanes[0].accounting.expected <= 100_000, "{way}");
        drop(stopper);
    }
}

#[test]
fn one_way_alone_has_the_lanes_to_itself() {
    let mut switch = Switch::new(&arguments(&[("way", "process")]));
    let prepared = switch
        .prepare(&plan(Policy::Other, 0, Nanos::from_secs(1)))
        .unwrap();
    for lane in &prepared.lanes {
        let label = lane.label.as_deref().unwrap();
        assert!(label.starts_with("pipe to process, CPU "), "{label}");
        assert_eq!(lane.rate_hz, 10_000);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |policy, duration| {
        Switch::new(&arguments(&[]))
            .prepare(&plan(policy, 0, duration))
            .unwrap_err()
            .to_string()
    };
    assert!(refused(Policy::Deadline, Nanos::from_secs(1)).contains("deadline"));
    let text = refused(Policy::Other, Nanos::from_millis(39));
    assert!(text.contains("40.0 ms"), "{text}");
}
