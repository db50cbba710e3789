//! Threads that are idle in several waits, and threads whose jobs contain waits.

use proptest::prelude::*;

use super::pool_tests::{FUTEX, Lives, NANOSLEEP, Recorder, WAIT, WORKERS, one_process, releases};
use super::*;

const RECORDERS: [Recorder; 3] = [Recorder::Light, Recorder::Full, Recorder::Tracer];
const TID: u32 = WORKERS[0];
/// Another watched thread.
const OTHER: u32 = WORKERS[1];
/// A timer.
const TIMER: u32 = 0;
const SLEEP: (i64, [u64; 2]) = (NANOSLEEP, [1, 0]);

const fn futex(place: u64) -> (i64, [u64; 2]) {
    (FUTEX, [0x4_0000 + 0x100 * place, WAIT])
}

fn argument(call: (i64, [u64; 2])) -> (i64, u64) {
    (call.0, call.1[0])
}

/// A thread, and its events until now.
#[derive(Default)]
struct Life {
    lives: Lives,
    now: u64,
}

impl Life {
    /// Waits for this long, and then works for `burst`.
    fn waits(&mut self, call: (i64, [u64; 2]), length: u64, by: u32, burst: u64) {
        self.lives.sleeps(self.now, TID, call);
        self.lives.wakes(self.now + length, TID, by, call.0);
        self.now += length + burst;
    }

    /// Waits until the other thread has woken by itself, and then wakes this one.
    fn waits_for_news(&mut self, call: (i64, [u64; 2]), length: u64, burst: u64) {
        let at = self.now + length;
        self.lives.wakes(at - 20, OTHER, TIMER, NANOSLEEP);
        self.lives.sleeps(at + 10, OTHER, SLEEP);
        self.waits(call, length, OTHER, burst);
    }

    fn begin_other(&mut self) {
        self.lives.sleeps(self.now, OTHER, SLEEP);
        self.now += 10;
    }

    fn seen(&self, recorder: Recorder) -> (Vec<(u64, u64)>, JobSeen) {
        let (jobs, seen) = self.lives.seen(recorder, &one_process);
        let jobs = jobs.into_iter().filter(|job| job.0 == TID);
        let jobs = jobs.map(|(_, from, to)| (from, to)).collect();
        (jobs, seen[&TID].clone())
    }
}

fn longest(jobs: &[(u64, u64)]) -> u64 {
    jobs.iter().map(|(from, to)| to - from).max().unwrap_or(0)
}

fn idle_places(seen: &JobSeen) -> Vec<(i64, u64)> {
    let mut places = releases(seen);
    let also = seen.also_idle.iter();
    places.extend(also.map(|found| (found.call.id, found.call.argument)));
    places.sort_unstable();
    places
}

/// A service thread of a Java virtual machine: it waits for requests at one condition variable, and
/// for the end of its pause at another one.
#[test]
fn requests_and_pauses_are_both_idle() {
    let mut life = Life::default();
    life.begin_other();
    for n in 0..40 {
        life.waits_for_news(futex(1), 40_000 + n * n * 7_919 % 600_000, 60);
        for _ in 0..n % 4 + 1 {
            life.waits(futex(2), 100_000, TIMER, 40);
        }
    }
    for recorder in RECORDERS {
        let (jobs, seen) = life.seen(recorder);
        let both = [argument(futex(1)), argument(futex(2))];
        assert_eq!(idle_places(&seen), both, "{recorder:?}");
        assert!(longest(&jobs) < 100, "{recorder:?} {jobs:?}");
    }
}

/// The monitor of Go's scheduler: short sleeps in a loop, and a long wait if everything is idle.
#[test]
fn loop_of_sleeps_and_long_wait_are_both_idle() {
    for rounds in [3, 40, 400] {
        let mut life = Life::default();
        life.begin_other();
        for n in 0..20 {
            life.waits_for_news(futex(1), 200_000 + n * n * 7_919 % 900_000, 30);
            for _ in 0..rounds {
                life.waits(SLEEP, 10_070, TIMER, 12);
            }
        }
        for recorder in RECORDERS {
            let (jobs, seen) = life.seen(recorder);
            let both = [argument(futex(1)), argument(SLEEP)];
            assert_eq!(idle_places(&seen), both, "{recorder:?} {rounds}");
            assert!(longest(&jobs) < 100, "{recorder:?} {rounds}");
        }
    }
}

