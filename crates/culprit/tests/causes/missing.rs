//! What was not recorded, lost or never seen is not known, and said so.

use insta::assert_snapshot;

use crate::stream::*;

#[test]
fn no_event_at_all() {
    assert_snapshot!(Stream::late(100.0).told());
}

#[test]
fn softirqs_are_not_recorded() {
    let stream = Stream::late(143.0)
        .missing("irq:softirq_entry")
        .sleeping_beside(make())
        .timer(2.0)
        .switch(137.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.told());
}

#[test]
fn wake_ups_are_not_recorded() {
    let stream = Stream::late(143.0)
        .missing("sched:sched_waking")
        .missing("sched:sched_wakeup")
        .sleeping_beside(make())
        .timer_entry(2.0)
        .timer_exit(5.0)
        .switch(137.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.told());
}

#[test]
fn page_faults_are_not_recorded() {
    let stream = Stream::late(143.0)
        .missing("exceptions:page_fault_user")
        .sleeping_beside(make())
        .timer(2.0)
        .switch(8.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.told());
}

#[test]
fn switches_are_not_recorded() {
    let stream = Stream::late(143.0).missing("sched:sched_switch").timer(2.0);
    assert_snapshot!(stream.told());
}

#[test]
fn events_were_lost() {
    let stream = Stream::late(143.0)
        .change(|window| window.lost = 1_200)
        .sleeping_beside(make())
        .timer(2.0)
        .switch(137.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.told());
}

#[test]
fn clocks_are_far_apart() {
    let stream = Stream::late(20.0)
        .change(|window| window.clock_error = punctual_model::Nanos::from_micros(5))
        .sleeping_beside(make())
        .timer(2.0)
        .switch(12.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.told());
}

/// Only the wake-up is known; `sched_wakeup` takes the place of `sched_waking`.
#[test]
fn the_wake_up_alone_is_enough() {
    let stream = Stream::late(143.0)
        .missing("sched:sched_waking")
        .sleeping_beside(make())
        .timer_entry(2.0)
        .wakeup(3.0, 1)
        .timer_exit(5.0)
        .softirq(6.0, 127.0, 3)
        .switch(137.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.told());
}
