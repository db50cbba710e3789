//! The findings of an audit of a machine.

mod lint;
mod refused_call;
mod stored_audit;

pub use lint::{
    Act, ActKind, Acts, FileKind, Frame, InCall, LINT_SCHEMA, LintFacts, LintProcess, LintReport,
    LintSource, LintThread, PlacedAct, Polled, Registers, RuleResult, RuleState, TIMER_SIGNAL,
    Violation, WaitedFile, WaitedTimer,
};
pub use refused_call::RefusedCall;
pub use stored_audit::{StoredAudit, StoredFinding};

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{CpuSet, Fact, Interference, Nanos};

/// The version of [`Audit`] as JSON. It is increased only if a reader of the older form would
/// misread the newer one. Adding a field does not increase it.
pub const AUDIT_SCHEMA: u32 = 1;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingState {
    /// The state is as recommended.
    Ok,
    /// The state costs latency under a condition that cannot be seen from the facts.
    Warn,
    /// The state costs latency.
    Fail,
    /// A fact that the check needs could not be read.
    Unknown,
    /// The check does not apply to this machine.
    NotApplicable,
}

/// How important a finding is for latency, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The finding is for information only.
    Info,
    /// The state adds to latencies in general, or causes rare long ones.
    Medium,
    /// The state adds more latency than a typical requirement allows.
    High,
    /// Latency is unbounded until the state is corrected.
    Fatal,
}

impl fmt::Display for FindingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
            Self::Unknown => "unknown",
            Self::NotApplicable => "not applicable",
        })
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Info => "info",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Fatal => "fatal",
        })
    }
}

/// A setting that a finding recommends changing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remedy {
    /// Name of the setting.
    pub setting: String,
    /// The instance to change. If absent, the setting is changed for the CPUs of the audit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance: Option<String>,
    /// The value, in the syntax of `--set`.
    pub value: String,
    /// Risks that the user must weigh before the change. Absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub decide: Option<String>,
}

impl Remedy {
    /// Returns the assignment in the syntax of `--set`: `swappiness=10`, `watchdog@nmi=off`.
    pub fn assignment(&self) -> String {
        match &self.instance {
            Some(instance) => format!("{}@{instance}={}", self.setting, self.value),
            None => format!("{}={}", self.setting, self.value),
        }
    }
}

/// One check and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// ID of the finding, the same on every machine: `scheduler-rt-throttling`.
    pub id: String,
    /// Topic of the finding: `scheduler`.
    pub topic: String,
    /// The setting or fact that the check judges, with the same name on every machine:
    /// `swappiness`.
    #[serde(default)]
    pub subject: String,
    /// The subject and its state: `swappiness is 60`. Contains only the subject if the state is
    /// unknown or does not exist.
    pub title: String,
    /// Result of the check.
    pub state: FindingState,
    /// Severity for the role of the machine.
    pub severity: Severity,
    /// The current state in one line. If the result is *unknown*, this is the reason.
    pub found: String,
    /// The recommended state.
    pub expected: String,
    /// The facts that were read: the value of each file, or the reason why it has none.
    pub evidence: Vec<Fact<String>>,
    /// Reason why the state costs latency.
    pub why: String,
    /// Documentation that supports the finding: a file of the kernel's documentation, or a manual
    /// page.
    pub source: String,
    /// How the role changes the recommendation, and which guides recommend otherwise.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub role_note: Option<String>,
    /// Shell commands that change the setting until the next boot or `tune revert`. Lines that
    /// begin with `#` are left for the user to decide.
    pub now: Vec<String>,
    /// The settings in `now` that `tune` can change.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub remedies: Vec<Remedy>,
    /// How to change the setting permanently.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reboot: Option<String>,
}

/// Verbs with which the text of a state can begin. Such a text forms a sentence together with the
/// subject: `swappiness is 60`.
const VERBS: [&str; 4] = ["is", "are", "has", "may"];

impl Finding {
    /// Returns the title of a finding.
    pub fn title_of(subject: &str, state: FindingState, found: &str) -> String {
        let verb = found.split([' ', ',']).next().unwrap_or_default();
        match state {
            FindingState::Unknown | FindingState::NotApplicable => subject.to_owned(),
            _ if VERBS.contains(&verb) => format!("{subject} {found}"),
            _ => format!("{subject}: {found}"),
        }
    }

    /// Returns the finding in one line: its title, and the reason if the state is unknown.
    pub fn line(&self) -> String {
        match self.state {
            FindingState::Unknown | FindingState::NotApplicable => {
                format!("{}: {}", self.title, self.found)
            }
            _ => self.title.clone(),
        }
    }

    /// Returns whether the result is *fail* or *warn*.
    pub fn is_problem(&self) -> bool {
        matches!(self.state, FindingState::Fail | FindingState::Warn)
    }