/// As seen in a real program: the sleeps are regular at first, and irregular later.
#[test]
fn short_sleeps_and_long_timeouts_are_both_idle() {
    let mut life = Life::default();
    for n in 0..120_u64 {
        for round in 0..n % 5 + 2 {
            let length = if n < 12 {
                70
            } else {
                40 + (n * 37 + round * 53) % 300
            };
            life.waits(SLEEP, length, TIMER, 12);
        }
        life.waits(futex(1), 100_000 + n * n * 7_919 % 400_000, TIMER, 20);
    }
    assert_idle_in_both(&life);
}

/// Checks that the futex and the sleep are both idle waits, and that no job contains one.
fn assert_idle_in_both(life: &Life) {
    for recorder in RECORDERS {
        let (jobs, seen) = life.seen(recorder);
        let both = [argument(futex(1)), argument(SLEEP)];
        assert_eq!(idle_places(&seen), both, "{recorder:?}");
        assert!(longest(&jobs) < 100, "{recorder:?} {jobs:?}");
    }
}

/// The monitor of an idle program alternates between a short and a long timeout.
#[test]
fn alternating_timeouts_are_both_idle() {
    let mut life = Life::default();
    for n in 0..60_u64 {
        life.waits(futex(1), 100_000 + n * n * 7_919 % 400_000, TIMER, 20);
        life.waits(SLEEP, 10_070, TIMER, 12);
    }
    assert_idle_in_both(&life);
}

/// A periodic thread that waits for a lock in each job, sometimes for longer than its period.
#[test]
fn lock_of_periodic_thread_stays_in_job() {
    let mut life = Life::default();
    life.begin_other();
    let mut expected = Vec::new();
    for n in 0..600 {
        let at = n * 10_000;
        life.waits(SLEEP, at + 9_000 - life.now, TIMER, 50);
        let released = life.now - 50;
        let lock = if n % 100 == 99 { 9_000 } else { 200 + n % 50 };
        if lock > 1_000 {
            life.waits_for_news(futex(1), lock, 20);
        } else {
            life.waits(futex(1), lock, OTHER, 20);
        }
        life.now = life.now.max(at + 9_400);
        expected.push(life.now - released);
        if lock > 1_000 {
            life.now = at + 18_500;
        }
    }
    for recorder in RECORDERS {
        let (jobs, seen) = life.seen(recorder);
        assert_eq!(idle_places(&seen), [argument(SLEEP)], "{recorder:?}");
        assert!(longest(&jobs) >= 9_000, "{recorder:?}");
    }
}

/// A worker with long bursts keeps its jobs, with any kind of wait in them.
#[test]
fn long_bursts_are_jobs() {
    let mut life = Life::default();
    life.begin_other();
    for n in 0..60 {
        life.waits_for_news(futex(1), 60_000 + n * 7_919 % 90_000, 4_000);
        life.waits_for_news(futex(2), 20_000 + n * 5_003 % 9_000, 3_000);
    }
    for recorder in RECORDERS {
        let (jobs, seen) = life.seen(recorder);
        assert_eq!(idle_places(&seen), [argument(futex(1))], "{recorder:?}");
        assert!(jobs.len() > 50 && longest(&jobs) > 26_000, "{recorder:?}");
    }
}

