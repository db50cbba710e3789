//! Threads of pools, which are idle in two waits, and locks, which are waits within a job.

use proptest::prelude::*;
use punctual_model::{Comm, KernelPriority, Task, TaskState};

use super::super::release::{Call, CallKind};
use super::super::thread_state::CallNumbers;
use super::*;

pub(super) const EPOLL: i64 = 232;
pub(super) const FUTEX: i64 = 202;
const READ: i64 = 0;
pub(super) const SYNC: i64 = 75;
pub(super) const NANOSLEEP: i64 = 230;
pub(super) const WAIT: u64 = 0x80;
const WAKE: u64 = 0x81;
pub(super) const WORKERS: [u32; 3] = [11, 12, 13];
pub(super) const EVENTS: (i64, [u64; 2]) = (EPOLL, [4, 0]);
const MUTEX: u64 = 0x9000;
/// Time from the entry of a system call to the sleep in it, in microseconds.
pub(super) const TO_SLEEP: u64 = 2;

/// The recorder whose events are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Recorder {
    Light,
    Full,
    /// The trace events. They do not show the system call of a sleep.
    Tracer,
}

fn task(pid: u32) -> Task {
    Task {
        pid,
        comm: Comm::new(b"t"),
        prio: KernelPriority(120),
    }
}

/// A thread, and the release and completion of its job in microseconds.
pub(super) type FoundJob = (u32, u64, u64);

/// Threads that live, and their events.
#[derive(Default)]
pub(super) struct Lives {
    events: Vec<(u64, u32, EventKind)>,
    pub(super) jobs: Vec<FoundJob>,
}

impl Lives {
    fn push(&mut self, us: u64, pid: u32, kind: EventKind) {
        self.events.push((us, pid, kind));
    }

    fn call(&mut self, us: u64, tid: u32, (id, args): (i64, [u64; 2])) {
        self.push(us, tid, EventKind::SysEnter { id, args });
        self.push(us + 1, tid, EventKind::SysExit { id, ret: 0 });
    }

    pub(super) fn sleeps(&mut self, us: u64, tid: u32, (id, args): (i64, [u64; 2])) {
        self.push(us, tid, EventKind::SysEnter { id, args });
        self.push(us + TO_SLEEP, tid, EventKind::SleepsIn { id, args });
        let kind = EventKind::Switch {
            prev: task(tid),
            prev_state: TaskState(1),
            next: task(0),
        };
        self.push(us + TO_SLEEP, tid, kind);
    }

    pub(super) fn wakes(&mut self, us: u64, tid: u32, by: u32, id: i64) {
        let kind = EventKind::Waking {
            task: task(tid),
            target_cpu: 0,
        };
        self.push(us, by, kind);
        let kind = EventKind::Switch {
            prev: task(0),
            prev_state: TaskState(0),
            next: task(tid),
        };
        self.push(us + 3, 0, kind);
        self.push(us + 4, tid, EventKind::SysExit { id, ret: 0 });
    }

    pub(super) fn waits(&mut self, (from, to): (u64, u64), tid: u32, call: (i64, [u64; 2])) {
        self.sleeps(from, tid, call);
        self.wakes(to, tid, 99, call.0);
    }

    /// Waits for a mutex until `to`, and hands it on to the next waiter 5 us later.
    fn locks(&mut self, (from, to): (u64, u64), tid: u32) {
        self.waits((from, to), tid, (FUTEX, [MUTEX, WAIT]));
        self.call(to + 9, tid, (FUTEX, [MUTEX, WAKE]));
    }

    /// Returns the jobs that are found, and the statistics of the threads. `process`: the process of
    /// a thread.
    pub(super) fn seen(
        &self,
        recorder: Recorder,
        process: &dyn Fn(u32) -> Option<Process>,
    ) -> (Vec<FoundJob>, BTreeMap<u32, JobSeen>) {
        let mut finder = JobFinder::new(CallNumbers {
            futex: vec![FUTEX],
            ..CallNumbers::default()
        });
        finder.enter(recorder == Recorder::Light, Nanos::ZERO);
        let mut events = self.events.clone();
        events.sort_by_key(|event| event.0);
        let mut jobs = Vec::new();
        for (us, pid, kind) in events {
            let is_call = matches!(kind, EventKind::SysEnter { .. } | EventKind::SysExit { .. });
            let is_sleep = matches!(kind, EventKind::SleepsIn { .. });
            if (is_call && recorder == Recorder::Light)
                || (is_sleep && recorder == Recorder::Tracer)
            {
                continue;
            }
            for tid in finder.needs_processes().clone() {
                finder.joins(tid, process(tid));
            }
            let event = TraceEvent {
                time: Nanos::from_micros(us),
                cpu: 0,
                pid,
                flags: 0,
                preempt_count: 0,
                kind,
            };
            jobs.extend(finder.take(&event, &|tid| WORKERS.contains(&tid), &kind_of));
        }
        let us = |time: Nanos| time.0 / 1_000;
        let jobs = jobs
            .iter()
            .map(|job| (job.tid, us(job.release), us(job.completion)));
        let seen = finder.seen().map(|(tid, seen)| (tid, seen.clone()));
        (jobs.collect(), seen.collect())
    }
}

