//! Processes of a server that wait for their clients, and in their jobs for locks of each other.

use proptest::prelude::*;

use super::pool_tests::{EPOLL, EVENTS, Lives, Recorder, SYNC, TO_SLEEP, WORKERS, releases};
use super::*;

/// The wait for another process of the server.
const LATCH: (i64, [u64; 2]) = (EPOLL, [9, 0]);
const CLIENT: u32 = 99;
const RECORDERS: [Recorder; 3] = [Recorder::Light, Recorder::Full, Recorder::Tracer];

/// The processes of the server are siblings, and 21 and 22 are siblings that are not watched.
fn forked(tid: u32) -> Option<Process> {
    let family = (tid != CLIENT).then_some([1, 4_096, 8_192]);
    Some(Process { id: tid, family })
}

/// /proc hides the addresses of these processes.
fn unknown(id: u32) -> Option<Process> {
    Some(Process { id, family: None })
}

/// A job of a process.
#[derive(Clone, Debug)]
struct Work {
    /// Time in the wait for the client.
    idle: u64,
    /// Lengths of the waits in the job, each with the cause of its end.
    inner: Vec<(u64, Cause)>,
}

/// Cause of the end of a wait in a job.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cause {
    /// The process of the server that is this far away in the list.
    Sibling(usize),
    /// A timeout of the same wait.
    Timeout,
    /// The end of a write to the disk.
    Disk,
}

/// The processes of a server.
#[derive(Default)]
struct Server {
    lives: Lives,
    now: [u64; 3],
}

impl Server {
    fn does(&mut self, index: usize, work: &Work) {
        let tid = WORKERS[index];
        let mut at = self.now[index];
        self.lives.waits((at, at + work.idle), tid, EVENTS);
        let began = at + work.idle;
        at = began + 20;
        for (length, cause) in &work.inner {
            let call = match cause {
                Cause::Disk => (SYNC, [20, 0]),
                Cause::Sibling(_) | Cause::Timeout => LATCH,
            };
            let by = match cause {
                Cause::Sibling(away) => WORKERS[(index + 1 + away % 2) % WORKERS.len()],
                Cause::Timeout | Cause::Disk => 0,
            };
            self.lives.sleeps(at, tid, call);
            self.lives.wakes(at + length, tid, by, call.0);
            at += length + 15;
        }
        self.now[index] = at + 30;
        self.lives.jobs.push((tid, began, self.now[index]));
    }

    /// Waits for clients, for locks and for the disk, until the release wait is known.
    fn ordinary(&mut self, count: usize, idle: u64, (lock, disk): (u64, u64)) {
        for n in 0..count {
            for index in 0..WORKERS.len() {
                let mut inner = vec![(lock, Cause::Sibling(n)); 1 + n % 30];
                inner.push((disk, Cause::Disk));
                self.does(index, &Work { idle, inner });
            }
        }
    }
}

fn cause() -> impl Strategy<Value = Cause> {
    prop_oneof![
        6 => (0_usize..2).prop_map(Cause::Sibling),
        1 => Just(Cause::Timeout),
        2 => Just(Cause::Disk),
    ]
}

/// A sequence of jobs whose waits have random lengths, or one pattern that recurs exactly.
fn works() -> impl Strategy<Value = Vec<Work>> {
    let inner = || prop::collection::vec((TO_SLEEP + 1..40_000, cause()), 0..5);
    let work = || (TO_SLEEP + 1..3_000, inner()).prop_map(|(idle, inner)| Work { idle, inner });
    prop_oneof![
        prop::collection::vec(work(), 1..60),
        (work(), 1_usize..60).prop_map(|(work, count)| vec![work; count]),
    ]
}

