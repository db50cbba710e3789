//! Locks and other synchronisation primitives of POSIX and the kernel.
//!
//! The primitives of the standard library all use the futex directly. They do not support priority
//! inheritance, and a program cannot choose among different kinds of waits. This module has the
//! primitives of `pthreads(7)`.

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

/// Result of a wait that a signal may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waited {
    /// The thread was woken, or did not need to wait.
    Woken,
    /// A signal handler ran first (EINTR). The wait took nothing; wait again to continue.
    Interrupted,
}

#[cfg(test)]
mod tests;
