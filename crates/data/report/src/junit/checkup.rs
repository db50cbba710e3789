//! A check-up as JUnit XML.

use std::time::Duration;

use punctual_model::{Checkup, Nanos, Outcome};
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use crate::ReportError;
use crate::document::{condition_line, condition_name, lacking};
use crate::sanitize::sanitize;

/// Returns one test suite, with a test case for the verdict and one for each condition. A broken
/// requirement is a failure and an unproven one an error, as for recordings.
///
/// # Errors
/// Returns an error if the XML cannot be written.
pub fn checkup(checkup: &Checkup) -> Result<String, ReportError> {
    let mut suite = TestSuite::new("punctual check");
    let fingerprint = sanitize(&checkup.host.fingerprint);
    suite.add_property(Property::new("host_fingerprint", fingerprint.as_ref()));
    if let Some(on) = &checkup.measured_on {
        suite.add_property(Property::new("machine", sanitize(&on.line()).as_ref()));
        let started = on.started.to_string();
        suite.extra.insert("timestamp".into(), started.into());
    }
    for why in lacking(checkup) {
        suite.add_property(Property::new("lacking", sanitize(&why).as_ref()));
    }
    let all: u64 = (checkup.conditions.iter())
        .map(|condition| condition.measured_ns.0)
        .sum();
    suite.add_test_case(case(
        "verdict",
        checkup.outcome,
        &checkup.sentence,
        Nanos(all),
    ));
    for condition in &checkup.conditions {
        suite.add_test_case(case(
            &condition_name(condition),
            condition.outcome,
            &condition_line(condition),
            condition.measured_ns,
        ));
    }
    let mut report = Report::new("punctual check");
    report.add_test_suite(suite);
    Ok(report.to_string()?)
}

fn case(name: &str, outcome: Outcome, message: &str, time: Nanos) -> TestCase {
    let problem = |kind: NonSuccessKind, what: &str| {
        let mut status = TestCaseStatus::non_success(kind);
        status
            .set_type(what)
            .set_message(sanitize(message).as_ref());
        status
    };
    let status = match outcome {
        outcome if outcome.is_good() => TestCaseStatus::success(),
        outcome if outcome.is_bad() => problem(NonSuccessKind::Failure, "broken"),
        _ => problem(NonSuccessKind::Error, "not proven"),
    };
    let mut case = TestCase::new(sanitize(name).as_ref(), status);
    case.set_classname("punctual.check");
    case.set_time(Duration::from(time));
    case.set_system_out(sanitize(message).as_ref());
    case
}
