//! Softirqs after an interrupt, in ksoftirqd, and, on PREEMPT_RT, as part of a thread.

use insta::assert_snapshot;
use punctual_model::EventKind;

use crate::stream::*;

#[test]
fn after_an_interrupt() {
    let stream = Stream::late(143.0)
        .sleeping_beside(make())
        .timer(2.0)
        .softirq(6.0, 127.0, 3)
        .switch(137.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn in_its_own_thread() {
    let ksoftirqd = task("ksoftirqd/1", 16, 120);
    let stream = Stream::late(143.0)
        .sleeping_beside(ksoftirqd)
        .event(-10.0, EventKind::SoftirqEntry { vec: 3 })
        .timer(2.0)
        .event(127.0, EventKind::SoftirqExit { vec: 3 })
        .switch(137.0, ksoftirqd, RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

/// With PREEMPT_RT, a softirq belongs to its thread and is switched out with it.
#[test]
fn one_that_was_preempted_takes_no_time() {
    let softirqd = task("irq/24-eth0", 60, 49);
    let hog = task("hog", 61, 1);
    let stream = Stream::late(100.0)
        .sleeping_beside(softirqd)
        .event(-10.0, EventKind::SoftirqEntry { vec: 3 })
        .switch(-5.0, softirqd, RUNNABLE, hog)
        .timer(2.0)
        .switch(80.0, hog, SLEEPS, softirqd)
        .switch(95.0, softirqd, RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

/// On PREEMPT_RT, the timer of an ordinary thread expires in a softirq.
#[test]
fn the_timer_expires_in_one() {
    let stream = Stream::late(120.0)
        .sleeping_beside(make())
        .timer_entry(1.0)
        .event(1.5, EventKind::SoftirqRaise { vec: 8 })
        .timer_exit(3.0)
        .event(90.0, EventKind::SoftirqEntry { vec: 8 })
        .waking(92.0)
        .wakeup(92.5, 1)
        .event(94.0, EventKind::SoftirqExit { vec: 8 })
        .switch(100.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}
