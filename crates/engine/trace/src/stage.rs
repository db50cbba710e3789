//! The stages of watching jobs.

/// Set of recorded events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Switches and wake-ups of watched threads. A switch also shows the system call that the thread
    /// sleeps in. No program is attached to system calls, interrupts and page faults.
    Light,
    /// All events that explain jobs.
    Full,
}