    /// Returns whether the finding fails with a severity of high or fatal. The exit code depends on
    /// it.
    pub fn is_grave(&self) -> bool {
        self.state == FindingState::Fail && self.severity >= Severity::High
    }

    /// Returns the sort key: problems first, then unknown findings, each by decreasing severity.
    pub fn order(&self) -> (u8, Reverse<Severity>, u8) {
        let (group, within) = match self.state {
            FindingState::Fail => (0, 0),
            FindingState::Warn => (0, 1),
            FindingState::Unknown => (1, 0),
            FindingState::Ok => (2, 0),
            FindingState::NotApplicable => (3, 0),
        };
        (group, Reverse(self.severity), within)
    }
}

/// Identity of the audited machine. A field is `None` if the machine does not provide it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditedHost {
    /// Host name.
    pub hostname: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Distribution.
    pub distribution: Option<String>,
    /// Processor model.
    pub processor: Option<String>,
    /// Fingerprint, the same as in recordings made on this machine.
    pub fingerprint: String,
}

/// The expected worst-case latency, and the measured one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectation {
    /// Clock frequency used for the estimate, in kHz, or the reason why it is unknown.
    pub frequency_khz: Option<Fact<u64>>,
    /// Duration of 100,000 clock cycles at that frequency: the rule of thumb for a tuned PREEMPT_RT
    /// kernel.
    pub max_ns: Option<Nanos>,
    /// The last stored measurement of this machine.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub measured: Option<MeasuredMaximum>,
    /// Reason why no stored measurement can be compared with the expectation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_measured: Option<String>,
}

/// The maximum of a recording, for comparison with the expectation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredMaximum {
    /// The recording's ID.
    pub recording: String,
    /// Headline of the recording: probe and parameters.
    pub headline: String,
    /// Start of the measurement.
    pub started: jiff::Timestamp,
    /// The largest latency.
    pub max_ns: Nanos,
    /// Number of samples.
    pub samples: u64,
    /// Whether the settings of the machine were the same as now (equal fingerprints).
    pub same_settings: bool,
}

/// An audit of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// Version of this JSON form, [`AUDIT_SCHEMA`].
    pub schema: u32,
    /// Version of the program that made the audit.
    pub program: String,
    /// The role of the machine, which affects the findings.
    pub role: String,
    /// Meaning of the role.
    pub role_meaning: String,
    /// The audited machine.
    pub host: AuditedHost,
    /// The CPUs on which latency matters.
    pub cpus: CpuSet,
    /// How these CPUs were chosen.
    pub cpus_because: String,
    /// The findings, ordered by importance ([`Finding::order`]).
    pub findings: Vec<Finding>,
    /// The expected worst-case latency.
    pub expectation: Expectation,
    /// Counts of other activity on the CPUs during the audit. `None` if the audit did not count it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sample: Option<Interference>,
}

impl Audit {
    /// Returns the number of findings in this state.
    pub fn count(&self, state: FindingState) -> usize {
        let all = self.findings.iter();
        all.filter(|finding| finding.state == state).count()
    }

    /// Returns whether any finding is grave.
    pub fn is_grave(&self) -> bool {
        self.findings.iter().any(Finding::is_grave)
    }

    /// Returns whether every applicable finding is unknown. Such an audit proves nothing.
    pub fn knows_nothing(&self) -> bool {
        let unknown = self.count(FindingState::Unknown);
        unknown > 0 && unknown + self.count(FindingState::NotApplicable) == self.findings.len()
    }

    /// Returns the audit in one line.
    pub fn summary(&self) -> String {
        let failing = self.findings.iter();
        let failing = failing.filter(|one| one.state == FindingState::Fail);
        summary(failing.map(|one| one.severity), |state| self.count(state))
    }
}

/// Returns an audit in one line: the severities of the failed checks, and the number of findings in
/// each state.
pub(crate) fn summary(
    failing: impl Iterator<Item = Severity>,
    count: impl Fn(FindingState) -> usize,
) -> String {
    let mut failed: BTreeMap<Reverse<Severity>, usize> = BTreeMap::new();
    failing.for_each(|severity| *failed.entry(Reverse(severity)).or_default() += 1);
    let failing: Vec<String> = (failed.iter())
        .map(|(Reverse(severity), count)| format!("{count} {severity}"))
        .collect();
    let known = count(FindingState::Ok) + count(FindingState::Warn) > 0;
    let failing = match (failing.is_empty(), count(FindingState::Unknown), known) {
        (false, _, _) => format!("fails: {}", failing.join(", ")),
        (true, 0, _) => "nothing fails".to_owned(),
        (true, _, true) => "no completed check fails".to_owned(),
        (true, _, false) => "nothing is known".to_owned(),
    };
    format!(
        "{failing}; {} to look at, {} unknown, {} ok, {} not applicable",
        count(FindingState::Warn),
        count(FindingState::Unknown),
        count(FindingState::Ok),
        count(FindingState::NotApplicable),
    )
}

#[cfg(test)]
mod tests;
