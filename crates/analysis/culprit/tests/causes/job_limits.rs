//! Causes of a job's waits, at the limits between two causes.

use punctual_culprit::{find, keep_concerned, thread_activity};
use punctual_model::cause::{Leaf, Source};
use punctual_model::{EventKind, KernelPriority, Nanos, ShareKind, Task, TraceEvent};

use crate::jobs::{READ, enter, exit, explained, job, share};
use crate::stream::*;

/// Returns the kind of the cause at a time.
fn kind_at(stream: &Stream, us: f64) -> ShareKind {
    let found = find(&stream.window);
    let mut segments = found.segments.iter();
    let segment = segments.find(|one| (one.from..one.to).contains(&at(us)));
    segment.expect("a segment").cause.kind()
}

/// The thread sleeps, and another CPU wakes it at 100 µs. Its idle CPU runs it this much later.
#[test]
fn idle_cpu_that_does_not_run_the_job_is_an_idle_exit_at_first() {
    let waits = |long: f64| {
        let stream = job(5_000.0)
            .event(20.0, enter(READ, [5, 0]))
            .switch(30.0, victim(), SLEEPS, idle())
            .on(0, 33)
            .waking_of(100.0, victim(), 1)
            .on(1, 0)
            .switch(100.0 + long, idle(), RUNNABLE, victim());
        kind_at(&stream, 150.0)
    };
    assert_eq!(waits(1_000.0), ShareKind::IdleExit);
    assert_eq!(waits(1_000.001), ShareKind::NotRun);
}

#[test]
fn thread_that_runs_instead_has_a_role() {
    let instead = |own: i16, other: i16| {
        let own = task("victim", VICTIM, own);
        let hog = task("hog", 61, other);
        let stream = job(1_000.0)
            .switch(100.0, own, RUNNABLE, hog)
            .switch(900.0, hog, SLEEPS, own);
        kind_at(&stream, 500.0)
    };
    assert_eq!(instead(4, 3), ShareKind::HigherPriority);
    assert_eq!(instead(4, -1), ShareKind::HigherPriority);
    assert_eq!(instead(4, 4), ShareKind::Competing);
    assert_eq!(instead(4, 5), ShareKind::Blocking);
    assert_eq!(instead(4, 120), ShareKind::Blocking);
    // Ordinary threads share the CPU.
    assert_eq!(instead(120, 139), ShareKind::Competing);
    assert_eq!(instead(120, 100), ShareKind::Competing);
    assert_eq!(instead(120, 4), ShareKind::HigherPriority);
    assert_eq!(instead(4, i16::MAX), ShareKind::Unranked);
}

#[test]
fn job_of_a_thread_that_ends_is_unexplained() {
    let stream = job(1_000.0).switch(400.0, victim(), 0x20, idle());
    let found = explained(&stream);
    let unknown = share(&found, ShareKind::Unexplained, "");
    assert_eq!(unknown, 600.0, "{found:#?}");
}

/// A debugger stops the thread.
#[test]
fn traced_thread_is_stopped() {
    let stream = job(1_000.0)
        .switch(400.0, victim(), 8, idle())
        .on(0, 33)
        .waking_of(700.0, victim(), 1)
        .on(1, 0)
        .switch(710.0, idle(), RUNNABLE, victim());
    let found = explained(&stream);
    assert_eq!(
        share(&found, ShareKind::Stopped, "a signal or a debugger"),
        300.0
    );
}

