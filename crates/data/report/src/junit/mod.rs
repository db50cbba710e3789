//! Recordings and check-ups as JUnit XML, for reports in continuous integration.

mod checkup;

pub use checkup::checkup;

use std::time::Duration;

use punctual_model::{Judgement, LimitResult, Recording, Unknown};
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use crate::ReportError;
use crate::document;
use crate::figures;
use crate::sanitize::sanitize;
use crate::text::{self, TextStyle};

/// Returns one test suite per recording, and one test case per limit: a broken limit is a failure,
/// an unproven one an error. Without limits there is one test case, `measured`, which is an error
/// if nothing was recorded. A probe that records only tables passes without samples.
///
/// Each suite has the ID, the host's fingerprint and the kernel as properties, and the text summary
/// as its output.
///
/// # Errors
/// Returns an error if `recordings` is empty, or if the XML cannot be written.
pub fn render(recordings: &[&Recording]) -> Result<String, ReportError> {
    if recordings.is_empty() {
        return Err(ReportError::NoRecording);
    }
    let mut report = Report::new("punctual");
    for recording in recordings {
        report.add_test_suite(suite(recording));
    }
    Ok(report.to_string()?)
}

fn suite(recording: &Recording) -> TestSuite {
    let name = format!(
        "{} ({})",
        sanitize(&recording.headline()),
        recording.id.short()
    );
    let mut suite = TestSuite::new(name);
    suite.set_time(Duration::from(recording.duration_ns));
    // Written by hand as xs:dateTime, because the setter needs a type of another crate.
    if recording.knows(Unknown::Started) {
        let started = recording.started.to_string();
        suite.extra.insert("timestamp".into(), started.into());
    }
    for (name, value) in properties(recording) {
        suite.add_property(Property::new(name, sanitize(&value).as_ref()));
    }
    if let Some(judgement) = &recording.judgement {
        suite.add_test_case(judged(recording, judgement));
    }
    match recording.verdict.limits.as_slice() {
        [] if recording.judgement.is_some() => &mut suite,
        [] => suite.add_test_case(measured(recording)),
        limits => suite.add_test_cases(limits.iter().map(|result| limit(recording, result))),
    };
    let style = TextStyle {
        colour: false,
        width: 100,
    };
    suite.set_system_out(text::render(&document::recording(recording), &style));
    suite
}

fn properties(recording: &Recording) -> Vec<(&'static str, String)> {
    let host = &recording.host;
    let mut list = vec![
        ("id", recording.id.to_string()),
        ("completion", recording.completion.to_string()),
        ("host_fingerprint", host.fingerprint.clone()),
    ];
    list.extend(recording.label.clone().map(|label| ("label", label)));
    list.extend(host.hostname.get().cloned().map(|name| ("host", name)));
    list.extend(
        host.kernel
            .release
            .get()
            .cloned()
            .map(|release| ("kernel", release)),
    );
    list.extend(
        figures::warnings(recording)
            .into_iter()
            .map(|text| ("warning", text)),
    );
    list
}

fn case(recording: &Recording, name: &str, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(name, status);
    case.set_classname(format!("punctual.{}", sanitize(&recording.probe.name)));
    case.set_time(Duration::from(recording.duration_ns));
    case
}

fn measured(recording: &Recording) -> TestCase {
    let only_tables = recording.threads.is_empty() && !recording.tables.is_empty();
    let status = match recording.accounting().recorded {
        0 if !only_tables => problem(
            NonSuccessKind::Error,
            "nothing measured",
            "nothing was recorded".to_owned(),
        ),
        _ => TestCaseStatus::success(),
    };
    case(recording, "measured", status)
}

/// Returns the verdict of the check-up that the recording is a part of.
fn judged(recording: &Recording, judgement: &Judgement) -> TestCase {
    let message = sanitize(&judgement.sentence).into_owned();
    let outcome = judgement.outcome;
    let status = if outcome.is_bad() {
        problem(NonSuccessKind::Failure, outcome.word(), message)
    } else if outcome.is_open() {
        problem(NonSuccessKind::Error, outcome.word(), message)
    } else {
        TestCaseStatus::success()
    };
    case(recording, judgement.by.name(), status)
}

fn limit(recording: &Recording, result: &LimitResult) -> TestCase {
    let limit = result.limit;
    let at_most = limit.metric.show(limit.at_most);
    let message = sanitize(&result.sentence(&recording.threads)).into_owned();
    let (exceeded, open) = match recording.requirement.confidence {
        None => ("requirement exceeded", "requirement not decidable"),
        Some(_) => ("requirement broken", "requirement not proven"),
    };
    let status = match result.held {
        Some(true) => TestCaseStatus::success(),
        Some(false) => problem(NonSuccessKind::Failure, exceeded, message),
        None => problem(NonSuccessKind::Error, open, message),
    };
    case(
        recording,
        &format!("{} at most {at_most}", limit.metric),
        status,
    )
}

fn problem(kind: NonSuccessKind, what: &str, message: String) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(what).set_message(message);
    status
}
