//! The CPU quota of a control group.

use insta::assert_snapshot;
use punctual_model::{Nanos, Policy, Scheduling, Throttle};

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
            window.victim.scheduling = Some(Scheduling {
                policy: Policy::Other,
                priority: 0,
            });
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