fn kind_of(_: u32, call: Call) -> Option<CallKind> {
    Some(match call.id {
        NANOSLEEP => CallKind::Timer,
        EPOLL => CallKind::Any,
        SYNC => CallKind::Storage,
        _ => CallKind::Other,
    })
}

fn park(tid: u32) -> (i64, [u64; 2]) {
    (FUTEX, [0x1000 * u64::from(tid), WAIT])
}

/// A job of a worker.
#[derive(Clone, Copy, Debug)]
struct Work {
    worker: usize,
    /// Idle time before it.
    idle: u64,
    /// Time on the CPU.
    work: u64,
    /// Time waiting for a mutex; 0 if it gets the mutex at once.
    lock: u64,
    /// Whether the worker wakes another one, which continues to wait for events.
    hands_over: bool,
    /// Whether it looks for further events without waiting.
    polls: bool,
}

const ORDINARY: Work = Work {
    worker: 0,
    idle: 900,
    work: 200,
    lock: 60,
    hands_over: true,
    polls: true,
};

/// A pool: one idle worker waits for events, and the others are parked.
struct Pool {
    lives: Lives,
    now: u64,
    /// The worker that waits for events.
    driver: Option<u32>,
    /// Beginning of the job of each worker.
    began: BTreeMap<u32, u64>,
}

impl Pool {
    fn new() -> Self {
        let mut pool = Self {
            lives: Lives::default(),
            now: 0,
            driver: None,
            began: BTreeMap::new(),
        };
        for tid in WORKERS {
            pool.now += 10;
            pool.idles(pool.now, tid);
        }
        pool
    }

    fn idles(&mut self, us: u64, tid: u32) {
        let call = match self.driver {
            None => EVENTS,
            Some(_) => park(tid),
        };
        self.driver.get_or_insert(tid);
        self.lives.sleeps(us, tid, call);
        if let Some(began) = self.began.remove(&tid) {
            self.lives.jobs.push((tid, began, us));
        }
    }

    fn begins(&mut self, us: u64, tid: u32, by: u32) {
        let id = if self.driver == Some(tid) {
            EPOLL
        } else {
            FUTEX
        };
        if id == EPOLL {
            self.driver = None;
        }
        self.lives.wakes(us, tid, by, id);
        self.began.insert(tid, us);
    }

    fn does(&mut self, work: Work) {
        let tid = WORKERS[work.worker];
        let mut at = self.now + 10 + work.idle;
        self.begins(at, tid, 99);
        at += 10;
        if work.hands_over && self.driver.is_none() {
            let other = WORKERS[(work.worker + 1) % WORKERS.len()];
            self.lives.call(at, tid, (FUTEX, [park(other).1[0], WAKE]));
            self.begins(at, other, tid);
            self.idles(at + 12, other);
        }
        at += 20 + work.work;
        if work.polls {
            self.lives.call(at, tid, EVENTS);
        }
        if work.lock > 0 {
            self.lives.locks((at + 5, at + 5 + work.lock), tid);
            at += 5 + work.lock;
        }
        self.now = at + 30;
        self.idles(self.now, tid);
    }

    fn ordinary(&mut self, count: usize) {
        for n in 0..count {
            self.does(Work {
                worker: n % WORKERS.len(),
                ..ORDINARY
            });
        }
    }
}

pub(super) fn one_process(_: u32) -> Option<Process> {
    Some(Process {
        id: 10,
        family: None,
    })
}

pub(super) fn releases(seen: &JobSeen) -> Vec<(i64, u64)> {
    let both = [seen.release, seen.second_release];
    let both = both.into_iter().flatten();
    let mut both: Vec<_> = both
        .map(|found| (found.call.id, found.call.argument))
        .collect();
    both.sort_unstable();
    both
}

#[test]
fn pool_threads_have_two_release_waits() {
    let mut pool = Pool::new();
    pool.ordinary(600);
    for recorder in [Recorder::Light, Recorder::Full, Recorder::Tracer] {
        let (_, seen) = pool.lives.seen(recorder, &one_process);
        for tid in WORKERS {
            let expected = [(FUTEX, park(tid).1[0]), (EPOLL, 4)];
            assert_eq!(releases(&seen[&tid]), expected, "{recorder:?} {tid}");
            assert_eq!(seen[&tid].at_once, 0);
        }
    }
}

