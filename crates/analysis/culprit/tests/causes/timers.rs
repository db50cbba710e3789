//! Jobs that a timer releases late, and sleeps in jobs.

use punctual_model::{Blame, Delay, EventKind, Nanos, ShareKind};

use crate::jobs::{READ, enter, exit, explained, low, share};
use crate::stream::*;

const NANOSLEEP: i64 = 230;

fn due(due: f64, latest: f64) -> EventKind {
    EventKind::TimerDue {
        pid: VICTIM,
        due: at(due),
        latest: at(latest),
    }
}

/// A job of 300 µs that was due at 0 µs. The timer could be late by `slack` µs, and wakes the thread at
/// 200 µs. The thread runs from 210 µs on.
fn late_timer(slack: f64, change: impl FnOnce(Stream) -> Stream) -> Blame {
    let asleep = Stream::late(300.0)
        .change(|window| {
            window.delay = Delay::Job;
            window.calls.insert(NANOSLEEP, "clock_nanosleep".to_owned());
        })
        .sleeping_beside(idle());
    let stream = change(asleep)
        .event(200.0, due(0.0, slack))
        .waking(200.0)
        .switch(210.0, idle(), RUNNABLE, victim())
        .event(212.0, exit(NANOSLEEP));
    explained(&stream)
}

#[test]
fn slack_of_timer_is_told_from_late_interrupt() {
    let found = late_timer(50.0, |stream| stream);
    assert_eq!(share(&found, ShareKind::TimerSlack, ""), 50.0, "{found:#?}");
    assert_eq!(share(&found, ShareKind::TimerLate, ""), 150.0, "{found:#?}");
    let sentence = late_timer(200.0, |stream| stream).sentence();
    assert!(
        sentence.contains("its timer slack of 200 µs delayed it by 200 µs"),
        "{sentence}"
    );
}

#[test]
fn timer_within_its_slack_is_not_late() {
    for slack in [200.0, 5_000.0] {
        let found = late_timer(slack, |stream| stream);
        assert_eq!(share(&found, ShareKind::TimerSlack, ""), 200.0);
        assert_eq!(share(&found, ShareKind::TimerLate, ""), 0.0, "{found:#?}");
    }
}

/// An interrupt handler delays the timer of its CPU. A softirq does not, because interrupts stay enabled.
#[test]
fn handler_on_the_cpu_of_the_timer_is_named() {
    let found = late_timer(0.0, |stream| {
        stream.irq(40.0, 130.0, 24, "eth0").softirq(140.0, 180.0, 3)
    });
    assert_eq!(share(&found, ShareKind::Interrupt, "eth0"), 90.0);
    assert_eq!(share(&found, ShareKind::Softirq, ""), 0.0, "{found:#?}");
    assert_eq!(share(&found, ShareKind::TimerLate, ""), 110.0);
}

#[test]
fn sleep_in_a_job_ends_when_its_timer_is_due() {
    let stream = crate::jobs::job(1_000.0)
        .event(50.0, enter(NANOSLEEP, [1, 0]))
        .switch(52.0, victim(), SLEEPS, idle())
        .event(400.0, due(300.0, 320.0))
        .waking(400.0)
        .switch(410.0, idle(), RUNNABLE, victim())
        .event(412.0, exit(NANOSLEEP));
    let found = explained(&stream);
    assert_eq!(share(&found, ShareKind::OwnSleep, ""), 248.0, "{found:#?}");
    assert_eq!(share(&found, ShareKind::TimerSlack, ""), 20.0);
    assert_eq!(share(&found, ShareKind::TimerLate, ""), 80.0);
}

/// The time of a timer counts for the wake-up that follows, and for no other thread.
#[test]
fn timer_of_another_wake_up_changes_nothing() {
    let job = || {
        crate::jobs::job(1_000.0)
            .event(50.0, enter(READ, [4, 0]))
            .switch(52.0, victim(), SLEEPS, low())
    };
    let end = |stream: Stream| {
        let stream = stream
            .waking_of(400.0, victim(), 1)
            .switch(405.0, low(), RUNNABLE, victim());
        explained(&stream)
    };
    let other = EventKind::TimerDue {
        pid: 999,
        due: at(100.0),
        latest: Nanos::ZERO,
    };
    assert_eq!(end(job().event(400.0, other)), end(job()));
}
