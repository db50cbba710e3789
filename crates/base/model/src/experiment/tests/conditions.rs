//! Tests of the conditions of a check-up.

use super::*;
use crate::LoopRequirement;
use crate::testing::week;

/// A condition of a check-up that measured this.
fn condition(change: impl FnOnce(&mut Condition)) -> Condition {
    let mut condition = Condition {
        name: "idle".to_owned(),
        loads: Vec::new(),
        measured_ns: Nanos::from_secs(60),
        periods: 60_000,
        late: 0,
        longest_series: None,
        late_seconds: Some(0),
        windows: None,
        episodes: None,
        dispersion: None,
        per_day_at_most: Some(72.0),
        per_day_at_least: Some(0.0),
        max_ns: None,
        p99_ns: None,
        real_time: true,
        outcome: Outcome::Held,
        lacking: Vec::new(),
        needs_ns: None,
        needs_likely_ns: None,
        tail: None,
        no_tail: None,
        jobs: None,
    };
    change(&mut condition);
    condition
}

fn asked(allowed: f64) -> LoopRequirement {
    let mut asked = week(allowed, |_| Some(0)).asked;
    asked.sample = None;
    asked
}

fn jobs() -> JobEvidence {
    JobEvidence {
        threads: Vec::new(),
        elapsed_ns: Nanos::from_secs(60),
        unknown: 0,
        possible_late_seconds: 0,
        by_observer: 0,
    }
}

#[test]
fn evidence_of_a_condition_says_what_was_counted() {
    let with_jobs = |change: fn(&mut JobEvidence)| {
        let mut jobs = jobs();
        change(&mut jobs);
        Some(jobs)
    };
    for (condition, text) in [
        (
            condition(|_| ()),
            "0 late seconds in 60.0 s, 0 of 60,000 periods late",
        ),
        (
            condition(|one| {
                (one.late, one.late_seconds, one.longest_series) = (60, Some(1), Some(2))
            }),
            "1 late second in 60.0 s, 60 of 60,000 periods late (0.1%), longest series 2",
        ),
        (
            condition(|one| (one.late, one.longest_series) = (3, Some(0))),
            "0 late seconds in 60.0 s, 3 of 60,000 periods late (0.0050%)",
        ),
        (
            condition(|one| (one.late, one.late_seconds, one.episodes) = (1, None, Some(1))),
            "1 episode in 60.0 s, 1 of 60,000 periods late (0.0017%)",
        ),
        (
            condition(|one| (one.late, one.periods) = (1, 0)),
            "0 late seconds in 60.0 s, 1 of 0 periods late",
        ),
        (
            condition(|one| one.jobs = with_jobs(|_| ())),
            "0 late seconds in 60.0 s with jobs, 0 of 60,000 jobs late",
        ),
        (
            condition(|one| one.jobs = with_jobs(|jobs| jobs.unknown = 1)),
            "0 late seconds in 60.0 s with jobs, 0 of 60,000 jobs late, response time unknown for 1 \
             job",
        ),
        (
            condition(|one| {
                one.late_seconds = Some(2);
                one.jobs = with_jobs(|jobs| jobs.possible_late_seconds = 3);
            }),
            "2 late seconds in 60.0 s with jobs, 0 of 60,000 jobs late, at most 3 late seconds",
        ),
        (
            condition(|one| {
                one.late_seconds = Some(2);
                one.jobs = with_jobs(|jobs| jobs.possible_late_seconds = 2);
            }),
            "2 late seconds in 60.0 s with jobs, 0 of 60,000 jobs late",
        ),
    ] {
        let claim = condition.claim(&asked(100.0), true);
        assert_eq!(claim.evidence, text);
    }
    let windows = condition(|one| {
        one.windows = Some(Windows {
            worst: 3,
            violated_seconds: 1,
            first_violated_ns: None,
        });
    });
    let mut asked = asked(100.0);
    asked.misses = "2/100".parse().ok();
    let claim = windows.claim(&asked, false);
    assert_eq!(
        claim.evidence,
        "1 violated second in 60.0 s, 0 of 60,000 periods late, at most 3 late in 100 consecutive \
         periods"
    );
    assert_eq!(
        claim.quantity,
        "violated seconds a day (over 100 µs, more than 2/100) without load"
    );
    assert!(!claim.decides);
}

