//! The events around a reaction, and the times at which events may be missing.

use super::*;
use crate::testing::{
    MAKE, RUNNABLE, SLEEPS, VICTIM, event, idle, make, on, switch, task, us, victim, wakeup, waking,
};

/// An event of the thread `pid`.
fn mark(at: u64, pid: u32) -> TraceEvent {
    event(at, pid, EventKind::SoftirqRaise { vec: 9 })
}

fn history(most: usize, events: &[TraceEvent]) -> History {
    let mut history = History::new(most);
    for event in events {
        history.push(event.clone());
    }
    history
}

/// The times of the events of a slice in µs, with their CPUs, and its gaps.
type Told = (Vec<(u64, u32)>, Vec<(u32, u64, u64, GapReason)>);

fn told(slice: &TraceSlice) -> Told {
    let us = |time: Nanos| time.0 / 1_000;
    let events = slice.events.iter().map(|event| (us(event.time), event.cpu));
    let gaps = slice.gaps.iter();
    let gaps = gaps.map(|gap| (gap.cpu, us(gap.from), us(gap.to), gap.reason));
    (events.collect(), gaps.collect())
}

/// The slice of the victim of CPU 1, for a latency that begins at `expected`.
fn slice(history: &History, expected: u64, from: u64, to: u64) -> Told {
    told(&history.slice((VICTIM, 1), us(expected), us(from), us(to)))
}

fn slice_of_all(history: &History, expected: u64, from: u64, to: u64) -> Told {
    told(&history.slice_of_all(us(expected), us(from), us(to)))
}

#[test]
fn event_of_another_thread_shows_a_missing_switch() {
    let mut history = History::new(100);
    assert_eq!(history.push(mark(10, MAKE)), None);
    assert_eq!(history.push(mark(20, MAKE)), None);
    assert_eq!(history.push(on(2, mark(25, 33))), None);
    assert_eq!(history.push(mark(30, 33)), Some(33));
    // From then on, it is this thread.
    assert_eq!(
        history.push(switch(40, task("x", 33, 120), SLEEPS, make())),
        None
    );
    assert_eq!(history.push(mark(50, MAKE)), None);
    assert_eq!(
        history.push(switch(60, victim(), SLEEPS, make())),
        Some(VICTIM)
    );
    let gaps = slice(&history, 15, 0, 99).1;
    use GapReason::Contradiction;
    assert_eq!(
        gaps,
        [(1, 20, 30, Contradiction), (1, 50, 60, Contradiction)]
    );
}

/// These events may belong to a thread that has just left its CPU, or has ended.
#[test]
fn event_after_a_switch_contradicts_nothing() {
    let mut history = history(100, &[switch(10, victim(), SLEEPS, make())]);
    let frames = Vec::new();
    let stack = event(11, VICTIM, EventKind::KernelStack { frames });
    assert_eq!(history.push(stack), None);
    let requested = EventKind::Requested {
        name: "tlb_flush".into(),
        fields: String::new(),
    };
    assert_eq!(history.push(event(12, VICTIM, requested)), None);
    assert_eq!(history.push(mark(13, u32::MAX)), None);
    assert_eq!(history.push(mark(14, MAKE)), None);
    // After lost events, the thread is unknown.
    history.lost(1, us(20));
    assert_eq!(history.push(mark(21, VICTIM)), None);
    assert_eq!(history.push(mark(22, MAKE)), Some(MAKE));
}

#[test]
fn lost_events_are_missing_until_a_time() {
    let mut history = history(100, &[mark(10, MAKE)]);
    history.lost(1, us(20));
    let incomplete = |cpu, from, to| history.is_incomplete(cpu, us(from), us(to));
    assert!(incomplete(1, 0, 11) && incomplete(1, 19, 30) && incomplete(1, 12, 13));
    assert!(!incomplete(1, 0, 10) && !incomplete(1, 20, 30));
    assert!(!incomplete(2, 0, 30));
    // Further lost events follow the earlier ones.
    history.lost(1, us(30));
    let gaps = slice(&history, 10, 10, 99).1;
    use GapReason::Lost;
    assert_eq!(gaps, [(1, 10, 20, Lost), (1, 20, 30, Lost)]);
    // Another report of this loss.
    history.lost(1, us(25));
    assert_eq!(slice(&history, 10, 10, 99).1.len(), 2);
}

