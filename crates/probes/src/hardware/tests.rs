use super::*;
use crate::{Lane, LaneSettings};
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

fn run(hardware: &mut Hardware, plan: &Plan, control: &Arc<Control>) -> Measured {
    let prepared = hardware.prepare(plan).unwrap();
    let (recorders, _readers): (Vec<_>, Vec<_>) =
        prepared.open_lanes(None, control).into_iter().unzip();
    hardware.run(recorders, control).unwrap()
}

/// What holds on any machine, however disturbed it is.
fn check(measured: &Measured, windows: u64, spun_at_most: Nanos) {
    for lane in &measured.lanes {
        assert!(lane.accounting.balances(), "{:?}", lane.accounting);
        assert_eq!(lane.accounting.expected, windows);
        assert_eq!(lane.accounting.early, 0);
        assert_eq!(lane.histogram.recorded(), lane.accounting.recorded);
    }
    let [gaps, spinning] = &measured.tables[..] else {
        panic!("{:?}", measured.tables);
    };
    assert_eq!(spinning.rows.len(), measured.lanes.len());
    assert!(gaps.rows.len() >= 5 * measured.lanes.len());
    for row in &spinning.rows {
        let Cell::Count(spun) = row[2] else { panic!() };
        // A spin ends with the gap that it meets its end in, however long.
        let of_cpu = gaps.rows.iter().filter(|gap| gap[0] == row[0]);
        let taken = of_cpu.map(|gap| match gap[3] {
            Cell::Count(total) => total,
            _ => panic!(),
        });
        let taken: u64 = taken.sum();
        // One part in a hundred for the calibration.
        assert!(
            spun <= (spun_at_most.0 + taken) / 100 * 101,
            "{spun}, {taken}"
        );
    }
}

#[test]
fn each_window_is_accounted_for() {
    let mut hardware = Hardware::new(&arguments(&[("window", "10ms"), ("width", "2ms")]));
    let plan = plan(Policy::Other, 0, Nanos::from_millis(300));
    let measured = run(&mut hardware, &plan, &Arc::new(Control::new()));
    check(&measured, 30, Nanos::from_millis(27 * 2));
    let recorded: u64 = (measured.lanes.iter())
        .map(|lane| lane.accounting.recorded)
        .sum();
    assert!(recorded > 0);
}

#[test]
fn so_it_is_at_real_time_priority() {
    let plan = plan(Policy::Fifo, 10, Nanos::from_millis(200));
    if punctual_rt::max_permitted_priority() < 10 {
        eprintln!("SKIP no right to real-time priority 10");
        return;
    }
    let mut hardware = Hardware::new(&arguments(&[("window", "20ms"), ("width", "4ms")]));
    let measured = run(&mut hardware, &plan, &Arc::new(Control::new()));
    check(&measured, 10, Nanos::from_millis(9 * 4));
}

#[test]
fn the_other_clock_spins_as_well() {
    let mut hardware = Hardware::new(&arguments(&[("window", "10ms"), ("width", "2ms")]));
    let plan = plan(Policy::Other, 0, Nanos::from_millis(100));
    let prepared = hardware.prepare(&plan).unwrap();
    let control = Arc::new(Control::new());
    let settings = LaneSettings {
        warm_up: prepared.warm_up,
        break_above: None,
        rate_hz: 100,
    };
    let (recorder, _reader) = Lane::open(settings, &control);
    let mut plan = hardware.plan.unwrap();
    plan.cpus.truncate(1);
    let threshold = Nanos::from_micros(10);
    let measured = measure(RawClock, "raw", threshold, plan, vec![recorder], &control).unwrap();
    check(&measured, 10, Nanos::from_millis(9 * 2));
}

#[test]
fn a_stop_ends_a_spin_and_a_pause() {
    punctual_rt::interrupt::install_interrupt_handler().unwrap();
    for (window, width) in [("110ms", "95ms"), ("1h", "1ms")] {
        let mut hardware = Hardware::new(&arguments(&[("window", window), ("width", width)]));
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
        let measured = run(&mut hardware, &plan, &control);
        for lane in &measured.lanes {
            assert!(lane.accounting.balances(), "{:?}", lane.accounting);
        }
        drop(stopper);
    }
}

#[test]
fn what_cannot_work_is_refused() {
    let refused = |given: &[(&'static str, &'static str)], policy, duration| {
        let error = Hardware::new(&arguments(given))
            .prepare(&plan(policy, 0, duration))
            .unwrap_err();
        assert!(error.is_usage());
        error.to_string()
    };
    let second = Nanos::from_secs(1);
    assert!(refused(&[], Policy::Deadline, second).contains("deadline"));
    let text = refused(&[("window", "2s")], Policy::Other, second);
    assert!(text.contains("2.00 s"), "{text}");
    let text = refused(
        &[("window", "1ms"), ("width", "1ms")],
        Policy::Other,
        second,
    );
    assert!(text.contains("leaves the CPU"), "{text}");
    assert!(Arguments::check(PARAMETERS, [("width", "200ms")]).is_err());
}

#[test]
fn windows_that_passed_are_counted_up_to_the_end() {
    let schedule = Schedule {
        first: Nanos(0),
        counted_from: Nanos(0),
        end: Nanos(1_000),
        duty: Duty {
            window: Nanos(100),
            width: Nanos(40),
        },
    };
    let passed = |due, now| schedule.passed(Nanos(due), Nanos(now));
    assert_eq!(passed(100, 100), 0);
    assert_eq!(passed(100, 139), 0);
    assert_eq!(passed(100, 140), 1);
    assert_eq!(passed(100, 239), 1);
    assert_eq!(passed(100, 240), 2);
    // The windows of 800 and 900 are the last.
    assert_eq!(passed(800, 9_999), 2);
}
