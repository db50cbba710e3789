use super::*;
use crate::{
    Explanation, IntervalRow, ReleaseWait, Requirement, SignedNanos, ThreadRecord, testing,
};

const BUDGET: Nanos = Nanos::from_millis(1);

fn asked(per_day: f64, period: Nanos) -> LoopRequirement {
    LoopRequirement {
        period_ns: period,
        budget_ns: BUDGET,
        jobs: true,
        max_late_seconds_per_day: Some(per_day),
        misses: None,
        max_misses_per_day: None,
        sample: None,
    }
}

fn any(per_day: f64) -> LoopRequirement {
    asked(per_day, Nanos::ZERO)
}

fn row(thread: u32, second: u64, count: u64, max: Nanos) -> IntervalRow {
    IntervalRow {
        thread,
        start_ns: Nanos::from_secs(second),
        count,
        early: 0,
        missed: 0,
        min_ns: Some(Nanos(1_000)),
        max_ns: Some(max),
        sum_ns: Nanos(0),
        histogram: Default::default(),
    }
}

/// A run of one thread with a job of 100 µs in each millisecond.
fn steady(seconds: u64) -> Recording {
    let mut recording = testing::recording(1, 2);
    recording.load.clear();
    recording.requirement = Requirement::default();
    recording.suspensions.clear();
    recording.duration_ns = Nanos::from_secs(seconds);
    recording.series.interval_ns = Nanos::from_secs(1);
    recording.series.rows = (0..seconds)
        .map(|second| row(0, second, 1_000, Nanos(100_000)))
        .collect();
    let thread = &mut recording.threads[0];
    thread.label = Some("motion-7".to_owned());
    recording.explanation = Some(Explanation {
        jobs: Some(Jobs {
            budget_ns: BUDGET,
            threads: vec![ThreadJobs {
                jobs: seconds * 1_000,
                release: Some(ReleaseWait {
                    period_ns: Some(Nanos::from_millis(1)),
                    ..ReleaseWait::default()
                }),
                ..ThreadJobs::default()
            }],
            ..Jobs::default()
        }),
        ..Explanation::default()
    });
    recording
}

fn thread(recording: &mut Recording) -> &mut ThreadJobs {
    let jobs = recording.explanation.as_mut().unwrap().jobs.as_mut();
    &mut jobs.unwrap().threads[0]
}

fn make_late(recording: &mut Recording, seconds: impl IntoIterator<Item = usize>) {
    for second in seconds {
        recording.series.rows[second].max_ns = Some(Nanos(1_000_001));
        thread(recording).over_budget += 1;
    }
}

/// A minute without a late job proves at most 4,314 late seconds a day, as for a loop.
#[test]
fn clean_minute_bounds_late_seconds_of_jobs() {
    let minute = steady(60);
    let condition = Condition::of_jobs(&minute, &any(4_314.0));
    assert_eq!(condition.outcome, Outcome::Held, "{condition:?}");
    assert_eq!((condition.periods, condition.late), (60_000, 0));
    let bound = condition.per_day_at_most.unwrap();
    assert!((bound - 4_313.85).abs() < 0.1, "{bound}");
    let strict = Condition::of_jobs(&minute, &any(10.0));
    assert_eq!(strict.outcome, Outcome::NotProven);
    assert!(strict.needs_ns.is_some());
    let never = Condition::of_jobs(&minute, &any(0.0));
    assert_eq!(never.lacking, [Condition::NEVER]);
    let claim = condition.claim(&any(4_314.0), true);
    assert!(
        claim.sentence().contains("jobs over 1.00 ms")
            && claim
                .evidence
                .starts_with("0 late seconds in 60.0 s with jobs, 0 of 60,000 jobs"),
        "{}",
        claim.sentence()
    );
}

#[test]
fn late_jobs_break_the_limit() {
    let mut recording = steady(60);
    make_late(&mut recording, (3..60).step_by(6));
    let condition = Condition::of_jobs(&recording, &any(1_000.0));
    assert_eq!(condition.outcome, Outcome::Broken, "{condition:?}");
    assert_eq!((condition.late, condition.late_seconds), (10, Some(10)));
}

