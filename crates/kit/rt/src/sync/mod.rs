//! Locks and the like, as POSIX and the kernel have them.
//!
//! The standard library's own are built on the futex directly: they know no
//! priority inheritance, and a thread that waits for one cannot be told apart
//! from one that waits for another. These are those of `pthreads(7)`.

mod barrier;
mod futex;
mod monitor;
mod mutex;
mod pi_lock;
mod pthread_monitor;
mod semaphore;

pub use barrier::Barrier;
pub use futex::Futex;
pub use futex::SharedFutex;
pub use monitor::{Monitor, MonitorGuard, Notified};
pub use mutex::{Mutex, MutexGuard, Protocol};
pub use pthread_monitor::{PthreadMonitor, PthreadMonitorGuard};
pub use semaphore::Semaphore;

/// What a wait that a signal may end came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waited {
    /// It was woken, or had no need to wait.
    Woken,
    /// A signal handler ran first (EINTR). Nothing was taken; waiting again
    /// goes on.
    Interrupted,
}

#[cfg(test)]
mod tests;
