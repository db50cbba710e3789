//! The stages in which jobs are watched.

/// How much is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Switches and wake-ups of watched threads, and the system calls in which they sleep. This
    /// attaches no program to system calls, interrupts and page faults.
    Light,
    /// All events that explain jobs.
    Full,
}
