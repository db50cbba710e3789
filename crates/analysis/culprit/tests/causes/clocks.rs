//! Clocks of CPUs that differ. Waits in both directions limit the difference.

use std::collections::{BTreeMap, BTreeSet};

use punctual_culprit::{LateFound, LateReactions, Reaction, TraceFacts, Wanted, find};
use punctual_model::{EventKind, GapReason, Nanos, ShareKind, Task, TraceEvent, event_names};

use crate::stream::{RUNNABLE, SLEEPS, VICTIM, make, task, victim};
use crate::testing::{self, on, us};

fn event(at: u64, cpu: u32, pid: u32, kind: EventKind) -> TraceEvent {
    on(cpu, testing::event(at, pid, kind))
}

fn switch(at: u64, cpu: u32, prev: Task, state: u32, next: Task) -> TraceEvent {
    on(cpu, testing::switch(at, prev, state, next))
}

fn waking(at: u64, cpu: u32, pid: u32, task: Task, target_cpu: u32) -> TraceEvent {
    event(at, cpu, pid, EventKind::Waking { task, target_cpu })
}

fn idle(cpu: u32) -> Task {
    task(&format!("swapper/{cpu}"), 0, 120)
}

/// An ordinary thread that another CPU wakes, and that runs this much later.
fn visit(at: u64, pid: u32, (waker, cpu): (u32, u32), wait: u64) -> Vec<TraceEvent> {
    let visitor = task("visitor", pid, 120);
    vec![
        waking(at, waker, 0, visitor, cpu),
        switch(at + wait, cpu, idle(cpu), RUNNABLE, visitor),
        switch(at + wait + 5, cpu, visitor, SLEEPS, idle(cpu)),
    ]
}

/// CPU 0 wakes the victim of CPU 1 at 20,000 µs. It runs 500 µs later.
fn late(before: &[TraceEvent]) -> Vec<TraceEvent> {
    let mut events = before.to_vec();
    events.extend([
        switch(18_000, 1, idle(1), RUNNABLE, victim()),
        switch(19_000, 1, victim(), SLEEPS, make()),
        waking(20_000, 0, 0, victim(), 1),
        switch(20_500, 1, make(), RUNNABLE, victim()),
    ]);
    events
}

fn found(events: &[TraceEvent], clocks_differ: bool, resolution: u64) -> LateFound {
    let mut finder = LateReactions::new(Wanted::longest());
    for event in events {
        finder.event(event.clone());
    }
    let recorded: BTreeSet<String> = event_names().map(str::to_owned).collect();
    finder.finish(&TraceFacts {
        recorded: &recorded,
        clocks_differ,
        resolution: Nanos(resolution),
        may_have_vectors: true,
        kernel: None,
        symbols: &BTreeMap::new(),
        calls: &BTreeMap::new(),
    })
}

fn of_victim(found: &LateFound) -> &Reaction {
    let mut all = found.reactions.iter();
    all.find(|one| one.window.victim.tid == VICTIM).unwrap()
}

/// The CPUs whose events explain nothing, because their clocks differ by an unknown amount.
fn unknown_clocks(found: &LateFound) -> Vec<u32> {
    let gaps = of_victim(found).window.evidence.gaps.iter();
    let differ = gaps.filter(|gap| gap.reason == GapReason::ClocksDiffer);
    differ.map(|gap| gap.cpu).collect()
}

/// Visits in both directions: CPU 0 to CPU 1, and back.
fn both_ways(there: u64, back: u64) -> Vec<TraceEvent> {
    let mut events = visit(1_000, 50, (0, 1), there);
    events.extend(visit(2_000, 51, (1, 0), back));
    events
}

#[test]
fn waits_in_both_directions_limit_the_difference() {
    for (there, back, error) in [(30, 40, 40), (60, 20, 60)] {
        let found = found(&late(&both_ways(there, back)), true, 1);
        assert_eq!(found.clock_error, Some(Some(us(error))));
        assert_eq!(of_victim(&found).window.clock_error, us(error));
        assert!(unknown_clocks(&found).is_empty());
    }
    // The shortest wait in each direction counts.
    let mut events = both_ways(300, 400);
    events.extend(visit(3_000, 52, (0, 1), 30));
    events.extend(visit(4_000, 53, (1, 0), 40));
    events.extend(visit(5_000, 54, (0, 1), 200));
    assert_eq!(
        found(&late(&events), true, 1).clock_error,
        Some(Some(us(40)))
    );
}

#[test]
fn equal_clocks_need_no_limit() {
    let found = found(&late(&[]), false, 1);
    assert_eq!(found.clock_error, None);
    assert_eq!(of_victim(&found).window.clock_error, Nanos::ZERO);
    assert!(unknown_clocks(&found).is_empty());
}

#[test]
fn resolution_of_the_trace_is_an_error_of_its_times() {
    let error = |resolution| {
        let found = found(&late(&[]), false, resolution);
        of_victim(&found).window.clock_error
    };
    assert_eq!(
        (error(1), error(2), error(1_000)),
        (Nanos(0), Nanos(2), us(1))
    );
}

/// The wait of the victim itself is one of them.
#[test]
fn one_direction_limits_nothing() {
    for events in [
        visit(1_000, 50, (0, 1), 30),
        visit(1_000, 50, (1, 1), 30),
        Vec::new(),
    ] {
        let found = found(&late(&events), true, 1);
        assert_eq!(found.clock_error, Some(None), "{events:?}");
        assert_eq!(of_victim(&found).window.clock_error, Nanos::ZERO);
    }
    let back = visit(1_000, 50, (1, 0), 30);
    assert_eq!(
        found(&late(&back), true, 1).clock_error,
        Some(Some(us(500)))
    );
}

