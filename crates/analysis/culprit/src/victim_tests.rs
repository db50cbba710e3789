//! The state of a late thread after a few events.

use punctual_model::Scheduling;

use super::*;
use crate::testing::{
    MAKE, RUNNABLE, SLEEPS, VICTIM, event, flagged, idle, make, on, switch, task, victim, wakeup,
    waking, window,
};

const STOPS: u32 = 4;
const UNINTERRUPTIBLE: u32 = 2;

fn hog() -> Task {
    task("hog", 61, 0)
}

/// The state of the victim, which is due at 100 µs, after these events.
fn after(events: &[TraceEvent]) -> Thread {
    after_in(Delay::Timer, |_| (), events)
}

fn after_in(delay: Delay, change: impl FnOnce(&mut Window), events: &[TraceEvent]) -> Thread {
    let mut window = window(100, 1_000, events.to_vec());
    window.delay = delay;
    change(&mut window);
    let mut thread = Thread::from_events(&window, events);
    for event in events {
        thread.apply(event, event.time >= window.expected);
    }
    thread
}

fn migrates(us: u64, by: u32, orig_cpu: u32, dest_cpu: u32) -> TraceEvent {
    let task = victim();
    let kind = EventKind::Migrate {
        task,
        orig_cpu,
        dest_cpu,
    };
    event(us, by, kind)
}

fn inherits(us: u64, by: u32, task: Task, prio: i16) -> TraceEvent {
    let newprio = KernelPriority(prio);
    event(us, by, EventKind::PiSetprio { task, newprio })
}

fn fault(us: u64) -> TraceEvent {
    let kind = EventKind::PageFaultUser {
        address: 1,
        ip: 0,
        error_code: 6,
    };
    event(us, VICTIM, kind)
}

fn enters(us: u64) -> TraceEvent {
    event(
        us,
        VICTIM,
        EventKind::SysEnter {
            id: 1,
            args: [0; 2],
        },
    )
}

/// The victim runs at 50 µs, and leaves its CPU at this time in this state.
fn leaves(us: u64, state: u32) -> [TraceEvent; 2] {
    [
        switch(50, make(), SLEEPS, victim()),
        switch(us, victim(), state, make()),
    ]
}

fn first() -> State {
    State::Asleep(Why::First)
}

#[test]
fn state_before_the_first_event_follows_from_it() {
    let begins = |event: TraceEvent| {
        let events = [event];
        let window = window(100, 1_000, events.to_vec());
        let thread = Thread::from_events(&window, &events);
        (thread.state, thread.cpu, thread.slept)
    };
    assert_eq!(
        begins(on(2, switch(50, victim(), SLEEPS, make()))),
        (State::Running, 2, false)
    );
    assert_eq!(
        begins(on(2, switch(50, make(), SLEEPS, victim()))),
        (State::Unknown, 2, false)
    );
    assert_eq!(
        begins(on(2, waking(50, MAKE, victim()))),
        (first(), 1, true)
    );
    assert_eq!(
        begins(on(2, wakeup(50, MAKE, victim()))),
        (first(), 1, true)
    );
    assert_eq!(begins(on(2, enters(50))), (State::Running, 2, false));
    assert_eq!(
        begins(on(2, waking(50, MAKE, make()))),
        (State::Unknown, 1, false)
    );
    let of = |delay| after_in(delay, |_| (), &[]);
    assert_eq!(
        (of(Delay::Wakeup).state, of(Delay::Wakeup).slept),
        (first(), true)
    );
    assert_eq!(
        (of(Delay::Taken).state, of(Delay::Taken).slept),
        (State::Running, false)
    );
    assert_eq!(of(Delay::Job).state, State::Unknown);
}

#[test]
fn priority_is_that_of_its_policy_until_an_event_shows_it() {
    let of = |policy, priority| {
        let change = |window: &mut Window| {
            window.victim.scheduling = Some(Scheduling { policy, priority });
        };
        after_in(Delay::Timer, change, &[]).prio.map(|prio| prio.0)
    };
    assert_eq!(of(Policy::Deadline, 0), Some(-1));
    assert_eq!(
        (of(Policy::Fifo, 95), of(Policy::RoundRobin, 1)),
        (Some(4), Some(98))
    );
    assert_eq!(of(Policy::Other, 0), Some(120));
    let unknown = after_in(Delay::Timer, |window| window.victim.scheduling = None, &[]);
    assert_eq!(unknown.prio, None);
    let prio = |event: TraceEvent| after(&[event]).prio.map(|prio| prio.0);
    let boosted = task("victim", VICTIM, 2);
    assert_eq!(prio(switch(50, make(), RUNNABLE, boosted)), Some(2));
    assert_eq!(prio(switch(50, boosted, RUNNABLE, make())), Some(2));
    assert_eq!(prio(waking(50, MAKE, boosted)), Some(2));
    assert_eq!(prio(inherits(50, MAKE, victim(), 1)), Some(1));
    assert_eq!(prio(inherits(50, MAKE, hog(), 1)), Some(4));
    assert_eq!(prio(waking(50, MAKE, hog())), Some(4));
}

