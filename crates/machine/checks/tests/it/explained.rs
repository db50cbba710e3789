//! Tests what a finding tells its reader: the facts that were read, the severity for the role, and
//! what to do.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use punctual_checks::{ROLES, Request, Role, TOPICS, audit, kernel};
use punctual_model::{Fact, Finding, FindingState, Reading, path_matches};

use crate::case_list::cases;
use crate::described::{machine, whole_config};

/// Checks whose expected state says what to do, or that find a problem which no setting resolves.
const WITHOUT_ADVICE: [&str; 34] = [
    "clock-events",
    "clock-tsc",
    "firmware-hypervisor",
    "firmware-managers",
    "firmware-memory-scrubbing",
    "firmware-steal",
    "firmware-throttling",
    "interrupts-counted-calls",
    "interrupts-counted-devices",
    "interrupts-counted-softirqs",
    "interrupts-counted-ticks",
    "interrupts-thread-priorities",
    "interrupts-threaded-napi",
    "kernel-tainted",
    "memory-file-systems",
    "power-throttled",
    "power-wake-latency-request",
    "rights-group-cores",
    "rights-group-cpus",
    "rights-group-exclusive",
    "rights-group-quota",
    "rights-group-share",
    "rights-limits-files",
    "rights-real-time-budget",
    "rights-tracing",
    "scheduler-other-rt",
    "scheduler-sched-ext",
    "scheduler-stalld",
    "topology-boot-cpu",
    "topology-equal-cores",
    "topology-network-node",
    "topology-one-node",
    "topology-shared-cache",
    "watchdogs-trace-instances",
];

