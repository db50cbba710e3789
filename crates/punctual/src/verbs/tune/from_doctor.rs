//! `--from-doctor`: a plan of the settings that the audit asks for.

use std::path::Path;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches};
use punctual_checks::{AuditError, Role};
use punctual_host::Host;
use punctual_model::{Audit, CpuSet, Finding};
use punctual_tune::{LeftOut, Plan, Profile, Request, Wish};

use crate::exit::UsageError;
use crate::verbs::{doctor, facts};

pub(super) const FLAG: &str = "from-doctor";

/// `--from-doctor` and `--role`.
pub(super) fn options() -> [Arg; 2] {
    [
        Arg::new(FLAG)
            .long(FLAG)
            .action(ArgAction::SetTrue)
            .conflicts_with("profile")
            .help("Settings that punctual doctor recommends on this machine"),
        doctor::role_option(),
    ]
}

/// Refuses a role that nothing is judged for.
pub(super) fn check(matches: &ArgMatches) -> Result<()> {
    match matches.contains_id("role") && !matches.get_flag(FLAG) {
        true => Err(UsageError("--role needs --from-doctor".to_owned()).into()),
        false => Ok(()),
    }
}

/// The plan of what the audit asks for and a program may change unasked; the rest
/// is named with its reason. `asked` wins.
pub(super) fn plan(matches: &ArgMatches, asked: Request, journal: &Path) -> Result<Plan> {
    let audit = audit(matches)?;
    let findings = || audit.findings.iter().filter(|finding| finding.is_problem());
    let remedies = || findings().flat_map(|finding| &finding.remedies);
    let unasked = remedies().filter(|remedy| remedy.decide.is_none());
    let request = Request {
        profile: Some(Profile::of_wishes(
            "doctor",
            unasked.map(Wish::of_remedy).collect::<Result<_, _>>()?,
        )),
        sets: asked.sets,
        cpus: Some(audit.cpus.clone()).filter(|cpus| !cpus.is_empty()),
    };
    let mut plan = Plan::make(&request, &Host::live(), journal)?;
    for remedy in remedies() {
        if let Some(decide) = &remedy.decide {
            let one = LeftOut {
                setting: remedy.assignment(),
                reason: format!("your decision (--set): {decide}"),
            };
            if !plan.left_out.contains(&one) {
                plan.left_out.push(one);
            }
        }
    }
    plan.remarks.extend(others(findings()));
    Ok(plan)
}

fn audit(matches: &ArgMatches) -> Result<Audit> {
    let request = punctual_checks::Request {
        role: matches.get_one::<Role>("role").copied().unwrap_or_default(),
        cpus: matches.get_one::<CpuSet>("cpus").cloned(),
    };
    let wrong = |error: AuditError| UsageError(error.to_string());
    // What is counted asks for no setting that is not asked for otherwise.
    let facts = facts::here(None, |_| anyhow::Ok(CpuSet::new()))?;
    Ok(punctual_checks::audit(&facts, &request).map_err(wrong)?)
}

/// How many findings ask for what is no setting.
fn others<'a>(findings: impl Iterator<Item = &'a Finding>) -> Option<String> {
    let count = findings
        .filter(|finding| finding.remedies.is_empty())
        .count();
    let findings = match count {
        0 => return None,
        1 => "1 finding has".to_owned(),
        _ => format!("{count} findings have"),
    };
    Some(format!(
        "{findings} no setting to change: punctual doctor shows what else helps"
    ))
}
