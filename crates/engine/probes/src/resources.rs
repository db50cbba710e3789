//! The resources that a probe may request in addition to the plan.

use std::error::Error;
use std::ffi::OsString;
use std::sync::Arc;

use crate::{HardwareTracer, NoiseTracer, ProviderError};

/// The resources that a run can offer to a probe, implemented by the session. At the end of the
/// run, however it ends, the session stops and restores all requested resources. The methods return
/// `None` if a resource is not available.
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

    /// Returns the command that starts this program for a separate process of a probe. Its task
    /// follows as the last argument, and is passed to [`serve_partner`](crate::serve_partner)
    /// there.
    fn partner(&self) -> Option<&[OsString]> {
        None
    }
}

/// Why a setting cannot be read or changed for a probe; each is a sentence for the reader of the
/// recording.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The probe requests a setting that it has not named.
    #[error("the probe did not declare that it changes {0}: this is a bug in punctual")]
    NotNamed(String),
    /// The kernel does not list the values of a setting.
    #[error("the kernel does not list the values of {0}")]
    NotListed(String),
    /// A change requires a journal, and there is none.
    #[error("the location of the settings journal is unknown: set HOME")]
    NoJournal,
    /// The run is over, and everything is restored.
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

/// Changes settings for a probe. The session implements it, keeps a journal, and restores
/// everything at the end of the run, however it ends.
pub trait Settings: Send + Sync {
    /// Returns the values that the kernel offers.
    ///
    /// # Errors
    /// If they cannot be read, or the kernel does not list them.
    fn offered(&self, setting: &str) -> Result<Vec<String>, SettingsError>;

    /// Checks whether this process may change it, without changing anything.
    ///
    /// # Errors
    /// If it may not, with the missing privilege.
    fn may_change(&self, setting: &str) -> Result<(), SettingsError>;

    /// Changes the setting. Works only while the probe runs.
    ///
    /// # Errors
    /// If the kernel rejects it, or it does not read back as written.
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
