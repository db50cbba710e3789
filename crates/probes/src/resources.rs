//! What a probe may ask for beside the plan, by type.

use std::ffi::OsString;
use std::sync::Arc;

use crate::{HardwareTracer, NoiseTracer};

/// What a run can offer to a probe. The session implements it: what a probe has
/// asked for is stopped, and put back, at the end of the run, however it ends.
/// `None`: it cannot be had here.
pub trait Resources {
    /// The way to these settings of the machine, by their names in `tune`; it can
    /// change no other.
    fn settings(&self, _names: &'static [&'static str]) -> Option<Arc<dyn Settings>> {
        None
    }

    /// The kernel's own detector of hardware latency.
    fn hardware_tracer(&self) -> Option<Arc<dyn HardwareTracer>> {
        None
    }

    /// The kernel's tracers timerlat and osnoise.
    fn noise_tracer(&self) -> Option<Arc<dyn NoiseTracer>> {
        None
    }

    /// How this program is started for a half that is to be in a process of its
    /// own: what the half needs to know follows as the last argument, and goes to
    /// [`serve_partner`](crate::serve_partner) there.
    fn partner(&self) -> Option<&[OsString]> {
        None
    }
}

/// Nothing can be had.
#[derive(Clone, Copy, Debug)]
pub struct NoResources;

impl Resources for NoResources {}

/// Changes settings on a probe's behalf. The session implements it, keeps a
/// journal, and puts everything back at the end of the run, however it ends.
/// Errors are sentences for the reader of the recording.
pub trait Settings: Send + Sync {
    /// The value in force.
    ///
    /// # Errors
    /// When it cannot be read.
    fn value(&self, knob: &str) -> Result<String, String>;

    /// The values that the kernel offers.
    ///
    /// # Errors
    /// When they cannot be read, or the kernel does not list them.
    fn offered(&self, knob: &str) -> Result<Vec<String>, String>;

    /// Whether this process may change it; nothing is changed.
    ///
    /// # Errors
    /// Why not, and how to get the right.
    fn may_change(&self, knob: &str) -> Result<(), String>;

    /// Changes it. Only while the probe runs.
    ///
    /// # Errors
    /// When it was refused, or does not read back as it was set.
    fn set(&self, knob: &str, value: &str) -> Result<(), String>;
}