/// An application that is idle most of the time proves less than one that always has jobs.
#[test]
fn seconds_without_jobs_are_no_evidence() {
    let mut recording = steady(600);
    recording
        .series
        .rows
        .retain(|row| row.start_ns.0 % 10_000_000_000 == 0);
    let condition = Condition::of_jobs(&recording, &any(4_314.0));
    assert_eq!(condition.measured_ns, Nanos::from_secs(60));
    assert_eq!(
        condition.jobs.as_ref().unwrap().elapsed_ns,
        Nanos::from_secs(600)
    );
    let bound = condition.per_day_at_most.unwrap();
    assert!((bound - 4_313.85).abs() < 0.1, "{bound}");
    recording.series.rows.truncate(5);
    let few = Condition::of_jobs(&recording, &any(80_000.0));
    assert_eq!(few.outcome, Outcome::NotProven);
    assert!(
        few.lacking[0].contains("5.00 s with jobs measured"),
        "{few:?}"
    );
}

#[test]
fn unknown_jobs_count_as_late_in_the_bound() {
    let bound = |unknown: u64, open: Nanos| {
        let mut recording = steady(60);
        thread(&mut recording).incomplete = unknown;
        thread(&mut recording).open_ns = open;
        Condition::of_jobs(&recording, &any(10.0))
    };
    let clean = bound(0, Nanos::ZERO).per_day_at_most;
    // The job in progress at the end was not late yet.
    assert_eq!(bound(1, Nanos(500_000)).per_day_at_most, clean);
    let three = bound(3, Nanos::ZERO);
    assert!(three.per_day_at_most > clean, "{three:?}");
    assert_eq!(three.late_seconds, Some(0));
    assert_eq!(three.jobs.unwrap().possible_late_seconds, 3);
    let all = bound(1_000_000, Nanos::ZERO);
    assert_eq!(all.per_day_at_most, Some(86_400.0));
}

/// A thread that hangs at the end of the run is late, although its job never ended.
#[test]
fn hanging_job_is_late() {
    let mut recording = steady(60);
    recording.series.rows.truncate(50);
    thread(&mut recording).incomplete = 1;
    thread(&mut recording).open_ns = Nanos::from_secs(10);
    let condition = Condition::of_jobs(&recording, &any(5.0));
    assert_eq!(condition.outcome, Outcome::Broken, "{condition:?}");
    assert_eq!(condition.late, 1);
    assert!(condition.late_seconds >= Some(10), "{condition:?}");
}

#[test]
fn gaps_in_the_evidence_are_never_held() {
    let lacks = |change: fn(&mut Recording), why: &str| {
        let mut recording = steady(60);
        change(&mut recording);
        let condition = Condition::of_jobs(&recording, &any(80_000.0));
        assert_eq!(condition.outcome, Outcome::NotProven, "{why}");
        assert!(condition.lacking.join("; ").contains(why), "{condition:?}");
    };
    lacks(
        |one| one.explanation.as_mut().unwrap().events_lost = 7,
        "7 trace events were lost",
    );
    lacks(
        |one| thread(one).not_counted_ns = Nanos::from_secs(2),
        "were not counted for 2.00 s",
    );
    lacks(
        |one| thread(one).busy_ns = Nanos::from_secs(2),
        "pass --detail full",
    );
    lacks(
        |one| thread(one).longest_stop_ns = Nanos::from_secs(2),
        "was stopped for 2.00 s",
    );
    lacks(|one| thread(one).jobs = 0, "no job of the application");
    lacks(|one| one.explanation = None, "were not recorded");
    lacks(
        |one| one.series.interval_ns = Nanos::from_secs(5),
        "do not show single seconds",
    );
    lacks(
        |one| {
            let more = ThreadJobs {
                thread: 1,
                waits: 4,
                ..ThreadJobs::default()
            };
            let jobs = one.explanation.as_mut().unwrap().jobs.as_mut().unwrap();
            jobs.threads.push(more);
        },
        "the jobs of 1 thread are unknown",
    );
}

