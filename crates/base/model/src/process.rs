//! Which process: its number and when it was started.

/// A process, distinguished from a later one of the same number in the same boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// When it was started, in clock ticks since the boot (proc_pid_stat(5)).
    pub start: u64,
}
