//! Calls of another thread, up to their receipt, with delays on either side.

use insta::assert_snapshot;
use punctual_model::Delay;

use crate::stream::*;

/// The caller, on CPU 0.
fn poster() -> punctual_model::Task {
    task("post", 200, 5)
}

/// The victim is waiting on its idle CPU, and the other thread has been running on its own CPU for
/// a long time.
fn two(late: f64) -> Stream {
    Stream::late(late)
        .change(|window| window.delay = Delay::Call)
        .sleeping_beside(idle())
        .on(0, 0)
        .switch(-50.0, idle(), RUNNABLE, poster())
}

#[test]
fn the_call_itself_takes_its_time() {
    let stream = two(30.0)
        .waking_of(6.0, victim(), 1)
        .on(1, 0)
        .wakeup(8.0, 1)
        .switch(20.0, idle(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn a_thread_above_the_receiver() {
    let hog = task("hog", 61, 0);
    let stream = two(400.0)
        .on(1, 0)
        .switch(-100.0, idle(), RUNNABLE, hog)
        .on(0, 200)
        .waking_of(6.0, victim(), 1)
        .on(1, 61)
        .wakeup(8.0, 1)
        .switch(390.0, hog, SLEEPS, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn a_thread_above_the_caller() {
    let hog = task("hog", 61, 0);
    let stream = two(400.0)
        .switch(2.0, poster(), RUNNABLE, hog)
        .switch(350.0, hog, SLEEPS, poster())
        .waking_of(356.0, victim(), 1)
        .on(1, 0)
        .wakeup(358.0, 1)
        .switch(380.0, idle(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn interrupt_and_softirq_delay_callers_cpu() {
    let stream = two(200.0)
        .irq(2.0, 20.0, 24, "eth0")
        .softirq(21.0, 140.0, 3)
        .waking_of(150.0, victim(), 1)
        .on(1, 0)
        .wakeup(155.0, 1)
        .switch(170.0, idle(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

/// A message over loopback and its answer: the victim's own call delivers the message, the server's
/// call delivers the answer.
#[test]
fn a_message_and_its_answer() {
    let server = task("echo", 200, 120);
    let stream = Stream::late(120.0)
        .change(|window| window.delay = Delay::Call)
        .on(0, 0)
        .switch(-200.0, server, SLEEPS, idle())
        .switch(-90.0, victim(), SLEEPS, idle())
        .on(1, 0)
        .waking(-60.0)
        .switch(-50.0, idle(), RUNNABLE, victim())
        .event(8.0, punctual_model::EventKind::SoftirqEntry { vec: 3 })
        .waking_of(12.0, server, 0)
        .event(15.0, punctual_model::EventKind::SoftirqExit { vec: 3 })
        .switch(22.0, victim(), SLEEPS, idle())
        .on(0, 0)
        .switch(60.0, idle(), RUNNABLE, server)
        .event(80.0, punctual_model::EventKind::SoftirqEntry { vec: 3 })
        .waking_of(86.0, victim(), 1)
        .event(90.0, punctual_model::EventKind::SoftirqExit { vec: 3 })
        .on(1, 0)
        .wakeup(92.0, 1)
        .switch(105.0, idle(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

/// The softirq that delivers the answer follows an unrelated interrupt.
#[test]
fn an_answer_that_an_interrupt_delivers() {
    let server = task("echo", 200, 120);
    let stream = Stream::late(420.0)
        .change(|window| window.delay = Delay::Call)
        .on(0, 0)
        .switch(-200.0, server, SLEEPS, make())
        .on(1, 0)
        .switch(-50.0, idle(), RUNNABLE, victim())
        .waking_of(12.0, server, 0)
        .switch(22.0, victim(), SLEEPS, idle())
        .on(0, 0)
        .switch(350.0, make(), RUNNABLE, server)
        .timer_entry(380.0)
        .timer_exit(383.0)
        .event(383.5, punctual_model::EventKind::SoftirqEntry { vec: 3 })
        .waking_of(386.0, victim(), 1)
        .event(390.0, punctual_model::EventKind::SoftirqExit { vec: 3 })
        .on(1, 0)
        .wakeup(392.0, 1)
        .switch(405.0, idle(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

/// The answer comes from another machine, so nothing on this one caused the delay.
#[test]
fn an_answer_from_elsewhere() {
    let stream = Stream::late(500.0)
        .change(|window| window.delay = Delay::Call)
        .on(1, 0)
        .switch(-50.0, idle(), RUNNABLE, victim())
        .switch(20.0, victim(), SLEEPS, make())
        .irq(470.0, 473.0, 24, "eth0")
        .event(474.0, punctual_model::EventKind::SoftirqEntry { vec: 3 })
        .waking(480.0)
        .event(482.0, punctual_model::EventKind::SoftirqExit { vec: 3 })
        .switch(485.0, make(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}
