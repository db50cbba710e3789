//! Loads made of threads: a common life cycle.
//!
//! A load supplies its threads ([`Worker`]) and the work of each; this module starts, counts, stops
//! and joins them.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use punctual_model::{Achieved, Arguments, Nanos, Typed};
use punctual_rt::{JoinHandle, Policy, ThreadBuilder, ThreadRef, current_policy, set_policy};

use crate::{Ended, Load, LoadError};

/// Parameter for the number of threads, for loads that have one thread per CPU by default.
pub(crate) const THREADS: Typed<Option<u64>> = Typed::count(
    "threads",
    "Number of threads; default: number of CPUs",
    1..=4096,
);

/// Stack size of a worker. No worker has deep calls, and some loads have hundreds of workers.
pub(crate) const STACK_BYTES: usize = 256 << 10;

/// A function that returns the threads of a load on these CPUs.
pub(crate) type Plan = fn(&Arguments, &[u32]) -> Result<Vec<Worker>, LoadError>;

/// The work of a worker. It ends when [`Shift::stopping`] returns `true`.
type Body = Box<dyn FnOnce(&Shift) -> io::Result<()> + Send>;

/// A thread to start.
pub(crate) struct Worker {
    cpus: Vec<u32>,
    counts: usize,
    body: Body,
}

impl Worker {
    /// Creates a worker on these CPUs.
    pub(crate) fn new(
        cpus: &[u32],
        body: impl FnOnce(&Shift) -> io::Result<()> + Send + 'static,
    ) -> Self {
        Self {
            cpus: cpus.to_vec(),
            counts: 0,
            body: Box::new(body),
        }
    }

    /// Counts the work of this worker as the load's `kind`th kind of work; the default is the
    /// first.
    pub(crate) fn counts(mut self, kind: usize) -> Self {
        self.counts = kind;
        self
    }
}

/// Returns the CPU of each thread: [`THREADS`] threads if set, otherwise one per CPU. Each thread
/// is pinned; otherwise the scheduler might leave a CPU without load for a while.
pub(crate) fn one_each(arguments: &Arguments, cpus: &[u32]) -> Vec<[u32; 1]> {
    let threads = THREADS.value_in(arguments).unwrap_or(cpus.len() as u64);
    cpus.iter()
        .cycle()
        .take(threads as usize)
        .map(|&cpu| [cpu])
        .collect()
}

/// A worker's view of the load.
pub(crate) struct Shift {
    shared: Arc<Shared>,
    kind: usize,
}

struct Shared {
    stop: AtomicBool,
    /// Protects only the wait on `bell`.
    gate: Mutex<()>,
    bell: Condvar,
    counts: Vec<AtomicU64>,
    /// CPU time of the workers that have ended.
    cpu_ns: AtomicU64,
    /// The error of the first worker that failed.
    failure: Mutex<Option<String>>,
}

/// Locks the mutex even if it is poisoned: a panic of another worker cannot leave the data
/// inconsistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn new(kinds: usize) -> Self {
        Self {
            stop: AtomicBool::new(false),
            gate: Mutex::new(()),
            bell: Condvar::new(),
            counts: (0..kinds).map(|_| AtomicU64::new(0)).collect(),
            cpu_ns: AtomicU64::new(0),
            failure: Mutex::new(None),
        }
    }

    fn stop(&self) {
        // The lock is held, so each worker either sees the stop flag before it waits, or is already
        // waiting when it is notified.
        let _gate = lock(&self.gate);
        self.stop.store(true, Ordering::Relaxed);
        self.bell.notify_all();
    }
}