#[test]
fn state_at_a_switch_shows_why_the_thread_left() {
    let state = |state| after(&leaves(90, state)).state;
    assert_eq!(
        (state(RUNNABLE), state(0x100)),
        (State::Queued, State::Queued)
    );
    assert_eq!((state(SLEEPS), state(UNINTERRUPTIBLE)), (first(), first()));
    assert_eq!((state(STOPS), state(8)), (State::Stopped, State::Stopped));
    assert_eq!((state(0x20), state(0x10)), (State::Gone, State::Gone));
    // After the due time, it has gone to sleep again.
    let again = State::Asleep(Why::Again);
    assert_eq!(after(&leaves(100, SLEEPS)).state, again);
    assert_eq!(after(&leaves(99, SLEEPS)).state, first());
}

#[test]
fn thread_is_woken_queued_and_runs() {
    let state = |more: &[TraceEvent]| {
        let mut events = leaves(90, SLEEPS).to_vec();
        events.extend(more.iter().cloned());
        let thread = after(&events);
        (thread.state, thread.cpu)
    };
    let elsewhere = |event| on(3, event);
    assert_eq!(state(&[]), (first(), 1));
    assert_eq!(
        state(&[elsewhere(waking(110, 33, victim()))]),
        (State::Woken, 1)
    );
    let woken = || elsewhere(waking(110, 33, victim()));
    assert_eq!(
        state(&[woken(), wakeup(120, MAKE, victim())]),
        (State::Queued, 1)
    );
    assert_eq!(
        state(&[woken(), migrates(115, 33, 1, 2)]),
        (State::Woken, 2)
    );
    let runs = elsewhere(switch(130, idle(), RUNNABLE, victim()));
    assert_eq!(state(&[woken(), runs]), (State::Running, 3));
    // The events of other threads change nothing.
    assert_eq!(
        state(&[waking(110, 33, make()), wakeup(120, 33, make())]),
        (first(), 1)
    );
    // It runs, although its switch is not recorded.
    assert_eq!(
        state(&[woken(), elsewhere(enters(140))]),
        (State::Running, 3)
    );
    let frames = Vec::new();
    let stack = event(95, VICTIM, EventKind::KernelStack { frames });
    assert_eq!(state(&[woken(), stack]), (State::Woken, 1));
    // A running thread that is woken continues to run.
    let running = after(&[
        switch(50, make(), SLEEPS, victim()),
        waking(60, MAKE, victim()),
    ]);
    assert_eq!(running.state, State::Running);
}

#[test]
fn sleep_and_wake_up_since_the_due_time_are_remembered() {
    let of = |events: &[TraceEvent]| {
        let thread = after(events);
        (thread.slept, thread.awake_since_due)
    };
    assert_eq!(of(&leaves(90, SLEEPS)), (true, false));
    assert_eq!(of(&leaves(110, SLEEPS)), (true, true));
    assert_eq!(of(&leaves(110, RUNNABLE)), (false, true));
    let woken = |us: u64| {
        let mut events = leaves(90, SLEEPS).to_vec();
        events.push(waking(us, MAKE, victim()));
        events.push(switch(us + 5, make(), SLEEPS, victim()));
        of(&events)
    };
    assert_eq!(woken(110), (true, true));
    // A sleep that ended before does not matter.
    assert_eq!(woken(92), (false, false));
}

/// A fault that waits for its page puts the thread to sleep.
#[test]
fn sleep_after_a_fault_is_for_a_page_or_for_a_call() {
    let why = |between: &[TraceEvent], at: u64, state: u32, calls: bool| {
        let mut events = vec![switch(50, make(), SLEEPS, victim())];
        events.extend(between.iter().cloned());
        events.push(switch(at, victim(), state, make()));
        let change = |window: &mut Window| {
            if !calls {
                window
                    .missing_events
                    .push("raw_syscalls:sys_enter".to_owned());
            }
        };
        after_in(Delay::Timer, change, &events).state
    };
    let page = State::Asleep(Why::Page);
    assert_eq!(why(&[fault(60)], 900, UNINTERRUPTIBLE, true), page);
    assert_eq!(why(&[fault(60)], 85, UNINTERRUPTIBLE, false), page);
    assert_eq!(why(&[fault(60)], 86, UNINTERRUPTIBLE, false), first());
    assert_eq!(why(&[fault(60)], 85, SLEEPS, true), first());
    assert_eq!(
        why(&[fault(60), enters(70)], 85, UNINTERRUPTIBLE, true),
        first()
    );
    assert_eq!(why(&[], 85, UNINTERRUPTIBLE, true), first());
}

