//! Selects the audit findings whose settings may be tried without asking the user.

use std::path::Path;

use punctual_files::Budget;
use punctual_host::Host;
use punctual_model::{
    Arm, ArmAction, Audit, CpuSet, Finding, Improvement, NotTried, Remedy, Risk, Setting,
    TriedSetting,
};
use punctual_tune::{Plan, Request, TuneError, Wish};

use crate::error::TrialError;
use crate::plots::is_slow;
use crate::sides::Sides;

/// Maximum number of settings that one screening can test.
pub(crate) const MOST: usize = punctual_stats::screening::FACTORS;

/// Maximum number of settings that take effect slowly, because each doubles the number of whole
/// plots.
const MOST_SLOW: usize = 3;

/// Splits the findings into settings to try, most severe first, and settings that are left out,
/// with the reasons. Changes nothing. `only` contains the names (`name` or `name@instance`) of the
/// settings to try, in which case the others are not mentioned. If it is empty, all are considered.
pub fn candidates(
    audit: &Audit,
    host: &Host,
    cpus: Option<&CpuSet>,
    only: &[String],
) -> (Vec<TriedSetting>, Vec<NotTried>) {
    let (mut tried, mut left_out) = (Vec::<TriedSetting>::new(), Vec::new());
    let mut findings: Vec<&Finding> = audit
        .findings
        .iter()
        .filter(|one| one.is_problem())
        .collect();
    findings.sort_by_key(|finding| finding.order());
    let slow = |tried: &[TriedSetting]| tried.iter().filter(|one| is_slow(&one.assignment)).count();
    for finding in findings {
        let leave = |reason: String, command: Option<String>| NotTried {
            finding: finding.title.clone(),
            reason,
            command,
        };
        if let (true, Some(reboot)) = (finding.remedies.is_empty(), &finding.reboot) {
            let reason = "needs a reboot".to_owned();
            left_out.push(leave(reason, Some(reboot.clone())));
        }
        for remedy in &finding.remedies {
            let assignment = remedy.assignment();
            let known = tried.iter().any(|one| one.assignment == assignment);
            if known || !is_wanted(&assignment, only) {
                continue;
            }
            match refusal(remedy, host, cpus) {
                None if is_slow(&assignment) && slow(&tried) == MOST_SLOW => {
                    let reason =
                        format!("at most {MOST_SLOW} settings with a slow effect are tried");
                    left_out.push(leave(reason, Some(by_hand(&assignment, cpus))));
                }
                None if tried.len() == MOST => {
                    let reason = format!("at most {MOST} settings are tried");
                    left_out.push(leave(reason, Some(by_hand(&assignment, cpus))));
                }
                None => tried.push(TriedSetting {
                    assignment,
                    finding: finding.title.clone(),
                    ratio: None,
                    low: None,
                    high: None,
                    accepted: false,
                    why: "not measured".to_owned(),
                }),
                Some(reason) => left_out.push(leave(reason, Some(by_hand(&assignment, cpus)))),
            }
        }
    }
    left_out.extend(not_recommended(audit, only));
    (tried, left_out)
}

/// Returns those names in `only` for which the audit does not recommend a different value.
fn not_recommended<'a>(audit: &Audit, only: &'a [String]) -> impl Iterator<Item = NotTried> + 'a {
    let problems = (audit.findings.iter()).filter(|finding| finding.is_problem());
    let recommended: Vec<String> = problems
        .flat_map(|finding| finding.remedies.iter().map(Remedy::assignment))
        .collect();
    let is_missing = move |name: &&String| {
        let own = std::slice::from_ref(*name);
        !recommended.iter().any(|one| is_wanted(one, own))
    };
    only.iter().filter(is_missing).map(|name| NotTried {
        finding: name.clone(),
        reason: "the audit recommends no other value".to_owned(),
        command: None,
    })
}

/// Returns whether one of these names stands for the setting in the assignment, with or without its
/// instance.
fn is_wanted(assignment: &str, only: &[String]) -> bool {
    let full = assignment.split('=').next().unwrap_or_default();
    let name = full.split('@').next().unwrap_or_default();
    only.is_empty() || only.iter().any(|one| one == full || one == name)
}

