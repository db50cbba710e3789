use super::worker::{Schedule, overrun};
use super::*;
use crate::testing::{self, OTHER, worker};
use punctual_model::{Accounting, SignedNanos};
use std::time::Duration;

fn timer(given: &[(&str, &str)]) -> Timer {
    Timer::new(&testing::arguments(PARAMETERS, given))
}

fn plan(duration: Nanos) -> Plan {
    Plan {
        cpus: testing::cpus(1),
        duration_asked: false,
        ..testing::plan(OTHER, duration)
    }
}

fn measure(given: &[(&str, &str)], duration: Nanos) -> Accounting {
    let control = Arc::new(Control::new());
    let (_, measured) = testing::measure(timer(given), &plan(duration), &control);
    let [outcome] = &measured.workers[..] else {
        panic!("{measured:?}");
    };
    assert!(outcome.cost.clock_read > Nanos::ZERO);
    outcome.accounting
}

#[test]
fn each_wait_accounts_for_every_period() {
    for wait in ["nanosleep", "timerfd", "signal"] {
        let accounting = measure(&[("wait", wait)], Nanos::from_millis(300));
        assert_eq!(accounting.expected, 300, "{wait}");
        assert_eq!(accounting.warm_up, 30, "{wait}");
        assert!(accounting.recorded > 0, "{wait}");
    }
}

#[test]
fn loops_include_warmup_like_duration() {
    let loops = measure(&[("loops", "200")], Nanos::from_secs(3_600));
    let duration = measure(&[], Nanos::from_millis(200));
    for accounting in [loops, duration] {
        assert_eq!(accounting.expected, 200);
        assert_eq!(accounting.warm_up, 20);
    }
}

#[test]
fn a_stop_ends_a_long_sleep() {
    let control = Arc::new(Control::new());
    testing::stop_after(&control, Duration::from_millis(10));
    let plan = plan(Nanos::from_secs(7_200));
    let (_, measured) = testing::measure(timer(&[("interval", "1h")]), &plan, &control);
    // The first period was either due immediately or not at all.
    assert!(measured.workers[0].accounting.expected <= 1);
}

#[test]
fn what_does_not_fit_is_refused() {
    let timer = timer(&[("interval", "2s")]);
    let error = testing::refusal(timer, &plan(Nanos::from_secs(1)));
    assert!(error.contains("interval of 2.00 s"), "{error}");
    for interval in ["0s", "19us", "2h"] {
        assert!(Arguments::check(PARAMETERS, [("interval", interval)]).is_err());
    }
    for (interval, phase) in [("1ms", "1ms"), ("1100ms", "1ms")] {
        let timer = self::timer(&[("interval", interval), ("start-phase", phase)]);
        let error = testing::refusal(timer, &plan(Nanos::from_secs(9)));
        assert!(error.contains("pass a phase below the interval"), "{error}");
    }
    let timer = self::timer(&[("start-phase", "1us"), ("full-second", "yes")]);
    let error = testing::refusal(timer, &plan(Nanos::from_secs(9)));
    assert!(error.contains("use only one"), "{error}");
}

/// The first thread starts at its phase, as soon as possible, and the others are spread after it.
#[test]
fn loop_starts_at_its_phase() {
    let begin = timer(&[("interval", "1ms"), ("start-phase", "300us")]).begin;
    let first = |start: u64, place: u64| begin.first(Nanos(start), place, 250_000).0;
    for start in [0, 299_999, 300_000, 300_001, 7_000_000, 123_456_789_012] {
        let found = first(start, 0);
        assert_eq!(found % 1_000_000, 300_000);
        assert!(found >= start && found - start < 1_000_000, "{start}");
        assert_eq!(first(start, 3), found + 750_000);
    }
    let free = timer(&[("interval", "1ms")]).begin;
    assert_eq!(free.first(Nanos(299_999), 1, 250_000), Nanos(549_999));
}

