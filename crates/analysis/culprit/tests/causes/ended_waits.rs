//! Waits of a job that were ended by a signal, a peer over loopback, or an unknown thread.

use punctual_model::{Blame, EventKind, ShareKind, Task, TraceEvent};

use crate::jobs::{READ, enter, exit, explained, job, low, share};
use crate::stream::*;

/// A signal ends a wait: the kernel wakes the thread and then writes the signal's event.
fn signalled(sig: u32, to: Task) -> EventKind {
    EventKind::SignalGenerate {
        sig,
        pid: to.pid,
        comm: to.comm,
    }
}

#[test]
fn signal_that_ends_wait_names_sender() {
    let sender = task("sender", 40, 120);
    let wait = |sig: Option<(f64, Task)>| {
        let mut stream = job(1_000.0)
            .event(300.0, enter(READ, [4, 0]))
            .switch(302.0, victim(), SLEEPS, idle())
            .on(0, 40)
            .switch(310.0, idle(), RUNNABLE, sender)
            .waking_of(900.0, victim(), 1);
        if let Some((us, to)) = sig {
            stream = stream.event(us, signalled(10, to));
        }
        stream
            .on(1, 0)
            .switch(905.0, idle(), RUNNABLE, victim())
            .event(906.0, exit(READ))
    };
    let found = explained(&wait(Some((901.0, victim()))));
    let waiting = |found: &Blame, who: &str| share(found, ShareKind::Waiting, who);
    assert_eq!(
        waiting(&found, "signal 10 of sender-40"),
        598.0,
        "{found:#?}"
    );
    // If there is no signal, or if the signal is for another thread or comes later, the wait ended
    // with an ordinary wake-up.
    let later = wait(None)
        .on(0, 40)
        .switch(907.0, sender, RUNNABLE, idle())
        .event(910.0, signalled(10, victim()));
    for stream in [wait(None), wait(Some((901.0, low()))), later] {
        let found = explained(&stream);
        assert_eq!(waiting(&found, "signal"), 0.0, "{found:#?}");
        assert_eq!(waiting(&found, "sender-40"), 598.0, "{found:#?}");
    }
}

/// A child that ends wakes its parent from vfork, and then sends it a signal.
#[test]
fn signal_does_not_end_an_uninterruptible_sleep() {
    let child = task("child", 40, 120);
    let wait = |state: u32, sig: u32| {
        let stream = job(1_000.0)
            .event(300.0, enter(READ, [4, 0]))
            .switch(302.0, victim(), state, idle())
            .on(0, 40)
            .switch(310.0, idle(), RUNNABLE, child)
            .waking_of(900.0, victim(), 1)
            .event(901.0, signalled(sig, victim()))
            .on(1, 0)
            .switch(905.0, idle(), RUNNABLE, victim())
            .event(906.0, exit(READ));
        let found = explained(&stream);
        share(
            &found,
            ShareKind::Waiting,
            &format!("signal {sig} of child-40"),
        )
    };
    const UNINTERRUPTIBLE: u32 = 2;
    assert_eq!(wait(UNINTERRUPTIBLE, 17), 0.0);
    assert_eq!(wait(SLEEPS, 17), 598.0);
    assert_eq!(wait(UNINTERRUPTIBLE, 9), 598.0);
}

/// The kernel traces a system call only after the filters of seccomp. The registers show it before.
#[test]
fn wait_before_the_call_is_traced_names_the_call() {
    let asleep = |kind: EventKind| {
        let stream = job(1_000.0)
            .event(300.0, kind)
            .switch(300.0, victim(), SLEEPS, low())
            .waking_of(900.0, victim(), 1)
            .switch(905.0, low(), RUNNABLE, victim());
        format!("{:?}", explained(&stream))
    };
    let (id, args) = (READ, [4, 0]);
    assert!(asleep(EventKind::SleepsIn { id, args }).contains("\"read\""));
    // A sleep in a page fault is in no call.
    let in_fault = asleep(EventKind::SleepsIn { id: -1, args });
    assert!(!in_fault.contains("WaitsIn"), "{in_fault}");
}

