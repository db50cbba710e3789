//! How a probe gets the kernel's own detector of hardware latency.

use punctual_model::{CpuSet, Nanos};

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
/// A probe gets it only if it asks for it
/// ([`Probe::wants_tracer`](crate::Probe::wants_tracer)). Errors are sentences
/// for the reader.
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