#[test]
fn bound_of_a_condition_is_the_side_that_its_outcome_needs() {
    let held = condition(|_| ()).claim(&asked(100.0), true);
    assert_eq!(
        (held.bound.as_deref(), held.value),
        (Some("at most 72"), Some(72.0))
    );
    assert_eq!(
        held.quantity,
        "late seconds a day (periods over 100 µs) without load"
    );
    assert!(held.decides && held.lacking.is_empty());

    let broken = |at_least: f64| {
        let broken = condition(|one| {
            one.outcome = Outcome::Broken;
            one.loads = vec!["cpu".to_owned(), "disk".to_owned()];
            one.per_day_at_least = Some(at_least);
        });
        broken.claim(&asked(100.0), true)
    };
    let above = broken(100.5);
    assert!(
        above.bound.as_deref().unwrap().starts_with("at least 10"),
        "{above:?}"
    );
    assert_eq!(above.value, Some(100.5));
    assert_eq!(
        above.quantity,
        "late seconds a day (periods over 100 µs) under this load (cpu, disk)"
    );
    // A bound that the limit allows does not show that it is broken.
    let within = broken(100.0);
    assert_eq!((within.bound, within.value), (None, None));
    assert_eq!(
        within.measured.as_deref(),
        Some("more than allowed for a whole day")
    );
}

#[test]
fn unproven_condition_says_how_long_to_measure() {
    let open = |change: fn(&mut Condition)| {
        let open = condition(|one| {
            one.outcome = Outcome::NotProven;
            one.lacking = vec!["no real-time priority".to_owned()];
            change(one);
        });
        open.claim(&asked(10.0), true).lacking
    };
    assert_eq!(open(|_| ()), ["no real-time priority"]);
    let first = |change: fn(&mut Condition)| open(change)[0].clone();
    assert_eq!(
        first(|one| {
            one.needs_ns = Some(Nanos::from_secs(3_600));
            one.needs_likely_ns = Some(Nanos::from_secs(7_200));
        }),
        "to prove at most 10 a day, the shortest run that can prove it takes 60 min (without a late \
         period)"
    );
    assert_eq!(
        first(|one| {
            one.late_seconds = Some(1);
            one.needs_ns = Some(Nanos::from_secs(3_600));
            one.needs_likely_ns = Some(Nanos::from_secs(7_200));
        }),
        "to prove at most 10 a day, measure for 120 min (long enough in 80% of the runs of a machine \
         like this one); the shortest run that can prove it takes 60 min (without a late period)"
    );
    assert_eq!(
        first(|one| {
            one.jobs = Some(jobs());
            one.needs_ns = Some(Nanos::from_secs(3_600));
        }),
        "a machine that goes on like this has too many late seconds to prove at most 10 a day; the \
         shortest run that can prove it takes 60 min (without a late job)"
    );
}

#[test]
fn condition_that_did_not_run_says_why() {
    let failed = condition(|one| {
        one.outcome = Outcome::NotProven;
        one.measured_ns = Nanos::ZERO;
        one.lacking = vec!["no CPU is free".to_owned(), "no right".to_owned()];
    });
    let claim = failed.claim(&asked(10.0), true);
    assert_eq!(
        failed.sentence(&claim),
        "not proven: no CPU is free; no right"
    );
    let measured = condition(|one| one.lacking = vec!["no right".to_owned()]);
    let claim = measured.claim(&asked(100.0), true);
    assert_eq!(measured.sentence(&claim), claim.sentence());
    assert!(
        claim
            .sentence()
            .starts_with("held: at most 72 late seconds a day")
    );
}
