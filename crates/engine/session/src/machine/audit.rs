//! The audit of the machine before the run.

use punctual_checks::Request;
use punctual_host::Host;
use punctual_model::{CpuSet, FactSet, HostFacts, Role, StoredAudit};

/// State of the machine, as far as requested.
pub(crate) enum CapturedFacts {
    /// The facts that every recording contains.
    Facts(Box<HostFacts>),
    /// Everything that an audit reads.
    All(Box<FactSet>, Role),
}

impl CapturedFacts {
    /// Reads the state. For an audit, this means reading a few hundred files and inspecting all
    /// processes.
    pub(crate) fn new(host: &Host, role: Option<Role>) -> Self {
        match role {
            None => Self::Facts(Box::new(host.facts())),
            Some(role) => Self::All(Box::new(host.capture(&punctual_checks::patterns())), role),
        }
    }

    /// Returns the facts, and the audit's findings for the measured CPUs.
    pub(crate) fn judged(self, cpus: &CpuSet) -> (HostFacts, Option<StoredAudit>) {
        match self {
            Self::Facts(facts) => (*facts, None),
            Self::All(all, role) => {
                let cpus = Some(cpus.clone());
                // CPUs that have gone offline in the meantime are reported by the run itself.
                let audit = punctual_checks::audit(&all, &Request { role, cpus }).ok();
                (all.host, audit.as_ref().map(StoredAudit::from_audit))
            }
        }
    }
}
