//! Interfaces to the kernel's own tracers for probes: the hardware latency detector, timerlat and
//! osnoise.

use std::error::Error;
use std::io;

use punctual_model::{CpuSet, Nanos, NoiseReports};

use crate::ProviderError;

/// Why one of the kernel's tracers cannot be used, or why it ended. The message of each error is a
/// sentence for the reader.
#[derive(Debug, thiserror::Error)]
pub enum TracerError {
    /// The run does not offer any tracer.
    #[error("this run cannot use kernel tracers")]
    NotOffered,
    /// The tracer was already started, which can be done only once per run.
    #[error("it was already started: this is a bug in punctual")]
    AlreadyStarted,
    /// The request needs a running tracer, but the tracer was not started.
    #[error("it was not started")]
    NotStarted,
    /// The thread that would fetch the reports cannot be started.
    #[error("cannot start the thread that reads it: {0}")]
    NoReader(#[source] io::Error),
    /// The kernel does not have the tracer or rejects it, or the tracer cannot be read.
    #[error(transparent)]
    Refused(ProviderError),
}

impl TracerError {
    /// Creates the error for a tracer that the kernel does not have or rejects, or that cannot be
    /// read.
    pub fn refused(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Refused(ProviderError::new(error))
    }
}

/// The settings of the kernel's detector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracerPlan {
    /// Time from the start of one spin to the start of the next.
    pub window: Nanos,
    /// How long the detector spins in each window.
    pub width: Nanos,
    /// Gaps above this are reported.
    pub threshold: Nanos,
    /// The CPUs that it visits in turn.
    pub cpus: CpuSet,
}

/// Report of a spin of the kernel in which there was a gap above the threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelGap {
    /// The number of the report since the start, from 1.
    pub sequence: u64,
    /// The CPU of the spin.
    pub cpu: Option<u32>,
    /// The time of the report, at the end of the spin, on CLOCK_MONOTONIC.
    pub at: Option<Nanos>,
    /// The longest gap between the two readings of one iteration.
    pub inner: Nanos,
    /// The longest gap between two iterations.
    pub outer: Nanos,
    /// The number of gaps above the threshold, if the kernel reports it.
    pub count: Option<u64>,
    /// Time in NMIs, if the kernel reports it.
    pub nmi_total: Option<Nanos>,
    /// The number of NMIs.
    pub nmi_count: u64,
}

/// The kernel's detector (the tracer `hwlat`). The session implements this trait. When the probe
/// has ended, no matter how, the session stops the tracer and restores its settings.
pub trait HardwareTracer: Send + Sync {
    /// Checks whether the kernel has the tracer, without changing anything.
    ///
    /// # Errors
    /// If it cannot be started, with the reason.
    fn may_start(&self) -> Result<(), TracerError>;

    /// Starts it. Works only while the probe runs.
    ///
    /// # Errors
    /// If it is in use, or a step was rejected; then nothing is changed.
    fn start(&self, plan: &TracerPlan) -> Result<(), TracerError>;

    /// Returns the reports since the last call, without waiting.
    ///
    /// # Errors
    /// If it was not started, or cannot be read.
    fn take(&self) -> Result<Vec<KernelGap>, TracerError>;
}

/// The settings of the kernel's tracers timerlat and osnoise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoisePlan {
    /// Timerlat, with a timer on each of these CPUs.
    Timerlat {
        /// The CPUs.
        cpus: CpuSet,
        /// Time from one expiry to the next, in whole microseconds.
        period: Nanos,
        /// Whether user-space threads wait for the timers ([`NoiseTracer::user_wait`]).
        user: bool,
    },
    /// Osnoise, with a thread that spins on each of these CPUs.
    Osnoise {
        /// The CPUs.
        cpus: CpuSet,
        /// Time from the start of one spin to the start of the next, in whole microseconds.
        period: Nanos,
        /// The length of each spin.
        runtime: Nanos,
        /// Gaps of at least this length count as noise.
        threshold: Nanos,
        /// Gaps above this are reported individually.
        report_above: Nanos,
        /// Whether interrupts stay enabled while the threads spin.
        interrupts: bool,
    },
}

/// The kernel's tracers timerlat and osnoise; the counterpart of [`HardwareTracer`].
pub trait NoiseTracer: Send + Sync {
    /// Checks that the kernel has the tracer and that no other program is using it, without
    /// changing anything.
    ///
    /// # Errors
    /// If it cannot be started, with the reason.
    fn may_start(&self, plan: &NoisePlan) -> Result<(), TracerError>;

    /// Returns whether user-space threads can wait for the timers of timerlat.
    ///
    /// # Errors
    /// Returns an error if there is no tracefs, so that this cannot be determined.
    fn has_user_threads(&self, cpus: &CpuSet) -> Result<bool, TracerError>;

    /// Starts it. Works only while the probe runs.
    ///
    /// # Errors
    /// If it is in use, or a step was rejected; then nothing is changed.
    fn start(&self, plan: &NoisePlan) -> Result<(), TracerError>;

    /// Returns the reports since the last call, without waiting.
    ///
    /// # Errors
    /// If it was not started, or cannot be read.
    fn take(&self) -> Result<NoiseReports, TracerError>;

    /// Lets the calling thread, which must be bound to this CPU only, wait for the timers of
    /// timerlat. Drop the returned timer before the run of the probe ends, because the kernel kills
    /// a program that still has it open when the tracer stops.
    ///
    /// # Errors
    /// Returns an error if the tracer was not started for user-space threads, or if the kernel
    /// rejects the request.
    fn user_wait(&self, cpu: u32) -> Result<Box<dyn UserTimer>, TracerError>;
}

/// Lets a thread wait for the kernel's timer.
pub trait UserTimer {
    /// Ends the period, and sleeps until the next timer or a signal.
    ///
    /// # Errors
    /// Returns an error if the tracer was stopped, or if the thread was moved to another CPU.
    fn wait(&mut self) -> Result<(), TracerError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracer_error_is_a_sentence() {
        let full = || io::Error::from_raw_os_error(11);
        let no_reader = format!("cannot start the thread that reads it: {}", full());
        let refused = full().to_string();
        for (error, text) in [
            (
                TracerError::NotOffered,
                "this run cannot use kernel tracers",
            ),
            (
                TracerError::AlreadyStarted,
                "it was already started: this is a bug in punctual",
            ),
            (TracerError::NotStarted, "it was not started"),
            (TracerError::NoReader(full()), &no_reader),
            (TracerError::refused(full()), &refused),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
