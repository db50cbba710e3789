//! Limits that explain a finding, and the number of findings.

use punctual_model::Comm;

use super::*;

const REFILL: u64 = 0xa1;

fn task(pid: u32, prio: i16) -> Task {
    Task {
        pid,
        comm: Comm::new(b"t"),
        prio: KernelPriority(prio),
    }
}

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn facts(servers: Option<u64>, refills: bool) -> SchedulerFacts<'static> {
    SchedulerFacts {
        migrations: true,
        inheritance: true,
        refills,
        is_refill: &|function| function == REFILL,
        servers,
    }
}

/// A period of thread 5 with this priority, while `by` ran: begin and length.
#[derive(Clone, Copy)]
struct Broken {
    rule: SchedulerRule,
    prio: i16,
    by: Option<i16>,
}

impl Broken {
    fn findings(self, periods: &[(Nanos, Nanos)], calls: &[u64]) -> Findings {
        let mut findings = Findings::default();
        for period in periods {
            let key = Key::new(self.rule, 5, 1);
            let by = self.by.map(|prio| task(6, prio));
            findings.add(key, task(5, self.prio), by, *period, calls);
        }
        findings
    }

    /// Returns the limit and the possible ones of the only finding.
    fn limits(
        self,
        periods: &[(Nanos, Nanos)],
        facts: &SchedulerFacts<'_>,
    ) -> (Option<Limit>, Vec<Hold>) {
        let found = self.findings(periods, &[]).finish(facts);
        assert_eq!(found.len(), 1);
        (found[0].limit.clone(), found[0].possible.clone())
    }
}

const IDLE: Broken = Broken {
    rule: SchedulerRule::NoIdleWhileRunnable,
    prio: 120,
    by: None,
};

const PASSED: Broken = Broken {
    rule: SchedulerRule::HigherFirst,
    prio: 9,
    by: Some(120),
};

#[test]
fn periods_add_up() {
    let periods = [(ms(10), ms(2)), (ms(30), ms(5)), (ms(50), ms(1))];
    let found = IDLE.findings(&periods, &[]).finish(&facts(None, false));
    let [one] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((one.times, one.total_ns, one.longest_ns), (3, ms(8), ms(5)));
    assert_eq!((one.first_ns, one.cpu, one.thread.pid), (ms(10), 1, 5));
    assert_eq!(
        (one.rule, one.by),
        (SchedulerRule::NoIdleWhileRunnable, None)
    );
}

/// The scheduler may just be switching.
#[test]
fn short_periods_do_not_count() {
    let count = |rule, ns| {
        let broken = Broken { rule, ..PASSED };
        let found = broken.findings(&[(ms(1), Nanos(ns))], &[]);
        found.finish(&facts(None, false)).len()
    };
    for rule in [
        SchedulerRule::NoIdleWhileRunnable,
        SchedulerRule::HigherFirst,
    ] {
        assert_eq!(
            (count(rule, 99_999), count(rule, 100_000)),
            (0, 1),
            "{rule:?}"
        );
    }
    // These rules are about a moment.
    for rule in [SchedulerRule::InOrder, SchedulerRule::Inheritance] {
        assert_eq!(count(rule, 0), 1, "{rule:?}");
    }
}

#[test]
fn findings_need_the_events_that_support_them() {
    let count = |rule, migrations, inheritance| {
        let facts = SchedulerFacts {
            migrations,
            inheritance,
            ..facts(None, false)
        };
        let found = Broken { rule, ..PASSED }.findings(&[(ms(1), ms(1))], &[]);
        found.finish(&facts).len()
    };
    for rule in [
        SchedulerRule::NoIdleWhileRunnable,
        SchedulerRule::HigherFirst,
        SchedulerRule::InOrder,
    ] {
        assert_eq!(
            (count(rule, true, false), count(rule, false, true)),
            (1, 0),
            "{rule:?}"
        );
    }
    let rule = SchedulerRule::Inheritance;
    assert_eq!((count(rule, true, false), count(rule, false, true)), (0, 1));
}

#[test]
fn longest_ten_findings_are_shown() {
    let mut findings = Findings::default();
    for thread in 0..15 {
        let key = Key::new(SchedulerRule::HigherFirst, thread, 1);
        let length = ms(u64::from(thread) + 1);
        findings.add(key, task(thread, 9), None, (ms(1), length), &[]);
    }
    // Of equal lengths, the more frequent comes first.
    let key = Key::new(SchedulerRule::HigherFirst, 77, 1);
    for at in [1, 20, 30] {
        findings.add(key, task(77, 9), None, (ms(at), ms(5)), &[]);
    }
    let found = findings.finish(&facts(None, false));
    let threads: Vec<u32> = found.iter().map(|one| one.thread.pid).collect();
    assert_eq!(threads, [77, 14, 13, 12, 11, 10, 9, 8, 7, 6]);
}

