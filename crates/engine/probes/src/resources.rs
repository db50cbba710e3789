//! What a probe may ask for beside the plan, by type.

use std::error::Error;
use std::ffi::OsString;
use std::sync::Arc;

use crate::{HardwareTracer, NoiseTracer, ProviderError};

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

/// Why a setting cannot be read or changed on a probe's behalf; each is a sentence
/// for the reader of the recording.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The probe asks for another setting than it named.
    #[error("the probe has not said that it changes {0}: a defect of ours")]
    NotNamed(String),
    /// The kernel does not list the values that a setting takes.
    #[error("the kernel does not list the values of {0}")]
    NotListed(String),
    /// Nothing is changed without a journal.
    #[error("there is no place for the journal of settings: set HOME")]
    NoJournal,
    /// Everything is put back already.
    #[error("the run is over")]
    RunOver,
    /// The setting cannot be read, may not be changed, or was not taken.
    #[error(transparent)]
    Refused(ProviderError),
}

impl SettingsError {
    /// The setting cannot be read, may not be changed, or was not taken.
    pub fn refused(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Refused(ProviderError::new(error))
    }
}

/// Changes settings on a probe's behalf. The session implements it, keeps a
/// journal, and puts everything back at the end of the run, however it ends.
pub trait Settings: Send + Sync {
    /// The values that the kernel offers.
    ///
    /// # Errors
    /// When they cannot be read, or the kernel does not list them.
    fn offered(&self, knob: &str) -> Result<Vec<String>, SettingsError>;

    /// Whether this process may change it; nothing is changed.
    ///
    /// # Errors
    /// Why not, and how to get the right.
    fn may_change(&self, knob: &str) -> Result<(), SettingsError>;

    /// Changes it. Only while the probe runs.
    ///
    /// # Errors
    /// When it was refused, or does not read back as it was set.
    fn set(&self, knob: &str, value: &str) -> Result<(), SettingsError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_setting_is_a_sentence() {
        let knob = || "clocksource".to_owned();
        let kernel = std::io::Error::from_raw_os_error(13);
        let kernels = kernel.to_string();
        for (error, text) in [
            (
                SettingsError::NotNamed(knob()),
                "the probe has not said that it changes clocksource: a defect of ours",
            ),
            (
                SettingsError::NotListed(knob()),
                "the kernel does not list the values of clocksource",
            ),
            (
                SettingsError::NoJournal,
                "there is no place for the journal of settings: set HOME",
            ),
            (SettingsError::RunOver, "the run is over"),
            (SettingsError::refused(kernel), &kernels),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
