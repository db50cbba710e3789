//! Statements of later events about a victim.

use punctual_model::{KernelPriority, Vector};

use super::*;
use crate::testing::{
    MAKE, RUNNABLE, SLEEPS, VICTIM, event, flagged, idle, make, on, switch, task, us, victim,
    wakeup, waking, window,
};

/// The window of a victim that is due at 100 µs and runs at 900 µs.
fn of(events: &[TraceEvent]) -> Window {
    window(100, 900, events.to_vec())
}

fn later_in(window: &Window) -> LaterEvents {
    let marks = timeline_events(window, &window.events);
    let threads = Threads::from_events(&window.events);
    LaterEvents::from_timeline(window, &marks, &threads)
}

fn later(events: &[TraceEvent]) -> LaterEvents {
    later_in(&of(events))
}

fn vector(us: u64, pid: u32) -> TraceEvent {
    let vector = Vector::LocalTimer;
    event(us, pid, EventKind::VectorEntry { vector })
}

fn vector_end(us: u64, pid: u32) -> TraceEvent {
    let vector = Vector::LocalTimer;
    event(us, pid, EventKind::VectorExit { vector })
}

fn softirq(us: u64, pid: u32) -> TraceEvent {
    event(us, pid, EventKind::SoftirqEntry { vec: 3 })
}

/// A thread gives up an inherited priority.
fn gives_up(us: u64, own: Task) -> TraceEvent {
    let kind = EventKind::PiSetprio {
        task: own,
        newprio: KernelPriority(120),
    };
    event(us, own.pid, kind)
}

/// The marks of a window as text: time in µs, and what happens.
fn marks(window: &Window) -> Vec<(u64, String)> {
    let text = |(time, mark): &(Nanos, TimelineEvent<'_>)| {
        let text = match mark {
            TimelineEvent::Event(event) => format!("event of {}", event.pid),
            TimelineEvent::Nmi { begins, .. } => format!("NMI {begins}"),
            TimelineEvent::Gap { cpu, begins, .. } => format!("gap of {cpu} {begins}"),
        };
        (time.0 / 1_000, text)
    };
    let all = timeline_events(window, &window.events);
    all.iter().map(text).collect()
}

#[test]
fn marks_are_in_order_and_end_with_the_reaction() {
    let mut window = of(&[
        switch(900, make(), RUNNABLE, victim()),
        waking(50, 33, victim()),
        waking(901, 34, make()),
        switch(10, victim(), SLEEPS, make()),
    ]);
    let gap = |cpu, from, to| punctual_model::EventGap {
        cpu,
        from: us(from),
        to: us(to),
        reason: GapReason::Lost,
    };
    window.evidence.gaps = vec![gap(2, 20, 50), gap(3, 800, 950)];
    let text = |time, text: &str| (time, text.to_owned());
    assert_eq!(
        marks(&window),
        [
            text(10, "event of 100"),
            text(20, "gap of 2 true"),
            // Events are complete from here on.
            text(50, "gap of 2 false"),
            text(50, "event of 33"),
            text(800, "gap of 3 true"),
            text(900, "event of 12"),
        ]
    );
}

#[test]
fn nmi_begins_before_its_event() {
    let nmi = |us: u64, delta: u64| {
        let kind = EventKind::NmiHandler {
            handler: 0xa9,
            delta: Nanos::from_micros(delta),
            handled: 1,
        };
        event(us, MAKE, kind)
    };
    let begins_and_ends =
        |from, to| vec![(from, "NMI true".to_owned()), (to, "NMI false".to_owned())];
    assert_eq!(marks(&of(&[nmi(300, 200)])), begins_and_ends(100, 300));
    assert_eq!(marks(&of(&[nmi(300, 0)])), []);
    let noise = |us: u64, source| {
        let kind = EventKind::Noise {
            source,
            start: Nanos(7),
            duration: Nanos::from_micros(40),
        };
        event(us, MAKE, kind)
    };
    // Both events show the same interrupt.
    let both = of(&[noise(300, NoiseSource::Nmi)]);
    let event_of_make = (300, "event of 12".to_owned());
    assert_eq!(marks(&both), vec![event_of_make.clone()]);
    let mut alone = both;
    alone.missing_events.push("nmi:nmi_handler".to_owned());
    assert_eq!(marks(&alone), begins_and_ends(260, 300));
    alone.events = vec![noise(300, NoiseSource::Softirq { vector: 3 })];
    assert_eq!(marks(&alone), [event_of_make]);
}

#[test]
fn next_wake_up_is_the_first_from_a_time_on() {
    let found = later(&[
        waking(200, 33, victim()),
        switch(300, make(), SLEEPS, victim()),
        waking(600, 34, victim()),
    ]);
    let waker = |time| found.waking(us(time)).map(|waking| waking.pid);
    assert_eq!(waker(100), Some(33));
    assert_eq!(waker(200), Some(33));
    // It runs at 300 µs, so the wake-up before is not recorded.
    assert_eq!(waker(201), None);
    assert_eq!(waker(299), None);
    // From then on, the next one counts.
    assert_eq!(waker(300), Some(34));
    assert_eq!(waker(600), Some(34));
    assert_eq!(waker(601), None);
}