#[test]
fn damaged_trace_has_no_endless_list() {
    let mut findings = Findings::default();
    for thread in 0..10_005 {
        let key = Key::new(SchedulerRule::InOrder, thread, 1);
        findings.add(key, task(thread, 9), None, (ms(1), ms(1)), &[]);
    }
    assert_eq!(findings.0.len(), 10_000);
    // Known ones are still counted.
    let key = Key::new(SchedulerRule::InOrder, 3, 1);
    findings.add(key, task(3, 9), None, (ms(1), ms(1)), &[]);
    assert_eq!(findings.0[&key].times, 2);
}

#[test]
fn rules_without_limits_blame_the_scheduler() {
    for rule in [SchedulerRule::InOrder, SchedulerRule::Inheritance] {
        for prio in [-1, 9] {
            let broken = Broken {
                rule,
                prio,
                ..PASSED
            };
            let found = broken.limits(&[(ms(1), ms(1))], &facts(Some(1), false));
            assert_eq!(found, (None, vec![Hold::Scheduler]));
        }
    }
}

#[test]
fn limit_depends_on_the_policy_of_the_thread() {
    let of = |broken: Broken, prio: i16| {
        let broken = Broken { prio, ..broken };
        broken.limits(&[(ms(1), ms(1))], &facts(Some(0), false))
    };
    let budget = (Some(Limit::DeadlineBudget), vec![]);
    assert_eq!((of(IDLE, -1), of(PASSED, -1)), (budget.clone(), budget));
    let throttled = (None, vec![Hold::RealTimeThrottling, Hold::Scheduler]);
    assert_eq!(
        (of(IDLE, 0), of(PASSED, 98)),
        (throttled.clone(), throttled)
    );
    assert_eq!(of(IDLE, 100), (None, vec![Hold::Quota, Hold::Scheduler]));
    assert_eq!(of(PASSED, 120), (None, vec![Hold::Scheduler]));
}

/// A deadline server lets ordinary threads run for 50 ms in each second, and a tick.
#[test]
fn deadline_server_explains_its_share() {
    let is_served = |periods: &[(Nanos, Nanos)], servers: u64| {
        let (limit, possible) = PASSED.limits(periods, &facts(Some(servers), false));
        let expected = if limit.is_some() {
            vec![]
        } else {
            vec![Hold::FairServer, Hold::Scheduler]
        };
        assert_eq!(possible, expected);
        limit == Some(Limit::FairServer)
    };
    assert!(is_served(&[(ms(0), ms(60))], 1) && !is_served(&[(ms(0), ms(61))], 1));
    assert!(is_served(&[(ms(0), ms(10))], 1) && !is_served(&[(ms(0), ms(9))], 1));
    // In each second, as often as there are servers.
    let twice = |at: u64| [(ms(0), ms(60)), (ms(at), ms(60))];
    assert!(!is_served(&twice(999), 1) && is_served(&twice(1_000), 1));
    assert!(is_served(&twice(500), 2) && !is_served(&[(ms(0), ms(61))], 2));
    let often = [(ms(0), ms(60)), (ms(100), ms(60)), (ms(200), ms(60))];
    assert!(!is_served(&often, 2));
    // It runs no real-time threads.
    let by_other = Broken {
        by: Some(50),
        ..PASSED
    };
    let real_time = by_other.limits(&[(ms(0), ms(50))], &facts(Some(1), false));
    assert_eq!(
        real_time,
        (None, vec![Hold::RealTimeThrottling, Hold::Scheduler])
    );
    let unknown = by_other.limits(&[(ms(0), ms(50))], &facts(None, false));
    assert_eq!(
        unknown,
        (None, vec![Hold::RealTimeThrottling, Hold::Scheduler])
    );
}

/// The quota was refilled in this many of the periods.
#[test]
fn quota_is_refilled_in_half_of_the_periods() {
    let limit = |periods: u64, refilled: u64, refills: bool| {
        let mut findings = Findings::default();
        for number in 0..periods {
            let key = Key::new(SchedulerRule::NoIdleWhileRunnable, 5, 1);
            let calls = if number < refilled {
                &[REFILL, 0xb1][..]
            } else {
                &[0xb1]
            };
            findings.add(key, task(5, 120), None, (ms(10 * number), ms(1)), calls);
        }
        let mut found = findings.finish(&facts(None, refills));
        let one = found.remove(0);
        (one.limit, one.possible, one.decided_by.is_some())
    };
    let quota = (Some(Limit::Quota(None)), vec![], false);
    assert_eq!(limit(10, 5, false), quota);
    assert_eq!(limit(10, 5, true), quota);
    assert_eq!(limit(1, 1, false), quota);
    let open = (None, vec![Hold::Quota, Hold::Scheduler], true);
    assert_eq!(limit(10, 4, false), open);
    assert_eq!(limit(1, 0, false), open);
    // All timers are recorded, and none refilled a quota.
    assert_eq!(limit(10, 4, true), (None, vec![Hold::Scheduler], false));
}
