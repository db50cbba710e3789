//! Threads whose jobs the kernel counts for some time.

use super::super::release::{CallKind, SeenWaits};
use super::super::thread_state::CallNumbers;
use super::*;
use crate::testing::{RUNNABLE, SLEEPS, event, switch, task, us, waking};
use punctual_model::{EventKind, Task, TraceEvent};

const TID: u32 = 7;
const SLEEP: i64 = 230;
const READ: i64 = 0;

fn enter(at: u64, id: i64) -> TraceEvent {
    event(at, TID, EventKind::SysEnter { id, args: [1, 0] })
}

/// A wait from 5 to 105 µs after `at`. The thread runs again at 110 µs.
fn wait(at: u64, id: i64, thread: Task) -> Vec<TraceEvent> {
    let other = task("other", 9, 120);
    vec![
        enter(at, id),
        switch(at + 5, thread, SLEEPS, other),
        waking(at + 105, 9, thread),
        switch(at + 110, other, RUNNABLE, thread),
        event(at + 115, TID, EventKind::SysExit { id, ret: 0 }),
    ]
}

/// One period of 1 ms: the release wait, and a read.
fn turn(number: u64, thread: Task) -> Vec<TraceEvent> {
    let mut events = wait(number * 1_000, SLEEP, thread);
    events.extend(wait(number * 1_000 + 500, READ, thread));
    events
}

fn kind(_: u32, call: Call) -> Option<CallKind> {
    Some(match call.id {
        SLEEP => CallKind::Timer,
        _ => CallKind::Other,
    })
}

fn take(finder: &mut JobFinder, events: &[TraceEvent]) -> Vec<Job> {
    let events = events.iter();
    events
        .flat_map(|event| finder.take(event, &|tid| tid == TID, &kind))
        .collect()
}

/// A finder after this many periods of a thread.
fn after(turns: u64, thread: Task) -> JobFinder {
    let mut finder = JobFinder::new(CallNumbers::default());
    for number in 0..turns {
        take(&mut finder, &turn(number, thread));
    }
    finder
}

fn fifo() -> Task {
    task("t", TID, 50)
}

/// Number of completed and of incomplete jobs.
fn numbers(finder: &JobFinder) -> (u64, u64) {
    let (_, seen) = finder.seen().next().unwrap();
    (seen.jobs, seen.incomplete)
}

#[test]
fn only_well_known_threads_are_counted() {
    let countable = |turns, prio| {
        let finder = after(turns, task("t", TID, prio));
        finder.countable().collect::<Vec<u32>>()
    };
    // Each period has two waits.
    assert_eq!(countable(512, 50), [TID]);
    assert_eq!(countable(511, 50), Vec::<u32>::new());
    assert_eq!(countable(512, 120), [TID]);
    assert_eq!(countable(512, 0), [TID]);
    // SCHED_DEADLINE.
    assert_eq!(countable(512, -1), Vec::<u32>::new());
    // Its release wait is unknown.
    let mut finder = JobFinder::new(CallNumbers::default());
    for number in 0..600 {
        for event in turn(number, fifo()) {
            finder.take(&event, &|tid| tid == TID, &|_, _| None);
        }
    }
    assert_eq!(finder.countable().count(), 0);
}

#[test]
fn thread_without_its_release_wait_is_not_counted() {
    let mut finder = after(512, fifo());
    // It waits elsewhere, so the search for another release wait begins.
    for number in 0..30 {
        take(&mut finder, &wait(600_000 + number * 100_000, READ, fifo()));
    }
    assert!(finder.is_learning(TID));
    assert_eq!(finder.countable().count(), 0);
}

#[test]
fn counting_begins_in_the_release_wait() {
    let mut finder = after(512, fifo());
    let (jobs, incomplete) = numbers(&finder);
    take(&mut finder, &[enter(512_000, SLEEP)]);
    assert_eq!(numbers(&finder), (jobs + 1, incomplete));
    finder.taken(TID);
    assert_eq!(numbers(&finder), (jobs + 1, incomplete));
    // A job in progress has no end.
    let mut finder = after(512, fifo());
    finder.taken(TID);
    assert_eq!(numbers(&finder), (jobs, incomplete + 1));
    assert_eq!(finder.oldest_open(), None);
    // Meanwhile, stray events of the thread show nothing.
    let waits = finder.seen().next().unwrap().1.waits();
    assert!(take(&mut finder, &turn(600, fifo())).is_empty());
    assert!(take(&mut finder, &turn(601, fifo())).is_empty());
    assert_eq!(finder.seen().next().unwrap().1.waits(), waits);
    // Unknown threads do not matter.
    finder.taken(8);
    finder.returned(8, us(1), None);
    assert_eq!(finder.seen().count(), 1);
}

