use super::*;
use crate::{
    Accounting, Completion, Histogram, OpenPeriods, Policy, Recording, Requirement, Scheduling,
    SignedNanos, Suspension, SuspensionKind, ThreadUsage, TopSample, testing,
};

pub(super) fn thread(latencies: &[i64], missed: u64) -> ThreadRecord {
    let mut histogram = Histogram::new();
    for latency in latencies {
        histogram.record(SignedNanos(*latency));
    }
    ThreadRecord {
        label: None,
        cpu: Some(1),
        from_cpu: None,
        scheduling: Scheduling {
            policy: Policy::Fifo,
            priority: 95,
        },
        accounting: Accounting {
            expected: histogram.recorded() + missed,
            recorded: histogram.recorded(),
            missed,
            ..Accounting::default()
        },
        histogram,
        missed_histogram: None,
        open: None,
        above: Vec::new(),
        windows: Vec::new(),
        usage: ThreadUsage::default(),
    }
}

/// Returns a thread that was on time for `punctual` periods of 1 ms. `late` wake-ups came 50 ms
/// late, and the periods during those waits were missed.
fn starved(punctual: u64, late: u64) -> ThreadRecord {
    let mut thread = thread(&[], 0);
    thread
        .histogram
        .record_run(Nanos(33_000), Nanos::ZERO, punctual);
    let mut missed = Histogram::new();
    for _ in 0..late {
        thread.histogram.record(SignedNanos(50_000_000));
        missed.record_run(Nanos(49_000_000), Nanos::from_millis(1), 50);
    }
    thread.accounting.recorded = punctual + late;
    thread.accounting.missed = 50 * late;
    thread.accounting.expected = punctual + 51 * late;
    thread.missed_histogram = Some(Box::new(missed));
    thread
}

pub(super) fn require(metric: &str, at_most: u64) -> Requirement {
    Requirement {
        limits: vec![Limit {
            metric: metric.parse().unwrap(),
            at_most,
        }],
        ..Requirement::default()
    }
}

pub(super) fn outcome(metric: &str, at_most: u64, threads: &[ThreadRecord]) -> Outcome {
    require(metric, at_most).judge(threads).outcome
}

#[test]
fn limit_is_held_up_to_value() {
    let threads = [thread(&[10, 20], 0), thread(&[15, 100_000], 0)];
    let verdict = require("max", 100_000).judge(&threads);
    assert_eq!(verdict.outcome, Outcome::Met);
    let verdict = require("max", 99_999).judge(&threads);
    assert_eq!(verdict.outcome, Outcome::Exceeded);
    assert_eq!(verdict.limits[0].thread, Some(1));
    assert_eq!(
        verdict.sentence,
        "requirement exceeded in this run: max is 100 µs on CPU 1, limit 99.999 µs"
    );
}

#[test]
fn what_was_not_measured_is_never_held() {
    let threads = [thread(&[10], 0), thread(&[], 0)];
    assert_eq!(outcome("max", 100, &threads), Outcome::NotDecidable);
    assert_eq!(outcome("max", 5, &threads), Outcome::Exceeded);
    assert_eq!(outcome("max", 5, &[]), Outcome::NotDecidable);
    assert_eq!(
        Requirement::default().judge(&threads).outcome,
        Outcome::NoRequirement
    );
}

#[test]
fn missed_periods_are_late_and_not_absent() {
    // 13 times 50 ms: 650 of 5,400 periods without a sample.
    let threads = [starved(4_737, 13)];
    let verdict = require("p99", 3_000_000).judge(&threads);
    assert_eq!(verdict.outcome, Outcome::Exceeded, "{}", verdict.sentence);
    assert!(
        verdict.sentence.contains("p99 of due periods is 46"),
        "{}",
        verdict.sentence
    );
    assert_eq!(verdict.limits[0].periods, Some(5_400));
    // The samples alone would meet the limit.
    let samples = threads[0].histogram.quantile(0.99).unwrap();
    assert!(samples < Nanos(34_000), "{samples}");
    assert_eq!(outcome("p50", 3_000_000, &threads), Outcome::Met);
    assert_eq!(outcome("missed", 650, &threads), Outcome::Met);
    assert_eq!(outcome("missed", 649, &threads), Outcome::Exceeded);
}