/// Between windows, several jobs of a busy server look like a single one.
#[test]
fn merged_jobs_break_nothing() {
    let broken = |period: Option<Nanos>, windows: bool| {
        let mut recording = steady(60);
        make_late(&mut recording, 0..60);
        let thread = thread(&mut recording);
        thread.released_at_once = 5;
        thread.release.as_mut().unwrap().period_ns = period;
        let jobs = recording.explanation.as_mut().unwrap().jobs.as_mut();
        jobs.unwrap().windows = windows.then(Default::default);
        Condition::of_jobs(&recording, &any(10.0)).outcome
    };
    assert_eq!(broken(None, true), Outcome::NotProven);
    assert_eq!(broken(None, false), Outcome::Broken);
    // A periodic job that runs into the next period is late anyway.
    assert_eq!(broken(Some(BUDGET), true), Outcome::Broken);
}

/// A job that was released at once was due up to one job earlier.
#[test]
fn jobs_released_at_once_may_be_longer() {
    let possible = |max: u64| {
        let mut recording = steady(60);
        thread(&mut recording).released_at_once = 1;
        recording.series.rows[7].max_ns = Some(Nanos(max));
        let condition = Condition::of_jobs(&recording, &any(10.0));
        condition.jobs.unwrap().possible_late_seconds
    };
    assert_eq!(possible(500_000), 0);
    assert_eq!(possible(500_001), 1);
}

#[test]
fn required_period_selects_threads_and_finds_missing_jobs() {
    let mut recording = steady(60);
    let other = ThreadRecord {
        label: Some("motion-8".to_owned()),
        ..recording.threads[0].clone()
    };
    recording.threads.push(other);
    let mut slow = thread(&mut recording).clone();
    slow.thread = 1;
    slow.release.as_mut().unwrap().period_ns = Some(Nanos::from_millis(100));
    let jobs = recording.explanation.as_mut().unwrap().jobs.as_mut();
    jobs.unwrap().threads.push(slow);
    let rows = (0..60).map(|second| row(1, second, 10, Nanos::from_millis(50)));
    recording.series.rows.extend(rows);
    // All threads are judged.
    assert_eq!(
        Condition::of_jobs(&recording, &any(10.0)).outcome,
        Outcome::Broken
    );
    let periodic = asked(4_400.0, BUDGET);
    let condition = Condition::of_jobs(&recording, &periodic);
    assert_eq!(condition.outcome, Outcome::Held, "{condition:?}");
    assert_eq!(condition.jobs.unwrap().threads, ["motion-7"]);
    // Two jobs of a second are missing.
    recording.series.rows[9].count = 998;
    let missing = Condition::of_jobs(&recording, &periodic);
    assert_eq!(missing.outcome, Outcome::NotProven, "{missing:?}");
    assert_eq!(missing.jobs.unwrap().possible_late_seconds, 1);
    // A whole second without a job.
    recording.series.rows.remove(9);
    let missing = Condition::of_jobs(&recording, &periodic);
    assert_eq!(missing.jobs.unwrap().possible_late_seconds, 1);
    let nothing = Condition::of_jobs(&recording, &asked(10.0, Nanos::from_secs(3)));
    assert!(
        nothing.lacking[0]
            .contains("no thread was released every 3.00 s: motion-7 (every 1.00 ms)"),
        "{nothing:?}"
    );
}

/// The histogram of the run and the evidence of the condition describe the same threads.
#[test]
fn figures_are_those_of_the_judged_threads() {
    let mut recording = steady(20);
    recording.threads[0].histogram = crate::Histogram::new();
    for ns in [80_000, 90_000] {
        recording.threads[0].histogram.record(SignedNanos(ns));
    }
    let condition = Condition::of_jobs(&recording, &any(10.0));
    assert_eq!(condition.max_ns, Some(Nanos(90_000)));
}

