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
