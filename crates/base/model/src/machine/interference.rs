//! Other activity on the CPUs during the measurement.

use serde::{Deserialize, Serialize};

use crate::{Nanos, Power};

/// Differences of the kernel's counters between the start and the end of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interference {
    /// Time over which the counters were compared, slightly longer than the measurement.
    pub duration_ns: Nanos,
    /// Each CPU, in ascending order.
    pub cpus: Vec<CpuInterference>,
    /// Context switches of the whole machine (`ctxt` of /proc/stat, which the kernel does not count
    /// by CPU).
    pub context_switches: Option<u64>,
    /// Control groups with an active CPU quota that contain the measured threads, the innermost
    /// first.
    #[serde(default)]
    pub groups: Vec<GroupThrottle>,
    /// Power management. Absent in older recordings, or if it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
    /// Facts that could not be read, with the reason.
    pub unknown: Vec<String>,
}

/// Effect of a control group's CPU quota (`cpu.stat`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupThrottle {
    /// The path of the control group, as in /proc/PID/cgroup.
    pub group: String,
    /// Quota periods in which the group was active (`nr_periods`).
    pub periods: u64,
    /// Quota periods in which the group was throttled (`nr_throttled`).
    pub throttled: u64,
    /// Throttled time, summed over CPUs (`throttled_usec`, version 1: `throttled_time`).
    pub throttled_ns: Nanos,
}

impl Interference {
    /// Returns the groups that were throttled.
    pub fn throttled(&self) -> impl Iterator<Item = &GroupThrottle> {
        self.groups.iter().filter(|group| group.throttled > 0)
    }
}

/// Activity on one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuInterference {
    /// Its number.
    pub cpu: u32,
    /// Whether it was measured.
    pub measured: bool,
    /// Counts of interrupts: first the numbered ones in ascending order, then the named ones.
    /// Interrupts that did not occur are absent.
    pub interrupts: Vec<CounterDelta>,
    /// Counts of softirqs. Softirqs that did not occur are absent.
    pub softirqs: Vec<CounterDelta>,
    /// Time that the hypervisor gave to other guests (`steal` of /proc/stat, in clock ticks).
    pub steal_ns: Option<Nanos>,
    /// Number of thermal throttling events (`thermal_throttle/core_throttle_count`).
    pub throttled: Option<u64>,
    /// System management interrupts (MSR 0x34 on Intel).
    pub smis: Option<u64>,
}

/// A counter that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterDelta {
    /// The kernel's name: `24`, `LOC`, `TIMER`.
    pub id: String,
    /// Its source: `virtio0-input.0`, `Local timer interrupts`.
    pub name: String,
    /// Increase of the counter.
    pub count: u64,
}

impl CpuInterference {
    /// Returns the total number of interrupts.
    pub fn interrupts_total(&self) -> u64 {
        self.interrupts.iter().map(|delta| delta.count).sum()
    }

    /// Returns the total number of softirqs.
    pub fn softirqs_total(&self) -> u64 {
        self.softirqs.iter().map(|delta| delta.count).sum()
    }
}
