//! A lock, and who holds it.

use insta::assert_snapshot;
use punctual_model::{EventKind, KernelPriority};

use crate::stream::*;

fn waits_for(holder: punctual_model::Task) -> Stream {
    Stream::late(520.0)
        .sleeping_beside(idle())
        .timer(1.0)
        .switch(6.0, idle(), RUNNABLE, victim())
        .event(
            9.0,
            EventKind::PiSetprio {
                task: holder,
                newprio: KernelPriority(4),
            },
        )
        .switch(11.0, victim(), SLEEPS, holder)
}

#[test]
fn of_lower_priority_on_the_same_cpu() {
    let holder = task("holder", 50, 89);
    let boosted = task("holder", 50, 4);
    let stream = waits_for(holder)
        .event(
            400.0,
            EventKind::SysEnter {
                id: 1,
                args: [0; 2],
            },
        )
        .on(1, 50)
        .waking(500.0)
        .wakeup(500.5, 1)
        .switch(510.0, boosted, RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn an_interrupt_and_a_higher_thread_delay_the_holder() {
    let boosted = task("holder", 50, 4);
    let hog = task("hog", 61, 0);
    let stream = waits_for(task("holder", 50, 89))
        .irq(50.0, 120.0, 24, "eth0")
        .switch(150.0, boosted, RUNNABLE, hog)
        .switch(420.0, hog, SLEEPS, boosted)
        .waking(500.0)
        .wakeup(500.5, 1)
        .switch(510.0, boosted, RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn of_a_holder_that_runs_elsewhere() {
    let holder = task("holder", 50, 89);
    let stream = Stream::late(520.0)
        .sleeping_beside(idle())
        .on(0, 0)
        .switch(-20.0, task("swapper/0", 0, 120), RUNNABLE, holder)
        .on(1, 0)
        .timer(1.0)
        .switch(6.0, idle(), RUNNABLE, victim())
        .event(
            9.0,
            EventKind::PiSetprio {
                task: holder,
                newprio: KernelPriority(4),
            },
        )
        .switch(11.0, victim(), SLEEPS, idle())
        .on(0, 50)
        .waking(500.0)
        .on(1, 0)
        .wakeup(503.0, 1)
        .switch(510.0, idle(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}