#[test]
fn signal_of_timer_is_not_own_timer() {
    let stream = job(1_000.0)
        .event(50.0, enter(READ, [4, 0]))
        .switch(52.0, victim(), SLEEPS, idle())
        .timer_entry(249.0)
        .waking(250.0)
        .event(251.0, signalled(14, victim()))
        .timer_exit(252.0)
        .switch(260.0, idle(), RUNNABLE, victim())
        .event(262.0, exit(READ));
    let found = explained(&stream);
    let slept = |who: &str| share(&found, ShareKind::OwnSleep, who);
    assert_eq!(slept("the timer of signal 14"), 198.0, "{found:#?}");
    assert_eq!(slept("its own timer"), 0.0);
}

/// A peer computes, and its call then delivers the data over loopback. An interrupt on the peer's
/// CPU that ended before is not that of a device that the thread waited for.
#[test]
fn loopback_peer_is_not_a_device() {
    let peer = task("peer", 40, 120);
    let answer = |interrupt: &dyn Fn(Stream) -> Stream| {
        let stream = job(1_000.0)
            .event(50.0, enter(READ, [4, 0]))
            .switch(52.0, victim(), SLEEPS, idle())
            .on(0, 0)
            .switch(60.0, idle(), RUNNABLE, peer)
            .on(0, 40);
        let stream = interrupt(stream)
            .on(0, 40)
            .event(896.0, EventKind::SoftirqEntry { vec: 3 })
            .flags(TraceEvent::SOFTIRQ)
            .waking_of(900.0, victim(), 1)
            .flags(0)
            .event(902.0, EventKind::SoftirqExit { vec: 3 })
            .on(1, 0)
            .switch(905.0, idle(), RUNNABLE, victim())
            .event(906.0, exit(READ));
        explained(&stream)
    };
    let tick = |stream: Stream| {
        let vector = || punctual_model::Vector::LocalTimer;
        stream
            .event(890.0, EventKind::VectorEntry { vector: vector() })
            .event(894.0, EventKind::VectorExit { vector: vector() })
    };
    for found in [
        answer(&|stream| stream),
        answer(&tick),
        answer(&|stream| stream.irq(700.0, 710.0, 24, "eth0")),
    ] {
        assert_eq!(share(&found, ShareKind::Device, ""), 0.0, "{found:#?}");
        assert!(share(&found, ShareKind::Waiting, "peer-40") > 820.0);
    }
    // The data come from a device. Its interrupt raises the softirq, possibly after the interrupt
    // of the timer.
    let from_device = |stream: Stream| stream.irq(890.0, 894.0, 24, "eth0");
    let after_timer = |stream: Stream| {
        from_device(stream)
            .event(894.5, EventKind::SoftirqEntry { vec: 1 })
            .event(895.0, EventKind::SoftirqExit { vec: 1 })
    };
    for found in [answer(&from_device), answer(&after_timer)] {
        assert!(
            share(&found, ShareKind::Device, "softirq NET_RX") > 820.0,
            "{found:#?}"
        );
    }
}

/// The switch to the peer is missing, so it is not known whether the peer waited or ran.
#[test]
fn missing_switch_is_no_idle_cpu() {
    let peer = task("peer", 40, 120);
    let stream = job(1_000.0)
        .event(50.0, enter(READ, [4, 0]))
        .on(0, 0)
        .switch(40.0, peer, SLEEPS, idle())
        .on(1, 20)
        .waking_of(51.0, peer, 0)
        .switch(52.0, victim(), SLEEPS, idle())
        .on(0, 40)
        .waking_of(900.0, victim(), 1)
        .on(1, 0)
        .switch(905.0, idle(), RUNNABLE, victim())
        .event(906.0, exit(READ));
    let found = explained(&stream);
    let unknown = share(
        &found,
        ShareKind::Waiting,
        "peer-40, whose activity is unknown",
    );
    assert_eq!(unknown, 848.0, "{found:#?}");
}