/// A recording of jobs has its verdict by itself, except for the runs of a sampled series, which are
/// judged together.
#[test]
fn recording_of_jobs_judges_itself() {
    let mut recording = steady(60);
    recording.requirement.periodic = Some(any(4_314.0));
    let held = recording.judge();
    assert_eq!(held.outcome, Outcome::Held, "{}", held.sentence);
    assert!(
        held.sentence.contains("jobs over 1.00 ms"),
        "{}",
        held.sentence
    );
    make_late(&mut recording, (3..60).step_by(6));
    recording.requirement.periodic = Some(any(1_000.0));
    let broken = recording.judge();
    assert_eq!(broken.outcome, Outcome::Broken, "{}", broken.sentence);
    recording.explanation = None;
    assert_eq!(recording.judge().outcome, Outcome::NotProven);
    let mut sampled = steady(60);
    let sample = crate::Sampling::new(60, Nanos::from_secs(60), Nanos::from_secs(604_800));
    sampled.requirement.periodic = Some(LoopRequirement {
        sample,
        ..any(10.0)
    });
    assert_eq!(sampled.judge().outcome, Outcome::NoRequirement);
}

#[test]
fn sampled_run_counts_late_seconds_of_jobs() {
    let sample = crate::Sampling::new(60, Nanos::from_secs(60), Nanos::from_secs(604_800));
    let asked = LoopRequirement {
        sample,
        ..any(10.0)
    };
    let mut run = steady(60);
    make_late(&mut run, [3, 9]);
    let late = LateRun::of(&run, &asked).unwrap();
    assert_eq!((late.at_least, late.late, late.periods), (2, 2, 60_000));
    // The application was idle for half of the time. Its seconds are not late.
    run.series.rows.truncate(30);
    let late = LateRun::of(&run, &asked).unwrap();
    assert_eq!((late.at_least, late.measured_ns), (2, Nanos::from_secs(60)));
    let why = |change: fn(&mut Recording)| {
        let mut run = steady(60);
        change(&mut run);
        LateRun::of(&run, &asked).unwrap_err()
    };
    type Change = fn(&mut Recording);
    let cases: [(Change, &str); 4] = [
        (|run| run.completion = Completion::Stopped, "stopped"),
        (|run| run.explanation = None, "were not recorded"),
        (|run| thread(run).jobs = 0, "no job of the application"),
        (
            |run| run.duration_ns = Nanos::from_secs(40),
            "only 40.0 s of 60.0 s",
        ),
    ];
    for (change, words) in cases {
        let why = why(change);
        assert!(why.contains(words), "{words}: {why}");
    }
}

/// At most two late jobs in any 2,000: two of a second are tolerated, three in two seconds are not.
#[test]
fn windows_of_jobs_are_limited() {
    let of = |late: &[usize], change: fn(&mut Recording)| {
        let mut recording = steady(60);
        make_late(&mut recording, late.iter().copied());
        change(&mut recording);
        let asked = LoopRequirement {
            misses: "1/2000".parse().ok(),
            ..any(4_314.0)
        };
        let condition = Condition::of_jobs(&recording, &asked);
        let claim = condition.claim(&asked, true);
        (condition, claim)
    };
    let (held, claim) = of(&[3, 9, 20], |_| ());
    assert_eq!(held.outcome, Outcome::Held, "{held:?}");
    assert_eq!(
        (held.late_seconds, held.counted()),
        (Some(3), (0, "violated seconds"))
    );
    assert!(
        claim
            .evidence
            .contains("at most 1 late in 2,000 consecutive jobs"),
        "{}",
        claim.evidence
    );
    let (violated, _) = of(&[3, 4, 20], |_| ());
    assert_eq!(violated.outcome, Outcome::NotProven);
    let windows = violated.windows.unwrap();
    assert_eq!((windows.worst, windows.violated_seconds), (2, 1));
    assert_eq!(windows.first_violated_ns, Some(Nanos::from_secs(4)));
    // It is unknown how far apart these are.
    let (open, _) = of(&[3, 5], |_| ());
    assert_eq!(open.counted().0, 0);
    // The late job of the row may have been released in the next second.
    assert_eq!(open.jobs.unwrap().possible_late_seconds, 2);
    // The jobs of several threads prove no violated window, but may contain one.
    let (later, _) = of(&[3, 30], |one| {
        one.threads[0].label = Some(ThreadRecord::LATER.to_owned());
    });
    assert_eq!(later.counted().0, 0);
    assert_eq!(later.jobs.unwrap().possible_late_seconds, 2);
    // A thread that hangs is never held.
    let (hangs, _) = of(&[], |one| thread(one).open_ns = Nanos::from_secs(3));
    assert_eq!(hangs.outcome, Outcome::NotProven);
    assert!(
        hangs.lacking[0].contains("in progress for 3.00 s"),
        "{hangs:?}"
    );
}

