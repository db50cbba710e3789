//! The audit of this machine, as the verbs `doctor`, `check`, `improve`, `tune` and `machine` use it.

mod facts;
mod options;

pub(crate) use facts::{Counting, facts, load};
pub(crate) use options::{AuditOutput, ForRole};

use anyhow::Result;
use punctual_checks::{AuditError, Request, Role};
use punctual_model::{Audit, CpuSet, FactSet, Nanos};

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

fn wrong(error: AuditError) -> UsageError {
    UsageError(error.to_string())
}