impl Shift {
    /// Returns whether the worker should end. Call this often: a stop must take effect within 200
    /// ms.
    pub(crate) fn stopping(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// Counts work done.
    pub(crate) fn did(&self, amount: u64) {
        self.shared.counts[self.kind].fetch_add(amount, Ordering::Relaxed);
    }

    /// Sleeps for this time, or until the load is stopped.
    pub(crate) fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut gate = lock(&self.shared.gate);
        while !self.stopping() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            gate = self
                .shared
                .bell
                .wait_timeout(gate, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Runs the worker, and records how it ended.
    fn work(&self, load: &'static str, body: Body) {
        let result = normal_priority().and_then(|()| body(self));
        let cpu = punctual_rt::thread_usage().cpu_time;
        self.shared
            .cpu_ns
            .fetch_add(Nanos::from(cpu).0, Ordering::Relaxed);
        let how = match result {
            // An error that was caused by stopping the load does not count.
            _ if self.stopping() => return,
            Ok(()) => format!("{load} ended by itself"),
            Err(error) => format!("{load} failed: {error}"),
        };
        lock(&self.shared.failure).get_or_insert(how);
        // Without this worker, the load differs from the requested one, so the whole load is ended,
        // and this is reported.
        self.shared.stop();
    }
}

/// Leaves a real-time policy that the calling thread may have inherited. The nice value stays: it
/// is 0, or the user's choice for the whole program.
pub(crate) fn normal_priority() -> io::Result<()> {
    match current_policy().map_err(io::Error::other)? {
        Policy::Other { .. } | Policy::Batch { .. } | Policy::Idle => Ok(()),
        _ => set_policy(ThreadRef::Current, &Policy::Other { nice: 0 }).map_err(io::Error::other),
    }
}

/// Limits a worker to a rate.
pub(crate) struct Pace {
    per_second: Option<u64>,
    since: Instant,
    done: u64,
}

impl Pace {
    /// Limits the sum of the amounts passed to [`Self::after`] to `per_second` per second; no limit
    /// if `None`.
    pub(crate) fn new(per_second: Option<u64>) -> Self {
        Self {
            per_second: per_second.filter(|&rate| rate > 0),
            since: Instant::now(),
            done: 0,
        }
    }

    /// Counts `amount`, and waits until the rate allows more. Work that is more than a second late
    /// is dropped, to avoid a burst.
    pub(crate) fn after(&mut self, shift: &Shift, amount: u64) {
        let Some(rate) = self.per_second else {
            return;
        };
        self.done += amount;
        let due = Duration::from_secs_f64(self.done as f64 / rate as f64);
        let passed = self.since.elapsed();
        if passed > due + Duration::from_secs(1) {
            self.since = Instant::now();
            self.done = 0;
        } else {
            shift.pause(due.saturating_sub(passed));
        }
    }
}

/// A load made of threads.
pub(crate) struct Workers {
    load: &'static str,
    counted: &'static [&'static str],
    plan: Plan,
    arguments: Arguments,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    started: Instant,
    lasted: Option<Duration>,
    reported: bool,
}

impl Workers {
    /// Creates a load with this name that runs the workers of `plan` and counts these kinds of
    /// work.
    pub(crate) fn load(
        load: &'static str,
        counted: &'static [&'static str],
        plan: Plan,
        arguments: &Arguments,
    ) -> Box<dyn Load> {
        Box::new(Self {
            load,
            counted,
            plan,
            arguments: arguments.clone(),
            shared: Arc::new(Shared::new(counted.len())),
            threads: Vec::new(),
            started: Instant::now(),
            lasted: None,
            reported: false,
        })
    }

    fn spawn(&self, worker: Worker) -> Result<JoinHandle<()>, LoadError> {
        let load = self.load;
        let shift = Shift {
            shared: Arc::clone(&self.shared),
            kind: worker.counts,
        };
        ThreadBuilder::new(&format!("load-{load}"))
            .cpus(&worker.cpus)
            .stack_size(STACK_BYTES)
            .spawn(move || shift.work(load, worker.body))
            .map_err(|error| {
                LoadError::start(load, "cannot start a thread", io::Error::other(error))
            })
    }
}

