//! A job that computes, or spins, while another thread of its process is preempted.

use punctual_culprit::{add_preempted, find, preempted_meanwhile};
use punctual_model::{Blame, Task};

use crate::jobs::{READ, enter, exit, job, low};
use crate::stream::*;

fn above() -> Task {
    task("above", 30, 39)
}

/// A job of 1 ms on CPU 0. On CPU 1, `low` is preempted from 50 to `until` µs.
fn spinning(until: f64) -> Stream {
    job(1_000.0)
        .on(1, 20)
        .switch(-40.0, idle(), RUNNABLE, low())
        .switch(50.0, low(), RUNNABLE, above())
        .switch(until, above(), SLEEPS, low())
        .on(0, victim().pid)
}

/// Returns the explanation, and the same one with the hint.
fn explained(stream: &Stream, siblings: &[u32]) -> (Blame, Blame) {
    let without = find(&stream.window).blame;
    let mut with = without.clone();
    if let Some(detail) = preempted_meanwhile(&stream.window, &|tid| siblings.contains(&tid)) {
        add_preempted(&mut with, detail);
    }
    (without, with)
}

#[test]
fn preempted_thread_of_process_is_hinted() {
    let (without, with) = explained(&spinning(900.0), &[20]);
    let sentence = with.sentence();
    let hint = "in user space (possibly waits for low-20, preempted on CPU 1)";
    assert!(sentence.contains(hint), "{sentence}");
    assert!(!without.sentence().contains("possibly"));
    // It is a hint: the shares stay as they are.
    let shares = |blame: &Blame| -> Vec<_> {
        let shares = blame.shares.iter();
        shares
            .map(|share| (share.cause.source.clone(), share.ns))
            .collect()
    };
    assert_eq!(shares(&with), shares(&without));
}

#[test]
fn unlikely_holders_are_not_hinted() {
    let in_call = spinning(900.0)
        .event(15.0, enter(READ, [3, 0]))
        .event(990.0, exit(READ));
    for (name, stream, siblings) in [
        ("another process", spinning(900.0), &[][..]),
        ("for a short time", spinning(300.0), &[20]),
        ("not before the end of the job", spinning(1_100.0), &[20]),
        ("in a system call", in_call, &[20]),
    ] {
        let (without, with) = explained(&stream, siblings);
        assert_eq!(with, without, "{name}");
    }
}

/// A thread that was preempted for less than half of the time is not the reason for it.
#[test]
fn hint_needs_half_of_the_time() {
    // The job computes from 12 µs on.
    let is_hinted = |stream: &Stream| {
        let (without, with) = explained(stream, &[20]);
        with != without
    };
    assert!(is_hinted(&spinning(544.0)) && !is_hinted(&spinning(543.999)));
    // The job computes for half of its time, or less.
    let in_call = |until: f64| {
        spinning(900.0)
            .event(15.0, enter(READ, [3, 0]))
            .event(until, exit(READ))
    };
    assert!(is_hinted(&in_call(503.0)) && !is_hinted(&in_call(503.001)));
}
