//! What else happened on the CPUs while the measurement ran.

use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{Nanos, Power};

/// Differences of the kernel's counters between start and end of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interference {
    /// How long was counted: a little more than the measurement.
    pub duration_ns: Nanos,
    /// Each CPU, rising.
    pub cpus: Vec<CpuInterference>,
    /// Context switches of the whole machine (`ctxt` of /proc/stat; the kernel
    /// does not count them by CPU).
    pub context_switches: Option<u64>,
    /// Control groups above the measured threads whose CPU quota was in force:
    /// the innermost first.
    #[serde(default)]
    pub groups: Vec<GroupThrottle>,
    /// What the machine did about power; absent in recordings of before, and where nobody
    /// looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
    /// What could not be read, and why.
    pub unknown: Vec<String>,
}

/// What the CPU quota of a control group did (`cpu.stat`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupThrottle {
    /// The control group, as in /proc/PID/cgroup.
    pub group: String,
    /// Periods of the quota in which the group ran (`nr_periods`).
    pub periods: u64,
    /// Those in which it was throttled (`nr_throttled`).
    pub throttled: u64,
    /// For how long it was throttled, summed over CPUs (`throttled_usec`,
    /// version 1: `throttled_time`).
    pub throttled_ns: Nanos,
}

impl Interference {
    /// The groups that were throttled.
    pub fn throttled(&self) -> impl Iterator<Item = &GroupThrottle> {
        self.groups.iter().filter(|group| group.throttled > 0)
    }
}

/// What happened on one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuInterference {
    /// Its number.
    pub cpu: u32,
    /// Whether it was measured.
    pub measured: bool,
    /// Interrupts that came, by rising number, then the named ones; those that
    /// did not come are left out.
    pub interrupts: Vec<CounterDelta>,
    /// Softirqs that ran; those that did not are left out.
    pub softirqs: Vec<CounterDelta>,
    /// Time that the hypervisor gave to others (`steal` of /proc/stat, in
    /// steps of a clock tick).
    pub steal_ns: Option<Nanos>,
    /// How often the CPU was throttled for heat
    /// (`thermal_throttle/core_throttle_count`).
    pub throttled: Option<u64>,
    /// System management interrupts (MSR 0x34 on Intel).
    pub smis: Option<u64>,
}

/// A counter that moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CounterDelta {
    /// The kernel's name: `24`, `LOC`, `TIMER`.
    pub id: String,
    /// What stands behind it: `virtio0-input.0`, `Local timer interrupts`.
    pub name: String,
    /// By how much it moved.
    pub count: u64,
}

impl CpuInterference {
    /// Interrupts in all.
    pub fn interrupts_total(&self) -> u64 {
        self.interrupts.iter().map(|delta| delta.count).sum()
    }

    /// Softirqs in all.
    pub fn softirqs_total(&self) -> u64 {
        self.softirqs.iter().map(|delta| delta.count).sum()
    }
}