/// Applies each setting once and undoes it again, in order to leave out those that the kernel
/// rejects.
///
/// # Errors
/// Returns an error if the journal cannot be used.
pub fn rehearse(
    improvement: &mut Improvement,
    host: &Host,
    cpus: Option<&CpuSet>,
    journal: Option<&Path>,
) -> Result<(), TrialError> {
    let mut may = Vec::new();
    for one in std::mem::take(&mut improvement.tried) {
        let arms = [Arm {
            name: one.assignment.clone(),
            action: ArmAction::Settings {
                assignments: vec![one.assignment.clone()],
            },
        }];
        let sides = Sides::new(host, &arms, cpus.cloned(), journal.map(Path::to_owned));
        match sides.and_then(|mut sides| sides.rehearse()) {
            Ok(()) => may.push(one),
            Err(TrialError::Tune(
                error @ (TuneError::Locked { .. }
                | TuneError::Journal { .. }
                | TuneError::Pending { .. }
                | TuneError::Unidentified { .. }
                | TuneError::NotRestored { .. }
                | TuneError::NoPlace),
            )) => return Err(error.into()),
            Err(error) => improvement.left_out.push(NotTried {
                finding: one.finding,
                reason: error.to_string(),
                command: None,
            }),
        }
    }
    improvement.tried = may;
    Ok(())
}

fn by_hand(assignment: &str, cpus: Option<&CpuSet>) -> String {
    let cpus = cpus.map_or_else(String::new, |cpus| format!(" --cpus {cpus}"));
    format!("punctual tune apply --set {assignment}{cpus}")
}

/// Returns the reason why a remedy is not tried, or `None` if it is tried.
fn refusal(remedy: &Remedy, host: &Host, cpus: Option<&CpuSet>) -> Option<String> {
    let wish = match Wish::of_remedy(remedy) {
        Ok(wish) => wish,
        Err(error) => return Some(error.to_string()),
    };
    if let Some(reason) = forbidden(wish.setting(), host) {
        return Some(reason);
    }
    if let Some(reason) = &remedy.decide {
        return Some(format!("a person decides: {reason}"));
    }
    let request = Request {
        profile: None,
        sets: vec![wish],
        cpus: cpus.cloned(),
    };
    match Plan::make(&request, host, Path::new("")) {
        Err(error) => Some(error.to_string()),
        Ok(plan) => match (plan.changes().next(), plan.left_out.first()) {
            (Some(_), _) => None,
            (None, Some(left)) => Some(left.reason.clone()),
            (None, None) => Some("it is set already".to_owned()),
        },
    }
}

/// Returns the reason why the program never tries this setting on its own, if there is one.
fn forbidden(setting: &Setting, host: &Host) -> Option<String> {
    if let Some(reason) = setting.only_by_hand() {
        return Some(reason.to_owned());
    }
    if setting.risk != Risk::Low {
        return Some(format!("its risk is {}", setting.risk));
    }
    match setting.name {
        // One of these interrupts may carry the user's own network connection.
        "irq-affinity" => Some("it includes the interrupts of network cards".to_owned()),
        "dma-latency-us" if !has_temperature(host) => {
            Some("it heats the processor, but no temperature can be read".to_owned())
        }
        _ => match setting.wash_out {
            punctual_model::WashOut::Short | punctual_model::WashOut::Long => None,
            punctual_model::WashOut::Boot => Some("needs a restart".to_owned()),
        },
    }
}

fn has_temperature(host: &Host) -> bool {
    let zone = host.root().join("sys/class/thermal/thermal_zone0/temp");
    Budget::bytes(64).read(&zone).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_select_settings_and_their_instances() {
        let only = ["workqueue-cpus".to_owned(), "thp@defrag".to_owned()];
        assert!(is_wanted("workqueue-cpus=housekeeping", &only));
        assert!(is_wanted("workqueue-cpus@writeback=2-3", &only));
        assert!(is_wanted("thp@defrag=never", &only));
        assert!(!is_wanted("thp@enabled=never", &only));
        assert!(!is_wanted("workqueue-cpus-of@writeback=2", &only));
        assert!(is_wanted("anything=1", &[]));
    }

    #[test]
    fn what_is_forbidden_is_left_alone() {
        let host = Host::new("/nowhere");
        let may = |name: &str| forbidden(punctual_model::setting(name).unwrap(), &host);
        for name in [
            "rt-runtime-us",
            "fair-server-runtime-ns",
            "ext-server-runtime-ns",
            "thread-priority",
            "cpuset-partition",
            "smt",
            "clocksource",
            "irq-affinity",
            "dma-latency-us",
            "irqbalance-banned",
            "watchdog-cpus",
        ] {
            assert!(may(name).is_some(), "{name}");
        }
        for name in [
            "governor",
            "workqueue-cpus",
            "timer-migration",
            "swappiness",
        ] {
            assert_eq!(may(name), None, "{name}");
        }
    }
}