#[test]
fn events_of_a_thread_are_found_backwards() {
    let history = history(
        100,
        &[
            mark(10, VICTIM),
            switch(20, victim(), SLEEPS, make()),
            mark(30, MAKE),
            switch(40, make(), RUNNABLE, victim()),
            on(2, mark(45, 33)),
            mark(50, VICTIM),
        ],
    );
    let back = |tid, since| {
        let events = history.back(tid, us(since));
        events
            .map(|event| event.time.0 / 1_000)
            .collect::<Vec<u64>>()
    };
    assert_eq!(back(VICTIM, 10), [50, 40, 10]);
    assert_eq!(back(VICTIM, 11), [50, 40]);
    assert!(back(VICTIM, 51).is_empty());
    assert_eq!(back(MAKE, 0), [30, 20]);
    let all = history.back_all(us(40)).map(|event| event.time.0 / 1_000);
    assert_eq!(all.collect::<Vec<u64>>(), [50, 45, 40]);
}

#[test]
fn slice_has_the_events_of_the_cpus_of_the_thread() {
    let history = history(
        100,
        &[
            switch(5, idle(), RUNNABLE, make()),
            on(2, mark(6, 33)),
            on(3, mark(7, 34)),
            mark(8, MAKE),
            mark(10, MAKE),
            on(2, waking(20, 33, victim())),
            on(3, mark(30, 34)),
            on(3, wakeup(40, 34, victim())),
            switch(50, make(), RUNNABLE, victim()),
            mark(51, VICTIM),
        ],
    );
    let (events, gaps) = slice(&history, 20, 10, 50);
    // CPU 2 woke it, and CPU 3 enqueued it. Before the slice, only what shows what ran is kept.
    assert_eq!(
        events,
        [
            (5, 1),
            (6, 2),
            (7, 3),
            (8, 1),
            (10, 1),
            (20, 2),
            (30, 3),
            (40, 3),
            (50, 1)
        ]
    );
    assert_eq!(gaps, []);
    let (events, _) = slice(&history, 51, 45, 51);
    assert_eq!(events, [(5, 1), (8, 1), (10, 1), (50, 1), (51, 1)]);
    let (all, _) = slice_of_all(&history, 50, 50, 51);
    assert_eq!(all.len(), 10);
}

/// The last switch shows what ran before.
#[test]
fn lead_ends_with_the_last_switch() {
    let mut events = vec![mark(1, VICTIM), switch(2, victim(), SLEEPS, make())];
    events.extend((10..80).map(|at| mark(at, MAKE)));
    events.push(mark(100, MAKE));
    let found = slice(&history(1_000, &events), 100, 100, 200).0;
    // The switch, and the last 50 events.
    assert_eq!(found.len(), 1 + 50 + 1);
    assert_eq!((found[0], found[1]), ((2, 1), (30, 1)));
    let all = slice_of_all(&history(1_000, &events), 100, 100, 200).0;
    assert_eq!(all, found);
}

/// Events at the very beginning of the slice belong to it, also those before a switch.
#[test]
fn slice_begins_and_ends_with_its_times() {
    let events = [
        mark(9, VICTIM),
        mark(10, VICTIM),
        switch(10, victim(), SLEEPS, make()),
        mark(20, MAKE),
        mark(21, MAKE),
    ];
    let history = history(100, &events);
    let expected = vec![(9, 1), (10, 1), (10, 1), (20, 1)];
    assert_eq!(slice(&history, 10, 10, 20).0, expected);
    assert_eq!(slice_of_all(&history, 10, 10, 20).0, expected);
}

#[test]
fn gaps_within_the_slice_are_named() {
    let mut history = history(100, &[mark(5, MAKE)]);
    history.lost(1, us(10));
    history.push(mark(15, MAKE));
    history.push(on(2, mark(16, 33)));
    history.lost(1, us(30));
    history.lost(2, us(40));
    history.push(mark(50, MAKE));
    use GapReason::Lost;
    let (early, late, other) = ((1, 5, 10, Lost), (1, 15, 30, Lost), (2, 16, 40, Lost));
    let of_all = |from, to| slice_of_all(&history, 20, from, to).1;
    assert_eq!(of_all(10, 50), [early, late, other]);
    assert_eq!(of_all(11, 50), [late, other]);
    assert_eq!(of_all(11, 16), [late]);
    assert_eq!(of_all(11, 17), [late, other]);
    assert_eq!(of_all(11, 15), []);
    assert_eq!(of_all(41, 50), []);
    // For a thread, only the CPUs where it may have been, from the first event of the slice on.
    assert_eq!(slice(&history, 20, 20, 50).1, [early, late]);
    assert_eq!(slice(&history, 20, 20, 15).1, [early]);
}