/// The thread waits in a read for a thread that waits for its own CPU, which is idle or not.
#[test]
fn awaited_thread_waits_for_its_own_cpu() {
    let leaf = |rival: Task| {
        let peer = task("peer", 40, 120);
        let stream = job(1_000.0)
            .event(50.0, enter(READ, [4, 0]))
            .on(0, 40)
            .switch(40.0, peer, SLEEPS, rival)
            .on(1, VICTIM)
            .waking_of(51.0, peer, 0)
            .switch(52.0, victim(), SLEEPS, idle())
            .on(0, rival.pid)
            .switch(600.0, rival, RUNNABLE, peer)
            .waking_of(900.0, victim(), 1)
            .on(1, 0)
            .switch(905.0, idle(), RUNNABLE, victim())
            .event(906.0, exit(READ));
        let shares = explained(&stream).shares.into_iter();
        let leaves = shares.filter_map(|share| match share.cause.source {
            Source::Awaited(awaited) => Some((awaited.leaf, share.ns)),
            _ => None,
        });
        leaves.collect::<Vec<(Leaf, Nanos)>>()
    };
    let us = Nanos::from_micros;
    let waited = us(548);
    let idle = leaf(task("swapper/0", 0, 120));
    assert_eq!(idle, [(Leaf::NotScheduled, waited), (Leaf::Ran, us(300))]);
    let hog = task("hog", 61, 9);
    let by = punctual_model::cause::Name::from(&hog);
    let prio = KernelPriority(9);
    let preempted = leaf(hog);
    assert_eq!(
        preempted,
        [(Leaf::Preempted { by, prio }, waited), (Leaf::Ran, us(300))]
    );
}

/// The stacks of the eight longest sleeps are kept with a slow job.
#[test]
fn stacks_of_the_longest_sleeps_are_kept() {
    let mut stream = job(20_000.0);
    for number in 0..10 {
        let from = 1_000.0 + 1_500.0 * f64::from(number);
        let frames = vec![0xb0 + number as u64];
        stream = stream
            .on(1, VICTIM)
            .switch(from, victim(), SLEEPS, idle())
            .on(1, VICTIM)
            .event(from + 0.5, EventKind::KernelStack { frames })
            .on(0, 33)
            .waking_of(from + 100.0 * f64::from(10 - number), victim(), 1)
            .on(1, 0)
            .switch(from + 1_100.0, idle(), RUNNABLE, victim());
    }
    let found = explained(&stream);
    let mut window = stream.window;
    keep_concerned(&mut window);
    let stacks = window.events.iter().filter_map(|event| match &event.kind {
        EventKind::KernelStack { frames } => Some(frames[0] - 0xb0),
        _ => None,
    });
    // The first sleep is the longest.
    assert_eq!(stacks.collect::<Vec<u64>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(find(&window).blame, found);
}

/// The job's own thread comes first, then the others by their run time.
#[test]
fn activity_is_that_of_the_threads_that_ran_longest() {
    let mut stream = job(40_000.0);
    for number in 0..15_u32 {
        let hog = task("hog", 60 + number, 0);
        let from = 100.0 + 2_000.0 * f64::from(number);
        stream = stream.switch(from, victim(), RUNNABLE, hog).switch(
            from + 100.0 + 10.0 * f64::from(number),
            hog,
            SLEEPS,
            victim(),
        );
    }
    let mut found = thread_activity(&stream.window).into_iter();
    assert_eq!(found.next().unwrap().task.pid, VICTIM);
    let others: Vec<u32> = found.map(|thread| thread.task.pid).collect();
    let expected: Vec<u32> = (64..75).rev().collect();
    assert_eq!(others, expected);
    // Other delays are not of jobs.
    let mut window = stream.window;
    window.delay = punctual_model::Delay::Wakeup;
    assert_eq!(thread_activity(&window), []);
}

/// A wake-up by an interrupt shows the device, so its events are kept.
#[test]
fn events_of_the_waking_interrupt_are_kept() {
    let stream = |flags: u8, pid: u32| {
        job(1_000.0)
            .event(50.0, enter(READ, [3, 0]))
            .switch(60.0, victim(), SLEEPS, idle())
            .on(3, pid)
            .irq(690.0, 695.0, 37, "other")
            .flags(flags)
            .waking_of(706.0, victim(), 1)
            .flags(0)
            .on(1, 0)
            .switch(800.0, idle(), RUNNABLE, victim())
            .event(802.0, exit(READ))
    };
    let kept = |flags, pid| {
        let mut window = stream(flags, pid).window;
        keep_concerned(&mut window);
        let of_irq = |event: &&TraceEvent| matches!(event.kind, EventKind::IrqEntry { .. });
        window.events.iter().filter(of_irq).count()
    };
    for flags in [TraceEvent::HARDIRQ, TraceEvent::SOFTIRQ, TraceEvent::NMI] {
        assert_eq!(kept(flags, 12), 1, "{flags}");
    }
    assert_eq!(kept(0, 0), 1);
}