/// On a real machine, only files that a check declares are captured for it. So the check must come
/// out the same if the facts contain no other files.
#[test]
fn a_check_needs_only_the_files_that_it_declares() {
    let mut declared: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for topic in TOPICS {
        for check in topic.checks {
            declared.insert(format!("{}-{}", topic.name, check.name), check.files());
        }
    }
    let mut wrong = Vec::new();
    for (case, all) in cases() {
        let own = &declared[case.id];
        let mut facts = case.facts.clone();
        let is_own = |file: &str| own.iter().any(|p| *p == file || path_matches(p, file));
        facts.files.retain(|file, _| is_own(file));
        let fewer = case.judged(&facts);
        if (&all.found, &all.evidence) != (&fewer.found, &fewer.evidence) {
            wrong.push(format!(
                "{}\n  {:?}\n  {:?}",
                case.line, fewer.found, fewer.evidence
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Formats a finding as lines, without its reason and its source.
fn told(finding: &Finding) -> String {
    let mut text = format!(
        "{} {} {}: {}\n",
        finding.id,
        finding.state,
        finding.severity,
        finding.line()
    );
    for fact in &finding.evidence {
        let known = fact.value.as_deref().map(|value| format!("= {value}"));
        let why = fact.unknown.as_deref().unwrap_or_default();
        let value = known.unwrap_or_else(|| format!("unknown: {why}"));
        let _ = writeln!(text, "  read: {} {value}", fact.source);
    }
    for command in &finding.now {
        let _ = writeln!(text, "  now: {command}");
    }
    if let Some(permanently) = &finding.reboot {
        let _ = writeln!(text, "  permanently: {permanently}");
    }
    text
}

#[test]
fn evidence_and_advice_of_each_check() {
    let mut seen = BTreeSet::new();
    let mut text = String::new();
    for (case, finding) in cases() {
        // The first case of each state.
        if seen.insert((case.id, case.state)) {
            text.push_str(&told(finding));
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn each_problem_says_what_to_do() {
    let mut silent = BTreeSet::new();
    for (case, finding) in cases() {
        let advised = !finding.now.is_empty() || finding.reboot.is_some();
        if finding.is_problem() && !advised {
            silent.insert(case.id);
        }
        let begins = |text: &str| text.starts_with(|c: char| c.is_alphabetic());
        let whole = finding.reboot.as_deref().is_none_or(begins);
        assert!(whole, "{}: {:?}", case.line, finding.reboot);
        // There is nothing to do without a problem.
        assert!(finding.is_problem() || !advised, "{}", case.line);
    }
    assert_eq!(silent, BTreeSet::from(WITHOUT_ADVICE));
}

/// The page of checks has no machine, so it has its own text for changes that depend on the machine.
#[test]
fn page_has_a_permanent_change_where_the_audit_has_one() {
    let mut advised = BTreeSet::new();
    for (case, finding) in cases() {
        if finding.reboot.is_some() {
            advised.insert(case.id);
        }
    }
    for topic in TOPICS {
        for check in topic.checks {
            let id = format!("{}-{}", topic.name, check.name);
            // A setting describes its own permanent change.
            let own = !check.all_remedies().is_empty();
            let described = own || !check.permanent(None).is_empty();
            assert!(described || !advised.contains(id.as_str()), "{id}");
        }
    }
    assert!(advised.len() > 80, "{}", advised.len());
}

/// With PREEMPT_RT, polling keeps other threads off the CPU.
#[test]
fn advice_on_polling_depends_on_the_kernel() {
    let polling = |case: &&(crate::case_list::Case, Finding)| {
        case.0.id == "firmware-network-polling" && case.1.is_problem()
    };
    let mut seen = BTreeSet::new();
    for (case, finding) in cases().iter().filter(polling) {
        let rt = case.facts.host.kernel.preempt_rt.value.unwrap();
        let wanted = if rt { "0" } else { "50" };
        let values: Vec<&str> = finding
            .remedies
            .iter()
            .map(|one| one.value.as_str())
            .collect();
        assert_eq!(values, [wanted, wanted], "{}", case.line);
        let permanently = finding.reboot.as_deref().unwrap();
        assert!(
            permanently.contains(&format!("net.core.busy_read = {wanted} in")),
            "{permanently}"
        );
        seen.insert(rt);
    }
    assert_eq!(seen.len(), 2);
}

/// Groups roles by a text: `high; audio, lab medium`.
fn grouped(by_role: &[(Role, String)]) -> Vec<(String, Vec<&'static str>)> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (role, text) in by_role {
        match groups.iter_mut().find(|(own, _)| own == text) {
            Some((_, roles)) => roles.push(role.name()),
            None => groups.push((text.clone(), vec![role.name()])),
        }
    }
    groups
}

#[test]
fn source_severity_and_note_by_role() {
    let facts = machine();
    let mut by_id: BTreeMap<String, Vec<(Role, Finding)>> = BTreeMap::new();
    for (role, _, _) in ROLES {
        for finding in audit(&facts, &Request { role, cpus: None })
            .unwrap()
            .findings
        {
            by_id
                .entry(finding.id.clone())
                .or_default()
                .push((role, finding));
        }
    }
    let mut text = String::new();
    for (id, all) in &by_id {
        let severities: Vec<_> = all
            .iter()
            .map(|(role, f)| (*role, f.severity.to_string()))
            .collect();
        match grouped(&severities).as_slice() {
            [(severity, _)] => drop(writeln!(text, "{id}: {severity}")),
            several => {
                let parts = several
                    .iter()
                    .map(|(severity, roles)| format!("{severity} for {}", roles.join(", ")));
                let _ = writeln!(text, "{id}: {}", parts.collect::<Vec<_>>().join("; "));
            }
        }
        let _ = writeln!(text, "  source: {}", all[0].1.source);
        let notes: Vec<_> = all
            .iter()
            .filter_map(|(role, f)| {
                let note = f.role_note.as_deref()?;
                let own = format!("for {role}: ");
                Some((
                    *role,
                    note.strip_prefix(&own)
                        .unwrap_or_else(|| panic!("{note}"))
                        .to_owned(),
                ))
            })
            .collect();
        for (note, roles) in grouped(&notes) {
            let _ = writeln!(text, "  {}: {note}", roles.join(", "));
        }
    }
    insta::assert_snapshot!(text);
}

/// Judges a configuration whose options all have the wrong value.
#[test]
fn wrong_options_of_the_kernel() {
    let mut text = String::new();
    for (role, _, _) in [ROLES[0], ROLES[1]] {
        let right = kernel::fragment(role);
        let mut config = String::new();
        for option in kernel::OPTIONS {
            let on = right
                .lines()
                .any(|line| line == format!("{}=y", option.option));
            let line = if on {
                format!("# {} is not set", option.option)
            } else {
                format!("{}=y", option.option)
            };
            let _ = writeln!(config, "{line}");
        }
        config.push_str("CONFIG_EFI=y\n");
        let config = Fact::known(config, "/boot/config");
        let files = BTreeMap::from(["latencytop", "nmi_watchdog", "soft_watchdog"].map(|name| {
            (
                format!("/proc/sys/kernel/{name}"),
                Reading::Text("1".to_owned()),
            )
        }));
        let _ = writeln!(text, "# {role}");
        for finding in kernel::findings(&config, role, Some(&files)) {
            assert_eq!(finding.topic, "kernel");
            text.push_str(&told(&finding));
            let _ = writeln!(text, "  expected: {}", finding.expected);
        }
    }
    insta::assert_snapshot!(text);
}

/// Lines of a fragment that those of other roles do not have.
#[test]
fn fragments_of_roles() {
    let base = kernel::fragment(Role::Control);
    let mut text = base.clone();
    for (role, _, _) in ROLES {
        let other = kernel::fragment(role);
        let lines = other
            .lines()
            .filter(|line| !base.lines().any(|own| own == *line));
        let lines: Vec<&str> = lines.collect();
        if !lines.is_empty() {
            let _ = writeln!(text, "\n== only for {role}:\n{}", lines.join("\n"));
        }
    }
    insta::assert_snapshot!(text);
}

/// A configuration before it is built is judged without a machine.
#[test]
fn audit_of_a_configuration_is_about_no_machine() {
    let config = Fact::known(whole_config("CONFIG_PREEMPT_RT=y"), "config");
    let audit = kernel::audit(&config, Role::Trading, None, "my board");
    assert_eq!(audit.role, "trading");
    assert_eq!(audit.role_meaning, Role::Trading.meaning());
    assert_eq!(audit.host.hostname.as_deref(), Some("my board"));
    assert_eq!(audit.host.kernel.as_deref(), Some("Linux/x86 6.12.0"));
    assert_eq!(audit.host.distribution, None);
    assert!(audit.host.fingerprint.is_empty());
    assert!(audit.cpus.is_empty());
    assert_eq!(audit.findings.len(), kernel::OPTIONS.len());
    // Problems come first, and are most severe first.
    let order: Vec<_> = audit.findings.iter().map(Finding::order).collect();
    assert!(order.is_sorted());
    assert_eq!(audit.findings[0].state, FindingState::Fail);

    let facts = machine();
    let running = kernel::audit(&config, Role::Trading, Some(&facts), "it");
    assert_eq!(running.host.fingerprint, facts.host.fingerprint);
    assert_eq!(
        running.host.distribution,
        facts.host.distribution.name.value
    );
}
