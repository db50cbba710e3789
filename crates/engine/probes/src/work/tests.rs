use punctual_model::{Accounting, SignedNanos};

use super::worker::skipped;
use super::*;
use crate::testing::{self, DEADLINE, OTHER, count, worker};

fn work(given: &[(&str, &str)]) -> Work {
    Work::new(&testing::arguments(PARAMETERS, given))
}

fn plan(duration: Nanos) -> Plan {
    Plan {
        duration_asked: false,
        ..testing::plan(OTHER, duration)
    }
}

fn measure(given: &[(&str, &str)], duration: Nanos) -> Measured {
    let control = Arc::new(Control::new());
    testing::measure(work(given), &plan(duration), &control).1
}

#[test]
fn each_kind_accounts_for_every_period() {
    for (kind, aligned) in [("integer", "no"), ("float", "yes"), ("memory", "no")] {
        let given = [("kind", kind), ("interval", "5ms"), ("aligned", aligned)];
        let measured = measure(&given, Nanos::from_millis(300));
        for outcome in &measured.workers {
            let Accounting {
                expected, warm_up, ..
            } = outcome.accounting;
            assert_eq!(expected, 60, "{kind}");
            assert!(warm_up <= 6, "{kind}: {warm_up}");
            assert!(outcome.accounting.recorded > 0, "{kind}");
            assert!(outcome.histogram.min() > Some(Nanos::ZERO), "{kind}");
        }
        let iterations: Vec<u64> = (0..measured.workers.len())
            .map(|row| count(&measured.tables[0], row, "iterations"))
            .collect();
        assert!(
            iterations
                .iter()
                .all(|one| *one == iterations[0] && *one > 1)
        );
    }
}

#[test]
fn given_iterations_are_used_unchanged() {
    let given = [("iterations", "1234"), ("interval", "5ms")];
    let few = measure(&given, Nanos::from_millis(100));
    assert_eq!(count(&few.tables[0], 0, "iterations"), 1_234);
    // Fifty times the work takes longer.
    let given = [("iterations", "61700"), ("interval", "5ms")];
    let many = measure(&given, Nanos::from_millis(100));
    let fastest = |measured: &Measured| measured.workers[0].histogram.min();
    assert!(fastest(&many) > fastest(&few));
}

#[test]
fn phases_share_the_calibrated_work() {
    struct Shared(Iterations);
    impl Resources for Shared {
        fn iterations(&self) -> Iterations {
            Iterations::clone(&self.0)
        }
    }
    let shared = Shared(Iterations::default());
    let control = Arc::new(Control::new());
    let run = || {
        let ready = work(&[("interval", "5ms")]).prepare(&plan(Nanos::from_millis(100)), &shared);
        let (_, measured) = testing::run_all(ready, &control);
        count(&measured.tables[0], 0, "iterations")
    };
    let first = run();
    assert_eq!(shared.0.get(), Some(&first));
    assert_eq!(run(), first);
}

#[test]
fn stopped_run_claims_no_calibration() {
    let control = Arc::new(Control::new());
    control.stop();
    let (_, measured) = testing::measure(work(&[]), &plan(Nanos::from_secs(3_600)), &control);
    assert_eq!(measured.workers[0].accounting.expected, 0);
    let cell = testing::cell(&measured.tables[0], 0, "iterations");
    assert_eq!(*cell, Cell::Unknown);
}

#[test]
fn a_stop_ends_a_long_sleep() {
    let control = Arc::new(Control::new());
    testing::stop_after(&control, Duration::from_millis(100));
    let plan = plan(Nanos::from_secs(3_600));
    let given = [("interval", "10s"), ("iterations", "100")];
    let (_, measured) = testing::measure(work(&given), &plan, &control);
    // The first period was either due immediately or not at all.
    assert!(measured.workers[0].accounting.expected <= 1);
}

