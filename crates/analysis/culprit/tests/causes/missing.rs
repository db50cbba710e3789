//! Events that were not recorded or were lost, so that the result states that the cause is unknown.

use insta::assert_snapshot;
use punctual_model::{EventKind, Nanos, NoiseSource};

use crate::stream::*;

#[test]
fn no_event_at_all() {
    assert_snapshot!(Stream::late(100.0).summary());
}

#[test]
fn softirqs_are_not_recorded() {
    let stream = Stream::late(143.0)
        .missing("irq:softirq_entry")
        .sleeping_beside(make())
        .timer(2.0)
        .switch(137.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
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
    assert_snapshot!(stream.summary());
}

#[test]
fn page_faults_are_not_recorded() {
    let stream = Stream::late(143.0)
        .missing("exceptions:page_fault_user")
        .sleeping_beside(make())
        .timer(2.0)
        .switch(8.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn switches_are_not_recorded() {
    let stream = Stream::late(143.0).missing("sched:sched_switch").timer(2.0);
    assert_snapshot!(stream.summary());
}

#[test]
fn events_were_lost() {
    let stream = Stream::late(143.0)
        .change(|window| window.lost = 1_200)
        .sleeping_beside(make())
        .timer(2.0)
        .switch(137.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn clocks_are_far_apart() {
    let stream = Stream::late(20.0)
        .change(|window| window.clock_error = punctual_model::Nanos::from_micros(5))
        .sleeping_beside(make())
        .timer(2.0)
        .switch(12.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

/// Some kernels lose the events of a CPU's idle thread.
#[test]
fn switch_from_idle_may_be_missing() {
    let stream = Stream::late(60.0).sleeping_beside(idle()).timer(2.0);
    assert_snapshot!(stream.summary());
}

/// An event of the thread shows that it is running.
#[test]
fn event_of_thread_proves_running() {
    let stream = Stream::late(60.0)
        .sleeping_beside(idle())
        .timer(2.0)
        .on(1, VICTIM)
        .event(48.0, EventKind::SysExit { id: 230, ret: 0 });
    assert_snapshot!(stream.summary());
}

/// Only osnoise records interrupts and softirqs: it writes one event at the end, with the net
/// duration.
#[test]
fn handlers_are_told_of_by_osnoise_alone() {
    let noise = |source, ns: u64| EventKind::Noise {
        source,
        // A time on the CPU's own clock.
        start: Nanos(7),
        duration: Nanos(ns),
    };
    let irq = NoiseSource::Irq {
        vector: 24,
        desc: "eth0".into(),
    };
    let stream = Stream::late(143.0)
        .missing("irq:irq_handler_entry")
        .missing("irq_vectors:*_entry")
        .missing("irq:softirq_entry")
        .sleeping_beside(make())
        .waking(44.0)
        .event(45.0, noise(irq, 40_000))
        .event(120.0, noise(NoiseSource::Softirq { vector: 3 }, 60_000))
        .switch(137.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

/// Only `sched_wakeup` is recorded; it replaces `sched_waking`.
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
    assert_snapshot!(stream.summary());
}
