//! Identity of a process: its PID and start time.

/// A process in the current boot, distinguished from a later process with the same PID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId {
    /// Its process ID.
    pub pid: u32,
    /// Its start time in clock ticks since boot (proc_pid_stat(5)).
    pub start: u64,
}

/// The process that writes a recording, so that others can check whether it is alive. The
/// store only keeps this data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// Process ID.
    pub pid: u32,
    /// Start time of the process in clock ticks since boot (proc_pid_stat(5)), because a PID can be
    /// reused.
    pub process_start: u64,
    /// Boot of the process (/proc/sys/kernel/random/boot_id).
    pub boot_id: String,
    /// Namespaces in which these numbers are valid, in the kernel's format. They are stored in the
    /// lease file, not in the store.
    pub namespaces: Option<String>,
}