/// A worker asks another thread, and waits for the answer.
#[test]
fn wait_for_own_request_is_no_idle_wait() {
    let mut life = Life::default();
    life.lives.sleeps(0, OTHER, futex(9));
    life.now = 10;
    for n in 0..100 {
        life.waits(futex(1), 9_000 + n * n * 7_919 % 60_000, TIMER, 40);
        life.lives.wakes(life.now - 10, OTHER, TID, FUTEX);
        let length = 3_000 + n * 3_001 % 20_000;
        life.lives.sleeps(life.now + length + 5, OTHER, futex(9));
        life.waits(futex(2), length, OTHER, 30);
    }
    for recorder in RECORDERS {
        let (jobs, seen) = life.seen(recorder);
        assert_eq!(idle_places(&seen), [argument(futex(1))], "{recorder:?}");
        assert!(longest(&jobs) > 20_000, "{recorder:?}");
    }
}

/// Two threads share a lock. The light stage shows no system call that wakes the next waiter.
#[test]
fn holder_shows_that_futex_is_lock() {
    let mut life = Life::default();
    life.lives.sleeps(0, OTHER, SLEEP);
    for n in 0..300 {
        let start = n * 20_000 + 100;
        // The other thread takes the lock before this one waits for it, and sleeps meanwhile.
        life.lives.wakes(start, OTHER, TIMER, NANOSLEEP);
        life.now = start + 20;
        let first_waits = n % 10 != 0;
        let length = 9_000 + n * 7_919 % 3_000;
        if first_waits {
            life.waits(futex(1), length, OTHER, 20);
        } else {
            life.lives.sleeps(start + 10, OTHER, futex(1));
            life.lives.wakes(start + 3_000, OTHER, TID, FUTEX);
            life.now = start + 3_020;
        }
        life.lives.sleeps(start + length + 40, OTHER, SLEEP);
        life.now = life.now.max(start + 40);
        let rest = start + 14_000 + n * 3_001 % 4_000 - life.now;
        life.waits(futex(2), rest, TIMER, 30);
    }
    for recorder in RECORDERS {
        let (jobs, seen) = life.seen(recorder);
        assert_eq!(idle_places(&seen), [argument(futex(2))], "{recorder:?}");
        assert!(longest(&jobs) >= 9_000, "{recorder:?}");
    }
}

proptest! {
    /// A thread that is idle in two to four waits has no long job.
    #[test]
    fn idle_threads_have_no_long_jobs(
        count in 2_u64..5,
        turns in prop::collection::vec((0_u64..4, 1_u64..4, 0_u64..200_000, 5_u64..400), 200..300),
        recorder in prop::sample::select(&RECORDERS),
    ) {
        let mut life = Life::default();
        life.begin_other();
        for n in 0..4 * count {
            life.waits_for_news(futex(n % count), 100_000 + n * 1_009, 20);
        }
        for (place, repeats, length, burst) in turns {
            for _ in 0..repeats {
                life.waits_for_news(futex(place % count), 60_000 + length, burst);
            }
        }
        let half = life.now / 2;
        let (mut jobs, seen) = life.seen(recorder);
        prop_assert_eq!(idle_places(&seen).len() as u64, count);
        jobs.retain(|job| job.0 > half);
        prop_assert!(longest(&jobs) < 500, "{:?}", jobs);
    }

    /// A periodic thread keeps its jobs, with any kind of wait in them, if most of these waits are
    /// shorter than its period.
    #[test]
    fn periodic_threads_keep_their_jobs(
        waits in prop::collection::vec((0_u64..3, 20_u64..3_000, any::<bool>()), 1..6),
        recorder in prop::sample::select(&RECORDERS),
    ) {
        let mut life = Life::default();
        life.begin_other();
        let mut longest_job = 0;
        for n in 0..400_usize {
            let start = 20_000 * (n as u64 + 1);
            life.waits(SLEEP, start - life.now, TIMER, 30);
            for (place, length, is_news) in waits.iter().take(n % (waits.len() + 1)) {
                if *is_news {
                    life.waits_for_news(futex(*place), length + 40, 15);
                } else {
                    life.waits(futex(*place), *length, TIMER, 15);
                }
            }
            longest_job = longest_job.max(life.now - start);
        }
        let (jobs, seen) = life.seen(recorder);
        prop_assert_eq!(idle_places(&seen), [argument(SLEEP)]);
        prop_assert!(longest(&jobs) >= longest_job, "{} {}", longest(&jobs), longest_job);
    }
}