/// Returns a thread that was on time, except that one wait had been open for `open_ms` when the run
/// ended.
fn cut_off(open_ms: u64) -> ThreadRecord {
    let mut thread = starved(5_000, 0);
    thread.missed_histogram = None;
    thread.accounting.missed = open_ms;
    thread.accounting.expected += open_ms;
    thread.open = Some(OpenPeriods {
        periods: open_ms,
        late_ns: Nanos::from_millis(open_ms),
        period_ns: Nanos::from_millis(1),
    });
    thread
}

#[test]
fn unwoken_period_lateness_reaches_the_end() {
    let threads = [cut_off(200)];
    let verdict = require("max", 3_000_000).judge(&threads);
    assert_eq!(
        verdict.sentence,
        "requirement exceeded in this run: max is at least 200 ms on CPU 1, limit 3.00 ms"
    );
    // A limit above the known latencies is undecided.
    let verdict = require("max", 300_000_000).judge(&threads);
    assert_eq!(verdict.outcome, Outcome::NotDecidable);
    let why =
        "(200 missed periods without a wake-up at the end of the run, late by at least 200 ms)";
    assert!(verdict.sentence.contains(why), "{}", verdict.sentence);
    assert_eq!(outcome("p99", 3_000_000, &threads), Outcome::Exceeded);
    assert_eq!(outcome("p99", 300_000_000, &threads), Outcome::NotDecidable);
    // The open periods cannot affect the median.
    assert_eq!(outcome("p50", 3_000_000, &threads), Outcome::Met);
    let bound = Bound::new(Nanos::from_millis(200), Nanos::from_secs(5), 200, None);
    let mut recording = testing::recording(1, 5);
    recording.requirement = require("max", 3_000_000);
    recording.threads = threads.to_vec();
    recording.duration_ns = Nanos::from_millis(5_200);
    let found = recording.judge().bound.unwrap();
    assert_eq!(found.exceeded_ns, Nanos::from_millis(200));
    assert!(
        found.late_seconds_per_day.unwrap() > bound.unwrap().late_seconds_per_day.unwrap() / 2.0
    );
}

#[test]
fn open_periods_never_exceed_missed_periods() {
    let mut thread = cut_off(3);
    thread.open = thread.open.map(|open| OpenPeriods {
        periods: u64::MAX,
        ..open
    });
    assert_eq!(thread.due().open(), 3);
    assert_eq!(thread.due().periods(), 5_003);
    thread.accounting.missed = 0;
    assert_eq!(thread.due().open(), 0);
    let json = serde_json::to_string(&thread).unwrap();
    assert_eq!(serde_json::from_str::<ThreadRecord>(&json).unwrap(), thread);
}

#[test]
fn missed_periods_of_unknown_latency_prove_nothing() {
    let mut old = starved(4_737, 13);
    old.missed_histogram = None;
    let threads = [old];
    let verdict = require("p99", 3_000_000).judge(&threads);
    assert_eq!(verdict.outcome, Outcome::NotDecidable);
    assert!(
        verdict
            .sentence
            .contains("650 missed periods of unknown latency"),
        "{}",
        verdict.sentence
    );
    // The latency of the missed periods does not affect p50. A limit that the samples already
    // exceed is exceeded in any case.
    assert_eq!(outcome("p50", 40_000, &threads), Outcome::Met);
    assert_eq!(outcome("p50", 30_000, &threads), Outcome::Exceeded);
    assert_eq!(outcome("max", 60_000_000, &threads), Outcome::NotDecidable);
    assert_eq!(outcome("max", 40_000_000, &threads), Outcome::Exceeded);
}

