//! The kernel's names of softirqs.

/// The softirqs, indexed by vector (`include/linux/interrupt.h`).
pub const SOFTIRQS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// Returns the name of a softirq, such as `NET_RX`, or its number if the name is unknown.
pub fn softirq_name(vec: u32) -> String {
    SOFTIRQS
        .get(vec as usize)
        .map_or_else(|| format!("vector {vec}"), |name| (*name).to_owned())
}

/// Returns the name of a disk from its device number in the kernel's internal form: `254:0`.
pub fn disk_name(dev: u32) -> String {
    format!("{}:{}", dev >> 20, dev & 0xf_ffff)
}