/// Returns the result of `turn` on a simulated clock. `wakes` contains the lateness of each
/// wake-up.
fn made_up(wakes: &[u64], warm_up: Nanos) -> (crate::WorkerOutcome, Vec<u64>) {
    const PERIOD: u64 = 1_000;
    let control = Arc::new(Control::new());
    let (mut recorder, _reader) = worker(warm_up, &control);
    recorder.count_overruns();
    recorder.start(Nanos::ZERO);
    let schedule = Schedule {
        first: Nanos::ZERO,
        interval: Nanos(PERIOD),
        end: Nanos(u64::MAX),
        clock: CLOCK,
        ahead: SignedNanos(0),
        wakeups: u64::MAX,
    };
    let mut due = Nanos::ZERO;
    let mut missed = Vec::new();
    for late in wakes {
        let now = due + Nanos(*late);
        recorder.sample(due, now.signed_sub(due));
        due += Nanos(PERIOD);
        if now >= due {
            let next = due + overrun(now, due, &schedule, &mut recorder);
            // Counts the periods one by one, following the definition.
            let passed = (due.0..next.0).step_by(PERIOD as usize);
            missed.extend(passed.filter(|at| *at >= warm_up.0).map(|at| now.0 - at));
            due = next;
        }
    }
    let outcome = recorder.finish(due.0 / PERIOD, SelfCost::default());
    (outcome, missed)
}

proptest::proptest! {
    #[test]
    fn missed_period_takes_lateness_of_wake_up(
        wakes in proptest::collection::vec(0_u64..200_000, 0..40),
        warm_up in 0_u64..100_000,
    ) {
        let (outcome, missed) = made_up(&wakes, Nanos(warm_up));
        proptest::prop_assert!(outcome.accounting.balances());
        proptest::prop_assert_eq!(outcome.accounting.missed, missed.len() as u64);
        let mut known = punctual_model::Histogram::new();
        for late in missed {
            known.record(SignedNanos(late as i64));
        }
        let counted = outcome.missed_histogram.map_or_else(Default::default, |late| *late);
        proptest::prop_assert_eq!(counted, known);
    }
}

#[test]
fn an_overrun_counts_each_period_that_passed() {
    let control = Arc::new(Control::new());
    let counted = |now: u64, due: u64, end: u64| {
        let (mut recorder, _reader) = worker(Nanos::ZERO, &control);
        recorder.start(Nanos::ZERO);
        let schedule = Schedule {
            first: Nanos::ZERO,
            interval: Nanos(10),
            end: Nanos(end),
            clock: CLOCK,
            ahead: SignedNanos(0),
            wakeups: u64::MAX,
        };
        let covered = overrun(Nanos(now), Nanos(due), &schedule, &mut recorder);
        let missed = recorder.finish(0, SelfCost::default()).accounting.missed;
        assert_eq!(covered.0, missed * 10);
        missed
    };
    assert_eq!(counted(100, 100, 1_000), 1);
    assert_eq!(counted(109, 100, 1_000), 1);
    assert_eq!(counted(110, 100, 1_000), 2);
    // The run ends at 115, so only the periods at 100 and 110 are part of it.
    assert_eq!(counted(500, 100, 115), 2);
    assert_eq!(counted(500, 100, 120), 2);
    // The next one is not part of the run at all.
    assert_eq!(counted(500, 120, 120), 0);
}

/// When one thread has completed its wake-ups, the others may still finish theirs within their
/// interval.
#[test]
fn equal_interval_threads_complete_their_wakeups() {
    let given = [
        ("threads", "3"),
        ("wakeups", "1"),
        ("interval", "10s"),
        ("aligned", "yes"),
        ("offset", "50ms"),
    ];
    let control = Arc::new(Control::new());
    let plan = Plan {
        duration: None,
        warm_up: Some(Nanos::ZERO),
        ..plan(Nanos::ZERO)
    };
    let (_, measured) = testing::measure(timer(&given), &plan, &control);
    let recorded: Vec<u64> = (measured.workers.iter())
        .map(|worker| worker.accounting.recorded)
        .collect();
    assert_eq!(recorded, [1, 1, 1]);
    assert!(control.stopping());
}
