//! How a probe gets the kernel's own tracers: the detector of hardware latency,
//! timerlat and osnoise.

use punctual_model::{CpuSet, Nanos, NoiseReports};

/// What the kernel's detector is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracerPlan {
    /// From the start of one spin to the next.
    pub window: Nanos,
    /// How long it spins in each window.
    pub width: Nanos,
    /// Gaps above this are reported.
    pub threshold: Nanos,
    /// The CPUs that it visits, one after the other.
    pub cpus: CpuSet,
}

/// A spin of the kernel's in which a gap was above the threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelGap {
    /// Which report since the start, from 1.
    pub sequence: u64,
    /// Where it spun.
    pub cpu: Option<u32>,
    /// When it was reported, at the end of the spin, on CLOCK_MONOTONIC.
    pub at: Option<Nanos>,
    /// The longest gap between the two readings of one turn.
    pub inner: Nanos,
    /// The longest between two turns.
    pub outer: Nanos,
    /// How many gaps were above the threshold, where the kernel says it.
    pub count: Option<u64>,
    /// Time in NMIs, where the kernel says it.
    pub nmi_total: Option<Nanos>,
    /// NMIs.
    pub nmi_count: u64,
}

/// The kernel's detector (the tracer `hwlat`). The session implements it, ends
/// it when the probe has run, however that ends, and puts its settings back.
///
/// Errors are sentences for the reader.
pub trait HardwareTracer: Send + Sync {
    /// Whether the kernel has it; nothing is changed.
    ///
    /// # Errors
    /// Why not.
    fn may_start(&self) -> Result<(), String>;

    /// Starts it. Only while the probe runs.
    ///
    /// # Errors
    /// It is in use, or something was refused; then nothing is changed.
    fn start(&self, plan: &TracerPlan) -> Result<(), String>;

    /// The reports since the last time, without waiting.
    ///
    /// # Errors
    /// It was not started, or cannot be read.
    fn take(&self) -> Result<Vec<KernelGap>, String>;
}

/// What the kernel's tracers timerlat and osnoise are set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoisePlan {
    /// A timer on each of these CPUs.
    Timerlat {
        /// The CPUs.
        cpus: CpuSet,
        /// From one expiry to the next, in whole microseconds.
        period: Nanos,
        /// Whether threads of ours wait for it ([`NoiseTracer::user_wait`]).
        user: bool,
    },
    /// A thread that spins on each of these CPUs.
    Osnoise {
        /// The CPUs.
        cpus: CpuSet,
        /// From the start of one spin to the next, in whole microseconds.
        period: Nanos,
        /// How long each is.
        runtime: Nanos,
        /// Gaps from this on are noise.
        threshold: Nanos,
        /// Gaps above this are reported one by one.
        report_above: Nanos,
    },
}

/// The kernel's tracers timerlat and osnoise, as
/// [`HardwareTracer`] is its detector of hardware latency.
pub trait NoiseTracer: Send + Sync {
    /// Whether the kernel has it, and nobody uses it; nothing is changed.
    ///
    /// # Errors
    /// Why not.
    fn may_start(&self, plan: &NoisePlan) -> Result<(), String>;

    /// Whether threads of user space can wait for the timers of timerlat.
    ///
    /// # Errors
    /// There is no tracefs to ask.
    fn has_user_threads(&self, cpus: &CpuSet) -> Result<bool, String>;

    /// Starts it. Only while the probe runs.
    ///
    /// # Errors
    /// It is in use, or something was refused; then nothing is changed.
    fn start(&self, plan: &NoisePlan) -> Result<(), String>;

    /// The reports since the last time, without waiting.
    ///
    /// # Errors
    /// It was not started, or cannot be read.
    fn take(&self) -> Result<NoiseReports, String>;

    /// Lets the calling thread, which is bound to this CPU alone, wait for the
    /// timers of timerlat. What is returned must be gone before the probe's run
    /// ends: the kernel kills a program that has it open when the tracer stops.
    ///
    /// # Errors
    /// It was not started for threads of ours, or the kernel refuses.
    fn user_wait(&self, cpu: u32) -> Result<Box<dyn UserTimer>, String>;
}

/// A thread's way to wait for the kernel's timer.
pub trait UserTimer {
    /// Ends the period, and sleeps until the next timer or a signal.
    ///
    /// # Errors
    /// The tracer was stopped, or the thread moved.
    fn wait(&mut self) -> Result<(), String>;
}