#[test]
fn run_at_the_moment_of_the_wake_up_is_after_it() {
    let found = later(&[
        waking(200, 33, victim()),
        switch(200, make(), SLEEPS, victim()),
    ]);
    assert!(found.waking(us(100)).is_some());
}

#[test]
fn queue_and_switch_in_are_known_in_advance() {
    let found = later(&[
        waking(200, 33, victim()),
        on(3, wakeup(220, 33, victim())),
        on(2, switch(400, make(), SLEEPS, victim())),
        waking(500, 33, make()),
        wakeup(520, 33, make()),
    ]);
    assert!(found.is_queued(us(220)) && !found.is_queued(us(221)));
    assert!(found.is_switched_in(us(400)) && !found.is_switched_in(us(401)));
    assert_eq!(found.cpu_at(us(220)), Some(1));
    assert_eq!(found.cpu_at(us(221)), Some(2));
    assert_eq!(found.cpu_at(us(400)), Some(2));
    assert_eq!(found.cpu_at(us(401)), None);
}

/// Some kernels lose the switch from the idle thread.
#[test]
fn next_switch_shows_whether_a_cpu_was_idle() {
    let found = later(&[
        switch(200, idle(), RUNNABLE, make()),
        switch(400, make(), SLEEPS, idle()),
        on(2, switch(500, idle(), RUNNABLE, make())),
    ]);
    let idle_until = |cpu, time| found.is_idle_until_switch(cpu, us(time));
    assert_eq!(idle_until(1, 100), Some(true));
    assert_eq!(idle_until(1, 199), Some(true));
    assert_eq!(idle_until(1, 200), Some(false));
    assert_eq!(idle_until(1, 400), None);
    assert_eq!(idle_until(2, 400), Some(true));
    assert_eq!(idle_until(3, 100), None);
}

/// Without `sched_waking`, the time of the enqueueing replaces it.
#[test]
fn enqueueing_replaces_a_missing_wake_up() {
    let wakers = |events: &[TraceEvent]| {
        let found = later(events);
        let all = found.wakings.iter().map(|waking| waking.pid);
        all.collect::<Vec<u32>>()
    };
    assert_eq!(wakers(&[wakeup(200, 33, victim())]), [33]);
    let both = [waking(200, 33, victim()), wakeup(201, 34, victim())];
    assert_eq!(wakers(&both), [33]);
    // The second wake-up is only in the queue.
    let twice = [
        waking(200, 33, victim()),
        wakeup(201, 34, victim()),
        switch(300, make(), RUNNABLE, victim()),
        wakeup(400, 35, victim()),
    ];
    assert_eq!(wakers(&twice), [33, 35]);
    // A wake-up and an enqueueing at one time are two wake-ups.
    let again = [
        wakeup(200, 33, victim()),
        waking(200, 34, victim()),
        wakeup(210, 35, victim()),
    ];
    assert_eq!(wakers(&again), [33, 34]);
}

/// Returns the source and the caller of the first wake-up.
fn source(events: &[TraceEvent]) -> (WakeSource, Option<u32>) {
    source_in(&of(events))
}

fn source_in(window: &Window) -> (WakeSource, Option<u32>) {
    let found = later_in(window);
    let waking = found.wakings.first().unwrap();
    (waking.by, waking.caller.map(|task| task.pid))
}

#[test]
fn wake_up_is_by_what_runs_on_top() {
    use WakeSource::{Interrupt, Softirq, Thread};
    let by_make = || waking(205, MAKE, victim());
    let runs = || switch(150, idle(), RUNNABLE, make());
    assert_eq!(source(&[runs(), by_make()]), (Thread(make()), Some(MAKE)));
    assert_eq!(
        source(&[runs(), vector(200, MAKE), by_make()]),
        (Interrupt, None)
    );
    let in_interrupt = flagged(TraceEvent::HARDIRQ, by_make());
    assert_eq!(source(&[runs(), in_interrupt]), (Interrupt, None));
    // A softirq in the system call of the waker.
    assert_eq!(
        source(&[runs(), softirq(200, MAKE), by_make()]),
        (Softirq, Some(MAKE))
    );
    let in_softirq = flagged(TraceEvent::SOFTIRQ, by_make());
    assert_eq!(source(&[runs(), in_softirq]), (Softirq, Some(MAKE)));
    // A softirq after an interrupt.
    let irq = |us, begins| {
        let (irq, name, ret) = (24, "eth0".into(), 1);
        let kind = if begins {
            EventKind::IrqEntry { irq, name }
        } else {
            EventKind::IrqExit { irq, ret }
        };
        event(us, MAKE, kind)
    };
    let after = [
        runs(),
        irq(190, true),
        irq(199, false),
        softirq(200, MAKE),
        by_make(),
    ];
    assert_eq!(source(&after), (Softirq, None));
    // The idle thread does not wake threads by itself.
    assert_eq!(source(&[waking(200, 0, victim())]), (Interrupt, None));
    let on_idle = [softirq(200, 0), waking(205, 0, victim())];
    assert_eq!(source(&on_idle), (Softirq, None));
}

