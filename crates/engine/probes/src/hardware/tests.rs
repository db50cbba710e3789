use super::*;
use crate::testing::{self, DEADLINE, OTHER, permitted, plan};
use punctual_model::Cell;

fn hardware(given: &[(&str, &str)]) -> Hardware {
    Hardware::new(&testing::arguments(PARAMETERS, given))
}

fn run(hardware: Hardware, plan: &Plan, control: &Arc<Control>) -> Measured {
    testing::measure(hardware, plan, control).1
}

/// Checks invariants that hold on any machine, no matter how disturbed it is.
fn check(measured: &Measured, windows: u64, spun_at_most: Nanos) {
    for worker in &measured.workers {
        assert_eq!(worker.accounting.expected, windows);
    }
    let [gaps, spinning] = &measured.tables[..] else {
        panic!("{:?}", measured.tables);
    };
    assert_eq!(spinning.rows.len(), measured.workers.len());
    assert!(gaps.rows.len() >= 5 * measured.workers.len());
    for row in &spinning.rows {
        let Cell::Count(spun) = row[2] else { panic!() };
        // If a gap is in progress at the end of a spin, the spin lasts until the gap is over.
        let of_cpu = gaps.rows.iter().filter(|gap| gap[0] == row[0]);
        let taken = of_cpu.map(|gap| match gap[3] {
            Cell::Count(total) => total,
            _ => panic!(),
        });
        let taken: u64 = taken.sum();
        // The calibration may be off by one percent.
        assert!(
            spun <= (spun_at_most.0 + taken) / 100 * 101,
            "{spun}, {taken}"
        );
    }
}

#[test]
fn each_window_is_accounted_for() {
    let hardware = hardware(&[("window", "10ms"), ("width", "2ms")]);
    let plan = plan(OTHER, Nanos::from_millis(300));
    let measured = run(hardware, &plan, &Arc::new(Control::new()));
    check(&measured, 30, Nanos::from_millis(27 * 2));
    let recorded: u64 = (measured.workers.iter())
        .map(|worker| worker.accounting.recorded)
        .sum();
    assert!(recorded > 0);
}

#[test]
fn so_it_is_at_real_time_priority() {
    let Some(fifo) = permitted(10, 10) else {
        return;
    };
    let hardware = hardware(&[("window", "20ms"), ("width", "4ms")]);
    let plan = plan(fifo, Nanos::from_millis(200));
    let measured = run(hardware, &plan, &Arc::new(Control::new()));
    check(&measured, 10, Nanos::from_millis(9 * 4));
}

#[test]
fn every_turn_is_counted_on_request() {
    let given = [
        ("window", "10ms"),
        ("width", "2ms"),
        ("turns", "yes"),
        ("copy", "4096"),
    ];
    let plan = plan(OTHER, Nanos::from_millis(100));
    let measured = || run(hardware(&given), &plan, &Arc::new(Control::new()));
    // On a busy machine, a CPU may have no turn.
    let has_turns = |measured: &Measured| {
        let turns = &measured.tables[2];
        (0..turns.rows.len()).all(|row| testing::count(turns, row, "turns") > 0)
    };
    let measured = (0..10).map(|_| measured()).find(has_turns).unwrap();
    let [_, spinning, turns, lengths] = &measured.tables[..] else {
        panic!("{:?}", measured.tables);
    };
    for row in 0..turns.rows.len() {
        let count = |table, key| testing::count(table, row, key);
        let all = count(turns, "turns");
        let of_cpu =
            (0..lengths.rows.len()).filter(|place| lengths.rows[*place][0] == turns.rows[row][0]);
        let sum: u64 = of_cpu
            .map(|place| testing::count(lengths, place, "turns"))
            .sum();
        assert_eq!(sum, all);
        // Together, the iterations cover the whole time of spinning.
        let spun = count(spinning, "spun_ns");
        assert!(
            all * count(turns, "min_ns") <= spun,
            "{all} turns in {spun} ns"
        );
        assert!(count(turns, "clock_mhz") > 0);
    }
    let refused = testing::refusal(hardware(&[("copy", "16")]), &plan);
    assert!(refused.contains("--turns"), "{refused}");
}

#[test]
fn the_other_clock_spins_as_well() {
    let millis = Nanos::from_millis;
    let plan = HardwarePlan {
        threshold: Nanos::from_micros(10),
        cpus: testing::cpus(1).iter().collect(),
        scheduling: OTHER,
        duration: Some(millis(100)),
        warm_up: millis(10),
        duty: Duty {
            window: millis(10),
            width: millis(2),
        },
        turns: None,
        noise_threshold: Nanos::from_micros(1),
        no_interrupts: false,
    };
    let control = Arc::new(Control::new());
    let (recorder, _reader) = testing::worker(plan.warm_up, &control);
    let measured = measure(RawClock, "raw", plan, vec![recorder], &control).unwrap();
    assert!(measured.workers[0].accounting.balances());
    check(&measured, 10, Nanos::from_millis(9 * 2));
}

#[test]
fn stop_ends_spin_and_pause() {
    for (window, width) in [("110ms", "95ms"), ("1h", "1ms")] {
        let control = Arc::new(Control::new());
        testing::stop_after(&control, Duration::from_millis(10));
        let plan = plan(OTHER, Nanos::from_secs(7_200));
        run(
            hardware(&[("window", window), ("width", width)]),
            &plan,
            &control,
        );
    }
}

#[test]
fn what_cannot_work_is_refused() {
    let refused = |given: &[_], scheduling| {
        let plan = plan(scheduling, Nanos::from_secs(1));
        testing::refusal(hardware(given), &plan)
    };
    assert!(refused(&[], DEADLINE).contains("deadline"));
    let text = refused(&[("window", "2s")], OTHER);
    assert!(text.contains("2.00 s"), "{text}");
    let text = refused(&[("window", "1ms"), ("width", "1ms")], OTHER);
    assert!(text.contains("no CPU time for other tasks"), "{text}");
    let text = refused(&[("window", "500ms"), ("width", "200ms")], OTHER);
    assert!(text.contains("longer than 100 ms"), "{text}");
}

#[test]
fn passed_windows_are_counted_until_end() {
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
    // The windows at 800 and 900 are the last.
    assert_eq!(passed(800, 9_999), 2);
}