#[test]
fn time_before_the_trace_is_unknown() {
    use GapReason::{BeforeTrace, NotHeld};
    let events = [mark(100, MAKE), mark(200, MAKE), mark(300, MAKE)];
    let before = |most, expected: u64| slice(&history(most, &events), expected, expected, 300).1;
    assert_eq!(before(9, 99), [(1, 0, 100, BeforeTrace)]);
    assert_eq!(before(9, 100), []);
    // The first event is not held any more.
    assert_eq!(before(2, 199), [(1, 0, 200, NotHeld)]);
    assert_eq!(before(2, 200), []);
    let all = slice_of_all(&history(2, &events), 150, 150, 300);
    assert_eq!(all.1, [(1, 0, 200, NotHeld)]);
    assert_eq!(slice(&History::new(9), 5, 0, 9), (vec![], vec![]));
}

/// Of the events that are not held any more, the last switch of each CPU is kept.
#[test]
fn last_switch_outlives_the_events_around_it() {
    let events = [
        switch(1, idle(), RUNNABLE, victim()),
        switch(2, victim(), SLEEPS, make()),
        mark(3, MAKE),
        mark(4, MAKE),
        mark(5, MAKE),
    ];
    let history = history(2, &events);
    assert_eq!(slice(&history, 5, 5, 9).0, [(2, 1), (4, 1), (5, 1)]);
    assert_eq!(slice_of_all(&history, 5, 5, 9).0, [(2, 1), (4, 1), (5, 1)]);
}

/// A trace can lose events very often. The oldest gaps become one.
#[test]
fn number_of_gaps_is_limited() {
    let mut history = history(100, &[mark(0, MAKE)]);
    for turn in 0..10_005 {
        history.lost(1, us(10 * turn + 5));
        history.push(mark(10 * turn + 10, MAKE));
    }
    let gaps = &history.cpus[&1].gaps;
    assert!(gaps.len() <= 10_000, "{}", gaps.len());
    // Gaps before the oldest event that is held explain nothing.
    let oldest = history.events.front().unwrap().time;
    assert!(gaps.iter().filter(|gap| gap.to < oldest).count() <= 1);
    let mut held = self::history(100, &[mark(0, MAKE)]);
    for turn in 0..10_005 {
        held.lost(1, us(turn + 1));
    }
    let gaps = &held.cpus[&1].gaps;
    assert_eq!(gaps.len(), 10_000);
    assert_eq!((gaps[0].from, gaps[0].to), (us(0), us(6)));
    assert!(held.is_incomplete(1, us(0), us(1)));
}

#[test]
fn overlapping_gaps_of_a_cpu_are_shortened() {
    let gap = |cpu, from, to| gap(cpu, us(from), us(to), GapReason::Lost);
    let of = |gaps: Vec<EventGap>| {
        let all = apart(gaps).into_iter();
        let told = all.map(|gap| (gap.cpu, gap.from.0 / 1_000, gap.to.0 / 1_000));
        told.collect::<Vec<(u32, u64, u64)>>()
    };
    assert_eq!(of(vec![gap(1, 5, 9), gap(1, 0, 3)]), [(1, 0, 3), (1, 5, 9)]);
    assert_eq!(of(vec![gap(1, 0, 5), gap(1, 3, 9)]), [(1, 0, 5), (1, 5, 9)]);
    assert_eq!(of(vec![gap(1, 0, 9), gap(1, 3, 5)]), [(1, 0, 9)]);
    assert_eq!(of(vec![gap(1, 0, 5), gap(2, 3, 9)]), [(1, 0, 5), (2, 3, 9)]);
    assert_eq!(of(vec![gap(1, 4, 4)]), []);
}

#[test]
fn thread_may_have_been_where_it_ran_was_queued_or_moved() {
    let moved = EventKind::Migrate {
        task: victim(),
        orig_cpu: 5,
        dest_cpu: 6,
    };
    let events = [
        on(2, switch(1, victim(), SLEEPS, make())),
        on(3, switch(2, make(), SLEEPS, victim())),
        on(9, wakeup(3, MAKE, victim())),
        on(9, event(4, MAKE, moved)),
        on(7, switch(5, make(), SLEEPS, idle())),
        on(8, wakeup(6, MAKE, make())),
        on(8, waking(7, MAKE, victim())),
    ];
    let places: Vec<u32> = cpus_of(&events, VICTIM, 4).into_iter().collect();
    assert_eq!(places, [1, 2, 3, 4, 5, 6]);
}
