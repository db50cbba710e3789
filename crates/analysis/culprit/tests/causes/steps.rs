//! Delays during steps. A step lasts from one clock reading of a thread to the next.

use insta::assert_snapshot;
use punctual_model::{Delay, EventKind, KernelPriority};

use crate::stream::*;

/// The victim has been running on CPU 1 for a long time.
fn step(long: f64) -> Stream {
    Stream::late(long)
        .change(|window| window.delay = Delay::Step)
        .switch(-200.0, make(), RUNNABLE, victim())
}

#[test]
fn an_interrupt_in_it() {
    assert_snapshot!(step(60.0).irq(10.0, 55.0, 24, "eth0").summary());
}

/// A spinning thread, with a long span without events.
#[test]
fn a_cpu_that_was_taken_away() {
    assert_snapshot!(
        step(900.0)
            .on(1, VICTIM)
            .irq(880.0, 890.0, 24, "eth0")
            .summary()
    );
}

#[test]
fn a_page_fault_and_one_from_before() {
    let stream = step(300.0)
        .event(-50.0, fault(0x1000))
        .event(2.0, fault(0x2000));
    assert_snapshot!(stream.summary());
}

/// There is no event in the step itself, so the page was already mapped.
#[test]
fn a_page_fault_from_before_alone() {
    assert_snapshot!(step(8.0).event(-50.0, fault(0x1000)).summary());
}

#[test]
fn a_call_that_took_its_time() {
    assert_snapshot!(
        step(150.0)
            .event(
                -1.0,
                EventKind::SysEnter {
                    id: 1,
                    args: [0; 2]
                }
            )
            .summary()
    );
}

/// The waiter has the highest priority; the lock holder is preempted by the middle thread.
#[test]
fn middle_thread_delays_lock_holder() {
    let (middle, low) = (task("middle", 61, 5), task("low", 62, 6));
    let stream = step(2_200.0)
        .switch(5.0, victim(), SLEEPS, middle)
        .switch(2_005.0, middle, SLEEPS, low)
        .waking(2_150.0)
        .wakeup(2_151.0, 1)
        .switch(2_160.0, low, RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

/// With priority inheritance, the holder is known and runs above the middle thread.
#[test]
fn a_lock_whose_holder_inherits() {
    let (low, boosted) = (task("low", 62, 6), task("low", 62, 4));
    let lend = EventKind::PiSetprio {
        task: low,
        newprio: KernelPriority(4),
    };
    let give_up = EventKind::PiSetprio {
        task: boosted,
        newprio: KernelPriority(6),
    };
    let stream = step(140.0)
        .event(3.0, lend)
        .switch(5.0, victim(), SLEEPS, boosted)
        .event(109.0, give_up)
        .waking(110.0)
        .wakeup(111.0, 1)
        .switch(115.0, boosted, RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn preempted_in_it() {
    let hog = task("hog", 61, 0);
    let stream =
        step(500.0)
            .switch(10.0, victim(), RUNNABLE, hog)
            .switch(480.0, hog, SLEEPS, victim());
    assert_snapshot!(stream.summary());
}
