//! The audit of the machine before the run.

use punctual_checks::Request;
use punctual_host::Host;
use punctual_model::{CpuSet, FactSet, HostFacts, KeptAudit, Role};

/// The state of the machine, as far as it is asked for.
pub(crate) enum Seen {
    /// The facts of each recording.
    Facts(Box<HostFacts>),
    /// All that an audit reads.
    All(Box<FactSet>, Role),
}

impl Seen {
    /// Reads it; for an audit some hundred files and all processes.
    pub(crate) fn of(host: &Host, role: Option<Role>) -> Self {
        match role {
            None => Self::Facts(Box::new(host.facts())),
            Some(role) => Self::All(Box::new(host.capture(&punctual_checks::patterns())), role),
        }
    }

    /// The facts, and what the audit found for the CPUs that are measured.
    pub(crate) fn judged(self, cpus: &CpuSet) -> (HostFacts, Option<KeptAudit>) {
        match self {
            Self::Facts(facts) => (*facts, None),
            Self::All(all, role) => {
                let cpus = Some(cpus.clone());
                // CPUs that went offline meanwhile: the run itself will say so.
                let audit = punctual_checks::audit(&all, &Request { role, cpus }).ok();
                (all.host, audit.as_ref().map(KeptAudit::of))
            }
        }
    }
}
