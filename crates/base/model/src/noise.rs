//! What the kernel's tracers timerlat and osnoise tell.

use std::collections::BTreeMap;

use crate::{Nanos, SignedNanos, TimerlatContext};

/// What they have told since the last time, by CPU and then by time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoiseReports {
    /// Of timerlat.
    pub timerlat: Vec<TimerlatSample>,
    /// Of timerlat: where in the kernel its interrupt came upon the CPU.
    pub stacks: Vec<TimerlatStack>,
    /// Of osnoise: one for each turn of a spinning thread.
    pub osnoise: Vec<OsnoiseSample>,
    /// Of osnoise: one for each gap above its threshold.
    pub gaps: Vec<NoiseGap>,
    /// Records that were overwritten before they were read, by CPU; at least so
    /// many. Which they were is not known.
    pub lost: BTreeMap<u32, u64>,
}

/// One latency of a timer (`ftrace:timerlat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerlatSample {
    /// The CPU.
    pub cpu: u32,
    /// When it was written, just after it was measured, on CLOCK_MONOTONIC.
    pub time: Nanos,
    /// The thread that was current: of a [`TimerlatContext::Thread`] the one
    /// that was woken.
    pub pid: u32,
    /// Which expiry of the timer, from 1 since its thread began. An expiry that
    /// the kernel skipped, because the thread was late by more than a period,
    /// has no number.
    pub seqnum: u32,
    /// Where it was measured.
    pub context: TimerlatContext,
    /// How long after the timer was due.
    pub latency: SignedNanos,
}

/// The kernel stack of timerlat's interrupt, which the kernel writes when the thread that
/// it woke is late (`osnoise/print_stack`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerlatStack {
    /// The CPU.
    pub cpu: u32,
    /// When it was written, just after the sample of the thread, on CLOCK_MONOTONIC.
    pub time: Nanos,
    /// The thread that was woken.
    pub pid: u32,
    /// Addresses, the innermost function first.
    pub frames: Vec<u64>,
}

/// One turn of a spinning thread (`ftrace:osnoise`); the kernel counts times in
/// whole microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OsnoiseSample {
    /// The CPU.
    pub cpu: u32,
    /// When it was written, at the end of the turn, on CLOCK_MONOTONIC.
    pub time: Nanos,
    /// The thread that spun.
    pub pid: u32,
    /// How long it spun.
    pub runtime: Nanos,
    /// The time that was taken from it.
    pub noise: Nanos,
    /// The longest gap; 0 where none was above the threshold.
    pub longest: Nanos,
    /// Gaps in which the kernel saw nothing come: firmware, a hypervisor or the
    /// hardware itself.
    pub hardware: u64,
    /// Non-maskable interrupts that came.
    pub nmis: u64,
    /// Interrupts that came.
    pub irqs: u64,
    /// Softirqs that ran; on PREEMPT_RT they are threads.
    pub softirqs: u64,
    /// Times that another thread ran.
    pub threads: u64,
}

/// A gap above osnoise's threshold (`osnoise:sample_threshold`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoiseGap {
    /// The CPU.
    pub cpu: u32,
    /// When it began, on the kernel's own clock of the CPU
    /// (`trace_clock_local`), which is not CLOCK_MONOTONIC.
    pub start_local: Nanos,
    /// How long it was.
    pub duration: Nanos,
    /// What the kernel saw come in it; 0: nothing.
    pub interruptions: u64,
}
