//! Tests of audits and of the report of `lint`.

use super::*;
use crate::{Polled, RuleResult, RuleState};

fn finding(state: FindingState, severity: Severity) -> Finding {
    Finding {
        id: "a-b".into(),
        topic: "a".into(),
        subject: "b".into(),
        title: "b".into(),
        state,
        severity,
        found: "1".into(),
        expected: "0".into(),
        evidence: vec![],
        why: "w".into(),
        source: "s".into(),
        role_note: None,
        now: vec![],
        remedies: vec![],
        reboot: None,
    }
}

fn audit(states: &[(FindingState, Severity)]) -> Audit {
    let findings = states
        .iter()
        .map(|(state, severity)| finding(*state, *severity));
    Audit {
        schema: 1,
        program: String::new(),
        role: "periodic".to_owned(),
        role_meaning: String::new(),
        host: AuditedHost::default(),
        cpus: CpuSet::new(),
        cpus_because: String::new(),
        findings: findings.collect(),
        expectation: Expectation::default(),
        sample: None,
    }
}

#[test]
fn audit_is_grave_if_one_finding_is() {
    use FindingState::*;
    use Severity::{Fatal, High, Medium};
    for (states, grave) in [
        (vec![], false),
        (vec![(Fail, Medium), (Warn, Fatal), (Unknown, Fatal)], false),
        (vec![(Ok, Medium), (Fail, High)], true),
    ] {
        let audit = audit(&states);
        assert_eq!(audit.is_grave(), grave, "{states:?}");
        for state in [Ok, Warn, Fail, Unknown, NotApplicable] {
            let count = states.iter().filter(|one| one.0 == state).count();
            assert_eq!(audit.count(state), count, "{states:?}");
        }
    }
}

#[test]
fn audit_knows_nothing_if_each_check_that_applies_is_unknown() {
    use FindingState::*;
    for (states, nothing) in [
        (vec![], false),
        (vec![NotApplicable, NotApplicable], false),
        (vec![Unknown], true),
        (vec![Unknown, NotApplicable, Unknown], true),
        (vec![Unknown, NotApplicable, Ok], false),
        (vec![Unknown, Warn], false),
        (vec![Unknown, Fail], false),
        (vec![Ok], false),
    ] {
        let states: Vec<_> = states
            .into_iter()
            .map(|state| (state, Severity::High))
            .collect();
        assert_eq!(audit(&states).knows_nothing(), nothing, "{states:?}");
    }
}

#[test]
fn summary_counts_failures_by_severity_and_all_states() {
    use FindingState::*;
    use Severity::{Fatal, High, Medium};
    let all = audit(&[
        (Fail, Medium),
        (Fail, Fatal),
        (Fail, Medium),
        (Warn, High),
        (Unknown, High),
        (Unknown, High),
        (Ok, High),
        (NotApplicable, High),
    ]);
    let text = "fails: 1 fatal, 2 medium; 1 to look at, 2 unknown, 1 ok, 1 not applicable";
    assert_eq!(all.summary(), text);
    let stored = StoredAudit::from_audit(&all);
    assert_eq!(
        (stored.summary(), stored.findings.len()),
        (text.to_owned(), 6)
    );
    for one in &stored.findings {
        assert_eq!(one.is_problem(), one.state != Unknown, "{one:?}");
    }
}

#[test]
fn remedy_is_an_assignment_of_tune() {
    let mut remedy = Remedy {
        setting: "governor".to_owned(),
        instance: None,
        value: "performance".to_owned(),
        decide: None,
    };
    assert_eq!(remedy.assignment(), "governor=performance");
    remedy.instance = Some("cpu2".to_owned());
    assert_eq!(remedy.assignment(), "governor@cpu2=performance");
}

#[test]
fn states_and_severities_are_shown_in_lower_case() {
    use FindingState::*;
    let states = [Ok, Warn, Fail, Unknown].map(|state| state.to_string());
    assert_eq!(states, ["ok", "warn", "fail", "unknown"]);
    let severities = [
        Severity::Info,
        Severity::Medium,
        Severity::High,
        Severity::Fatal,
    ];
    let names = severities.map(|severity| severity.to_string());
    assert_eq!(names, ["info", "medium", "high", "fatal"]);
    assert!(severities.is_sorted());
}

fn frame(symbol: Option<&str>, object: Option<&str>, offset: Option<u64>) -> Frame {
    Frame {
        address: 0x4010,
        object: object.map(str::to_owned),
        offset,
        symbol: symbol.map(str::to_owned),
        build_id: None,
    }
}

#[test]
fn place_in_a_program_is_named_as_far_as_it_is_known() {
    for (symbol, object, offset, text) in [
        (
            Some("main+0x10"),
            Some("/usr/bin/app"),
            Some(0x10),
            "main+0x10 (app)",
        ),
        (Some("main+0x10"), Some("app"), None, "main+0x10 (app)"),
        (
            None,
            Some("/usr/lib/libc.so.6"),
            Some(0x1f),
            "libc.so.6+0x1f",
        ),
        (None, Some("/usr/lib/libc.so.6"), None, "0x4010"),
        (Some("main"), None, None, "0x4010"),
        (None, None, Some(0x1f), "0x4010"),
    ] {
        assert_eq!(frame(symbol, object, offset).text(), text);
    }
}