proptest! {
    /// Each job of a worker is found, from the wake-up in one idle wait to the beginning of the next
    /// one. The light stage shows only the sleep in it. A wait for a mutex is a part of its job, even if the worker waits longer for
    /// the mutex than for work.
    #[test]
    fn pool_jobs_contain_their_lock_waits(
        works in prop::collection::vec(
            (0_usize..3, 0_u64..3_000, 0_u64..2_000, prop_oneof![Just(0), 1_u64..9_000], any::<(bool, bool)>())
                .prop_map(|(worker, idle, work, lock, (hands_over, polls))| {
                    Work { worker, idle, work, lock, hands_over, polls }
                }),
            1..120,
        ),
        recorder in prop_oneof![Just(Recorder::Light), Just(Recorder::Full), Just(Recorder::Tracer)],
    ) {
        let mut pool = Pool::new();
        pool.ordinary(600);
        let learnt = pool.now;
        for work in works {
            pool.does(work);
        }
        let (mut found, _) = pool.lives.seen(recorder, &one_process);
        found.retain(|job| job.1 > learnt);
        found.sort_unstable();
        let mut expected = pool.lives.jobs.clone();
        expected.retain(|job| job.1 > learnt);
        if matches!(recorder, Recorder::Light) {
            expected.iter_mut().for_each(|job| job.2 += TO_SLEEP);
        }
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
    }
}

/// Threads of different processes may use the same descriptor numbers.
#[test]
fn processes_with_equal_descriptors_are_no_pool() {
    let mut pool = Pool::new();
    pool.ordinary(600);
    let each = |id| Some(Process { id, family: None });
    for process in [&each as &dyn Fn(u32) -> Option<Process>, &|_| None] {
        let (_, seen) = pool.lives.seen(Recorder::Full, process);
        let second = seen.values().find(|seen| seen.second_release.is_some());
        assert!(second.is_none(), "{second:?}");
    }
}

/// Threads that all wait for events simultaneously, and for answers of another thread in their jobs.
#[test]
fn wait_for_answer_is_no_release() {
    let mut lives = Lives::default();
    for n in 0..400 {
        for (index, tid) in WORKERS.into_iter().enumerate() {
            let at = n * 3_000 + 100 * index as u64;
            lives.waits((at, at + 1_500), tid, EVENTS);
            lives.waits((at + 1_600, at + 2_200), tid, park(tid));
        }
    }
    for recorder in [Recorder::Light, Recorder::Full, Recorder::Tracer] {
        let (_, seen) = lives.seen(recorder, &one_process);
        for tid in WORKERS {
            assert_eq!(releases(&seen[&tid]), [(EPOLL, 4)], "{recorder:?}");
        }
    }
}

/// A worker that waits longer for the mutex of its queue than for work, and one whose queue is so
/// full that it never waits for work.
#[test]
fn lock_is_no_release_beside_idle_wait() {
    let tid = WORKERS[0];
    for (idle, expected) in [(300, park(tid).1[0]), (0, MUTEX)] {
        let mut lives = Lives::default();
        for n in 0..400 {
            let at = n * 2_000;
            lives.locks((at + 500, at + 1_700 + n % 7 * 20), tid);
            if idle > 0 {
                lives.waits((at, at + idle), tid, park(tid));
            }
        }
        for recorder in [Recorder::Full, Recorder::Tracer] {
            let (_, seen) = lives.seen(recorder, &one_process);
            assert_eq!(releases(&seen[&tid]), [(FUTEX, expected)], "{recorder:?}");
        }
    }
}

/// Workers that create work, and wake another worker at the condition variable where they wait
/// themselves. They read files in their jobs.
#[test]
fn workers_that_wake_others_are_idle() {
    let mut lives = Lives::default();
    let queue = 0x7000;
    for n in 0..400 {
        for (index, tid) in WORKERS.into_iter().enumerate() {
            let at = n * 3_000 + 700 * index as u64;
            lives.waits((at, at + 900), tid, (FUTEX, [queue, WAIT]));
            lives.call(at + 950, tid, (FUTEX, [queue, WAKE]));
            lives.waits((at + 1_000, at + 1_300), tid, (READ, [7, 0]));
        }
    }
    for recorder in [Recorder::Light, Recorder::Full, Recorder::Tracer] {
        let (jobs, seen) = lives.seen(recorder, &one_process);
        assert_eq!(releases(&seen[&WORKERS[0]]), [(FUTEX, queue)]);
        // A wake-up of another worker is a part of the job.
        let of_first = jobs.iter().filter(|job| job.0 == WORKERS[0]);
        assert!(of_first.clone().count() > 390);
        assert!(
            of_first.clone().all(|job| job.2 - job.1 >= 2_100),
            "{recorder:?}"
        );
    }
}
