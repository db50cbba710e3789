//! The parameters of watching, and the description of a thread.

use punctual_model::{Policy, PriorityClass, Scheduling, TaskRecord, ThreadSeen, WakeupSource};

/// Parameters of watching.
#[derive(Clone, Debug)]
pub struct WakeupRequest {
    /// Rows by name, in addition to those by CPU and class.
    pub by_comm: bool,
    /// Rows by control group.
    pub by_group: bool,
    /// Only threads of this control group and its subgroups, by the group's name or folder path.
    pub group: Option<String>,
    /// Only threads with a real-time policy.
    pub real_time_only: bool,
    /// Number of longest waits to report.
    pub longest: usize,
    /// Counts with BPF programs only, or from trace events only. `None`: with programs, or from
    /// events if the kernel rejects the programs, or from the switches of the user's own threads if
    /// the kernel refuses tracing.
    pub source: Option<WakeupSource>,
}

impl WakeupRequest {
    /// Returns whether the threads of this class are counted.
    pub(super) fn counts(&self, class: PriorityClass) -> bool {
        !self.real_time_only || matches!(class, PriorityClass::Deadline | PriorityClass::RealTime)
    }
}

/// Returns a thread in the form of the kernel's events. Policy numbers are from
/// include/uapi/linux/sched.h.
pub(super) fn seen(task: &TaskRecord) -> ThreadSeen {
    let Scheduling { policy, priority } = task.scheduling;
    let (number, kernel_priority) = match policy {
        Policy::Deadline => (6, -1),
        Policy::Fifo => (1, 99 - i32::from(priority)),
        Policy::RoundRobin => (2, 99 - i32::from(priority)),
        Policy::Batch => (3, 120 + i32::from(task.nice)),
        Policy::Idle => (5, 120 + i32::from(task.nice)),
        Policy::Other | Policy::Unknown => (0, 120 + i32::from(task.nice)),
    };
    ThreadSeen {
        tid: task.tid,
        comm: task.comm.clone(),
        kernel_priority,
        policy: Some(number),
    }
}
