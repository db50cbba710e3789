//! The kernel's names of softirqs.

/// The softirqs by their vector (`include/linux/interrupt.h`).
pub const SOFTIRQS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// A softirq's name: `NET_RX`, or its number where it has none here.
pub fn softirq_name(vec: u32) -> String {
    SOFTIRQS
        .get(vec as usize)
        .map_or_else(|| format!("vector {vec}"), |name| (*name).to_owned())
}

/// The name of a disk by its number in the kernel's own form: `254:0`.
pub fn disk_name(dev: u32) -> String {
    format!("{}:{}", dev >> 20, dev & 0xf_ffff)
}
