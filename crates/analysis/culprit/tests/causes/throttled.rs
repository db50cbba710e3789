//! The CPU quota of a control group.

use insta::assert_snapshot;
use punctual_model::{Delay, Nanos, ShareKind, Throttle};

use crate::stream::*;

fn outsider() -> punctual_model::Task {
    task("outsider", 61, 120)
}

fn rise(from_us: f64, to_us: f64, throttled_ms: u64) -> Throttle {
    Throttle {
        group: "/bench".to_owned(),
        from: at(from_us),
        to: at(to_us),
        periods: 1,
        throttled: Nanos::from_millis(throttled_ms),
    }
}

/// An ordinary thread that was woken in time but then had to wait for threads of equal rank.
fn ordinary(late: f64) -> Stream {
    let ordinary = task("victim", VICTIM, 120);
    Stream::late(late)
        .change(|window| {
            window.victim.scheduling = ORDINARY;
        })
        .switch(-300.0, ordinary, SLEEPS, outsider())
        .timer_entry(52.0)
        .waking_of(53.5, ordinary, 1)
        .timer_exit(55.0)
        .irq(20_000.0, 20_010.0, 24, "eth0")
        .switch(late - 10.0, outsider(), RUNNABLE, ordinary)
}

#[test]
fn the_time_fits() {
    let stream = ordinary(50_000.0)
        .change(|window| window.evidence.throttles = vec![rise(-5_000.0, 50_200.0, 55)]);
    assert_snapshot!(stream.summary());
}

#[test]
fn without_a_rise_others_took_it() {
    let stream = ordinary(50_000.0)
        .change(|window| window.evidence.throttles = vec![rise(-5_000.0, -4_000.0, 55)]);
    assert_snapshot!(stream.summary());
}

/// A throttle may explain a part of the wait, so both causes are named.
#[test]
fn the_time_does_not_decide() {
    let stream = ordinary(50_000.0)
        .change(|window| window.evidence.throttles = vec![rise(-5_000.0, 50_200.0, 9)]);
    assert_snapshot!(stream.summary());
}

/// A short wait is normal between threads of equal rank.
#[test]
fn a_short_wait_does_not_decide() {
    let stream = ordinary(3_000.0)
        .change(|window| window.evidence.throttles = vec![rise(-5_000.0, 3_200.0, 55)]);
    assert_snapshot!(stream.summary());
}

/// While a thread of the group runs, the group is not throttled on that CPU.
#[test]
fn running_rival_rules_out_group_throttling() {
    let stream = ordinary(50_000.0).change(|window| {
        window.evidence.throttles = vec![rise(-5_000.0, 50_200.0, 55)];
        window.evidence.in_group = vec![61];
    });
    assert_snapshot!(stream.summary());
}

/// Real-time threads are not subject to this quota.
#[test]
fn real_time_threads_are_exempt() {
    let hog = task("hog", 61, 4);
    let stream = Stream::late(50_000.0)
        .sleeping_beside(hog)
        .timer(2.0)
        .switch(49_990.0, hog, SLEEPS, victim())
        .change(|window| window.evidence.throttles = vec![rise(-5_000.0, 50_200.0, 55)]);
    assert_snapshot!(stream.summary());
}

/// An equal thread runs for this long in µs, and the counters of the group rose then.
fn taken(long: f64, rises: Vec<Throttle>) -> ShareKind {
    let ordinary = task("victim", VICTIM, 120);
    let stream = Stream::late(long)
        .change(|window| {
            window.delay = Delay::Taken;
            window.evidence.throttles = rises;
            window.victim.scheduling = ORDINARY;
        })
        .on(1, VICTIM)
        .switch(0.0, ordinary, RUNNABLE, outsider())
        .switch(long, outsider(), RUNNABLE, ordinary);
    let blame = punctual_culprit::find(&stream.window).blame;
    blame.largest().unwrap().kind()
}

/// The throttling of half of a wait of at least 5 ms explains it.
#[test]
fn throttling_decides_a_long_wait() {
    use ShareKind::{Competing, Throttled, Unexplained};
    let around = |ms: u64| vec![rise(-1_000.0, 9_000.0, ms)];
    assert_eq!(taken(5_000.0, around(3)), Throttled);
    assert_eq!(taken(4_999.999, around(3)), Unexplained);
    assert_eq!(taken(6_000.0, around(3)), Throttled);
    assert_eq!(taken(6_000.002, around(3)), Unexplained);
    // Two times add up.
    let two = || vec![rise(-1_000.0, 3_000.0, 2), rise(3_000.0, 9_000.0, 2)];
    assert_eq!(
        (taken(8_000.0, two()), taken(8_000.002, two())),
        (Throttled, Unexplained)
    );
    // The counters must have risen at the time of the wait.
    let during = |from: f64, to: f64| taken(8_000.0, vec![rise(from, to, 8)]);
    assert_eq!(
        (during(-9_000.0, 0.0), during(-9_000.0, -0.001)),
        (Throttled, Competing)
    );
    assert_eq!(
        (during(8_000.0, 9_000.0), during(8_000.001, 9_000.0)),
        (Throttled, Competing)
    );
}
