//! Which findings of an audit may be tried unasked.

use std::path::Path;

use punctual_host::Host;
use punctual_model::{
    Arm, ArmAction, Audit, CpuSet, Finding, Improvement, NotTried, Remedy, Risk, Setting,
    TriedSetting,
};
use punctual_tune::{Plan, Request, TuneError, Wish};

use crate::sides::Sides;
use crate::trial::TrialError;

/// More cannot be screened at once.
pub(crate) const MOST: usize = punctual_stats::screening::FACTORS;

/// Splits the findings into settings to try, the most severe first, and what is left
/// alone with the reason. Changes nothing.
pub fn candidates(
    audit: &Audit,
    host: &Host,
    cpus: Option<&CpuSet>,
) -> (Vec<TriedSetting>, Vec<NotTried>) {
    let (mut tried, mut left_out) = (Vec::<TriedSetting>::new(), Vec::new());
    let mut findings: Vec<&Finding> = audit
        .findings
        .iter()
        .filter(|one| one.is_problem())
        .collect();
    findings.sort_by_key(|finding| finding.order());
    for finding in findings {
        let leave = |reason: String, command: Option<String>| NotTried {
            finding: finding.title.clone(),
            reason,
            command,
        };
        if let (true, Some(reboot)) = (finding.remedies.is_empty(), &finding.reboot) {
            let reason = "only a start of the machine changes it".to_owned();
            left_out.push(leave(reason, Some(reboot.clone())));
        }
        for remedy in &finding.remedies {
            let assignment = remedy.assignment();
            if tried.iter().any(|one| one.assignment == assignment) {
                continue;
            }
            match refusal(remedy, host, cpus) {
                None if tried.len() == MOST => {
                    let reason = format!("{MOST} settings are tried at most");
                    left_out.push(leave(reason, Some(by_hand(&assignment, cpus))));
                }
                None => tried.push(TriedSetting {
                    assignment,
                    finding: finding.title.clone(),
                    ratio: None,
                    low: None,
                    high: None,
                    kept: false,
                    why: "not measured".to_owned(),
                }),
                Some(reason) => left_out.push(leave(reason, Some(by_hand(&assignment, cpus)))),
            }
        }
    }
    (tried, left_out)
}

/// Applies each setting once and undoes it: those that the kernel refuses are left out.
///
/// # Errors
/// A journal that cannot be used.
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

/// Why a remedy is not tried; `None`: it is.
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

/// Settings that no program tries by itself.
fn forbidden(setting: &Setting, host: &Host) -> Option<String> {
    if let Some(reason) = setting.only_by_hand() {
        return Some(reason.to_owned());
    }
    if setting.risk != Risk::Low {
        return Some(format!("its risk is {}", setting.risk));
    }
    match setting.name {
        // One of them may carry the connection of who is logged in.
        "irq-affinity" => Some("interrupts of network cards are among them".to_owned()),
        "dma-latency-us" if !has_temperature(host) => {
            Some("it heats the processor, and no temperature can be read".to_owned())
        }
        _ => match setting.wash_out {
            punctual_model::WashOut::Short => None,
            punctual_model::WashOut::Long => {
                Some("its effect takes half a minute: blocks would be too long".to_owned())
            }
            punctual_model::WashOut::Boot => Some("it takes effect at a start only".to_owned()),
        },
    }
}

fn has_temperature(host: &Host) -> bool {
    let zone = host.root().join("sys/class/thermal/thermal_zone0/temp");
    std::fs::read_to_string(zone).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forbidden_is_left_alone() {
        let host = Host::new("/nowhere");
        let may = |name: &str| forbidden(punctual_model::setting(name).unwrap(), &host);
        for name in [
            "rt-runtime-us",
            "fair-server-runtime-ns",
            "thread-priority",
            "cpuset-partition",
            "smt",
            "clocksource",
            "irq-affinity",
            "dma-latency-us",
            "irqbalance-banned",
            "watchdog-cpus",
            "thp",
        ] {
            assert!(may(name).is_some(), "{name}");
        }
        for name in ["governor", "workqueue-cpus", "timer-migration"] {
            assert_eq!(may(name), None, "{name}");
        }
    }
}
