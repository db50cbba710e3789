//! The facts about the machine that are needed to read options.

use punctual_host::{Host, HostError};
use punctual_model::CpuSet;

use crate::{CompatError, Given, values};

/// Facts about the machine that are needed to read options.
pub(crate) struct Machine {
    /// The CPUs that exist.
    pub(crate) present: CpuSet,
    /// Those of the existing CPUs that are usable and online.
    pub(crate) allowed: CpuSet,
}

impl Machine {
    /// Reads the facts.
    ///
    /// # Errors
    /// Returns an error if they cannot be read.
    pub(crate) fn from_host(host: &Host) -> Result<Self, CompatError> {
        let fatal = |error: HostError| CompatError::Fatal(error.to_string());
        let present = host.present().map_err(fatal)?;
        let online = host.online().map_err(fatal)?;
        let allowed = host.allowed().map_err(fatal)?.intersection(&online);
        Ok(Self { present, allowed })
    }

    /// Parses a CPU list like libnuma.
    ///
    /// # Errors
    /// Returns an error if it is not a list, or has no usable CPU.
    pub(crate) fn cpus(&self, given: &Given, list: &str) -> Result<CpuSet, CompatError> {
        let cpus = values::cpu_list(list, &self.present, &self.allowed)
            .map_err(|reason| given.bad(&format!("a list of CPUs: {reason}")))?;
        if cpus.is_empty() {
            Err(given.bad("a list of usable CPUs"))
        } else {
            Ok(cpus)
        }
    }
}
