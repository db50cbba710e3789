//! How a run is started together and stopped at any time.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use punctual_model::{Nanos, SignedNanos};
use punctual_rt::{Instant, Tid};

/// Stops a run: a flag that every loop looks at, and a signal that gets
/// measuring threads out of a blocking system call.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    broke: OnceLock<Broke>,
    on_break: OnceLock<Arc<dyn OnBreak>>,
    threads: Mutex<Vec<Tid>>,
    /// Lanes that have all their samples.
    complete: AtomicU64,
}

/// The sample that ended a run, because it crossed the break value; the first
/// one, where several did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broke {
    /// The thread that measured it.
    pub thread: Tid,
    /// How late it was.
    pub latency: SignedNanos,
}

/// Called at the break by the thread that measured it, before that thread does
/// anything else: a trace must end there.
pub trait OnBreak: Debug + Send + Sync {
    /// The break value was crossed.
    fn broke(&self, broke: Broke);
}

impl Control {
    /// A run that has not been stopped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the loops are to end. Cheap: one relaxed load.
    #[inline]
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The sample that crossed the break value, if one did.
    pub fn broke(&self) -> Option<Broke> {
        self.broke.get().copied()
    }

    /// Sets what is called at a break; once, before the run.
    pub fn on_break(&self, handler: Arc<dyn OnBreak>) {
        // The first stays: there is one session to a run.
        let _ = self.on_break.set(handler);
    }

    /// Asks all threads to end. Those that sleep are woken by a signal; as a
    /// thread may look at the flag just before it goes to sleep, the caller
    /// repeats this until they are gone.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        for tid in lock(&self.threads).iter() {
            // A thread that has just ended is no error.
            let _ = punctual_rt::interrupt::interrupt(*tid);
        }
    }

    /// Ends the run because one of `lanes` lanes has all its samples: when all have, or
    /// after `interval` and a moment. Lanes of the same interval have theirs in the same
    /// interval, and are not to lose the last one. The main thread of cyclictest looks every
    /// 10 ms, to the same end. Called when the lane is finished, for it sleeps.
    pub(crate) fn complete(&self, lanes: u64, interval: Nanos) {
        const MOMENT: Duration = Duration::from_millis(10);
        self.complete.fetch_add(1, Ordering::Relaxed);
        let until = std::time::Instant::now() + Duration::from(interval) + MOMENT;
        while !self.stopping() && self.complete.load(Ordering::Relaxed) < lanes {
            let left = until.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(MOMENT / 4));
        }
        self.stop();
    }

    /// Ends the run because a sample crossed the break value; called from the
    /// hot path, so the other threads learn it at their next turn.
    #[cold]
    pub(crate) fn break_off(&self, latency: SignedNanos) {
        let thread = punctual_rt::current_tid();
        let broke = Broke { thread, latency };
        if let (Ok(()), Some(handler)) = (self.broke.set(broke), self.on_break.get()) {
            handler.broke(broke);
        }
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Makes the calling thread one that [`stop`](Self::stop) wakes, until the
    /// guard is dropped.
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

/// Where measuring threads wait until all of them are ready, so that none
/// measures the birth of another.
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
    /// Begin; all of them get this same time as the start.
    Start(Instant),
    /// Do not begin: another thread could not be made ready.
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

    /// Returns once `threads` threads wait at the gate, or `gave_up` says that
    /// one of them never will.
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

    /// Opens it for all.
    pub fn open(&self, opening: Opening) {
        lock(&self.state).opening = Some(opening);
        self.changed.notify_all();
    }
}

/// A thread that panicked while it held the lock left plain data behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
