use punctual_model::{
    AuditedHost, CHECKUP_SCHEMA, HardwareGaps, LoopRequirement, Outcome, Severity, ShareKind,
};

use super::*;
use crate::junit::CiForm;
use crate::text::{self, TextStyle};

fn condition(name: &str, outcome: Outcome) -> Condition {
    Condition {
        name: name.to_owned(),
        loads: vec!["farm".to_owned()],
        measured_ns: Nanos::from_secs(60),
        periods: 120_000,
        late: 12,
        longest_series: Some(4),
        late_seconds: Some(3),
        windows: None,
        episodes: None,
        dispersion: Some(1.2),
        per_day_at_most: Some(11_164.5),
        per_day_at_least: Some(1_177.4),
        max_ns: Some(Nanos(412_000)),
        p99_ns: Some(Nanos(31_200)),
        real_time: true,
        outcome,
        lacking: vec!["the load farm <failed>\u{1b}".to_owned()],
        needs_ns: Some(Nanos::from_secs(7_200)),
        needs_likely_ns: None,
        tail: None,
        no_tail: Some("there are no samples".to_owned()),
        jobs: None,
    }
}

fn checkup() -> Checkup {
    Checkup {
        schema: CHECKUP_SCHEMA,
        program: "punctual 0.1.0".to_owned(),
        outcome: Outcome::Broken,
        sentence: "broken: 3 late seconds".to_owned(),
        claims: Vec::new(),
        asked: LoopRequirement {
            period_ns: Nanos::from_millis(1),
            budget_ns: Nanos(100_000),
            jobs: false,
            max_late_seconds_per_day: Some(10.0),
            misses: None,
            max_misses_per_day: None,
            sample: None,
        },
        started: jiff::Timestamp::UNIX_EPOCH,
        host: AuditedHost::default(),
        measured_on: None,
        conditions: vec![
            condition("idle", Outcome::NotProven),
            condition("loaded", Outcome::Broken),
        ],
        causes: vec![RemediedCause {
            source: punctual_model::cause::Source::Nmi,
            kind: ShareKind::Blocking,
            who: "kworker/1:2 <b>".to_owned(),
            count: 12,
            total_ns: Nanos(3_210_000),
            max_ns: Nanos(412_000),
            late_only_by: Some(9),
            left: None,
            settings: Vec::new(),
            experiment: None,
            checks: vec!["isolation-workqueues".to_owned()],
            advice: "move the thread".to_owned(),
        }],
        hardware: Some(HardwareGaps {
            measured_ns: Nanos::from_secs(5),
            gaps: 7,
            max_ns: Some(Nanos(90_000)),
        }),
        findings: vec![Finding {
            id: "isolation-workqueues".to_owned(),
            topic: "isolation".to_owned(),
            subject: "mask of unbound kernel work".to_owned(),
            title: "mask of unbound kernel work: 3".to_owned(),
            state: FindingState::Fail,
            severity: Severity::Medium,
            found: "3".to_owned(),
            expected: "a mask without the measured CPUs".to_owned(),
            evidence: Vec::new(),
            why: "it runs".to_owned(),
            source: "kernel".to_owned(),
            role_note: None,
            now: Vec::new(),
            remedies: Vec::new(),
            reboot: None,
        }],
        lacking: vec!["late periods are not explained".to_owned()],
        next: vec!["punctual doctor --fix-script".to_owned()],
        recordings: vec!["id".to_owned()],
    }
}

#[test]
fn a_lack_is_said_once() {
    let mut checkup = checkup();
    let said = "measured without real-time priority: what to do: punctual doctor";
    checkup.lacking = vec![said.to_owned()];
    for condition in &mut checkup.conditions {
        condition.real_time = false;
        condition.lacking = vec![Condition::NOT_REAL_TIME.to_owned(), "too short".to_owned()];
    }
    checkup.findings[0].id = "rights-priority".to_owned();
    checkup.findings[0].reboot = Some("join the group".to_owned());
    assert_eq!(lacking(&checkup), [said, "idle, loaded: too short"]);
    let text = text::render(&super::checkup(&checkup, true), &TextStyle::default());
    assert_eq!(
        text.matches("without a real-time priority").count(),
        0,
        "{text}"
    );
    assert!(text.contains("without sudo  join the group"), "{text}");
    // If there is no reason for the whole check-up, each condition states its own.
    checkup.lacking.clear();
    let both = format!("idle, loaded: {}", Condition::NOT_REAL_TIME);
    assert_eq!(lacking(&checkup), [&both, "idle, loaded: too short"]);
}