#[test]
fn job_in_progress_goes_on_after_the_counting() {
    let mut finder = after(512, fifo());
    take(&mut finder, &[enter(512_000, SLEEP)]);
    finder.taken(TID);
    // It was released at 699,900 µs and ran for 30 µs until 700,000 µs.
    finder.returned(TID, us(700_000), Some((us(699_900), us(30))));
    assert_eq!(finder.oldest_open(), Some(us(699_900)));
    let jobs = take(&mut finder, &wait(700_020, SLEEP, fifo()));
    let [job] = jobs[..] else {
        panic!("{jobs:?}");
    };
    assert_eq!((job.release, job.completion), (us(699_900), us(700_020)));
    assert_eq!((job.ran, job.response()), (us(50), us(120)));
    // The next one is released by a wake-up again.
    let jobs = take(&mut finder, &wait(701_000, SLEEP, fifo()));
    let [job] = jobs[..] else {
        panic!("{jobs:?}");
    };
    assert_eq!((job.release, job.completion), (us(700_125), us(701_000)));
    assert_eq!(job.ran, us(701_000 - 700_130));
}

#[test]
fn counting_may_end_between_jobs() {
    let mut finder = after(512, fifo());
    take(&mut finder, &[enter(512_000, SLEEP)]);
    finder.taken(TID);
    finder.returned(TID, us(700_000), None);
    assert_eq!(finder.oldest_open(), None);
    // How the thread got here is unknown, so the first release is its next wake-up.
    assert!(take(&mut finder, &wait(700_020, SLEEP, fifo())).is_empty());
    let jobs = take(&mut finder, &wait(701_000, SLEEP, fifo()));
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].release, us(700_125));
    // The intervals do not contain the time of the counting.
    let (_, seen) = finder.seen().next().unwrap();
    let waits = seen.seen_waits();
    let sleep = waits.iter().find(|place| place.call.id == SLEEP).unwrap();
    assert_eq!((sleep.count, sleep.period), (514, Some(us(1_000))));
}

/// The release wait was in use until the counting ended.
#[test]
fn release_wait_stays_after_a_long_counting() {
    let mut finder = after(512, fifo());
    take(&mut finder, &[enter(512_000, SLEEP)]);
    finder.taken(TID);
    let end = 100_000_000;
    finder.returned(TID, us(end), None);
    let read = |number: u64| wait(end + number * 100_000, READ, fifo());
    for number in 0..15 {
        take(&mut finder, &read(number));
        assert!(!finder.is_learning(TID), "{number}");
    }
    for number in 15..25 {
        take(&mut finder, &read(number));
    }
    assert!(finder.is_learning(TID));
}

#[test]
fn lost_events_end_the_counting() {
    let mut finder = after(512, fifo());
    finder.taken(TID);
    finder.blind_until(us(600_000));
    let mut jobs = take(&mut finder, &turn(700, fifo()));
    jobs.extend(take(&mut finder, &turn(701, fifo())));
    assert_eq!(jobs.len(), 1);
}

#[test]
fn counts_of_the_kernel_are_added() {
    let mut finder = after(512, fifo());
    take(&mut finder, &[enter(512_000, SLEEP)]);
    let before = finder.seen().next().unwrap().1.clone();
    let mut execution = Histogram::new();
    for ran in [1_000, 2_000, 9_000_000] {
        execution.record(SignedNanos(ran));
    }
    let counted = Counted {
        execution: &execution,
        incomplete: 2,
        waits: 40,
    };
    let listed = Job {
        tid: TID,
        comm: fifo().comm,
        prio: fifo().prio,
        cpu: 1,
        release: us(1),
        completion: us(9),
        ran: us(70_000),
        events_from: us(1),
    };
    let unseen = Call {
        id: 99,
        argument: 4,
    };
    let read = Call {
        id: READ,
        argument: 1,
    };
    for tid in [TID, 8] {
        finder.add_counted(tid, counted);
        finder.add_listed(&Job { tid, ..listed });
        finder.add_counted_waits(tid, unseen, (10, us(900_000_000)));
        finder.add_counted_waits(tid, unseen, (5, us(1)));
        finder.add_counted_waits(tid, read, (25, us(7)));
    }
    // Only the known thread has them.
    assert_eq!(finder.seen().count(), 1);
    let (_, seen) = finder.seen().next().unwrap();
    assert_eq!(seen.jobs, before.jobs + 4);
    assert_eq!(seen.execution.count(), before.execution.count() + 4);
    assert_eq!(seen.execution.max(), Some(us(70_000)));
    assert_eq!(seen.incomplete, before.incomplete + 2);
    assert_eq!(seen.waits(), before.waits() + 40);
    let of = |all: Vec<SeenWaits>, call: Call| {
        let mut all = all.into_iter();
        all.find(|place| place.call == call)
    };
    // The longest one comes first.
    let places = seen.seen_waits();
    let first = SeenWaits {
        call: unseen,
        count: 15,
        total: us(900_000_001),
        period: None,
    };
    assert_eq!(places[0], first);
    assert_eq!(of(before.seen_waits(), unseen), None);
    let (known, now) = (of(before.seen_waits(), read), of(places, read));
    let (known, now) = (known.unwrap(), now.unwrap());
    assert_eq!(
        (now.count, now.total),
        (known.count + 25, known.total + us(7))
    );
    assert_eq!(now.period, known.period);
}
