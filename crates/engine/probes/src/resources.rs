//! The resources that a probe may request in addition to the plan.

use std::error::Error;
use std::ffi::OsString;
use std::sync::{Arc, OnceLock};

use crate::{HardwareTracer, NoiseTracer, ProviderError};

/// The calibrated size of a piece of work, once a probe has measured it.
pub type Iterations = Arc<OnceLock<u64>>;

/// The resources that a run can offer to a probe. The session implements this trait. When the run
/// has ended, no matter how, the session stops and restores all requested resources. The methods
/// return `None` if a resource is not available.
pub trait Resources {
    /// Returns access to these settings of the machine, by their names in `tune`, and to no others.
    fn settings(&self, _names: &'static [&'static str]) -> Option<Arc<dyn Settings>> {
        None
    }

    /// Returns the kernel's hardware latency detector.
    fn hardware_tracer(&self) -> Option<Arc<dyn HardwareTracer>> {
        None
    }

    /// Returns the kernel's tracers timerlat and osnoise.
    fn noise_tracer(&self) -> Option<Arc<dyn NoiseTracer>> {
        None
    }

    /// Returns the command that starts this program for a separate process of a probe. The task of
    /// that process must be added as the last argument. The process passes it to
    /// [`serve_partner`](crate::serve_partner).
    fn partner(&self) -> Option<&[OsString]> {
        None
    }

    /// Returns the size of the work that all phases of the run share, so that they do the same work.
    /// The first phase sets it.
    fn iterations(&self) -> Iterations {
        Iterations::default()
    }
}

/// Why a setting cannot be read or changed for a probe. The message of each error is a sentence for
/// the reader of the recording.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The probe requested a setting that it had not named.
    #[error("the probe did not declare that it changes {0}: this is a bug in punctual")]
    NotNamed(String),
    /// The kernel does not list the values of a setting.
    #[error("the kernel does not list the values of {0}")]
    NotListed(String),
    /// A change requires a journal, but there is none.
    #[error("the location of the settings journal is unknown: set HOME")]
    NoJournal,
    /// The run is over, and everything has been restored.
    #[error("the run has ended")]
    RunOver,
    /// The setting cannot be read, may not be changed, or was not accepted.
    #[error(transparent)]
    Refused(ProviderError),
}

impl SettingsError {
    /// Creates the error for a setting that cannot be read, may not be changed, or was not
    /// accepted.
    pub fn refused(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Refused(ProviderError::new(error))
    }
}

/// Changes settings for a probe. The session implements this trait, keeps a journal, and restores
/// everything when the run has ended, no matter how.
pub trait Settings: Send + Sync {
    /// Returns the values that the kernel offers.
    ///
    /// # Errors
    /// If they cannot be read, or the kernel does not list them.
    fn offered(&self, setting: &str) -> Result<Vec<String>, SettingsError>;

    /// Checks whether this process may change the setting, without changing anything.
    ///
    /// # Errors
    /// Returns an error that names the missing privilege if it may not.
    fn may_change(&self, setting: &str) -> Result<(), SettingsError>;

    /// Changes the setting. This works only while the probe is running.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the value, or if a different value is read back.
    fn set(&self, setting: &str, value: &str) -> Result<(), SettingsError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_error_is_a_sentence() {
        let setting = || "clocksource".to_owned();
        let kernel = std::io::Error::from_raw_os_error(13);
        let kernels = kernel.to_string();
        for (error, text) in [
            (
                SettingsError::NotNamed(setting()),
                "the probe did not declare that it changes clocksource: this is a bug in punctual",
            ),
            (
                SettingsError::NotListed(setting()),
                "the kernel does not list the values of clocksource",
            ),
            (
                SettingsError::NoJournal,
                "the location of the settings journal is unknown: set HOME",
            ),
            (SettingsError::RunOver, "the run has ended"),
            (SettingsError::refused(kernel), &kernels),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