impl Load for Workers {
    fn start(&mut self, cpus: &[u32]) -> Result<(), LoadError> {
        self.started = Instant::now();
        for worker in (self.plan)(&self.arguments, cpus)? {
            match self.spawn(worker) {
                Ok(thread) => self.threads.push(thread),
                Err(error) => {
                    self.stop();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn ended_early(&mut self) -> Option<Ended> {
        if self.reported {
            return None;
        }
        let how = lock(&self.shared.failure).clone().or_else(|| {
            // A worker that panicked has stored no failure.
            let gone = !self.shared.stop.load(Ordering::Relaxed)
                && self.threads.iter().any(JoinHandle::is_finished);
            gone.then(|| format!("a thread of {} ended", self.load))
        });
        self.reported = how.is_some();
        how.map(Ended::failure)
    }

    /// The CPU time is only known after the load has been stopped.
    fn cpu_time(&mut self) -> Option<Nanos> {
        self.lasted?;
        Some(Nanos(self.shared.cpu_ns.load(Ordering::Relaxed)))
    }

    fn achieved(&mut self) -> Vec<Achieved> {
        let lasted = self.lasted.unwrap_or_else(|| self.started.elapsed());
        self.counted
            .iter()
            .zip(&self.shared.counts)
            .map(|(what, count)| Achieved {
                what: (*what).to_owned(),
                count: count.load(Ordering::Relaxed),
                duration_ns: lasted.into(),
            })
            .collect()
    }

    fn stop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // A panic that ended the load early has already been reported.
            let _ = thread.join_rescuing();
        }
        self.lasted.get_or_insert_with(|| self.started.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(plan: Plan) -> Box<dyn Load> {
        Workers::load("test", &["turns"], plan, &Arguments::default())
    }

    fn cpus() -> Vec<u32> {
        punctual_rt::affinity::current().unwrap()
    }

    #[test]
    fn a_pause_ends_with_the_load() {
        let mut load = workers(|_, cpus| {
            Ok(vec![Worker::new(cpus, |shift| {
                shift.did(1);
                shift.pause(Duration::from_secs(3600));
                Ok(())
            })])
        });
        load.start(&cpus()).unwrap();
        load.stop();
        assert_eq!(load.ended_early(), None);
        assert!(load.cpu_time().is_some());
    }

    #[test]
    fn failure_ends_all_workers_and_reports_once() {
        let mut load = workers(|_, cpus| {
            Ok(vec![
                Worker::new(cpus, |shift| {
                    shift.pause(Duration::from_secs(3600));
                    Ok(())
                }),
                Worker::new(cpus, |_| Err(io::Error::other("no such luck"))),
            ])
        });
        load.start(&cpus()).unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        let mut how = None;
        while how.is_none() && Instant::now() < until {
            how = load.ended_early();
        }
        assert_eq!(how, Some(Ended::failure("test failed: no such luck")));
        assert_eq!(load.ended_early(), None);
        load.stop();
    }

    #[test]
    fn a_real_time_caller_starts_normal_threads() {
        let fifo = Policy::Fifo { priority: 1 };
        let thread = punctual_testing::thread_of_test().spawn(move || {
            if let Err(error) = set_policy(ThreadRef::Current, &fifo) {
                punctual_testing::skip_refused("SCHED_FIFO", &error);
                return;
            }
            static SEEN: Mutex<Option<Policy>> = Mutex::new(None);
            let mut load = workers(|_, cpus| {
                Ok(vec![Worker::new(cpus, |_| {
                    *SEEN.lock().unwrap() = current_policy().ok();
                    Ok(())
                })])
            });
            load.start(&cpus()).unwrap();
            load.stop();
            assert_eq!(*SEEN.lock().unwrap(), Some(Policy::Other { nice: 0 }));
        });
        thread.unwrap().join().unwrap();
    }

    #[test]
    fn a_pace_is_kept() {
        let mut load = workers(|_, cpus| {
            Ok(vec![Worker::new(cpus, |shift| {
                let mut pace = Pace::new(Some(100));
                while !shift.stopping() {
                    pace.after(shift, 10);
                    shift.did(10);
                }
                Ok(())
            })])
        });
        load.start(&cpus()).unwrap();
        std::thread::sleep(Duration::from_millis(350));
        load.stop();
        let done = load.achieved().remove(0);
        // The count never exceeds the rate by more than one amount, the one in progress.
        assert!(done.count > 0);
        assert!(done.count as f64 <= 100.0 * done.duration_ns.0 as f64 / 1e9 + 10.0);
    }

    #[test]
    fn threads_go_round_the_cpus() {
        const TABLE: &[punctual_model::Parameter] = &[THREADS.parameter];
        let given = |given: Vec<(&'static str, &'static str)>| {
            one_each(&Arguments::check(TABLE, given).unwrap(), &[3, 5])
        };
        assert_eq!(given(vec![]), [[3], [5]]);
        assert_eq!(given(vec![("threads", "3")]), [[3], [5], [3]]);
    }
}
