//! The audit of this machine, as the verbs `doctor`, `check`, `improve`, `tune` and `machine` use it.

mod facts;
mod options;

pub(crate) use facts::{Counting, facts, load};
pub(crate) use options::{AuditOutput, ForRole};

use anyhow::Result;
use punctual_checks::{AuditError, Request, Role};
use punctual_model::{Audit, Blame, CpuSet, FactSet, Nanos, Remedy};

use self::facts::SAMPLE;
use crate::exit::UsageError;

/// Returns the facts of this machine, with counts over the time `length`, in which the CPUs of the
/// request are marked.
pub(crate) fn facts_for(request: &Request, length: Option<Nanos>) -> Result<FactSet> {
    facts(length, |facts| {
        punctual_checks::measured_cpus(facts, request).map_err(wrong)
    })
}

/// Audits these facts.
pub(crate) fn of_facts(facts: &FactSet, request: &Request) -> Result<Audit> {
    Ok(punctual_checks::audit(facts, request).map_err(wrong)?)
}

/// Audits this machine as the host of a control loop on these CPUs.
pub(crate) fn of_loop(cpus: Option<CpuSet>) -> Result<Audit> {
    let role = Role::default();
    here(&Request { role, cpus }, Some(SAMPLE))
}

/// Audits this machine, with counts over the time `length`.
pub(crate) fn here(request: &Request, length: Option<Nanos>) -> Result<Audit> {
    of_facts(&facts_for(request, length)?, request)
}

/// Returns the settings that the audit of this machine recommends against the main cause of a late
/// reaction, the most likely first, as `NAME=VALUE`.
pub(crate) fn settings_against(blame: &Blame) -> Vec<String> {
    let request = Request {
        role: Role::default(),
        cpus: None,
    };
    let (Some(share), Ok(audit)) = (blame.largest(), here(&request, None)) else {
        return Vec::new();
    };
    let checks = share.kind().advice(&share.who()).checks.iter();
    let findings = checks.flat_map(|check| {
        let all = audit.findings.iter();
        all.filter(move |finding| finding.is_problem() && finding.id == *check)
    });
    // Risks are for the user to weigh, who may apply these settings with punctual tune.
    let remedies = findings.flat_map(|finding| finding.remedies.iter());
    let safe = remedies.filter(|remedy| remedy.decide.is_none());
    safe.map(Remedy::assignment).collect()
}

fn wrong(error: AuditError) -> UsageError {
    UsageError(error.to_string())
}
