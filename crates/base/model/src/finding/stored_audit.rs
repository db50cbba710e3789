//! The summary of an audit in a recording, with one line for each problem or unknown state.

use serde::{Deserialize, Serialize};

use crate::finding::summary;
use crate::{Audit, CpuSet, Finding, FindingState, Severity};

/// Maximum length of a stored text, in characters. A list of interrupts can be thousands of
/// characters long.
const TEXT: usize = 200;

/// The result of an audit, without the evidence, reasons and remedies that `punctual doctor` shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAudit {
    /// The role that the audit assumed.
    pub role: String,
    /// The CPUs on which latency matters.
    pub cpus: CpuSet,
    /// Failures, warnings and unknown findings, ordered by importance.
    pub findings: Vec<StoredFinding>,
    /// Number of checks with the expected state.
    pub ok: usize,
    /// Number of checks that do not apply to the machine.
    pub not_applicable: usize,
}

/// A finding in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFinding {
    /// ID of the finding, the same on every machine: `scheduler-rt-throttling`.
    pub id: String,
    /// Result of the check.
    pub state: FindingState,
    /// Severity for the role of the audit.
    pub severity: Severity,
    /// The subject of the check and its state: `swappiness is 60`. Contains only the subject if the
    /// state is unknown.
    pub title: String,
    /// Reason why the state is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl StoredAudit {
    /// Returns the summary of an audit.
    pub fn from_audit(audit: &Audit) -> Self {
        let kept = audit
            .findings
            .iter()
            .filter(|finding| finding.is_problem() || finding.state == FindingState::Unknown);
        Self {
            role: audit.role.clone(),
            cpus: audit.cpus.clone(),
            findings: kept.map(StoredFinding::from_finding).collect(),
            ok: audit.count(FindingState::Ok),
            not_applicable: audit.count(FindingState::NotApplicable),
        }
    }

    /// Returns the audit in one line.
    pub fn summary(&self) -> String {
        let failing = self.findings.iter();
        let failing = failing.filter(|one| one.state == FindingState::Fail);
        summary(failing.map(|one| one.severity), |state| match state {
            FindingState::Ok => self.ok,
            FindingState::NotApplicable => self.not_applicable,
            _ => self
                .findings
                .iter()
                .filter(|one| one.state == state)
                .count(),
        })
    }
}

impl StoredFinding {
    fn from_finding(finding: &Finding) -> Self {
        let unknown = finding.state == FindingState::Unknown;
        Self {
            id: finding.id.clone(),
            state: finding.state,
            severity: finding.severity,
            title: shortened(&finding.title),
            reason: unknown.then(|| shortened(&finding.found)),
        }
    }

    /// Returns whether the result is *fail* or *warn*.
    pub fn is_problem(&self) -> bool {
        matches!(self.state, FindingState::Fail | FindingState::Warn)
    }

    /// Returns whether the finding fails with a severity of high or fatal.
    pub fn is_grave(&self) -> bool {
        self.state == FindingState::Fail && self.severity >= Severity::High
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AUDIT_SCHEMA, AuditedHost, Expectation};

    fn finding(state: FindingState, severity: Severity) -> Finding {
        Finding {
            id: "memory-swappiness".to_owned(),
            topic: "memory".to_owned(),
            subject: "swappiness".to_owned(),
            title: "é".repeat(TEXT + 1),
            state,
            severity,
            found: "permission denied".to_owned(),
            expected: "10".to_owned(),
            evidence: Vec::new(),
            why: "pages".to_owned(),
            source: "vm.rst".to_owned(),
            role_note: None,
            now: Vec::new(),
            remedies: Vec::new(),
            reboot: None,
        }
    }

    #[test]
    fn it_keeps_what_is_wrong_or_unknown() {
        use FindingState::{Fail, NotApplicable, Ok, Unknown, Warn};
        let all = [
            (Fail, Severity::Fatal),
            (Fail, Severity::Medium),
            (Warn, Severity::High),
            (Unknown, Severity::High),
            (Ok, Severity::High),
            (NotApplicable, Severity::High),
        ];
        let audit = Audit {
            schema: AUDIT_SCHEMA,
            program: String::new(),
            role: "control".to_owned(),
            role_meaning: String::new(),
            host: AuditedHost::default(),
            cpus: CpuSet::new(),
            cpus_because: String::new(),
            findings: all.map(|(state, severity)| finding(state, severity)).into(),
            expectation: Expectation::default(),
            sample: None,
        };
        let kept = StoredAudit::from_audit(&audit);
        let states: Vec<FindingState> = kept.findings.iter().map(|one| one.state).collect();
        assert_eq!(states, [Fail, Fail, Warn, Unknown]);
        assert_eq!(kept.findings[0].title.chars().count(), TEXT + 1);
        assert_eq!(kept.findings[0].reason, None);
        assert_eq!(
            kept.findings[3].reason.as_deref(),
            Some("permission denied")
        );
        assert_eq!(kept.summary(), audit.summary());
        assert!(
            kept.summary()
                .starts_with("fails: 1 fatal, 1 medium; 1 to look at")
        );
        let grave: Vec<bool> = kept.findings.iter().map(StoredFinding::is_grave).collect();
        assert_eq!(grave, [true, false, false, false]);
    }
}