#[test]
fn too_few_periods_prove_nothing() {
    let mut recording = testing::recording(1, 3);
    recording.requirement = require("p99.9999", 5_000_000);
    let verdict = recording.judge();
    assert_eq!(verdict.outcome, Outcome::NotDecidable);
    assert!(
        verdict
            .sentence
            .ends_with("(needs 10,000,000 due periods, 3,003 measured: measure for 2 h 47 min)"),
        "{}",
        verdict.sentence
    );
    // Ten of 3,003 periods are expected above p99.67, which is just enough.
    let mut latencies = vec![10; 3_002];
    latencies.push(2_400_000);
    let threads = [thread(&latencies, 0)];
    assert_eq!(outcome("p99.6", 5_000_000, &threads), Outcome::Met);
    assert_eq!(outcome("p99.7", 5_000_000, &threads), Outcome::NotDecidable);
    // One period above the percentile is too few for such a rare percentile.
    let limit = 2_300_000;
    assert_eq!(outcome("p99.9999", limit, &threads), Outcome::NotDecidable);
    assert_eq!(outcome("p99.9", limit, &threads), Outcome::NotDecidable);
}

#[test]
fn many_samples_above_break_the_limit() {
    let mut latencies = vec![10; 500];
    latencies.extend([1_000; 11]);
    assert_eq!(
        outcome("p99", 999, &[thread(&latencies, 0)]),
        Outcome::Exceeded
    );
    latencies.truncate(503);
    // As far as is known, they form one burst, and five are allowed.
    assert_eq!(
        outcome("p99", 999, &[thread(&latencies, 0)]),
        Outcome::NotDecidable
    );
    assert_eq!(outcome("p50", 999, &[thread(&latencies, 0)]), Outcome::Met);
}

#[test]
fn crossed_break_value_breaks_requirement() {
    let mut recording = testing::recording(2, 3);
    recording.requirement = Requirement::default();
    assert_eq!(recording.judge().outcome, Outcome::NoRequirement);
    let max = recording.all_latencies().max().unwrap();
    let mut with_break = |value: u64, completion| {
        let parameters = &mut recording.probe.parameters;
        parameters.insert("break_ns".to_owned(), value.into());
        recording.completion = completion;
        recording.judge()
    };
    let verdict = with_break(max.0 - 1, Completion::Break);
    assert_eq!(verdict.outcome, Outcome::Exceeded);
    let value = Nanos(max.0 - 1).exactly();
    assert_eq!(
        verdict.sentence,
        format!("requirement exceeded in this run: {max} on CPU 1 exceeds the break value {value}")
    );
    let verdict = with_break(9_000_000_000, Completion::Finished);
    assert_eq!(verdict.outcome, Outcome::Met);
    assert_eq!(
        verdict.sentence,
        "requirement met in this run: break value 9.00 s not exceeded"
    );
}

#[test]
fn uncounted_events_are_not_proven() {
    let mut recording = testing::recording(1, 1);
    let origin = crate::Origin {
        format: "cyclictest-hist".to_owned(),
        tool: "cyclictest".to_owned(),
        file: "-".to_owned(),
        unknown: [crate::Unknown::Missed].into(),
    };
    recording.origin = Some(origin);
    for metric in ["missed", "p50"] {
        recording.requirement = require(metric, 1_000_000);
        assert_eq!(recording.judge().outcome, Outcome::NotDecidable, "{metric}");
    }
    recording.requirement = require("max", 1_000_000);
    assert_eq!(recording.judge().outcome, Outcome::Met);
}

#[test]
fn clean_minute_proves_4314_daily_seconds() {
    let mut recording = testing::recording(1, 60);
    recording.threads[0].accounting.missed = 0;
    recording.threads[0].missed_histogram = None;
    let bound = recording.judge().bound.unwrap();
    assert_eq!(bound.measured_ns, Nanos::from_secs(60));
    let max = recording.all_latencies().max().unwrap();
    assert_eq!(
        bound.sentence(),
        format!(
            "at most 4,314 seconds a day have a latency above {max} (95%, if the rest of the day \
             is like these 60.0 s)"
        )
    );
    // Three days: one second per day. The longer the run, the lower the bound.
    let of = |hours: u64| Bound::new(max, Nanos::from_secs(3_600 * hours), 0, None).unwrap();
    assert!(of(72).sentence().contains("at most 1.0 seconds a day"));
    assert!(
        of(43_800)
            .sentence()
            .contains("at most 0.0017 seconds a day")
    );
    assert_eq!(Bound::new(max, Nanos::ZERO, 0, None), None);
    let short = Bound::new(max, Nanos::from_millis(999), 0, None).unwrap();
    assert_eq!(
        short.sentence(),
        "too short for a bound: 999 ms measured, but 3 s are needed"
    );
}

