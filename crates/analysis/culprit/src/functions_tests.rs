//! Times of functions, and the one that explains a share.

use super::*;
use crate::testing::{RUNNABLE, SLEEPS, VICTIM, event, on, switch, task, us, victim, window};
use punctual_model::cause::{Cause, Detail};

const OTHER: u32 = 12;

/// Begin and end in µs.
type Span = (u64, u64);

/// A function: name, times, and duration of its shortest run.
type Known<'a> = (&'a str, &'a [Span], u64);

fn times(times: &[Span]) -> Times {
    let times = times.iter().map(|(from, to)| (us(*from), us(*to)));
    times.collect()
}

#[test]
fn overlapping_times_count_once() {
    let cases: [(&[Span], &[Span]); 6] = [
        (&[], &[]),
        (&[(5, 7), (0, 3)], &[(0, 3), (5, 7)]),
        (&[(0, 3), (3, 4)], &[(0, 4)]),
        (&[(0, 9), (2, 4)], &[(0, 9)]),
        (&[(2, 4), (0, 3), (8, 9)], &[(0, 4), (8, 9)]),
        (&[(0, 3), (4, 5)], &[(0, 3), (4, 5)]),
    ];
    for (parts, expected) in cases {
        let united = united(times(parts));
        assert_eq!(united, times(expected), "{parts:?}");
    }
    assert_eq!(length(&times(&[(0, 3), (5, 7)])), us(5));
}

#[test]
fn common_time_is_in_both() {
    let cases: [(&[Span], &[Span], u64); 6] = [
        (&[(0, 10)], &[], 0),
        (&[(0, 10)], &[(10, 20)], 0),
        (&[(0, 10)], &[(4, 6)], 2),
        (&[(0, 10), (20, 30)], &[(5, 25)], 10),
        (&[(0, 4), (6, 8), (9, 10)], &[(1, 2), (3, 7)], 3),
        (&[(0, 4), (6, 8)], &[(0, 4), (6, 8)], 6),
    ];
    for (one, other, expected) in cases {
        let (one, other) = (times(one), times(other));
        assert_eq!(common(&one, &other), us(expected));
        assert_eq!(common(&other, &one), us(expected));
    }
}

/// The function that is named among these, with its time.
fn named(least: u64, all: &[Known<'_>]) -> Option<(String, u64)> {
    let names: Vec<Text> = all.iter().map(|(name, ..)| Text::from(*name)).collect();
    let held = all.iter().map(|(_, parts, shortest)| Held {
        times: times(parts),
        shortest: us(*shortest),
    });
    let by_name: BTreeMap<&Text, Held> = names.iter().zip(held).collect();
    let found = longest(&by_name, us(least))?;
    Some((found.function.to_string(), found.ns.0 / 1_000))
}

fn is(function: &str, us: u64) -> Option<(String, u64)> {
    Some((function.to_owned(), us))
}

#[test]
fn innermost_function_of_the_longest_is_named() {
    assert_eq!(named(1, &[]), None);
    let caller: Known<'_> = ("caller", &[(0, 100)], 100);
    // More than half of the caller's time.
    assert_eq!(
        named(1, &[caller, ("inner", &[(0, 51)], 51)]),
        is("inner", 51)
    );
    assert_eq!(
        named(1, &[caller, ("inner", &[(0, 50)], 50)]),
        is("caller", 100)
    );
    // Of equal times, the one with the shorter run is within the other.
    let equal = |outer, inner| [("a", &[(0, 100)][..], outer), ("b", &[(0, 100)][..], inner)];
    assert_eq!(named(1, &equal(100, 99)), is("b", 100));
    assert_eq!(named(1, &equal(99, 100)), is("a", 100));
    // A function elsewhere takes no part of the caller's time.
    assert_eq!(
        named(1, &[caller, ("later", &[(100, 199)], 99)]),
        is("caller", 100)
    );
    // At least a given time.
    assert_eq!(named(100, &[caller]), is("caller", 100));
    assert_eq!(named(101, &[caller]), None);
    assert_eq!(
        named(52, &[caller, ("inner", &[(0, 51)], 51)]),
        is("caller", 100)
    );
}

fn span(cpu: u32, from: u64, to: u64, cause: Cause) -> CauseSpan {
    CauseSpan {
        from: us(from),
        to: us(to),
        cpu,
        cause,
        rival: None,
    }
}

#[test]
fn adjacent_segments_of_a_source_are_one_stretch() {
    let nmi = || Cause::new(Source::Nmi);
    let spans = [
        span(1, 0, 10, nmi()),
        span(1, 10, 20, nmi().with(Detail::Together)),
        span(2, 20, 30, nmi()),
        span(2, 30, 35, Cause::new(Source::Gap)),
        span(2, 35, 40, nmi()),
    ];
    let found = stretches(&spans, &Source::Nmi);
    let found = found.iter().map(|one| (one.cpu, one.from, one.to));
    let expected = [(1, us(0), us(20)), (2, us(20), us(30)), (2, us(35), us(40))];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

fn run(cpu: u32, pid: u32, from: u64, to: u64) -> FunctionRun {
    FunctionRun {
        function: "shrink_slab".into(),
        cpu,
        pid: Some(pid),
        end: Some(us(to)),
        took: us(to - from),
    }
}

/// A function runs only while its thread does.
#[test]
fn function_runs_while_its_thread_is_current() {
    let other = task("other", OTHER, 120);
    let exit = |at| event(at, OTHER, EventKind::IrqExit { irq: 4, ret: 1 });
    let events = vec![
        switch(100, victim(), SLEEPS, other),
        exit(150),
        switch(200, other, RUNNABLE, victim()),
        switch(300, victim(), SLEEPS, other),
        on(0, event(310, VICTIM, EventKind::IrqExit { irq: 4, ret: 1 })),
    ];
    let running = Running::new(&window(0, 1_000, events));
    let of = |cpu, pid, from, to| running.times_of(&run(cpu, pid, from, to), us(from), us(to));
    assert_eq!(of(1, OTHER, 120, 400), times(&[(120, 200), (300, 400)]));
    assert_eq!(of(1, OTHER, 200, 300), times(&[]));
    assert_eq!(of(1, VICTIM, 50, 400), times(&[(50, 100), (200, 300)]));
    assert_eq!(of(1, VICTIM, 300, 400), times(&[]));
    // The last event of a CPU also tells who runs after it.
    assert_eq!(of(0, VICTIM, 0, 900), times(&[(0, 310), (310, 900)]));
    assert_eq!(of(7, VICTIM, 0, 900), times(&[]));
}

/// An event of another thread than the one that was switched in shows that an event is missing.
#[test]
fn time_of_contradicting_events_belongs_to_no_thread() {
    let other = task("other", OTHER, 120);
    let events = vec![
        switch(100, other, RUNNABLE, victim()),
        event(200, OTHER, EventKind::IrqExit { irq: 4, ret: 1 }),
    ];
    let running = Running::new(&window(0, 1_000, events));
    let of = |pid| running.times_of(&run(1, pid, 0, 400), us(0), us(400));
    assert_eq!(of(VICTIM), times(&[]));
    assert_eq!(of(OTHER), times(&[(0, 100), (200, 400)]));
}
