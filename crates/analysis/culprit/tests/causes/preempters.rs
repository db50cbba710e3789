//! Threads that preempt the thread of a job, or the thread that it waits for.

use proptest::prelude::*;
use punctual_model::cause::{Leaf, Source};
use punctual_model::{EventKind, Nanos, ShareKind, Task, TraceEvent};

use crate::jobs::{enter, explained, job, low};
use crate::stream::*;

fn hog(number: u32) -> Task {
    task("hog", 60 + number, 0)
}

/// The victim is preempted at 20 µs by each of these threads in turn. Each one runs for this long
/// in µs, and may be interrupted.
fn preempted(turns: &[(u32, u64, bool)]) -> Stream {
    let mut stream = job(20_000.0);
    let (mut at, mut before) = (20.0, victim());
    for (number, long, tick) in turns {
        let next = hog(*number);
        if before.pid != next.pid {
            stream = stream.switch(at, before, RUNNABLE, next);
        }
        if *tick {
            stream = stream.timer_entry(at + 0.25).timer_exit(at + 0.75);
        }
        (at, before) = (at + *long as f64, next);
    }
    stream.switch(at, before, SLEEPS, victim())
}

#[test]
fn alternating_preempters_are_two_shares() {
    let turns: Vec<_> = (0..10).map(|turn| (turn % 2, 300, true)).collect();
    let found = explained(&preempted(&turns));
    let fits = |share: &&punctual_model::Share| share.kind() == ShareKind::HigherPriority;
    let hogs: Vec<_> = found.shares.iter().filter(fits).collect();
    assert_eq!(hogs.len(), 2, "{found:#?}");
    for hog in hogs {
        assert_eq!((hog.ns, hog.count), (Nanos(1_497_500), 5));
    }
}

/// A thread keeps the CPU from the thread of timerlat only if its own priority is unknown.
#[test]
fn thread_of_known_higher_priority_blocks_nothing() {
    let stream = Stream::late(60.0)
        .sleeping_beside(hog(1))
        .timer_entry(1.0)
        .waking(2.5)
        .flags(TraceEvent::NEED_RESCHED)
        .timer_exit(4.0)
        .flags(0)
        .switch(50.0, hog(1), SLEEPS, victim())
        .change(|window| window.evidence.timer_interrupt = Some(at(1.0)));
    let found = punctual_culprit::find(&stream.window).blame;
    let largest = found.largest().unwrap();
    assert_eq!(largest.kind(), ShareKind::HigherPriority, "{found:#?}");
}

/// The owner of the lock is ready, but its CPU is idle, as under a quota. No thread preempts it.
#[test]
fn owner_that_an_idle_cpu_does_not_run_is_not_scheduled() {
    let stream = job(1_000.0)
        .on(1, VICTIM)
        .event(50.0, enter(202, [0x7f10, 6 | 128]))
        .switch(52.0, victim(), SLEEPS, idle())
        .on(0, 20)
        .switch(200.0, low(), RUNNABLE, task("swapper/0", 0, 120))
        .switch(700.0, task("swapper/0", 0, 120), RUNNABLE, low())
        .waking_of(800.0, victim(), 1)
        .on(1, 0)
        .switch(810.0, idle(), RUNNABLE, victim());
    let found = explained(&stream);
    let not_scheduled = found.shares.iter().find(|share| {
        matches!(&share.cause.source, Source::Awaited(awaited) if awaited.leaf == Leaf::NotScheduled)
    });
    let not_scheduled = not_scheduled.map(|share| share.ns);
    assert_eq!(not_scheduled, Some(Nanos::from_micros(500)), "{found:#?}");
}

/// The priority of the preempter changes while the owner of the lock waits for the CPU.
#[test]
fn preempter_with_new_priority_stays_one() {
    const FUTEX: i64 = 202;
    let (mid, boosted) = (task("mid", 21, 49), task("mid", 21, 39));
    let stream = job(1_000.0)
        .on(1, VICTIM)
        .event(50.0, enter(FUTEX, [0x7f10, 128]))
        .switch(52.0, victim(), SLEEPS, low())
        .switch(200.0, low(), RUNNABLE, mid)
        .event(
            300.0,
            EventKind::PiSetprio {
                task: mid,
                newprio: boosted.prio,
            },
        )
        .switch(400.0, boosted, SLEEPS, low())
        .on(1, 20)
        .waking_of(500.0, victim(), 1)
        .switch(510.0, low(), RUNNABLE, victim());
    let found = explained(&stream);
    let fits = |share: &&punctual_model::Share| share.who().contains("preempted by mid-21");
    let mids: Vec<_> = found.shares.iter().filter(fits).collect();
    assert_eq!(mids.len(), 1, "{found:#?}");
    assert_eq!((mids[0].ns, mids[0].count), (Nanos(200_000), 1));
}

proptest! {
    /// Each preempter has one share, with the number of its turns and its total time.
    #[test]
    fn each_preempter_has_one_share(
        turns in proptest::collection::vec((0_u32..4, 2_u64..400, any::<bool>()), 1..40),
    ) {
        let found = explained(&preempted(&turns));
        for number in 0..4 {
            let own = turns.iter().filter(|(who, ..)| *who == number);
            let ns: u64 = own.map(|(_, long, tick)| long * 1_000 - u64::from(*tick) * 500).sum();
            let begins = |at: &usize| {
                turns[*at].0 == number && at.checked_sub(1).is_none_or(|before| turns[before].0 != number)
            };
            let count = (0..turns.len()).filter(begins).count() as u32;
            let who = hog(number).to_string();
            let shares = found.shares.iter().filter(|share| share.who() == who);
            let shares: Vec<_> = shares.map(|share| (share.ns, share.count)).collect();
            let expected: Vec<_> = (count > 0).then_some((Nanos(ns), count)).into_iter().collect();
            prop_assert_eq!(shares, expected, "{:?}", found);
        }
    }
}