#[test]
fn each_form_says_the_same() {
    let checkup = checkup();
    let document = super::checkup(&checkup, true);
    let text = text::render(
        &document,
        &TextStyle {
            colour: false,
            width: 500,
        },
    );
    for line in [
        "broken: 3 late seconds",
        "late seconds a day ≤ (95%)",
        "blocking: kworker/1:2 <b>",
        "move the thread (doctor: isolation-workqueues)",
        "7 gaps in 5.00 s, the longest 90.0 µs",
        "late periods are not explained",
        "punctual doctor --fix-script",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(text.lines().count() <= 25, "{text}");
    let html = crate::html::page("check", std::slice::from_ref(&document));
    assert!(html.contains("kworker/1:2 &lt;b&gt;</td>"), "{html}");
    assert!(!html.contains('\u{1b}') && !text.contains('\u{1b}'));
}

/// The short form fits a screen, and no unknown value hides a known fault.
#[test]
fn short_form_fits_a_screen() {
    let mut checkup = checkup();
    let fault = checkup.findings[0].clone();
    let unknown = Finding {
        state: FindingState::Unknown,
        title: "thermal throttling: unknown".to_owned(),
        severity: Severity::Fatal,
        ..fault.clone()
    };
    checkup.findings = vec![unknown, fault.clone(), fault.clone(), fault];
    checkup.causes = vec![checkup.causes[0].clone(); 9];
    let style = TextStyle {
        colour: false,
        width: 80,
    };
    let short = text::render(&super::checkup(&checkup, false), &style);
    assert!(short.lines().count() <= 28, "{short}");
    assert!(!short.contains("thermal"), "{short}");
    for part in ["7 causes not shown", "2 findings not shown"] {
        assert!(short.contains(part), "{part}: {short}");
    }
    let verbose = text::render(&super::checkup(&checkup, true), &style);
    assert!(verbose.contains("thermal"), "{verbose}");
}

/// One fatal finding that is unrelated to any measured cause comes before many findings that
/// are related to one. The report also shows where and when the measurement was made.
#[test]
fn the_most_severe_finding_is_always_shown() {
    let mut checkup = checkup();
    let minor = checkup.findings[0].clone();
    checkup.findings = vec![minor; 32];
    let last = checkup.findings.last_mut().unwrap();
    last.severity = Severity::Fatal;
    last.title = "kernel is not PREEMPT_RT".to_owned();
    let on = MeasuredOn {
        hostname: Some("bench3".to_owned()),
        kernel: Some("6.12.8-rt".to_owned()),
        processor: None,
        fingerprint: String::new(),
        cpus: "2-3".parse().unwrap(),
        started: jiff::Timestamp::UNIX_EPOCH,
    };
    checkup.measured_on = Some(on);
    let document = super::checkup(&checkup, true);
    let style = TextStyle {
        colour: false,
        width: 500,
    };
    let text = text::render(&document, &style);
    let html = crate::html::page("check", std::slice::from_ref(&document));
    for form in [&text, &html] {
        assert!(form.contains("kernel is not PREEMPT_RT"), "{form}");
        assert!(form.contains("27 findings not shown"), "{form}");
        assert!(
            form.contains("bench3, kernel 6.12.8-rt, CPUs 2-3"),
            "{form}"
        );
        assert!(form.contains("1970-01-01 00:00 UTC"), "{form}");
    }
}

/// A check-up of an older version is shown with its own unit.
#[test]
fn older_checkup_keeps_its_episodes() {
    let mut old = checkup();
    old.asked.max_late_seconds_per_day = None;
    old.asked.max_misses_per_day = Some(10.0);
    old.sentence = "broken: 7 episodes".to_owned();
    for condition in &mut old.conditions {
        (condition.late_seconds, condition.longest_series) = (None, None);
        condition.episodes = Some(7);
    }
    let style = TextStyle {
        colour: false,
        width: 500,
    };
    let text = text::render(&super::checkup(&old, true), &style);
    for part in [
        "at most 10 episodes of late periods a day",
        "episodes a day ≤ (95%)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("late seconds"), "{text}");
}

/// A recording made for a check-up shows the verdict of the check-up in each output format.
#[test]
fn recording_shows_verdict_of_its_checkup() {
    use punctual_model::{JudgedBy, Judgement};
    let mut one = punctual_model::testing::recording(1, 2);
    one.requirement.limits.clear();
    for (outcome, sign) in [
        (Outcome::Broken, "<failure"),
        (Outcome::NotProven, "<error"),
    ] {
        one.be_judged(Judgement {
            by: JudgedBy::Check,
            experiment: None,
            outcome,
            sentence: "3 late seconds (periods over 100 µs)".to_owned(),
            asked: None,
            claims: Vec::new(),
        });
        let xml = crate::junit::render(&[&one], CiForm::Junit).unwrap();
        assert!(
            xml.contains("name=\"check\"") && xml.contains(sign),
            "{xml}"
        );
        let html = crate::html::render(std::slice::from_ref(&one), &Default::default()).unwrap();
        for form in [&xml, &html] {
            assert!(form.contains("3 late seconds"), "{form}");
            assert!(!form.contains("no requirement was given"), "{form}");
        }
    }
}
