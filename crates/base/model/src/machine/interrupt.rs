//! The interrupts of a machine at one moment.

use serde::{Deserialize, Serialize};

use crate::{CpuSet, Fact, Scheduling};

/// One row of the kernel's interrupt table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptRecord {
    /// Number of the interrupt, or its name if it has no number: `24`, `LOC`.
    pub id: String,
    /// Chip, trigger and devices, as the kernel names them.
    pub name: String,
    /// How the device signals the interrupt.
    pub kind: InterruptKind,
    /// The devices that it serves. Several devices may share a line.
    pub devices: Vec<String>,
    /// Number of occurrences on each CPU since boot: [CPU, count], CPUs in ascending order.
    pub counts: Vec<(u32, u64)>,
    /// Its affinity.
    pub affinity: Fact<CpuSet>,
    /// Its effective affinity.
    pub effective: Fact<CpuSet>,
    /// Its handler threads, if any.
    pub handlers: Vec<HandlerThread>,
}

/// How a device signals an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptKind {
    /// The device sends a message (MSI).
    Msi,
    /// The device uses an interrupt line.
    Line,
    /// An interrupt of the kernel itself: timers, IPIs, NMI.
    Kernel,
}

impl InterruptKind {
    /// Returns the word to display.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Msi => "MSI",
            Self::Line => "line",
            Self::Kernel => "kernel",
        }
    }
}

/// A kernel thread that handles an interrupt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandlerThread {
    /// Its thread ID.
    pub tid: u32,
    /// Its comm.
    pub comm: String,
    /// Policy and priority.
    pub scheduling: Scheduling,
}

impl InterruptRecord {
    /// Returns the number of occurrences on all CPUs.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|count| count.1).sum()
    }

    /// Returns whether several devices share the interrupt.
    pub fn is_shared(&self) -> bool {
        self.devices.len() > 1
    }

    /// Returns the number of occurrences on each CPU since `before`, a previous reading of the same
    /// interrupt. For a CPU that is absent in `before`, counting starts at 0.
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
