use super::worker::PeriodTimes;
use super::*;
use crate::testing::{self, fifo, worker};

fn deadline(given: &[(&str, &str)]) -> Deadline {
    Deadline::new(&testing::arguments(PARAMETERS, given))
}

/// Uses all CPUs, as the policy requires.
fn plan(duration: Nanos) -> Plan {
    Plan {
        cpus: testing::cpus(usize::MAX),
        ..testing::plan(fifo(10), duration)
    }
}

/// Returns `None` if this machine admits no deadline thread.
fn measure(given: &[(&str, &str)], duration: Nanos, control: &Arc<Control>) -> Option<Measured> {
    let deadline = deadline(given);
    match testing::prepare(deadline, &plan(duration)) {
        Ok(ready) => Some(testing::run(ready, control).unwrap()),
        Err(error) => {
            punctual_testing::skip_refused("no deadline thread is admitted here", &error);
            None
        }
    }
}

fn count(measured: &Measured, column: &str) -> u64 {
    testing::count(&measured.tables[0], 0, column)
}

#[test]
fn each_period_is_accounted_for() {
    let given = [("period", "2ms"), ("threads", "2")];
    let run = || measure(&given, Nanos::from_millis(300), &Arc::new(Control::new()));
    // Finding the start of the periods does not cost any of the 150 periods. A busy machine can start and stop
    // the threads late, so it has several attempts.
    let is_whole = |measured: &Measured| {
        let accounting = measured.workers[0].accounting;
        (140..=152).contains(&accounting.expected) && accounting.recorded > 0
    };
    let mut runs = std::iter::repeat_with(run).take(5).peekable();
    if runs.peek().is_some_and(Option::is_none) {
        return;
    }
    let measured = runs.flatten().find(is_whole);
    let measured = measured.expect("a run with all periods");
    assert_eq!(measured.tables[0].rows.len(), 2);
    assert!(count(&measured, "periods") > 0);
}

#[test]
fn work_beyond_the_runtime_is_an_overrun() {
    let control = Arc::new(Control::new());
    let given = [("period", "5ms"), ("runtime", "500us"), ("work", "2ms")];
    let Some(measured) = measure(&given, Nanos::from_millis(400), &control) else {
        return;
    };
    assert_eq!(count(&measured, "overruns"), count(&measured, "periods"));
    assert!(count(&measured, "most_cpu_ns") >= 2_000_000);
}

/// As with cyclicdeadline, a run that is shorter than the period has one period or none.
#[test]
fn run_shorter_than_period_is_allowed() {
    let deadline = deadline(&[("period", "200ms"), ("runtime", "1ms")]);
    let plan = Plan {
        may_be_empty: true,
        ..plan(Nanos::from_millis(50))
    };
    match testing::prepare(deadline, &plan) {
        Ok(ready) => {
            let measured = testing::run(ready, &Arc::new(Control::new())).unwrap();
            let accounting = measured.workers[0].accounting;
            assert!(
                accounting.balances() && accounting.expected <= 2,
                "{accounting:?}"
            );
        }
        Err(error) => punctual_testing::skip_refused("no deadline thread is admitted here", &error),
    }
}

#[test]
fn wake_ups_showing_period_start_are_counted() {
    let (recorder, _reader) = worker(Nanos::ZERO, &Arc::new(Control::new()));
    let times = Times {
        runtime: Nanos::from_micros(100),
        deadline: Nanos::from_millis(1),
        period: Nanos::from_millis(1),
        work: Nanos::ZERO,
    };
    let length = Length {
        duration: None,
        warm_up: Nanos::ZERO,
    };
    // Lateness of each wake-up relative to the start of its period. The third wake-up came a whole
    // period too late.
    let late = [(10, 7), (11, 2), (13, 5), (14, 3)];
    let seen = late.map(|(period, late_us)| {
        let at = |us: u64| period * 1_000_000 + us * 1_000;
        PeriodTimes {
            done: at(0) - if period == 13 { 900_000 } else { 100_000 },
            woke: at(late_us),
            // The two clocks may show different times.
            now: Nanos(at(late_us) + 77),
            used: Nanos::from_micros(20),
            ended: Nanos(at(late_us + 30)),
        }
    });
    let mut worker = Worker::new(recorder, times, length);
    let grid = worker.settle(&seen);
    assert_eq!((grid.due(), grid.moved()), (5, 0));
    let found = worker.finish(grid.due(), SelfCost::default());
    let accounting = found.worker.accounting;
    assert!(accounting.balances(), "{accounting:?}");
    assert_eq!((accounting.recorded, accounting.missed), (4, 1));
    // Latencies are relative to the fastest wake-up.
    let histogram = &found.worker.histogram;
    assert_eq!(histogram.min(), Some(Nanos::ZERO));
    assert_eq!(histogram.max(), Some(Nanos::from_micros(5)));
    assert_eq!(found.tally.periods, 4);
}