/// Threads that inherit the priority of the victim hold the lock that it waits for.
#[test]
fn sleep_after_lending_the_priority_is_for_a_lock() {
    let why = |between: &[TraceEvent], at: u64| {
        let mut events = vec![switch(50, make(), SLEEPS, victim())];
        events.extend(between.iter().cloned());
        events.push(switch(at, victim(), SLEEPS, make()));
        after(&events).state
    };
    let lends = |us, pid| inherits(us, VICTIM, task("holder", pid, 89), 4);
    let lock = |chain: &[u32], first| {
        State::Asleep(Why::Lock {
            chain: chain.to_vec(),
            first,
        })
    };
    assert_eq!(why(&[lends(60, 20)], 90), lock(&[20], true));
    assert_eq!(why(&[lends(60, 20)], 110), lock(&[20], false));
    assert_eq!(
        why(&[lends(60, 20), lends(61, 21)], 90),
        lock(&[20, 21], true)
    );
    assert_eq!(why(&[lends(60, 20), lends(61, 20)], 90), lock(&[20], true));
    // The holder has given the priority up, and those behind it no longer matter.
    let gives_up = |us, pid| inherits(us, pid, task("holder", pid, 4), 89);
    let all = [
        lends(60, 20),
        lends(61, 21),
        lends(62, 22),
        gives_up(70, 21),
    ];
    assert_eq!(why(&all, 90), lock(&[20], true));
    assert_eq!(
        why(&[lends(60, 20), gives_up(70, 21)], 90),
        lock(&[20], true)
    );
    assert_eq!(why(&[lends(60, 20), gives_up(70, 20)], 90), first());
    // A thread in a call, or with an armed timer, does not wait for a lock.
    assert_eq!(why(&[lends(60, 20), enters(70)], 90), first());
    let in_interrupt = flagged(TraceEvent::HARDIRQ, enters(70));
    assert_eq!(why(&[lends(60, 20), in_interrupt], 90), lock(&[20], true));
    // It lent it in an earlier run.
    let ran = [
        lends(60, 20),
        switch(70, victim(), RUNNABLE, make()),
        switch(80, make(), RUNNABLE, victim()),
    ];
    assert_eq!(why(&ran, 90), first());
}

/// The holder gives up the priority and wakes the victim. Until it runs, the victim waits for it.
#[test]
fn woken_waiter_still_waits_for_the_holder() {
    let holder = task("holder", 20, 89);
    let waited_for = |more: &[TraceEvent]| {
        let mut events = vec![
            switch(50, make(), SLEEPS, victim()),
            inherits(60, VICTIM, holder, 4),
            switch(70, victim(), SLEEPS, holder),
        ];
        events.extend(more.iter().cloned());
        after(&events).waited_for
    };
    let gives_up = || inherits(200, 20, holder, 89);
    assert_eq!(
        waited_for(&[gives_up(), waking(201, 20, victim())]),
        Some(20)
    );
    assert_eq!(waited_for(&[waking(201, 20, victim())]), None);
    assert_eq!(waited_for(&[gives_up(), waking(201, 33, victim())]), None);
    let runs = switch(210, holder, RUNNABLE, victim());
    assert_eq!(
        waited_for(&[gives_up(), waking(201, 20, victim()), runs]),
        None
    );
    let by_other = inherits(200, 33, holder, 89);
    assert_eq!(waited_for(&[by_other, waking(201, 20, victim())]), None);
}

/// Returns whether the scheduler chose `next` at 300 µs although the victim was in the run queue.
fn passed_over(before: &[TraceEvent], next: Task) -> bool {
    let mut events = vec![
        switch(50, make(), SLEEPS, victim()),
        switch(60, victim(), SLEEPS, make()),
    ];
    events.extend(before.iter().cloned());
    events.push(switch(300, make(), RUNNABLE, next));
    after(&events).passed_over
}