/// The victim had woken the thread that is interrupted when the answer comes.
#[test]
fn softirq_on_top_of_a_called_thread_is_its_answer() {
    let answer = |calls: bool| {
        let mut events = vec![switch(50, make(), RUNNABLE, victim())];
        if calls {
            events.push(waking(60, VICTIM, make()));
        }
        events.extend([
            switch(70, victim(), SLEEPS, idle()),
            switch(100, idle(), RUNNABLE, make()),
            vector(190, MAKE),
            vector_end(199, MAKE),
            event(200, MAKE, EventKind::SoftirqEntry { vec: 9 }),
            waking(205, MAKE, victim()),
        ]);
        source(&events)
    };
    assert_eq!(answer(true), (WakeSource::Softirq, Some(MAKE)));
    assert_eq!(answer(false), (WakeSource::Softirq, None));
}

/// If no event shows interrupts, one may have run on top of the waker.
#[test]
fn waker_is_unknown_without_events_of_interrupts() {
    let window = |missing: &[&str], not_shown: &[NotShown]| {
        let mut window = of(&[waking(200, MAKE, victim())]);
        window.missing_events = missing.iter().map(|name| (*name).to_owned()).collect();
        window.evidence.not_shown = not_shown.to_vec();
        window
    };
    let (irq, softirq) = ("irq:irq_handler_entry", "irq:softirq_entry");
    use NotShown::{Flags, Vectors};
    for (missing, not_shown, shows) in [
        (&[][..], &[][..], true),
        (&[], &[Flags], true),
        (&[], &[Vectors], true),
        (&[], &[Flags, Vectors], false),
        (&[irq], &[Flags], false),
        (&[softirq], &[Flags], false),
        (&[irq, softirq], &[Vectors], true),
    ] {
        let window = window(missing, not_shown);
        assert_eq!(
            shows_interrupts(&window),
            shows,
            "{missing:?} {not_shown:?}"
        );
        let (by, caller) = source_in(&window);
        assert_eq!(by == WakeSource::Unknown, !shows);
        assert_eq!(caller.is_some(), shows);
    }
}

#[test]
fn holder_releases_the_lock_and_wakes_the_waiter() {
    let holder = task("holder", 50, 4);
    let found = |events: &[TraceEvent], chain: &[u32]| later(events).holder(chain, us(100));
    let release = || [gives_up(480, holder), waking(500, 50, victim())];
    assert_eq!(found(&release(), &[50]), Some(50));
    assert_eq!(found(&release(), &[49, 50]), Some(50));
    // Another thread inherited the priority.
    assert_eq!(found(&release(), &[49]), None);
    // It gave the priority up before the wait, or after the wake-up, or never.
    for at in [99, 501] {
        let mut events = release();
        events[0].time = us(at);
        assert_eq!(found(&events, &[50]), None, "{at}");
    }
    for at in [100, 500] {
        let mut events = release();
        events[0].time = us(at);
        assert_eq!(found(&events, &[50]), Some(50), "{at}");
    }
    assert_eq!(found(&release()[1..], &[50]), None);
    // An interrupt on top of it woke the waiter.
    let by_interrupt = [
        gives_up(480, holder),
        vector(490, 50),
        waking(500, 50, victim()),
    ];
    assert_eq!(found(&by_interrupt, &[50]), None);
    // A third thread lowered its priority.
    let kind = gives_up(480, holder).kind;
    let by_other = [event(480, MAKE, kind), waking(500, 50, victim())];
    assert_eq!(found(&by_other, &[50]), None);
}

#[test]
fn thread_gives_up_a_priority_at_some_time() {
    let found = later(&[gives_up(300, task("holder", 50, 4))]);
    assert!(found.gives_up(50, us(299)) && found.gives_up(50, us(300)));
    assert!(!found.gives_up(50, us(301)) && !found.gives_up(51, us(299)));
}

/// After a gap, the earlier activity of the CPU proves nothing.
#[test]
fn gap_forgets_what_a_cpu_executes() {
    let mut window = of(&[vector(150, MAKE), waking(500, MAKE, victim())]);
    assert_eq!(source_in(&window).0, WakeSource::Interrupt);
    window.evidence.gaps = vec![punctual_model::EventGap {
        cpu: 1,
        from: us(200),
        to: us(300),
        reason: GapReason::Lost,
    }];
    assert_eq!(source_in(&window).1, Some(MAKE));
}
