//! Priorities that threads inherit, lose, and have when they leave a queue.

use punctual_model::EventKind;

use super::tests::{Trace, fair, fifo, idle, task};

/// The end of an inherited priority shows the thread's own one, which it then loses.
#[test]
fn policy_is_followed_after_an_inheritance() {
    let (own, boosted, demoted) = (fifo(5, 60), fifo(5, 90), task("fifo", 5, 120));
    let trace = Trace::default()
        .sleeps(100, 1, idle(), own)
        .inherits(200, own, 9)
        .preempted(300, 1, boosted, fifo(9, 95))
        .sleeps(400, 1, fifo(9, 95), boosted)
        .inherits(500, boosted, 39)
        .sleeps(600, 1, demoted, fair(6));
    let (findings, changes) = trace.finish(&|_| ());
    assert_eq!(findings, []);
    let to: Vec<(u32, i16)> = (changes.iter())
        .map(|change| (change.thread.pid, change.to.0))
        .collect();
    assert_eq!(to, [(5, 120)]);
}

/// The clocks of two CPUs may show two changes in the wrong order.
#[test]
fn changes_of_priority_shortly_after_each_other_are_unknown() {
    let count = |second: u64| {
        let trace = Trace::default()
            .sleeps(100, 1, idle(), fifo(5, 60))
            .inherits(200, fifo(5, 60), 39)
            .inherits(second, fifo(5, 60), 9)
            // It leaves the CPU with its own priority.
            .preempted(400, 1, fifo(5, 60), fifo(9, 95));
        trace.findings().len()
    };
    assert_eq!((count(249), count(250)), (0, 1));
}

/// A thread that leaves its CPU just after it has inherited a priority may not have it yet.
#[test]
fn inherited_priority_takes_a_moment() {
    let count = |leaves: u64| {
        let trace = Trace::default()
            .sleeps(100, 1, idle(), fair(6))
            .inherits(200, fair(6), 39)
            .preempted(leaves, 1, fair(6), fifo(9, 70));
        trace.findings().len()
    };
    assert_eq!((count(249), count(250)), (0, 1));
}

/// A thread that writes an event runs, so it does not wait.
#[test]
fn event_of_a_waiting_thread_leaves_the_queue_unknown() {
    let count = |writes: bool| {
        let mut trace = Trace::default()
            .sleeps(100, 1, fifo(5, 80), fair(6))
            .wakeup(500, fifo(5, 80), 1)
            .preempted(1_000, 1, fair(6), fair(7));
        if writes {
            trace = trace.event(1_200, 1, 5, EventKind::SoftirqRaise { vec: 1 });
        }
        let trace = trace.preempted(1_900, 1, fair(7), fifo(5, 80));
        trace.findings().len()
    };
    assert_eq!((count(false), count(true)), (1, 0));
}

/// A thread that ends waits for nothing.
#[test]
fn thread_that_ends_keeps_the_rules() {
    let kind = EventKind::ProcessExit { task: fifo(5, 80) };
    let trace = Trace::default()
        .sleeps(100, 1, fifo(5, 80), fair(6))
        .wakeup(500, fifo(5, 80), 1)
        .event(600, 7, 33, kind)
        .preempted(1_000, 1, fair(6), fair(7))
        .preempted(1_900, 1, fair(7), fifo(5, 80));
    trace.keeps_the_rules();
}