#[test]
fn polled_descriptors_are_the_bits_of_the_mask() {
    for (flags, [is_partial, is_empty, has_timeout]) in [
        (0, [false, false, false]),
        (1, [true, false, false]),
        (2, [false, true, false]),
        (4, [false, false, true]),
        (7, [true, true, true]),
        (8, [false, false, false]),
    ] {
        let mask = 1 << 63 | 0b1001;
        let polled = Polled::from_arguments([mask, flags]);
        let expected = Polled {
            mask,
            is_partial,
            is_empty,
            has_timeout,
        };
        assert_eq!(polled, expected);
        assert_eq!(polled.descriptors().collect::<Vec<_>>(), [0, 3, 63]);
    }
    assert_eq!(Polled::from_arguments([0, 0]).descriptors().count(), 0);
    assert_eq!(
        Polled::from_arguments([u64::MAX, 0]).descriptors().count(),
        64
    );
}

#[test]
fn kinds_of_files_have_names() {
    for (mode, name) in [
        (1, "anonymous file"),
        (0o010_000, "pipe"),
        (0o020_000, "device"),
        (0o040_000, "directory"),
        (0o060_000, "disk"),
        (0o100_000, "regular file"),
        (0o140_000, "socket"),
    ] {
        assert_eq!(FileKind::of_mode(mode).map(FileKind::name), Some(name));
    }
}

fn report(rules: &[(RuleState, Severity)]) -> LintReport {
    let rule = |(state, severity): &(RuleState, Severity)| RuleResult {
        id: "page-fault".to_owned(),
        title: String::new(),
        state: *state,
        severity: *severity,
        unknown: None,
        count: 0,
        max_ns: None,
        counted_ns: None,
        violations: Vec::new(),
        why: String::new(),
        source: String::new(),
        remedy: String::new(),
    };
    LintReport {
        schema: LINT_SCHEMA,
        program: String::new(),
        target: "pid 7".to_owned(),
        duration_ns: Nanos(1),
        calls_traced_ns: Nanos(1),
        source: None,
        threads: Vec::new(),
        rules: rules.iter().map(rule).collect(),
        notes: Vec::new(),
    }
}

#[test]
fn report_of_lint_counts_rules_by_state_and_weight() {
    use RuleState::{Clean, Unknown, Violated};
    let report = report(&[
        (Violated, Severity::Medium),
        (Violated, Severity::Info),
        (Unknown, Severity::High),
        (Clean, Severity::Fatal),
    ]);
    let counts = [Violated, Unknown, Clean].map(|state| report.count(state));
    assert_eq!(counts, [2, 1, 1]);
    let grave = [Violated, Unknown, Clean].map(|state| report.has_grave(state));
    assert_eq!(grave, [false, true, true]);
}

#[test]
fn a_title_names_setting_and_state() {
    use FindingState::*;
    let title = |state, found| Finding::title_of("swappiness", state, found);
    assert_eq!(title(Warn, "is 60"), "swappiness is 60");
    assert_eq!(title(Fail, "3 of 4"), "swappiness: 3 of 4");
    assert_eq!(title(Unknown, "permission denied"), "swappiness");
    let mut one = finding(Unknown, Severity::High);
    assert_eq!(one.line(), "b: 1");
    one.state = Ok;
    assert_eq!(one.line(), "b");
}

#[test]
fn what_matters_comes_first() {
    use FindingState::*;
    let mut all = [
        finding(Ok, Severity::Fatal),
        finding(Unknown, Severity::Fatal),
        finding(Warn, Severity::High),
        finding(Fail, Severity::Medium),
        finding(Fail, Severity::High),
        finding(NotApplicable, Severity::Fatal),
    ];
    all.sort_by_key(Finding::order);
    let order: Vec<_> = all.iter().map(|f| (f.state, f.severity)).collect();
    assert_eq!(
        order,
        [
            (Fail, Severity::High),
            (Warn, Severity::High),
            (Fail, Severity::Medium),
            (Unknown, Severity::Fatal),
            (Ok, Severity::Fatal),
            (NotApplicable, Severity::Fatal),
        ]
    );
}

#[test]
fn grave_is_a_failure_of_weight() {
    use FindingState::*;
    assert!(finding(Fail, Severity::High).is_grave());
    assert!(finding(Fail, Severity::Fatal).is_grave());
    assert!(!finding(Fail, Severity::Medium).is_grave());
    assert!(!finding(Warn, Severity::Fatal).is_grave());
    assert!(!finding(Unknown, Severity::Fatal).is_grave());
}

#[test]
fn what_is_unknown_is_not_fine() {
    use FindingState::*;
    let said = |states: &[FindingState]| {
        let severities = states.iter().filter(|state| **state == Fail);
        summary(severities.map(|_| Severity::High), |state| {
            states.iter().filter(|one| **one == state).count()
        })
    };
    assert!(said(&[Ok, Warn]).starts_with("nothing fails; "));
    assert!(said(&[Ok, Unknown]).starts_with("no completed check fails; "));
    assert!(said(&[Unknown, NotApplicable]).starts_with("nothing is known; "));
    assert!(said(&[Unknown, Fail]).starts_with("fails: 1 high; "));
}
