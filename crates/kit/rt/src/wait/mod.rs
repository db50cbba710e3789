//! Waking up at absolute times, in three ways.

mod account;
mod nanosleep;
mod signal_timer;
mod timer_fd;

pub use nanosleep::Nanosleep;
pub use signal_timer::SignalTimer;
pub use timer_fd::TimerFd;

use crate::{Error, Instant};

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wake {
    /// The deadline has come.
    Due,
    /// A signal came first. Waiting again for the same deadline goes on.
    Interrupted,
}

/// Waits for a deadline, again and again.
///
/// Each kind is made in the thread that waits with it. A wait that is on time
/// makes exactly one system call; none allocates. [`Wake::Due`] never comes
/// before the deadline. A deadline already past returns at once.
///
/// A stop and continuation (SIGSTOP, SIGCONT) can end a wait as interrupted
/// even though no handler ran (`signal(7)`).
pub trait PeriodicWait {
    /// Waits until `deadline`, an instant of the clock that the wait was made
    /// with, or until a signal handler has run.
    ///
    /// # Errors
    /// [`Error::Os`], for reasons a correct program does not meet.
    fn wait_until(&mut self, deadline: Instant) -> Result<Wake, Error>;
}

#[cfg(test)]
mod tests;
