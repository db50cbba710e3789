//! How a probe gets the kernel's own tracers: the detector of hardware latency,
//! timerlat and osnoise.

use std::error::Error;
use std::io;

use punctual_model::{CpuSet, Nanos, NoiseReports};

use crate::ProviderError;

/// Why one of the kernel's tracers cannot be used, or ended; each is a sentence for
/// the reader.
#[derive(Debug, thiserror::Error)]
pub enum TracerError {
    /// The run offers none.
    #[error("no tracer may be used here")]
    NotOffered,
    /// It is started once in a run.
    #[error("it was started already: a defect of ours")]
    AlreadyStarted,
    /// It was asked for something that only one that runs can give.
    #[error("it was not started")]
    NotStarted,
    /// Nothing fetches its reports.
    #[error("no thread to read it: {0}")]
    NoReader(#[source] io::Error),
    /// The kernel does not have it, refuses it, or cannot be read.
    #[error(transparent)]
    Refused(ProviderError),
}

impl TracerError {
    /// The kernel does not have it, refuses it, or cannot be read.
    pub fn refused(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Refused(ProviderError::new(error))
    }
}

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
pub trait HardwareTracer: Send + Sync {
    /// Whether the kernel has it; nothing is changed.
    ///
    /// # Errors
    /// Why not.
    fn may_start(&self) -> Result<(), TracerError>;

    /// Starts it. Only while the probe runs.
    ///
    /// # Errors
    /// It is in use, or something was refused; then nothing is changed.
    fn start(&self, plan: &TracerPlan) -> Result<(), TracerError>;

    /// The reports since the last time, without waiting.
    ///
    /// # Errors
    /// It was not started, or cannot be read.
    fn take(&self) -> Result<Vec<KernelGap>, TracerError>;
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
    fn may_start(&self, plan: &NoisePlan) -> Result<(), TracerError>;

    /// Whether threads of user space can wait for the timers of timerlat.
    ///
    /// # Errors
    /// There is no tracefs to ask.
    fn has_user_threads(&self, cpus: &CpuSet) -> Result<bool, TracerError>;

    /// Starts it. Only while the probe runs.
    ///
    /// # Errors
    /// It is in use, or something was refused; then nothing is changed.
    fn start(&self, plan: &NoisePlan) -> Result<(), TracerError>;

    /// The reports since the last time, without waiting.
    ///
    /// # Errors
    /// It was not started, or cannot be read.
    fn take(&self) -> Result<NoiseReports, TracerError>;

    /// Lets the calling thread, which is bound to this CPU alone, wait for the
    /// timers of timerlat. What is returned must be gone before the probe's run
    /// ends: the kernel kills a program that has it open when the tracer stops.
    ///
    /// # Errors
    /// It was not started for threads of ours, or the kernel refuses.
    fn user_wait(&self, cpu: u32) -> Result<Box<dyn UserTimer>, TracerError>;
}

/// A thread's way to wait for the kernel's timer.
pub trait UserTimer {
    /// Ends the period, and sleeps until the next timer or a signal.
    ///
    /// # Errors
    /// The tracer was stopped, or the thread moved.
    fn wait(&mut self) -> Result<(), TracerError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_tracer_is_a_sentence() {
        let full = || io::Error::from_raw_os_error(11);
        let no_reader = format!("no thread to read it: {}", full());
        let refused = full().to_string();
        for (error, text) in [
            (TracerError::NotOffered, "no tracer may be used here"),
            (
                TracerError::AlreadyStarted,
                "it was started already: a defect of ours",
            ),
            (TracerError::NotStarted, "it was not started"),
            (TracerError::NoReader(full()), &no_reader),
            (TracerError::refused(full()), &refused),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