/// Runs of jobs in bursts, of a number that changes: at most 5% of the claims may be wrong.
#[test]
fn bursts_of_jobs_make_few_wrong_claims() {
    const RUNS: u64 = 100;
    const SECONDS: u64 = 600;
    let mut random = fastrand::Rng::with_seed(11);
    let mut run = |seconds: u64| -> Vec<[u64; 2]> {
        let mut bad = false;
        (0..seconds)
            .map(|_| {
                bad = if bad {
                    random.u64(..3) > 0
                } else {
                    random.u64(..60) == 0
                };
                let jobs = random.u64(20..200);
                let chance = if bad { 3 } else { 4_000 };
                let late = (0..jobs)
                    .filter(|_| random.u64(..100 * chance) < 100)
                    .count();
                [jobs, late as u64]
            })
            .collect()
    };
    let asked = |per_day: f64| LoopRequirement {
        misses: "5/50".parse().ok(),
        ..any(per_day)
    };
    let judged = |run: &[[u64; 2]], per_day: f64| {
        let mut recording = steady(run.len() as u64);
        for (row, [jobs, late]) in recording.series.rows.iter_mut().zip(run) {
            row.count = *jobs;
            if *late > 0 {
                let mut histogram = crate::Histogram::new();
                (0..*late).for_each(|_| histogram.record(SignedNanos(2_000_000)));
                row.max_ns = Some(Nanos(2_000_000));
                row.histogram = histogram.buckets();
            }
        }
        Condition::of_jobs(&recording, &asked(per_day))
    };
    let long = judged(&run(100 * SECONDS), 10.0);
    let a_day = 86_400.0 / (100 * SECONDS) as f64;
    let least = long.windows.unwrap().violated_seconds as f64 * a_day;
    let most = long.jobs.unwrap().possible_late_seconds as f64 * a_day;
    assert!(least > 1_000.0, "{least} to {most}");
    let runs: Vec<_> = (0..RUNS).map(|_| run(SECONDS)).collect();
    let wrong = |limit: f64, claim: Outcome| {
        let claims = runs
            .iter()
            .filter(|run| judged(run, limit).outcome == claim);
        claims.count()
    };
    // The true rate is between both.
    assert!(wrong(least / 1.1, Outcome::Held) <= 8);
    assert!(wrong(most * 1.1, Outcome::Broken) <= 8);
    assert!(wrong(most * 5.0, Outcome::Held) > 50);
    assert!(wrong(1.0, Outcome::Broken) > 50);
}

/// A look is taken at what is known by then, and the end of the run has to confirm it.
#[test]
fn looks_at_jobs_are_confirmed_at_the_end() {
    let asked = any(400.0);
    let looked = |recording: &Recording| {
        let mut looks = Looks::new(400.0);
        let decided = looks.look_at_jobs(recording, &asked);
        (decided, looks)
    };
    let clean = steady(3_600);
    let (decided, looks) = looked(&clean);
    assert!(decided);
    let held = Condition::of_jobs_looked_at(&clean, &asked, Some(looks));
    assert_eq!(held.outcome, Outcome::Held, "{held:?}");
    // Jobs of unknown response time are known at the end only.
    let mut unknown = clean.clone();
    thread(&mut unknown).incomplete = 500;
    let open = Condition::of_jobs_looked_at(&unknown, &asked, Some(looks));
    assert_eq!(open.outcome, Outcome::NotProven, "{open:?}");
    // A run that cannot be held goes on.
    let mut busy = clean;
    thread(&mut busy).busy_ns = Nanos::from_secs(2);
    assert!(!looked(&busy).0);
    let mut late = steady(60);
    make_late(&mut late, 0..60);
    let (decided, looks) = looked(&late);
    assert!(decided);
    let broken = Condition::of_jobs_looked_at(&late, &asked, Some(looks));
    assert_eq!(broken.outcome, Outcome::Broken, "{broken:?}");
}
