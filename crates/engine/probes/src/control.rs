//! Starts all threads of a run together, and stops them at any time.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use punctual_model::{Nanos, SignedNanos};
use punctual_rt::{Instant, Tid};

/// Stops a run by setting a flag that every loop checks, and by sending a signal that interrupts
/// blocking system calls of measuring threads.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    broke: OnceLock<Broke>,
    on_break: OnceLock<Arc<dyn OnBreak>>,
    threads: Mutex<Vec<Tid>>,
    /// Number of workers that have already recorded all their samples.
    complete: AtomicU64,
}

/// The sample that ended a run because it exceeded the break value. If there were several, this is
/// the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broke {
    /// The thread that measured the sample.
    pub thread: Tid,
    /// Its latency.
    pub latency: SignedNanos,
}

/// Handles a break. The thread that measured the sample calls it before anything else, because the
/// trace must end there.
pub trait OnBreak: Debug + Send + Sync {
    /// A sample exceeded the break value.
    fn broke(&self, broke: Broke);
}

impl Control {
    /// Creates the control of a run that is not stopped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether the loops should end. Cheap: one relaxed load.
    #[inline]
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the sample that exceeded the break value, if any.
    pub fn broke(&self) -> Option<Broke> {
        self.broke.get().copied()
    }

    /// Sets the handler to call at a break; once, before the run.
    pub fn on_break(&self, handler: Arc<dyn OnBreak>) {
        // Only the first handler is used. A run has only one session anyway.
        let _ = self.on_break.set(handler);
    }

    /// Asks all threads to end, and wakes sleeping ones with a signal. A thread may check the flag
    /// just before it sleeps, so the caller repeats this until they have ended.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        for tid in lock(&self.threads).iter() {
            // A thread that has just ended is not an error.
            let _ = punctual_rt::interrupt::interrupt(*tid);
        }
    }

    /// Ends the run because one of `workers` workers has recorded all its samples. First waits
    /// until all workers have all their samples, but at most for `interval` plus 10 ms, so that
    /// workers with the same interval can record their last sample. The main thread of cyclictest
    /// polls every 10 ms for the same reason. Call this only when the worker is finished, because
    /// this function sleeps.
    pub(crate) fn complete(&self, workers: u64, interval: Nanos) {
        const MOMENT: Duration = Duration::from_millis(10);
        self.complete.fetch_add(1, Ordering::Relaxed);
        let until = std::time::Instant::now() + Duration::from(interval) + MOMENT;
        while !self.stopping() && self.complete.load(Ordering::Relaxed) < workers {
            let left = until.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(MOMENT / 4));
        }
        self.stop();
    }

    /// Ends the run because a sample exceeded the break value. Called from the hot path, so other
    /// threads notice it in their next iteration.
    #[cold]
    pub(crate) fn break_off(&self, latency: SignedNanos) {
        let thread = punctual_rt::current_tid();
        let broke = Broke { thread, latency };
        if let (Ok(()), Some(handler)) = (self.broke.set(broke), self.on_break.get()) {
            handler.broke(broke);
        }
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Registers the calling thread, so that [`stop`](Self::stop) wakes it until the guard is
    /// dropped.
    pub fn enter(&self) -> Entered<'_> {
        let tid = punctual_rt::current_tid();
        lock(&self.threads).push(tid);
        Entered { control: self, tid }
    }
}

/// See [`Control::enter`].
#[derive(Debug)]
pub struct Entered<'a> {
    control: &'a Control,
    tid: Tid,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        lock(&self.control.threads).retain(|tid| *tid != self.tid);
    }
}

/// A gate at which measuring threads wait until all are ready, so that no thread measures the start
/// of another.
#[derive(Debug)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug)]
struct GateState {
    waiting: usize,
    opening: Option<Opening>,
}

/// How a gate opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The threads start. All of them get this same time.
    Start(Instant),
    /// The threads do not start, because another thread could not be prepared.
    Cancelled,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            state: Mutex::new(GateState {
                waiting: 0,
                opening: None,
            }),
            changed: Condvar::new(),
        }
    }
}

impl Gate {
    /// Waits until the gate opens.
    pub fn wait(&self) -> Opening {
        let mut state = lock(&self.state);
        state.waiting += 1;
        self.changed.notify_all();
        loop {
            if let Some(opening) = state.opening {
                return opening;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns once `threads` threads are waiting at the gate, or once `gave_up` returns true
    /// because a thread will never reach it.
    pub fn await_waiting(&self, threads: usize, gave_up: impl Fn() -> bool) -> bool {
        const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(20);
        let mut state = lock(&self.state);
        while state.waiting < threads {
            if gave_up() {
                return false;
            }
            state = self
                .changed
                .wait_timeout(state, LOOK_AGAIN)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    /// Opens the gate for all threads.
    pub fn open(&self, opening: Opening) {
        lock(&self.state).opening = Some(opening);
        self.changed.notify_all();
    }
}

/// Ignores poisoning, because the lock protects only plain data.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
