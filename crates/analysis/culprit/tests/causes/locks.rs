//! Locks and their holders.

use insta::assert_snapshot;
use punctual_model::{EventKind, KernelPriority, TraceEvent};

use crate::stream::*;

/// A holder releases the lock and returns to its own priority.
fn give_up(task: punctual_model::Task) -> EventKind {
    EventKind::PiSetprio {
        task,
        newprio: KernelPriority(89),
    }
}

fn lend(task: punctual_model::Task) -> EventKind {
    EventKind::PiSetprio {
        task,
        newprio: KernelPriority(4),
    }
}

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
        .event(499.0, give_up(boosted))
        .waking(500.0)
        .wakeup(500.5, 1)
        .switch(510.0, boosted, RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

#[test]
fn interrupt_and_higher_thread_delay_holder() {
    let boosted = task("holder", 50, 4);
    let hog = task("hog", 61, 0);
    let stream = waits_for(task("holder", 50, 89))
        .irq(50.0, 120.0, 24, "eth0")
        .switch(150.0, boosted, RUNNABLE, hog)
        .switch(420.0, hog, SLEEPS, boosted)
        .event(499.0, give_up(boosted))
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
        .event(499.0, give_up(task("holder", 50, 4)))
        .waking(500.0)
        .on(1, 0)
        .wakeup(503.0, 1)
        .switch(510.0, idle(), RUNNABLE, victim());
    assert_snapshot!(stream.summary());
}

/// With PREEMPT_RT, the victim waits for a spinlock and gets it when ksoftirqd releases it. Then it
/// sleeps until its timer expires. ksoftirqd also runs this timer, so the same thread wakes the
/// victim.
#[test]
fn held_spinlock_does_not_explain_sleep() {
    let ksoftirqd = task("ksoftirqd/1", 16, 120);
    let slept = |released: f64| {
        Stream::late(900.0)
            .sleeping_beside(idle())
            .timer(1.0)
            .switch(6.0, idle(), RUNNABLE, victim())
            .event(9.0, lend(ksoftirqd))
            .on(0, 16)
            .event(released, give_up(ksoftirqd))
            .on(1, VICTIM)
            .switch(30.0, victim(), SLEEPS, idle())
            .on(0, 16)
            .flags(TraceEvent::SOFTIRQ)
            .event(878.0, EventKind::SoftirqEntry { vec: 8 })
            .waking(880.0)
            .on(1, 0)
            .flags(0)
            .wakeup(883.0, 1)
            .switch(890.0, idle(), RUNNABLE, victim())
    };
    let summary = slept(20.0).summary();
    assert!(!summary.contains("lock"), "{summary}");
    // The lock was released during the sleep, so the sleep was for the lock.
    let summary = slept(879.0).summary();
    assert!(
        summary.contains("a lock held by ksoftirqd/1-16"),
        "{summary}"
    );
}

/// The timer wakes the victim, and an interrupt does not release a lock.
#[test]
fn of_a_lock_that_no_holder_released() {
    let stream = Stream::late(900.0)
        .sleeping_beside(idle())
        .timer(1.0)
        .switch(6.0, idle(), RUNNABLE, victim())
        .event(9.0, lend(task("ksoftirqd/1", 16, 120)))
        .switch(30.0, victim(), SLEEPS, idle())
        .timer(880.0)
        .switch(890.0, idle(), RUNNABLE, victim());
    let summary = stream.summary();
    assert!(!summary.contains("lock"), "{summary}");
}

/// The victim waits for a lock of `near`. Both `near` and `far` inherit the victim's priority, and
/// `near` is the holder. `gives`: whether `far` gives the priority up.
fn chain_of_two(gives: bool) -> String {
    let (near, far) = (task("near", 50, 89), task("far", 51, 100));
    let mut stream = Stream::late(520.0)
        .sleeping_beside(idle())
        .on(0, 50)
        .switch(-20.0, near, SLEEPS, far)
        .on(1, 0)
        .timer(1.0)
        .switch(6.0, idle(), RUNNABLE, victim())
        .event(9.0, lend(near))
        .event(9.5, lend(far))
        .switch(11.0, victim(), SLEEPS, idle())
        .on(0, 51);
    if gives {
        stream = stream.event(300.0, give_up(task("far", 51, 4)));
    }
    let stream = stream
        .switch(310.0, far, RUNNABLE, task("near", 50, 4))
        .event(499.0, give_up(task("near", 50, 4)))
        .waking(500.0)
        .on(1, 0)
        .wakeup(503.0, 1)
        .switch(510.0, idle(), RUNNABLE, victim());
    stream.summary()
}

#[test]
fn of_the_first_of_a_chain() {
    assert_snapshot!(chain_of_two(true));
}

/// A thread that never gives the priority up holds no lock that `near` waits for.
#[test]
fn thread_that_gives_nothing_up_is_not_the_next_holder() {
    let awaits = "a lock held by far-51";
    assert!(chain_of_two(true).contains(awaits));
    assert!(!chain_of_two(false).contains(awaits));
}
