//! An audit as JUnit XML and as TAP.

use punctual_model::{Audit, Finding, FindingState};

use crate::junit::tap;
use crate::junit::xml::{self, Case, State, Suite};

/// Returns the audit as JUnit XML, with one test suite per topic and one test case per finding. A
/// failed finding of severity high or fatal is a failure, in line with the exit code. Other
/// problems pass, and their text becomes the output of the test case. Findings that are unknown or
/// do not apply are skipped, with the reason.
pub fn junit(audit: &Audit) -> String {
    xml::write("punctual doctor", &suites(audit))
}

/// Returns the audit as TAP 13, with the test cases of [`junit`] and their output.
pub fn tap(audit: &Audit) -> String {
    tap::write(&suites(audit))
}

fn suites(audit: &Audit) -> Vec<Suite> {
    let mut topics: Vec<&str> = audit.findings.iter().map(|f| f.topic.as_str()).collect();
    topics.sort_unstable();
    topics.dedup();
    let suite = |topic: &str| Suite {
        name: topic.to_owned(),
        properties: vec![
            ("role", audit.role.to_string()),
            ("cpus", audit.cpus.to_string()),
            ("host_fingerprint", audit.host.fingerprint.clone()),
        ],
        cases: (audit
            .findings
            .iter()
            .filter(|finding| finding.topic == topic))
        .map(case)
        .collect(),
        ..Suite::default()
    };
    topics.into_iter().map(suite).collect()
}

fn case(finding: &Finding) -> Case {
    let message = format!("{}; expected {}", finding.found, finding.expected);
    let output = finding.is_problem().then(|| {
        let (state, severity) = (finding.state, finding.severity);
        format!("{state} ({severity}): {message}\n{}\n", finding.why)
    });
    let state = match finding.state {
        FindingState::Fail if finding.is_grave() => {
            State::Failure(finding.severity.to_string(), message)
        }
        FindingState::Unknown | FindingState::NotApplicable => {
            State::Skipped(finding.found.clone())
        }
        _ => State::Success,
    };
    Case {
        name: finding.id.clone(),
        class: format!("punctual.doctor.{}", finding.topic),
        time: None,
        state,
        measured: None,
        is_warn_level: false,
        output,
    }
}
