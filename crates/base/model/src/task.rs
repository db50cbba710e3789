//! A thread of the machine, as the kernel shows it at one moment.

use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{CpuSet, Nanos, Scheduling};

/// A thread, and what it has used since it was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskRecord {
    /// Its process.
    pub pid: u32,
    /// Its own number.
    pub tid: u32,
    /// Its name.
    pub comm: String,
    /// What kind of thread it is.
    pub kind: TaskKind,
    /// The kernel's letter for what it does: R runs, S sleeps, D waits for a
    /// device, T is stopped.
    pub state: char,
    /// Policy and priority.
    pub scheduling: Scheduling,
    /// -20 (served most) to 19.
    pub nice: i8,
    /// Where it may run; null where that cannot be read.
    pub affinity: Option<CpuSet>,
    /// Where it ran last.
    pub last_cpu: u32,
    /// When it was started, in clock ticks after boot: with the number it identifies
    /// the thread, also where numbers are reused.
    pub started_ticks: u64,
    /// What it has used.
    pub used: TaskUsage,
    /// Memory of its process that is locked; null for the kernel's threads.
    pub locked_bytes: Option<u64>,
}

/// Counters of a thread that only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskUsage {
    /// CPU time, in steps of a clock tick.
    pub cpu_time_ns: Nanos,
    /// Times that it gave the CPU away itself; null where that cannot be read.
    pub switches_voluntary: Option<u64>,
    /// Times that the CPU was taken from it.
    pub switches_involuntary: Option<u64>,
    /// Page faults that needed no reading.
    pub faults_minor: u64,
    /// Page faults that did.
    pub faults_major: u64,
}

/// What kind of thread it is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// Of a program.
    User,
    /// Of the kernel.
    Kernel,
    /// Of the kernel, handling one interrupt.
    Interrupt,
}

impl TaskKind {
    /// The word on screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Kernel => "kernel",
            Self::Interrupt => "interrupt",
        }
    }
}

impl TaskRecord {
    /// Policy and priority, or niceness: `fifo 80`, `nice 0`, `idle`.
    pub fn scheduling_text(&self) -> String {
        match self.scheduling.policy {
            crate::Policy::Other => format!("nice {}", self.nice),
            crate::Policy::Batch => format!("batch, nice {}", self.nice),
            _ => self.scheduling.to_string(),
        }
    }
}

impl TaskUsage {
    /// What was used since `before`; a counter that did not rise is 0.
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
