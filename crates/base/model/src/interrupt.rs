//! The interrupts of a machine at one moment.

use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{CpuSet, Fact, Scheduling};

/// One row of the kernel's table of interrupts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptRecord {
    /// Its number, or the name of one of the kernel's own: `24`, `LOC`.
    pub id: String,
    /// Chip, trigger and devices, as the kernel says them.
    pub name: String,
    /// How it comes.
    pub kind: InterruptKind,
    /// The devices that it serves; several share a line.
    pub devices: Vec<String>,
    /// How often it came to each CPU since the boot: [CPU, count], CPUs rising.
    pub counts: Vec<(u32, u64)>,
    /// Where it may be served.
    pub affinity: Fact<CpuSet>,
    /// Where the hardware is set to send it.
    pub effective: Fact<CpuSet>,
    /// The threads that handle it, where it has any.
    pub handlers: Vec<HandlerThread>,
}

/// How an interrupt comes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum InterruptKind {
    /// By a message of the device.
    Msi,
    /// By a line.
    Line,
    /// One of the kernel's own: timers, calls between CPUs, NMI.
    Kernel,
}

impl InterruptKind {
    /// The word on screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Msi => "MSI",
            Self::Line => "line",
            Self::Kernel => "kernel",
        }
    }
}

/// A thread of the kernel that handles an interrupt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HandlerThread {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub comm: String,
    /// Policy and priority.
    pub scheduling: Scheduling,
}

impl InterruptRecord {
    /// How often it came, on all CPUs.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|count| count.1).sum()
    }

    /// Whether several devices share it.
    pub fn is_shared(&self) -> bool {
        self.devices.len() > 1
    }

    /// How often it came to each CPU since `before`, a reading of the same
    /// interrupt; a CPU that was not there then counts from 0.
    pub fn since(&self, before: &Self) -> Vec<(u32, u64)> {
        let earlier = |cpu| {
            let found = before.counts.iter().find(|count| count.0 == cpu);
            found.map_or(0, |count| count.1)
        };
        self.counts
            .iter()
            .map(|(cpu, count)| (*cpu, count.saturating_sub(earlier(*cpu))))
            .collect()
    }
}