#[test]
fn lower_thread_first_means_that_a_limit_holds_the_victim() {
    let queued = [waking(200, MAKE, victim()), wakeup(201, MAKE, victim())];
    let other = task("other", 13, 120);
    assert!(passed_over(&queued, other) && passed_over(&queued, idle()));
    assert!(passed_over(&queued, task("lower", 14, 5)));
    assert!(!passed_over(&queued, task("equal", 14, 4)) && !passed_over(&queued, hog()));
    // Asleep, it waits for nothing.
    assert!(!passed_over(&[], other));
    // Its own CPU has woken it.
    assert!(passed_over(&queued[..1], other));
    let by_other_cpu = [on(3, waking(200, 33, victim()))];
    assert!(!passed_over(&by_other_cpu, other));
    let moved = [queued[0].clone(), on(3, migrates(210, 33, 3, 1))];
    assert!(!passed_over(&moved, other));
    // Another CPU switches.
    let elsewhere = [
        queued[0].clone(),
        queued[1].clone(),
        on(3, switch(250, hog(), SLEEPS, other)),
    ];
    let mut thread_events = leaves(60, SLEEPS).to_vec();
    thread_events.extend(elsewhere);
    assert!(!after(&thread_events).passed_over);
}

/// Ordinary threads share the CPU, regardless of their nice values.
#[test]
fn ordinary_thread_is_passed_over_only_by_idleness() {
    let fair = task("victim", VICTIM, 120);
    let of = |next: Task| {
        let events = [
            switch(60, fair, SLEEPS, make()),
            waking(200, MAKE, fair),
            wakeup(201, MAKE, fair),
            switch(300, make(), SLEEPS, next),
        ];
        after(&events).passed_over
    };
    assert!(of(idle()) && !of(task("nice", 13, 139)));
}

/// Without `sched_wakeup`, a CPU that switches for the second time has seen the wake-up.
#[test]
fn second_switch_has_seen_a_wake_up_without_its_event() {
    let of = |switches: u64, missing: &[&str]| {
        let mut events = vec![
            switch(50, make(), SLEEPS, victim()),
            switch(60, victim(), SLEEPS, make()),
            on(3, waking(200, 33, victim())),
        ];
        let other = task("other", 13, 120);
        let turns = (0..switches).map(|turn| switch(300 + turn, make(), RUNNABLE, other));
        events.extend(turns);
        let change = |window: &mut Window| {
            window.missing_events = missing.iter().map(|name| (*name).to_owned()).collect();
        };
        after_in(Delay::Timer, change, &events).passed_over
    };
    let wakeup = "sched:sched_wakeup";
    assert!(of(2, &[wakeup]) && !of(1, &[wakeup]) && !of(2, &[]));
    // It may have been moved meanwhile.
    assert!(!of(2, &[wakeup, "sched:sched_migrate_task"]));
}

#[test]
fn armed_timer_shows_its_slack() {
    let slack = |expires_ns, softexpires_ns| {
        let kind = EventKind::HrtimerStart {
            hrtimer: 1,
            function: 0,
            expires_ns,
            softexpires_ns,
        };
        after(&[event(50, VICTIM, kind)]).slack
    };
    assert_eq!(slack(5_070, 5_000), Some(Nanos(70)));
    assert_eq!(
        (slack(5_000, 5_000), slack(4_000, 5_000)),
        (Some(Nanos(0)), Some(Nanos(0)))
    );
    assert_eq!(slack(i64::MAX, i64::MIN), Some(Nanos(u64::MAX)));
}

#[test]
fn stop_signal_of_the_thread_outranks_others() {
    let signal = |sig, pid, sender| {
        let comm = victim().comm;
        event(50, sender, EventKind::SignalGenerate { sig, pid, comm })
    };
    let of = |signals: &[TraceEvent]| after(signals).stop_signal;
    for sig in [19, 20, 21, 22] {
        assert_eq!(of(&[signal(sig, VICTIM, 33)]), Some((sig, 33)));
    }
    for sig in [9, 10, 18, 23] {
        assert_eq!(of(&[signal(sig, VICTIM, 33)]), None);
    }
    // A signal for another thread may be one for the process.
    assert_eq!(of(&[signal(19, 101, 33)]), Some((19, 33)));
    assert_eq!(
        of(&[signal(19, 101, 33), signal(20, 102, 34)]),
        Some((19, 33))
    );
    assert_eq!(
        of(&[signal(19, 101, 33), signal(20, VICTIM, 34)]),
        Some((20, 34))
    );
}

#[test]
fn last_migration_is_remembered() {
    let moved = after(&[migrates(50, 33, 1, 2), migrates(60, 33, 2, 3)]);
    assert_eq!((moved.moved, moved.cpu), (Some((2, 3)), 3));
    assert_eq!(after(&[waking(50, MAKE, victim())]).moved, None);
}
