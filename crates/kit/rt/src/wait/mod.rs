//! Three ways to wake up at absolute times.

mod account;
mod nanosleep;
mod signal_timer;
mod timer_fd;

pub use nanosleep::Nanosleep;
pub use signal_timer::SignalTimer;
pub use timer_fd::TimerFd;

use crate::{Error, Instant};

/// Result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wake {
    /// The deadline was reached.
    Due,
    /// A signal came first. Wait again for the same deadline to continue.
    Interrupted,
}

/// Waits for one deadline after another.
///
/// Create a wait in the thread that uses it. A wait that begins before its deadline makes exactly
/// one system call, and no wait allocates memory. [`Wake::Due`] never comes before the deadline. A
/// deadline in the past returns at once.
///
/// SIGSTOP and SIGCONT can end a wait as interrupted even though no handler ran (`signal(7)`).
pub trait PeriodicWait {
    /// Waits until `deadline`, an instant on the clock that the wait was created with, or until a
    /// signal handler has run.
    ///
    /// # Errors
    /// Returns [`Error::Os`] only on a programming error.
    fn wait_until(&mut self, deadline: Instant) -> Result<Wake, Error>;
}

#[cfg(test)]
mod tests;