proptest! {
    /// The wait for the client is chosen, however long and regular the waits for locks are. The
    /// jobs contain the waits for locks.
    #[test]
    fn lock_waits_of_siblings_are_no_release(
        works in prop::collection::vec(works(), 3),
        idle in TO_SLEEP + 1..2_000,
        lock in TO_SLEEP + 1..20_000,
        disk in TO_SLEEP + 1..20_000,
        recorder in prop::sample::select(&RECORDERS),
    ) {
        let mut server = Server::default();
        // Long enough for the search.
        let count = 40 + 300_000 / (idle + lock + disk);
        server.ordinary(count as usize, idle, (lock, disk));
        let learnt = server.now;
        for (index, works) in works.iter().enumerate() {
            for work in works {
                server.does(index, work);
            }
            // The last job ends in this wait.
            server.does(index, &Work { idle: 10, inner: Vec::new() });
            let end = server.now[index];
            server.lives.sleeps(end, WORKERS[index], EVENTS);
        }
        let (mut found, seen) = server.lives.seen(recorder, &forked);
        let after = |(tid, release, _): &(u32, u64, u64)| {
            let index = WORKERS.iter().position(|worker| worker == tid).unwrap();
            *release > learnt[index]
        };
        for tid in WORKERS {
            prop_assert_eq!(releases(&seen[&tid]), [(EPOLL, 4)], "{}", tid);
            prop_assert_eq!(seen[&tid].release.unwrap().call.argument, 4);
            let candidates = &seen[&tid].candidates;
            prop_assert!(candidates.iter().any(|place| place.call.argument == 9));
        }
        found.retain(after);
        found.sort_unstable();
        let mut expected = server.lives.jobs.clone();
        expected.retain(after);
        if recorder == Recorder::Light {
            expected.iter_mut().for_each(|job| job.2 += TO_SLEEP);
        }
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
    }
}

/// The release wait is chosen before siblings end waits of each other, and changes then.
#[test]
fn release_wait_changes_when_siblings_are_seen() {
    let mut server = Server::default();
    for _ in 0..60 {
        for index in 0..WORKERS.len() {
            let inner = vec![(30_000, Cause::Timeout)];
            server.does(index, &Work { idle: 300, inner });
        }
    }
    let (_, seen) = server.lives.seen(Recorder::Light, &forked);
    assert_eq!(releases(&seen[&WORKERS[0]]), [(EPOLL, 9)]);
    server.ordinary(100, 300, (30_000, 500));
    let (_, seen) = server.lives.seen(Recorder::Light, &forked);
    for tid in WORKERS {
        assert_eq!(releases(&seen[&tid]), [(EPOLL, 4)]);
        let earlier = seen[&tid].earlier.iter().map(|found| found.call.argument);
        assert_eq!(earlier.collect::<Vec<_>>(), [9]);
    }
}

/// Without the addresses, or between different programs, who ends the waits proves nothing.
#[test]
fn wakers_of_unknown_programs_prove_nothing() {
    let mut server = Server::default();
    server.ordinary(200, 300, (3_000, 500));
    for recorder in RECORDERS {
        let (_, seen) = server.lives.seen(recorder, &unknown);
        assert_eq!(releases(&seen[&WORKERS[0]]), [(EPOLL, 9)]);
        // Both waits are shown.
        let candidates = seen[&WORKERS[0]].candidates.iter();
        let candidates: Vec<u64> = candidates.map(|place| place.call.argument).collect();
        assert_eq!(candidates, [9, 4], "{recorder:?}");
    }
}

/// A thread waits for siblings, and briefly for a database in each job: for locks of the siblings,
/// for work from one sibling, and for siblings that are not watched.
#[test]
fn work_from_a_sibling_is_a_release() {
    let tid = WORKERS[0];
    for (by, and_back, expected) in [
        ([WORKERS[1], WORKERS[2]], true, 4),
        ([WORKERS[1], WORKERS[2]], false, 9),
        ([21, 22], false, 4),
    ] {
        let mut lives = Lives::default();
        for n in 0..400 {
            let at = n * 3_000;
            lives.sleeps(at, tid, LATCH);
            lives.wakes(at + 2_000, tid, by[n as usize % 2], LATCH.0);
            lives.waits((at + 2_100, at + 2_600), tid, EVENTS);
            for other in &WORKERS[1..] {
                lives.sleeps(at + 5, *other, LATCH);
                let waker = if and_back { tid } else { CLIENT };
                lives.wakes(at + 2_800, *other, waker, LATCH.0);
            }
        }
        for recorder in RECORDERS {
            let (_, seen) = lives.seen(recorder, &forked);
            assert_eq!(releases(&seen[&tid]), [(EPOLL, expected)], "{recorder:?}");
            // The others have no other wait.
            assert_eq!(releases(&seen[&WORKERS[1]]), [(EPOLL, 9)]);
        }
    }
}
