//! Identity of a process: its PID and start time.

/// A process in the current boot, distinguished from a later process with the same PID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId {
    /// Its process ID.
    pub pid: u32,
    /// Its start time in clock ticks since boot (proc_pid_stat(5)).
    pub start: u64,
}