#[test]
fn nanosleep_periods_follow_the_clock() {
    let control = Arc::new(Control::new());
    let given = [("period", "2ms"), ("wait", "nanosleep")];
    if let Some(measured) = measure(&given, Nanos::from_millis(200), &control) {
        assert_eq!(measured.workers[0].accounting.expected, 100);
        assert_eq!(measured.workers[0].accounting.warm_up, 10);
    }
}

#[test]
fn the_loop_by_nanosleep_needs_no_right() {
    let control = Control::new();
    let (recorder, _reader) = worker(Nanos::from_millis(10), &Arc::new(Control::new()));
    let times = Times {
        runtime: Nanos::from_micros(100),
        deadline: Nanos::from_millis(1),
        period: Nanos::from_millis(1),
        // The work is longer than a period, so every second period is missed.
        work: Nanos::from_micros(1_200),
    };
    let length = Length {
        duration: Some(Nanos::from_millis(50)),
        warm_up: Nanos::from_millis(10),
    };
    let found = Worker::new(recorder, times, length)
        .run(false, CLOCK.now(), SelfCost::default(), &control)
        .unwrap();
    let accounting = found.worker.accounting;
    assert!(accounting.balances(), "{accounting:?}");
    assert_eq!((accounting.expected, accounting.warm_up), (50, 10));
    assert!(accounting.missed >= accounting.recorded / 2);
    let tally = found.tally;
    assert_eq!(tally.periods, accounting.recorded);
    assert_eq!(tally.overruns, tally.periods);
    assert_eq!(tally.deadlines_missed, tally.periods);
    assert_eq!(tally.begun_anew, None);
}

#[test]
fn a_stop_ends_it() {
    for wait in ["yield", "nanosleep"] {
        let control = Arc::new(Control::new());
        testing::stop_after(&control, Duration::from_millis(10));
        let given = [("period", "100ms"), ("wait", wait)];
        measure(&given, Nanos::from_secs(7_200), &control);
    }
}

#[test]
fn cpu_subset_is_refused_with_remedy() {
    let set = |list: &str| list.parse::<CpuSet>().unwrap();
    check_cpus(&set("0-3"), &set("0-3")).unwrap();
    // Inside an exclusive cpuset, these CPUs are all CPUs of the root domain.
    check_cpus(&set("2-3"), &set("2-3")).unwrap();
    let error = check_cpus(&set("2"), &set("0-3")).unwrap_err();
    assert!(error.is_usage());
    let text = error.to_string();
    assert!(
        text.contains("including 0-1,3") && text.contains("cpuset.cpus.partition"),
        "{text}"
    );
}

#[test]
fn times_grow_in_proportion() {
    let given = [("period", "20ms"), ("runtime", "12ms"), ("distance", "5ms")];
    let deadline = deadline(&given);
    let times = deadline.times_of(3);
    assert_eq!(times.period, Nanos::from_millis(30));
    assert_eq!(
        (times.runtime, times.deadline),
        (Nanos::from_millis(18), times.period)
    );
    assert_eq!(deadline.times_of(1).period, Nanos::from_millis(20));
}

#[test]
fn excess_bandwidth_is_refused_with_reason() {
    // A machine with fewer than 256 CPUs cannot admit 256 threads that each need nearly a whole
    // CPU.
    let given = [("runtime", "950us"), ("threads", "256")];
    let error = testing::refusal_of_any(deadline(&given), &plan(Nanos::from_secs(1)));
    let cpus = punctual_rt::affinity::current().unwrap().len();
    assert!(error.contains("SCHED_DEADLINE") || cpus > 200, "{error}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |given: &[_], millis| {
        testing::refusal_of_any(deadline(given), &plan(Nanos::from_millis(millis)))
    };
    let text = refused(&[("work", "2ms")], 1_000);
    assert!(text.contains("period of 1.00 ms"), "{text}");
    let text = refused(&[("period", "400ms"), ("runtime", "1ms")], 300);
    assert!(text.contains("400 ms"), "{text}");
    let text = refused(&[("runtime", "3ms")], 1_000);
    assert!(text.contains("SCHED_DEADLINE"), "{text}");
    assert!(Arguments::check(PARAMETERS, [("period", "5s")]).is_err());
}