/// The events of the victim's CPU show that it had left the CPU before, so the wake-up by CPU 0 is
/// roughly where it seems to be.
#[test]
fn own_events_bracket_the_wait() {
    let found = found(&late(&[]), true, 1);
    assert_eq!(unknown_clocks(&found), [0]);
    let blame = find(&of_victim(&found).window).blame;
    assert_eq!(blame.largest().unwrap().kind(), ShareKind::Blocking);
}

/// Returns the CPUs with unknown clocks. The victim is woken by CPU 0 at 20,000 µs and runs at
/// 20,500 µs; these are the other events.
fn unknown_with(others: &[TraceEvent]) -> Vec<u32> {
    let mut events = others.to_vec();
    events.extend([
        waking(20_000, 0, 90, victim(), 1),
        switch(20_500, 1, make(), RUNNABLE, victim()),
    ]);
    events.sort_by_key(|event| event.time);
    unknown_clocks(&found(&events, true, 1))
}

fn leaves(at: u64) -> TraceEvent {
    switch(at, 1, victim(), SLEEPS, make())
}

#[test]
fn wait_without_an_event_before_it_is_unknown() {
    assert_eq!(unknown_with(&[]), [0, 1]);
    let softirq = event(20_000, 1, 12, EventKind::SoftirqRaise { vec: 9 });
    assert_eq!(unknown_with(std::slice::from_ref(&softirq)), [0]);
    let later = TraceEvent {
        time: us(20_001),
        ..softirq
    };
    assert_eq!(unknown_with(&[later]), [0, 1]);
    assert_eq!(unknown_with(&[leaves(20_000)]), [0]);
    // Another thread may leave the CPU meanwhile.
    let other = task("other", 13, 120);
    let hands_over = [
        switch(19_000, 1, victim(), SLEEPS, other),
        switch(20_200, 1, other, RUNNABLE, make()),
    ];
    assert_eq!(unknown_with(&hands_over), [0]);
    // Its next sleep, after the reaction, is another one.
    let next = switch(20_510, 1, victim(), SLEEPS, make());
    assert_eq!(unknown_with(&[leaves(19_000), next]), [0]);
}

/// A timer of the victim is due at 20,000 µs, and expires on CPU 0 at 20,200 µs. If the victim leaves
/// its CPU after the due time, the clocks contradict each other.
#[test]
fn thread_that_leaves_its_cpu_after_the_beginning_contradicts_it() {
    let unknown = |left: u64| {
        let (hrtimer, function, due) = (7, 0xa1, 1_000_000);
        let arms = EventKind::HrtimerStart {
            hrtimer,
            function,
            expires_ns: due,
            softexpires_ns: due,
        };
        let expires = EventKind::HrtimerExpireEntry {
            hrtimer,
            function,
            now_ns: due + 200_000,
        };
        let events = [
            event(18_500, 1, VICTIM, arms),
            leaves(left),
            event(20_200, 0, 90, expires),
            waking(20_200, 0, 90, victim(), 1),
            switch(20_500, 1, make(), RUNNABLE, victim()),
        ];
        let found = found(&events, true, 1);
        assert_eq!(of_victim(&found).window.expected, us(20_000));
        unknown_clocks(&found)
    };
    assert_eq!(unknown(19_000), [0]);
    assert_eq!(unknown(20_000), [0]);
    assert_eq!(unknown(20_001), [0, 1]);
    assert_eq!(unknown(20_100), [0, 1]);
}

/// The victim's own CPU wakes it, and CPU 2 only sends an interrupt to it.
#[test]
fn clock_of_a_bystander_does_not_matter_to_the_wait() {
    let ipi = EventKind::IpiSend {
        cpus: vec![1],
        callsite: 0xa1,
        callback: 0xa2,
    };
    let events = [
        waking(20_000, 1, 12, victim(), 1),
        event(20_100, 2, 33, ipi),
        switch(20_500, 1, make(), RUNNABLE, victim()),
    ];
    let found = found(&events, true, 1);
    assert_eq!(unknown_clocks(&found), [2]);
    let blame = find(&of_victim(&found).window).blame;
    assert_eq!(blame.largest().unwrap().kind(), ShareKind::Blocking);
}

/// The scheduler's rules compare events of several CPUs, so their order must be known.
#[test]
fn rules_are_not_judged_across_different_clocks() {
    // An ordinary thread is ready, and its CPU is idle for 900 µs, five times.
    let fair = task("fair", 60, 120);
    let audio = task("audio", 61, 9);
    let mut events = vec![
        switch(100, 1, fair, SLEEPS, idle(1)),
        waking(200, 0, 90, fair, 1),
    ];
    for turn in 1..=5 {
        events.push(switch(turn * 1_000, 1, idle(1), RUNNABLE, audio));
        events.push(switch(turn * 1_000 + 100, 1, audio, SLEEPS, idle(1)));
    }
    events.push(switch(6_000, 1, idle(1), RUNNABLE, fair));
    let rules = |differ| found(&events, differ, 1).scheduler.len();
    assert_eq!((rules(false), rules(true)), (1, 0));
}
