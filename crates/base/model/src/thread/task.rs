//! A thread of the machine, as the kernel shows it at one moment.

use serde::{Deserialize, Serialize};

use crate::{CpuSet, Nanos, Scheduling};

/// A thread, and the resources that it has used since its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Its process ID.
    pub pid: u32,
    /// Its thread ID.
    pub tid: u32,
    /// Its comm.
    pub comm: String,
    /// Kind of thread.
    pub kind: TaskKind,
    /// State of the thread, as the letter that the kernel uses: R running, S sleeping, D in
    /// uninterruptible sleep, T stopped.
    pub state: char,
    /// Policy and priority.
    pub scheduling: Scheduling,
    /// Its nice value, -20 (largest share of the CPU) to 19.
    pub nice: i8,
    /// Its affinity. Null if it cannot be read.
    pub affinity: Option<CpuSet>,
    /// The CPU on which it last ran.
    pub last_cpu: u32,
    /// Start time in clock ticks after boot. Start time and thread ID identify the thread, even if
    /// the kernel reuses the ID.
    pub started_ticks: u64,
    /// Resources it has used.
    pub used: TaskUsage,
    /// Locked memory of its process. Null for kernel threads.
    pub locked_bytes: Option<u64>,
}

/// Counters of a thread that only increase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskUsage {
    /// CPU time, in steps of a clock tick.
    pub cpu_time_ns: Nanos,
    /// Voluntary context switches. Null if they cannot be read.
    pub switches_voluntary: Option<u64>,
    /// Involuntary context switches.
    pub switches_involuntary: Option<u64>,
    /// Page faults without I/O.
    pub faults_minor: u64,
    /// Page faults with I/O.
    pub faults_major: u64,
}

/// Kind of thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// A thread of a program.
    User,
    /// A kernel thread.
    Kernel,
    /// A kernel thread that handles one interrupt.
    Interrupt,
}

impl TaskKind {
    /// Returns the word to display.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Kernel => "kernel",
            Self::Interrupt => "interrupt",
        }
    }
}

impl TaskRecord {
    /// Returns policy and priority, or nice value: `fifo 80`, `nice 0`, `idle`.
    pub fn scheduling_text(&self) -> String {
        match self.scheduling.policy {
            crate::Policy::Other => format!("nice {}", self.nice),
            crate::Policy::Batch => format!("batch, nice {}", self.nice),
            _ => self.scheduling.to_string(),
        }
    }
}

impl TaskUsage {
    /// Returns the resources used since `before`. A counter that did not increase is 0 in the
    /// result.
    pub fn since(&self, before: &Self) -> Self {
        let rise = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        Self {
            cpu_time_ns: Nanos(self.cpu_time_ns.0.saturating_sub(before.cpu_time_ns.0)),
            switches_voluntary: rise(self.switches_voluntary, before.switches_voluntary),
            switches_involuntary: rise(self.switches_involuntary, before.switches_involuntary),
            faults_minor: self.faults_minor.saturating_sub(before.faults_minor),
            faults_major: self.faults_major.saturating_sub(before.faults_major),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, Scheduling};

    #[test]
    fn thread_is_described_in_words() {
        let kinds = [TaskKind::User, TaskKind::Kernel, TaskKind::Interrupt];
        assert_eq!(kinds.map(TaskKind::name), ["user", "kernel", "interrupt"]);
        for (policy, priority, nice, words) in [
            (Policy::Fifo, 80, 0, "fifo 80"),
            (Policy::Other, 0, -5, "nice -5"),
            (Policy::Batch, 0, 19, "batch, nice 19"),
            (Policy::Idle, 0, 0, "idle"),
        ] {
            let task = TaskRecord {
                pid: 7,
                tid: 7,
                comm: "motion".to_owned(),
                kind: TaskKind::User,
                state: 'S',
                scheduling: Scheduling { policy, priority },
                nice,
                affinity: None,
                last_cpu: 0,
                started_ticks: 1,
                used: TaskUsage::default(),
                locked_bytes: None,
            };
            assert_eq!(task.scheduling_text(), words);
        }
    }

    #[test]
    fn usage_is_the_rise_since_an_earlier_reading() {
        let usage = |time, voluntary, involuntary, minor, major| TaskUsage {
            cpu_time_ns: Nanos(time),
            switches_voluntary: voluntary,
            switches_involuntary: involuntary,
            faults_minor: minor,
            faults_major: major,
        };
        let before = usage(10, Some(20), Some(30), 40, 50);
        let now = usage(11, Some(22), Some(33), 44, 55);
        assert_eq!(now.since(&before), usage(1, Some(2), Some(3), 4, 5));
        assert_eq!(before.since(&now), usage(0, Some(0), Some(0), 0, 0));
        assert_eq!(
            now.since(&usage(0, None, Some(1), 0, 0)),
            usage(11, None, Some(32), 44, 55)
        );
        assert_eq!(
            usage(0, None, None, 0, 0).since(&before),
            TaskUsage::default()
        );
    }
}
