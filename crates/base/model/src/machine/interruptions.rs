//! The senders of interrupts between CPUs, and the reasons why the tick keeps running, counted over
//! some time.

use serde::{Deserialize, Serialize};

use crate::{CpuSet, Nanos};

/// Events on some CPUs during some time, as recorded by the kernel's tracer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interruptions {
    /// Length of the time over which events were counted.
    pub duration: Nanos,
    /// The CPUs whose events were counted.
    pub cpus: CpuSet,
    /// Interrupts that other CPUs sent, the most frequent ones first.
    pub sent: Vec<SentInterrupts>,
    /// Reasons why the tick kept running, the most frequent ones first.
    pub ticks: Vec<KeptTicks>,
    /// Minimum number of events that were lost. If it is not 0, all counts are lower bounds.
    pub lost: u64,
    /// Events that this kernel does not have, or that could not be recorded.
    pub missing: Vec<String>,
}

/// Interrupts from one sender to one CPU. A CPU may handle several of them at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentInterrupts {
    /// The interrupted CPU.
    pub to: u32,
    /// The CPU of the sender.
    pub from: u32,
    /// The thread that sent them, as `name-TID`. `None` if an interrupt handler did.
    pub thread: Option<String>,
    /// The kernel function that sent them; `None` if symbols are hidden.
    pub function: Option<String>,
    /// Number of interrupts.
    pub count: u64,
}

/// How often the kernel could not stop the tick of a CPU for one particular set of reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptTicks {
    /// The CPU.
    pub cpu: u32,
    /// The reasons, as bits of [`TICK_DEPENDENCIES`].
    pub dependency: u32,
    /// The threads that were running at these times, as `name-TID`, in ascending order. At most 8.
    pub threads: Vec<String>,
    /// Number of times.
    pub count: u64,
}

/// Reasons why the tick of some CPUs kept running, counted over some time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TickReasons {
    /// Length of this time.
    pub duration_ns: Nanos,
    /// The CPUs.
    pub cpus: CpuSet,
    /// The reasons, the most frequent ones first.
    pub ticks: Vec<KeptTicks>,
    /// Minimum number of events that were lost. If it is not 0, all counts are lower bounds.
    pub lost: u64,
}

/// Reasons why the tick of a CPU keeps running, by their bit (`enum tick_dep_bits` in
/// `include/linux/tick.h`): the kernel's name and what it means.
pub const TICK_DEPENDENCIES: [(&str, &str); 6] = [
    ("POSIX_TIMER", "a CPU-time timer is armed"),
    ("PERF_EVENTS", "a perf event needs the tick"),
    ("SCHED", "more than one thread is runnable"),
    ("CLOCK_UNSTABLE", "the clock is unstable"),
    ("RCU", "RCU needs the tick"),
    ("RCU_EXP", "an expedited RCU grace period needs the tick"),
];

/// Formats a set of reasons: `SCHED (more than one thread is runnable)`.
pub fn tick_dependencies(dependency: u32) -> String {
    let known = TICK_DEPENDENCIES.iter().enumerate();
    let mut reasons: Vec<String> = known
        .filter(|(bit, _)| dependency >> bit & 1 != 0)
        .map(|(_, (name, meaning))| format!("{name} ({meaning})"))
        .collect();
    if dependency >> TICK_DEPENDENCIES.len() != 0 || reasons.is_empty() {
        reasons.push(format!("unknown reasons (mask {dependency:#x})"));
    }
    reasons.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_has_its_reason() {
        assert_eq!(
            tick_dependencies(0b100),
            "SCHED (more than one thread is runnable)"
        );
        let all = tick_dependencies(0b11_1111);
        assert!(TICK_DEPENDENCIES.iter().all(|(name, _)| all.contains(name)));
        assert!(!all.contains("unknown"));
        assert_eq!(tick_dependencies(0x40), "unknown reasons (mask 0x40)");
        assert!(tick_dependencies(0x41).starts_with("POSIX_TIMER"));
        assert!(tick_dependencies(0x41).contains("mask 0x41"));
    }
}
