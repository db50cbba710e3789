//! Reasons why a runnable thread does not run, by its policy and the limits of the machine.

use super::*;
use crate::testing::{task, window};
use punctual_model::{Nanos, Throttle};

const DEADLINE: KernelPriority = KernelPriority(-1);
const FIFO: KernelPriority = KernelPriority(4);
const ORDINARY: KernelPriority = KernelPriority(120);

fn limited_by(limit: Option<RealTimeLimit>) -> Window {
    let mut window = window(0, 100, Vec::new());
    window.evidence.real_time_limit = limit;
    window.evidence.quotas_known = true;
    window
}

/// The limit that held the thread, or the possible reasons.
fn held(window: &Window, own: Option<KernelPriority>, queued: bool) -> Result<Limit, Vec<Hold>> {
    let cause = not_run(window, 1, own, queued);
    match (cause.source, cause.detail) {
        (Source::Throttled(limit), Some(Detail::Meanwhile(None))) => Ok(limit),
        (Source::NotRun(1), Some(Detail::HeldBy { possible, .. })) => Err(possible),
        other => panic!("{other:?}"),
    }
}

#[test]
fn idle_cpu_beside_a_queued_thread_shows_the_limit() {
    use Hold::{PendingWakeup, RealTimeThrottling, Scheduler, Theft};
    use RealTimeLimit::{FairServer, FairServerOrThrottling, Throttling};
    // The limit of the machine, the result for a queued thread, and the reasons for another one.
    let cases = [
        (Some(Throttling), Ok(Limit::RealTime), true),
        (Some(FairServerOrThrottling), Ok(Limit::RealTime), true),
        // The deadline server runs ordinary threads. It leaves no CPU idle.
        (Some(FairServer), Err(vec![Scheduler]), false),
        (Some(RealTimeLimit::None), Err(vec![Scheduler]), false),
        (None, Err(vec![RealTimeThrottling, Scheduler]), true),
    ];
    for (limit, queued, may_throttle) in cases {
        let window = limited_by(limit);
        assert_eq!(held(&window, Some(FIFO), true), queued, "{limit:?}");
        let mut possible = vec![RealTimeThrottling, PendingWakeup, Theft, Scheduler];
        possible.retain(|hold| may_throttle || *hold != RealTimeThrottling);
        assert_eq!(held(&window, Some(FIFO), false), Err(possible), "{limit:?}");
        // The budget of SCHED_DEADLINE is always known.
        assert_eq!(
            held(&window, Some(DEADLINE), true),
            Ok(Limit::DeadlineBudget)
        );
        assert!(held(&window, Some(DEADLINE), false).is_err());
        // Nothing limits ordinary threads but a quota, which the evidence rules out.
        assert_eq!(held(&window, Some(ORDINARY), true), Err(vec![Scheduler]));
        let possible = vec![PendingWakeup, Theft, Scheduler];
        assert_eq!(held(&window, Some(ORDINARY), false), Err(possible));
    }
}

fn with_counters(mut window: Window) -> Window {
    window.evidence.throttles = vec![Throttle {
        group: "/bench".to_owned(),
        from: Nanos(1),
        to: Nanos(2),
        periods: 1,
        throttled: Nanos(1),
    }];
    window
}

#[test]
fn quota_is_possible_unless_the_evidence_rules_it_out() {
    let known = || limited_by(None);
    let unknown = || {
        let mut window = known();
        window.evidence.quotas_known = false;
        window
    };
    let missing = |mut window: Window| {
        window.missing_events.push(HRTIMER_EXPIRE.to_owned());
        window
    };
    // The window, whether a quota is possible, and whether an event would have shown it.
    let cases = [
        (known(), false, false),
        (missing(known()), false, false),
        (unknown(), true, false),
        (missing(unknown()), true, true),
        // Counters decide.
        (with_counters(known()), true, false),
        (missing(with_counters(unknown())), true, false),
    ];
    for (number, (window, is_possible, is_open)) in cases.into_iter().enumerate() {
        // A thread of unknown priority may be an ordinary one.
        for own in [Some(ORDINARY), None] {
            let cause = not_run(&window, 1, own, true);
            let Some(Detail::HeldBy {
                possible,
                decided_by,
                ..
            }) = cause.detail
            else {
                panic!("{number}");
            };
            assert_eq!(possible.contains(&Hold::Quota), is_possible, "{number}");
            let event = is_open.then(|| Text::from(HRTIMER_EXPIRE));
            assert_eq!(decided_by, event, "{number}");
        }
        let event = undecided_by(&window);
        assert_eq!(event.is_some(), is_open, "{number}");
        // Real-time threads have no quota.
        let cause = not_run(&window, 1, Some(FIFO), true);
        let Some(Detail::HeldBy {
            possible,
            decided_by: None,
            ..
        }) = cause.detail
        else {
            panic!("{number}");
        };
        assert!(!possible.contains(&Hold::Quota), "{number}");
    }
}

#[test]
fn sched_ext_schedules_ordinary_threads_only() {
    let mut window = limited_by(None);
    window.evidence.sched_ext = Some("lavd".into());
    for (own, is_named) in [(ORDINARY, true), (FIFO, false), (DEADLINE, false)] {
        let cause = not_run(&window, 1, Some(own), false);
        let Some(Detail::HeldBy { sched_ext, .. }) = cause.detail else {
            panic!("{own:?}");
        };
        assert_eq!(sched_ext, is_named.then(|| "lavd".into()), "{own:?}");
    }
}

#[test]
fn thread_of_lower_rank_that_runs_shows_the_limit() {
    use RealTimeLimit::{FairServer, FairServerOrThrottling, Throttling};
    let unknown = || Source::Unexplained(Unknown::PassedOver);
    let limit = Source::Throttled;
    // The limit of the machine, and the cause if an ordinary thread or another real-time one ran.
    let cases = [
        (
            Some(Throttling),
            limit(Limit::RealTime),
            limit(Limit::RealTime),
        ),
        (Some(FairServer), limit(Limit::FairServer), unknown()),
        (
            Some(FairServerOrThrottling),
            unknown(),
            limit(Limit::RealTime),
        ),
        (Some(RealTimeLimit::None), unknown(), unknown()),
        (None, unknown(), unknown()),
    ];
    for (machine, by_ordinary, by_real_time) in cases {
        let window = limited_by(machine);
        for (prio, expected) in [(120, by_ordinary), (50, by_real_time)] {
            let ran = task("other", 7, prio);
            let cause = passed_over(&window, FIFO, &ran);
            assert_eq!(cause.source, expected, "{machine:?}");
            let Some(Detail::Meanwhile(Some(rival))) = cause.detail else {
                panic!("{machine:?}");
            };
            assert_eq!(rival.task, ran);
            let cause = passed_over(&window, DEADLINE, &ran);
            assert_eq!(cause.source, limit(Limit::DeadlineBudget));
        }
    }
}
