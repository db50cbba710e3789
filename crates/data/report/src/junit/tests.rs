//! TAP, LAVA's signals and KCIDB's report agree with the verdict.

use punctual_model::{JudgedBy, Judgement, Limit, Metric, Outcome, Recording, testing};
use serde_json::Value;

use super::{CiForm, render};

/// A recording with a met limit, an exceeded one, an open one, and a reached warn level.
fn recording() -> Recording {
    let mut recording = testing::recording(2, 3);
    recording.requirement.limits = [
        (Metric::Max, 10_000_000_000),
        (Metric::Missed, 0),
        (Metric::Percentile(99.9999), 200_000),
        (Metric::Warn, 3_000),
    ]
    .map(|(metric, at_most)| Limit { metric, at_most })
    .to_vec();
    recording.verdict = recording.judge();
    recording
}

fn lines(form: CiForm) -> Vec<String> {
    let text = render(&[&recording()], form).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn tap_has_a_line_for_each_limit() {
    let lines = lines(CiForm::Tap);
    assert_eq!(lines[..2], ["TAP version 13", "1..4"]);
    let points: Vec<&String> = lines.iter().filter(|line| line.contains("ok ")).collect();
    assert!(
        points[0].starts_with("ok 1 - punctual.timer: max at most"),
        "{points:?}"
    );
    assert!(points[1].starts_with("not ok 2 - "), "{points:?}");
    assert!(points[2].starts_with("not ok 3 - "), "{points:?}");
    assert!(points[3].starts_with("not ok 4 - "), "{points:?}");
    assert!(points[3].ends_with("# TODO warn level"), "{points:?}");
}

#[test]
fn lava_has_a_signal_for_each_limit() {
    let lines = lines(CiForm::Lava);
    let results: Vec<&str> = (lines.iter())
        .filter_map(|line| line.split_once(" RESULT="))
        .map(|(_, rest)| rest.split([' ', '>']).next().unwrap_or_default())
        .collect();
    assert_eq!(results, ["pass", "fail", "unknown", "unknown"]);
    assert!(
        lines[0].starts_with("<LAVA_SIGNAL_TESTSET START "),
        "{lines:?}"
    );
    assert!(lines[2].contains(" UNITS=us>"), "{lines:?}");
    let plain = |line: &String| line.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    assert!(lines.iter().all(plain), "{lines:?}");
}

#[test]
fn kcidb_has_a_test_for_each_limit() {
    let text = render(&[&recording()], CiForm::Kcidb).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let tests = report["tests"].as_array().unwrap();
    let statuses: Vec<&str> = tests
        .iter()
        .map(|test| test["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["PASS", "FAIL", "ERROR", "DONE"]);
    assert_eq!(tests[0]["number"]["unit"], "s");
    assert_eq!(tests[0]["build_id"], report["builds"][0]["id"]);
    let mut ids: Vec<&Value> = tests.iter().map(|test| &test["id"]).collect();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

/// A reached warn level is shown, but neither a failure nor an error.
#[test]
fn warn_level_never_fails() {
    let mut recording = recording();
    recording
        .requirement
        .limits
        .retain(|limit| limit.metric == Metric::Warn);
    recording.verdict = recording.judge();
    let xml = render(&[&recording], CiForm::Junit).unwrap();
    assert!(
        xml.contains("failures=\"0\"") && xml.contains("errors=\"0\""),
        "{xml}"
    );
    assert!(xml.contains("warning: max is"), "{xml}");
    let tap = render(&[&recording], CiForm::Tap).unwrap();
    assert!(tap.contains("ok 1 - punctual.timer: measured"), "{tap}");
    // An undecided warn level is not an error either.
    recording
        .verdict
        .limits
        .iter_mut()
        .for_each(|limit| limit.held = None);
    let xml = render(&[&recording], CiForm::Junit).unwrap();
    assert!(
        xml.contains("failures=\"0\"") && xml.contains("errors=\"0\""),
        "{xml}"
    );
}

#[test]
fn texts_of_a_machine_stay_in_their_line() {
    let mut recording = recording();
    recording.label = Some("a\nnot ok 9 - b # TODO\n<LAVA_SIGNAL_TESTCASE>".to_owned());
    let tap = render(&[&recording], CiForm::Tap).unwrap();
    assert!(
        !tap.lines().any(|line| line.starts_with("not ok 9")),
        "{tap}"
    );
    let lava = render(&[&recording], CiForm::Lava).unwrap();
    assert!(
        lava.lines()
            .all(|line| line.starts_with("<LAVA_SIGNAL_TEST") || line.starts_with("# ")),
        "{lava}"
    );
}

/// A received verdict neither passes nor fails a pipeline, because it is not a test case.
#[test]
fn received_verdict_is_not_counted() {
    let recording = recording();
    let own = render(&[&recording], CiForm::Tap).unwrap();
    let mut received = recording;
    received.be_judged(Judgement {
        by: JudgedBy::Check,
        experiment: None,
        outcome: Outcome::Held,
        sentence: "held: at most 3".to_owned(),
        asked: None,
        claims: Vec::new(),
    });
    let trusted = render(&[&received], CiForm::Tap).unwrap();
    assert!(
        trusted.contains("ok 1 - punctual.timer: check"),
        "{trusted}"
    );
    received.judge_anew();
    assert_eq!(render(&[&received], CiForm::Tap).unwrap(), own);
    let xml = render(&[&received], CiForm::Junit).unwrap();
    assert!(
        xml.contains("check of the sender: held: at most 3 (not verified)"),
        "{xml}"
    );
}