#[test]
fn counters_are_measured_or_unknown_with_a_reason() {
    let measured = measure(&[("interval", "5ms")], Nanos::from_millis(100));
    match &measured.tables[..] {
        [_, counters] => assert_eq!(counters.rows.len(), 2 * measured.workers.len()),
        [_] => {
            let [warning] = &measured.warnings[..] else {
                panic!("{:?}", measured.warnings);
            };
            let why = warning.strip_prefix("hardware counters unknown: ").unwrap();
            assert!(why.contains("perf_event_open"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    let given = [("interval", "5ms"), ("no-counters", "yes")];
    let without = measure_quietly(&given);
    assert_eq!((without.tables.len(), without.warnings.len()), (1, 0));
}

fn measure_quietly(given: &[(&str, &str)]) -> Measured {
    measure(given, Nanos::from_millis(100))
}

#[test]
fn what_does_not_fit_is_refused() {
    let second = plan(Nanos::from_secs(1));
    for (given, part) in [
        (&[("interval", "2s")][..], "interval of 2.00 s"),
        (&[("work-time", "600us")], "more than half of the interval"),
        (
            &[("iterations", "5"), ("work-time", "50us")],
            "give only one of them",
        ),
        (&[("size", "64")], "--size applies only to --kind memory"),
    ] {
        let error = testing::refusal(work(given), &second);
        assert!(error.contains(part), "{error}");
    }
    let many = Plan {
        cpus: (0..5).collect(),
        ..plan(Nanos::from_secs(1))
    };
    let large = [("kind", "memory"), ("size", "262144")];
    let error = testing::refusal(work(&large), &many);
    assert!(error.contains("needs 1310720 kB"), "{error}");
    let none = Plan {
        cpus: (0..0).collect(),
        ..plan(Nanos::from_secs(1))
    };
    let error = testing::refusal(work(&[]), &none);
    assert!(error.contains("needs a CPU"), "{error}");
    let deadline = Plan {
        scheduling: DEADLINE,
        ..plan(Nanos::from_secs(1))
    };
    let error = testing::refusal(work(&[]), &deadline);
    assert!(error.contains("SCHED_DEADLINE"), "{error}");
    for (name, value) in [
        ("iterations", "0"),
        ("iterations", "1000000001"),
        ("size", "0"),
        ("size", "262145"),
        ("work-time", "999ns"),
        ("work-time", "101ms"),
        ("interval", "19us"),
        ("kind", "vector"),
    ] {
        let checked = Arguments::check(PARAMETERS, [(name, value)]);
        assert!(checked.is_err(), "{name} {value}");
    }
}

#[test]
fn too_many_iterations_are_refused_before_the_run() {
    let given = [("iterations", "1000000000"), ("interval", "1ms")];
    let control = Arc::new(Control::new());
    let ready = testing::prepare(work(&given), &plan(Nanos::from_secs(1))).unwrap();
    let error = testing::run(ready, &control).unwrap_err();
    assert!(error.is_usage(), "{error}");
    let error = error.to_string();
    for part in [
        "1000000000 iterations take about",
        "CPU ",
        "500 µs",
        "--work-time",
    ] {
        assert!(error.contains(part), "'{part}' is not in: {error}");
    }
}

#[test]
fn several_runs_need_given_iterations() {
    let check = |given: &[(&str, &str)]| {
        let arguments = testing::arguments(PARAMETERS, given);
        ENTRY.check_repeatable(&arguments)
    };
    let error = check(&[]).unwrap_err();
    assert!(error.is_usage(), "{error}");
    check(&[("iterations", "41700")]).unwrap();
    let timer = crate::probe("timer").unwrap();
    timer
        .check_repeatable(&testing::arguments(timer.parameters, &[]))
        .unwrap();
}

#[test]
fn help_states_the_defaults_that_checks_use() {
    let usual = work(&[]);
    assert_eq!((usual.work_time, usual.size), (USUAL_TIME, USUAL_SIZE));
}

proptest::proptest! {
    /// A simulated loop: each piece takes one of `times`.
    #[test]
    fn every_period_is_worked_or_missed(
        times in proptest::collection::vec(1_u64..50_000, 0..60),
        warm_up in 0_u64..100_000,
        periods in 1_u64..100,
    ) {
        const PERIOD: Nanos = Nanos(1_000);
        let control = Arc::new(Control::new());
        let (mut recorder, _reader) = worker(Nanos(warm_up), &control);
        recorder.start(Nanos::ZERO);
        let end = Nanos(periods * PERIOD.0);
        let (mut due, mut worked) = (Nanos::ZERO, 0_u64);
        for time in times {
            if due >= end {
                break;
            }
            let after = due + Nanos(time);
            recorder.sample(due, SignedNanos(time as i64));
            worked += 1;
            due += PERIOD;
            if after >= due {
                due += skipped(after, due, end, PERIOD, &mut recorder);
                // The next period is in the future, or the run is over.
                proptest::prop_assert!(due > after || due == end);
            }
        }
        let outcome = recorder.finish(due.0 / PERIOD.0, crate::SelfCost::default());
        let account = outcome.accounting;
        proptest::prop_assert!(account.balances(), "{:?}", account);
        proptest::prop_assert!(account.expected <= periods);
        let without_work = account.missed + account.warm_up_missed;
        proptest::prop_assert_eq!(account.expected, worked + without_work);
        // A period without work has no execution time.
        proptest::prop_assert!(outcome.missed_histogram.is_none());
    }
}
