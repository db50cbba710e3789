//! Processes, threads and control groups that cannot be watched or joined.

use punctual_host::Host;

use super::existing;
use crate::Targets;

/// Reason why processes, threads or a control group cannot be watched or joined.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// There is no process with this ID.
    #[error("there is no process {pid}; {existing}")]
    NoProcess {
        /// The ID.
        pid: u32,
        /// Names that can be chosen.
        existing: String,
    },
    /// The process has no threads left.
    #[error("process {0} has ended")]
    Ended(u32),
    /// No thread matches.
    #[error("there is no thread to watch: {targets}; {existing}")]
    NoThread {
        /// The requested threads.
        targets: Targets,
        /// Names that can be chosen.
        existing: String,
    },
    /// No thread matches, but `/proc` does not show all.
    #[error(
        "no thread of {targets} is visible, because /proc hides the processes of other users \
         ({option}): run as root"
    )]
    Hidden {
        /// The requested threads.
        targets: Targets,
        /// The mount option of `/proc`.
        option: String,
    },
    /// The kernel's events have another clock than this process.
    #[error(
        "threads cannot be traced from this time namespace, which adds {0} to CLOCK_MONOTONIC, \
         because the kernel's events have the times of the host: run punctual outside of it"
    )]
    TimeNamespace(String),
    /// The process is this program itself, whose jobs would consist of watching its own jobs.
    #[error("punctual cannot watch itself, because it would record its own actions")]
    OwnJobs,
    /// The process is this program itself, whose system calls would result from watching itself.
    #[error("punctual cannot watch itself")]
    OwnCalls,
    /// Kernel threads do not make system calls.
    #[error("{number} is a kernel thread ({comm}), but the rules apply only to programs")]
    OfKernel {
        /// Process or thread ID.
        number: u32,
        /// Process name.
        comm: String,
    },
    /// There is no group with this name.
    #[error(
        "there is no control group {path}: use its name from /proc/PID/cgroup, or its folder below \
         /sys/fs/cgroup; {existing}"
    )]
    NoGroup {
        /// The name.
        path: String,
        /// Names that can be chosen.
        existing: String,
    },
    /// The command of a program is empty.
    #[error("the command of the program is empty")]
    NoCommand,
    /// A program cannot be started.
    #[error("cannot start {command}")]
    NotStarted {
        /// The command.
        command: String,
        /// The error of the kernel.
        source: std::io::Error,
    },
    /// No process belongs to a unit with this name.
    #[error(
        "no process belongs to a unit {unit}: pass a name of systemctl list-units that is running, \
         or --cgroup PATH; {existing}"
    )]
    NoUnit {
        /// Name of the unit.
        unit: String,
        /// Names that can be chosen.
        existing: String,
    },
    /// Threads with this name belong to several services.
    #[error("threads named {comm} belong to several services: choose one with --unit, or its control \
        group with --cgroup: {}", .groups.join(", "))]
    SeveralServices {
        /// The name.
        comm: String,
        /// The control groups of the services.
        groups: Vec<String>,
    },
    /// Units of several users or containers have this name.
    #[error("several control groups belong to a unit {unit}: pass one of them with --cgroup: {}",
        .groups.join(", "))]
    SeveralUnits {
        /// Name of the unit.
        unit: String,
        /// The control groups.
        groups: Vec<String>,
    },
    /// No group with this name accounts CPU time.
    #[error(
        "there is no control group {0} of version 2 or of the controller cpu: use its name from \
         /proc/PID/cgroup, or its folder below /sys/fs/cgroup"
    )]
    NoCpuGroup(String),
    /// No control group accounts CPU time.
    #[error(
        "no control groups of version 2 or of the controller cpu are mounted below /sys/fs/cgroup"
    )]
    NoHierarchy,
    /// The control group does not limit anything.
    #[error(
        "the control group {0} is not in a hierarchy that limits CPUs or CPU time (version 2, or \
         the controllers cpu and cpuset of version 1)"
    )]
    Unlimited(String),
    /// The process IDs of trace events are not those of this container.
    #[error(
        "threads cannot be traced from this PID namespace ({0}), because the kernel's events \
         contain the process IDs of the host, where the same IDs belong to other processes. Run \
         punctual on the host, or start the container with the host's PID namespace (docker and \
         podman: --pid=host; Kubernetes: hostPID: true)"
    )]
    PidNamespace(String),
}

impl TargetError {
    /// Returns the error for a control group that does not exist.
    pub(crate) fn no_group(path: &str, host: &Host) -> Self {
        Self::NoGroup {
            path: path.to_owned(),
            existing: existing::groups(path, host),
        }
    }

    /// Returns whether the same request is valid elsewhere on the machine, such as outside of a
    /// container.
    pub(crate) const fn is_of_place(&self) -> bool {
        matches!(
            self,
            Self::PidNamespace(_) | Self::TimeNamespace(_) | Self::Hidden { .. }
        )
    }
}
