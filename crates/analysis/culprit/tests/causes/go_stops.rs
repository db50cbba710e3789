//! Stops of all goroutines by Go's runtime.

use punctual_model::{Nanos, RuntimeStop, ShareKind, StopReason};

use crate::jobs::{enter, exit, explained, job, share};
use crate::stream::*;

const FUTEX: i64 = 202;
const READ: i64 = 0;

/// A thread waits in this call from 60 to 900 µs, for a thread that runs meanwhile.
fn waiting(call: i64) -> Stream {
    job(1_000.0)
        .event(50.0, enter(call, [0x7f10, 128]))
        .switch(60.0, victim(), SLEEPS, idle())
        .on(0, 0)
        .switch(30.0, idle(), RUNNABLE, task("server", 40, 120))
        .on(0, 40)
        .waking_of(900.0, victim(), 1)
        .on(1, 0)
        .switch(910.0, idle(), RUNNABLE, victim())
        .event(912.0, exit(call))
}

/// Sets a stop from and to these times, in µs after the release of the job.
fn stopped(stream: Stream, by: u32, (from, to): (u64, u64), reason: StopReason) -> Stream {
    stream.change(|window| {
        window.evidence.stops = vec![RuntimeStop {
            from: window.expected + Nanos::from_micros(from),
            to: window.expected + Nanos::from_micros(to),
            by,
            reason,
        }];
    })
}

const COLLECTION: &str = "a garbage collection of server-40";
const OTHER: &str = "a stop of all goroutines by server-40";

#[test]
fn wait_during_a_stop_is_named_until_its_end() {
    for (reason, name) in [
        (StopReason::Collection, COLLECTION),
        (StopReason::Other, OTHER),
        (StopReason::Unknown, OTHER),
    ] {
        let found = explained(&stopped(waiting(FUTEX), 40, (20, 700), reason));
        assert_eq!(share(&found, ShareKind::Waiting, name), 640.0, "{found:#?}");
        // After the stop, the thread waits for its turn.
        assert_eq!(share(&found, ShareKind::LockHolder, "server-40"), 200.0);
        assert!(found.sentence().contains(name), "{}", found.sentence());
    }
}

#[test]
fn other_waits_are_no_stops() {
    let none = |stream: Stream| {
        let found = explained(&stream);
        let named = share(&found, ShareKind::Waiting, COLLECTION);
        assert_eq!(named, 0.0, "{found:#?}");
    };
    let gc = StopReason::Collection;
    // The stop began after the wait, or ended before it.
    none(stopped(waiting(FUTEX), 40, (100, 700), gc));
    none(stopped(waiting(FUTEX), 40, (10, 55), gc));
    // The wait ended before the stop: another thread that is no goroutine ended it.
    none(stopped(waiting(FUTEX), 40, (20, 950), gc));
    // The runtime parks threads in futexes.
    none(stopped(waiting(READ), 40, (20, 700), gc));
    // The thread itself stopped the others, and waits for them.
    none(stopped(waiting(FUTEX), VICTIM, (20, 700), gc));
}
