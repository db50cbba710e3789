//! Processes, threads and control groups that cannot be watched or joined.

use crate::Targets;

/// Why processes, threads or a control group cannot be watched or joined.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Nothing has this number.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// It has no thread left.
    #[error("process {0} has ended")]
    Ended(u32),
    /// No thread fits.
    #[error("there is no thread to watch: {0}")]
    NoThread(Targets),
    /// Its jobs would be what it does to watch them.
    #[error("this program cannot watch itself: what it does would be what it sees")]
    OwnJobs,
    /// Its system calls would be those of watching.
    #[error("this program cannot watch itself")]
    OwnCalls,
    /// A thread of the kernel makes no system calls.
    #[error("{number} is a thread of the kernel ({comm}): the rules are for programs")]
    OfKernel {
        /// Its number.
        number: u32,
        /// Its name.
        comm: String,
    },
    /// Nothing has this name.
    #[error(
        "there is no control group {0}: give its name as in /proc/PID/cgroup, or its folder below \
         /sys/fs/cgroup"
    )]
    NoGroup(String),
    /// None that has this name counts CPU time.
    #[error(
        "there is no control group {0} of version 2 or of the controller cpu: give its name as in \
         /proc/PID/cgroup, or its folder below /sys/fs/cgroup"
    )]
    NoCpuGroup(String),
    /// No control group counts CPU time.
    #[error(
        "no control groups of version 2 or of the controller cpu are mounted below /sys/fs/cgroup"
    )]
    NoHierarchy,
    /// A control group that limits nothing.
    #[error(
        "the control group {0} is in no hierarchy that limits CPUs or their time (version 2, or \
         the controllers cpu and cpuset of version 1)"
    )]
    Unlimited(String),
}
