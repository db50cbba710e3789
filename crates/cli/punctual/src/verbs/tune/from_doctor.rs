//! `--from-doctor`: plans the settings that the audit recommends.

use std::path::Path;

use anyhow::Result;
use punctual_host::Host;
use punctual_model::{Audit, Finding};
use punctual_tune::{LeftOut, Plan, Profile, Request, Wish};

/// Returns a plan of the recommended settings that a program may change without asking the user for
/// a decision. The plan also lists the other settings, with the reason why they are left out.
/// Settings in `asked` take precedence.
pub(super) fn plan(audit: &Audit, asked: Request, journal: &Path) -> Result<Plan> {
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

/// Returns a remark with the number of findings that cannot be remedied by a setting.
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
        "{findings} no setting to change: punctual doctor shows other remedies"
    ))
}