#[test]
fn threads_measuring_differently_are_not_summed() {
    let mut recording = testing::recording(2, 3);
    assert_eq!(recording.judge().bound.unwrap().thread, None);
    recording.probe.alike = false;
    let bound = recording.judge().bound.unwrap();
    assert_eq!(bound.thread.as_deref(), Some("CPU 1"));
    assert!(
        bound.sentence().contains(" on CPU 1 (95%,"),
        "{}",
        bound.sentence()
    );
}

#[test]
fn words_of_the_first_schema_are_read() {
    for (word, outcome) in [
        ("missed", Outcome::Broken),
        ("unknown", Outcome::NotProven),
        ("broken", Outcome::Broken),
        ("not_proven", Outcome::NotProven),
    ] {
        let read: Outcome = serde_json::from_value(word.into()).unwrap();
        assert_eq!(read, outcome);
    }
    assert_eq!(
        serde_json::to_value(Outcome::NotProven).unwrap(),
        "not_proven"
    );
}

/// Returns a run with two samples: one of 1 s while the user had stopped the process, and one of
/// 200 µs outside the stop.
fn stopped_for_a_second() -> Recording {
    let mut recording = testing::recording(1, 2);
    let at = |monotonic: u64, latency: u64| TopSample {
        time: recording.started,
        monotonic_ns: Nanos(monotonic),
        cpu: Some(1),
        thread: 0,
        latency_ns: Nanos(latency),
        blame: None,
    };
    let largest = vec![
        at(50_000_000_000, 1_000_000_000),
        at(60_000_000_000, 200_000),
    ];
    recording.suspensions = vec![Suspension {
        kind: SuspensionKind::StoppedBySignal,
        started: recording.started,
        from_monotonic_ns: Nanos(49_950_000_000),
        until_monotonic_ns: Nanos(51_000_010_000),
        length_ns: Nanos(1_050_010_000),
    }];
    let mut thread = thread(&[1_000_000_000, 200_000, 20], 999);
    let mut missed = Histogram::new();
    missed.record_run(Nanos(999_000_000), Nanos::from_millis(1), 999);
    thread.missed_histogram = Some(Box::new(missed));
    recording.threads = vec![thread];
    recording.top_samples = largest;
    recording
}

#[test]
fn user_stop_leaves_requirement_undecided() {
    let mut recording = stopped_for_a_second();
    let limits = [
        ("max", 500_000_000),
        ("max", 10_000_000_000),
        ("missed", 0),
        ("p50", 100),
    ];
    for (metric, at_most) in limits {
        recording.requirement = require(metric, at_most);
        let verdict = recording.judge();
        assert_eq!(verdict.outcome, Outcome::NotDecidable, "{metric} {at_most}");
        let sentence = verdict.sentence;
        let why = "(the process was stopped for about 1.05 s by SIGSTOP or Ctrl-Z; measure again";
        assert!(sentence.contains(why), "{sentence}");
    }
    recording.requirement = Requirement::default();
    assert_eq!(recording.judge().outcome, Outcome::NoRequirement);
}

#[test]
fn violation_beside_stop_stays_broken() {
    let mut recording = stopped_for_a_second();
    recording.requirement = require("max", 100_000);
    let verdict = recording.judge();
    assert_eq!(verdict.outcome, Outcome::Exceeded);
    // The result comes from the sample outside the stop.
    assert_eq!(verdict.limits[0].measured, Some(200_000));
    recording.suspensions.clear();
    assert_eq!(recording.judge().limits[0].measured, Some(1_000_000_000));
}

#[test]
fn break_value_crossed_by_stop_is_unproven() {
    let mut recording = stopped_for_a_second();
    recording.requirement = Requirement::default();
    recording.completion = Completion::Break;
    let parameters = &mut recording.probe.parameters;
    parameters.insert("break_ns".to_owned(), 500_000_000.into());
    let verdict = recording.judge();
    assert_eq!(
        verdict.outcome,
        Outcome::NotDecidable,
        "{}",
        verdict.sentence
    );
}
