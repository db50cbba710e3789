//! Results of the kernel tracers timerlat and osnoise.

use std::collections::BTreeMap;

use crate::{Nanos, SignedNanos, TimerlatContext};

/// Results since the last reading, ordered by CPU and then by time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoiseReports {
    /// Samples of timerlat.
    pub timerlat: Vec<TimerlatSample>,
    /// Kernel stacks of timerlat, at the arrival of its interrupt.
    pub stacks: Vec<TimerlatStack>,
    /// Samples of osnoise: one for each loop of a spinning thread.
    pub osnoise: Vec<OsnoiseSample>,
    /// Gaps of osnoise above its threshold.
    pub gaps: Vec<NoiseGap>,
    /// Lower bound of the number of records that were overwritten before they were read, by CPU.
    /// Their content is unknown.
    pub lost: BTreeMap<u32, u64>,
}

/// One latency of a timer (`ftrace:timerlat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerlatSample {
    /// The CPU.
    pub cpu: u32,
    /// Time at which the sample was written, right after the measurement, on CLOCK_MONOTONIC.
    pub time: Nanos,
    /// The current thread. For [`TimerlatContext::Thread`] it is the thread that was woken.
    pub pid: u32,
    /// Number of the timer expiry since the thread of timerlat started, beginning with 1. The
    /// kernel assigns no number to an expiry that it skipped because the thread was late by more
    /// than a period.
    pub seqnum: u32,
    /// Point at which the latency was measured.
    pub context: TimerlatContext,
    /// Latency since the timer was due.
    pub latency: SignedNanos,
}

/// The kernel stack of timerlat's interrupt. The kernel writes it if the woken thread is late
/// (`osnoise/print_stack`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerlatStack {
    /// The CPU.
    pub cpu: u32,
    /// Time at which the stack was written, right after the sample of the thread, on
    /// CLOCK_MONOTONIC.
    pub time: Nanos,
    /// The thread that was woken.
    pub pid: u32,
    /// Addresses, the innermost function first.
    pub frames: Vec<u64>,
}

/// One loop of a spinning thread (`ftrace:osnoise`). The kernel counts times in whole microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OsnoiseSample {
    /// The CPU.
    pub cpu: u32,
    /// Time at which the sample was written, at the end of the loop, on CLOCK_MONOTONIC.
    pub time: Nanos,
    /// The spinning thread.
    pub pid: u32,
    /// Length of the loop.
    pub runtime: Nanos,
    /// Time that others took from the thread.
    pub noise: Nanos,
    /// The longest gap. 0 if none was above the threshold.
    pub longest: Nanos,
    /// Number of gaps without any interruption by software. Their cause is hardware, firmware or a
    /// hypervisor.
    pub hardware: u64,
    /// Number of non-maskable interrupts.
    pub nmis: u64,
    /// Number of interrupts.
    pub irqs: u64,
    /// Number of softirqs. On PREEMPT_RT they are threads.
    pub softirqs: u64,
    /// Number of times that another thread ran.
    pub threads: u64,
}

/// A gap above osnoise's threshold (`osnoise:sample_threshold`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoiseGap {
    /// The CPU.
    pub cpu: u32,
    /// Start of the gap on the kernel's per-CPU clock (`trace_clock_local`), which is not
    /// CLOCK_MONOTONIC.
    pub start_local: Nanos,
    /// Length of the gap.
    pub duration: Nanos,
    /// Number of interruptions that the kernel counted during the gap. 0 if none.
    pub interruptions: u64,
}
