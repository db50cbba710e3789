//! An audit as JUnit XML.

use punctual_model::{Audit, Finding, FindingState};
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use crate::ReportError;
use crate::sanitize::sanitize;

/// Returns the audit as JUnit XML, with one test suite per topic and one test case per finding. A
/// failed finding of severity high or fatal is a failure, as for the exit code. Other problems
/// pass, with their text as output. Findings that are unknown or do not apply are skipped, with the
/// reason.
///
/// # Errors
/// Returns an error if the XML cannot be written.
pub fn junit(audit: &Audit) -> Result<String, ReportError> {
    let mut report = Report::new("punctual doctor");
    let mut topics: Vec<&str> = audit.findings.iter().map(|f| f.topic.as_str()).collect();
    topics.sort_unstable();
    topics.dedup();
    for topic in topics {
        let mut suite = TestSuite::new(sanitize(topic).as_ref());
        suite.add_property(Property::new("role", sanitize(&audit.role).as_ref()));
        suite.add_property(Property::new("cpus", audit.cpus.to_string()));
        let fingerprint = sanitize(&audit.host.fingerprint);
        suite.add_property(Property::new("host_fingerprint", fingerprint.as_ref()));
        let findings = audit.findings.iter().filter(|f| f.topic == topic);
        suite.add_test_cases(findings.map(case));
        report.add_test_suite(suite);
    }
    Ok(report.to_string()?)
}

fn case(finding: &Finding) -> TestCase {
    let message = format!("{}; expected {}", finding.found, finding.expected);
    let message = sanitize(&message);
    let status = match finding.state {
        FindingState::Fail if finding.is_grave() => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status
                .set_type(finding.severity.to_string())
                .set_message(message.as_ref());
            status
        }
        FindingState::Unknown | FindingState::NotApplicable => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(sanitize(&finding.found).as_ref());
            status
        }
        _ => TestCaseStatus::success(),
    };
    let mut case = TestCase::new(sanitize(&finding.id).as_ref(), status);
    case.set_classname(format!("punctual.doctor.{}", sanitize(&finding.topic)));
    if finding.is_problem() {
        case.set_system_out(format!(
            "{} ({}): {message}\n{}\n",
            finding.state,
            finding.severity,
            sanitize(&finding.why)
        ));
    }
    case
}
