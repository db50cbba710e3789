//! What an audit of a machine found.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{CpuSet, Fact, Interference, Nanos};

/// The version of [`Audit`] as JSON. It rises when a reader of the older form
/// would misread the newer; fields that are added do not raise it.
pub const AUDIT_SCHEMA: u32 = 1;

/// How a check came out.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FindingState {
    /// It is as it should be.
    Ok,
    /// It costs latency under a condition that the facts do not tell.
    Warn,
    /// It costs latency.
    Fail,
    /// What is needed to judge it could not be read.
    Unknown,
    /// The machine has nothing of the kind, or the question does not arise.
    NotApplicable,
}

/// How much a finding matters for latency, rising.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Adds to the latencies, or adds rare ones.
    Medium,
    /// Late by more than a usual requirement allows.
    High,
    /// Without it there is no bound at all.
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

/// A setting that a finding asks to be changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remedy {
    /// The setting's name.
    pub setting: String,
    /// Which of several; those that the CPUs of the audit select where it is absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance: Option<String>,
    /// The value, as `--set` takes it.
    pub value: String,
    /// What a person has to weigh before; absent where nothing speaks against it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub decide: Option<String>,
}

impl Remedy {
    /// As `--set` takes it: `swappiness=10`, `watchdog@nmi=off`.
    pub fn assignment(&self) -> String {
        match &self.instance {
            Some(instance) => format!("{}@{instance}={}", self.setting, self.value),
            None => format!("{}={}", self.setting, self.value),
        }
    }
}

/// One thing that was looked at, and what was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Its name, the same on every machine: `scheduler-rt-throttling`.
    pub id: String,
    /// The topic it belongs to: `scheduler`.
    pub topic: String,
    /// What is judged, the same on every machine: `swappiness`.
    #[serde(default)]
    pub subject: String,
    /// What is judged and its state: `swappiness is 60`; the subject alone where the
    /// state is not known or there is none.
    pub title: String,
    /// How it came out.
    pub state: FindingState,
    /// How much it matters, for this role.
    pub severity: Severity,
    /// What was found, in one line; for *unknown* why it is not known.
    pub found: String,
    /// What it should be.
    pub expected: String,
    /// What was read: each file with its value, or why there is none.
    pub evidence: Vec<Fact<String>>,
    /// Why it costs latency.
    pub why: String,
    /// Where that is said: a file of the kernel's documentation, a manual
    /// page.
    pub source: String,
    /// What the role changes here, and which guides say otherwise.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub role_note: Option<String>,
    /// Shell commands that change it now, until the next boot or `tune revert`; what
    /// begins with `#` a person has to decide.
    pub now: Vec<String>,
    /// The settings of `now` that `tune` can change.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub remedies: Vec<Remedy>,
    /// What changes it permanently.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reboot: Option<String>,
}

/// How a state begins that reads on from its subject.
const VERBS: [&str; 4] = ["is", "are", "has", "may"];

impl Finding {
    /// The title of a finding.
    pub fn title_of(subject: &str, state: FindingState, found: &str) -> String {
        let verb = found.split([' ', ',']).next().unwrap_or_default();
        match state {
            FindingState::Unknown | FindingState::NotApplicable => subject.to_owned(),
            _ if VERBS.contains(&verb) => format!("{subject} {found}"),
            _ => format!("{subject}: {found}"),
        }
    }

    /// The finding in a line: its title, and the reason where no state is known.
    pub fn line(&self) -> String {
        match self.state {
            FindingState::Unknown | FindingState::NotApplicable => {
                format!("{}: {}", self.title, self.found)
            }
            _ => self.title.clone(),
        }
    }

    /// Whether it was found wanting: *fail* or *warn*.
    pub fn is_problem(&self) -> bool {
        matches!(self.state, FindingState::Fail | FindingState::Warn)
    }

    /// Whether it fails with a severity of high or fatal: the exit
    /// code follows from it.
    pub fn is_grave(&self) -> bool {
        self.state == FindingState::Fail && self.severity >= Severity::High
    }

    /// The place in a list ordered by what matters: problems first, then what
    /// is unknown, each by falling severity.
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

/// The machine that was audited, as it names itself; `None` where it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditedHost {
    /// Its name.
    pub hostname: Option<String>,
    /// Its kernel's release.
    pub kernel: Option<String>,
    /// Its distribution.
    pub distribution: Option<String>,
    /// Its processor.
    pub processor: Option<String>,
    /// As in the recordings made on it.
    pub fingerprint: String,
}

/// What worst case is to be expected, and what was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Expectation {
    /// The clock frequency that was reckoned with, kHz, or why there is none.
    pub frequency_khz: Option<Fact<u64>>,
    /// 100,000 clock cycles at that frequency: the rule of thumb for a tuned
    /// PREEMPT_RT kernel.
    pub worst_ns: Option<Nanos>,
    /// The last measurement of this machine that is kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub measured: Option<MeasuredWorst>,
    /// Why no measurement that is kept can stand beside the expectation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_measured: Option<String>,
}

/// The worst of a recording, to set beside what is expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredWorst {
    /// The recording's ID.
    pub recording: String,
    /// What was measured.
    pub headline: String,
    /// When.
    pub started: jiff::Timestamp,
    /// Its largest latency.
    pub max_ns: Nanos,
    /// Out of how many samples.
    pub samples: u64,
    /// Whether the machine was set as it is now (its fingerprint is the same).
    pub same_settings: bool,
}

/// An audit of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// [`AUDIT_SCHEMA`].
    pub schema: u32,
    /// The program that audited.
    pub program: String,
    /// What the machine is for: the role the findings were judged by.
    pub role: String,
    /// What that role stands for.
    pub role_meaning: String,
    /// Which machine.
    pub host: AuditedHost,
    /// The CPUs that latency matters on.
    pub cpus: CpuSet,
    /// How these were chosen.
    pub cpus_because: String,
    /// The findings, ordered by what matters ([`Finding::order`]).
    pub findings: Vec<Finding>,
    /// What worst case is to be expected.
    pub expectation: Expectation,
    /// What was counted while the audit watched; `None` where it did not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sample: Option<Interference>,
}

impl Audit {
    /// How many findings are in a state.
    pub fn count(&self, state: FindingState) -> usize {
        let all = self.findings.iter();
        all.filter(|finding| finding.state == state).count()
    }

    /// Whether a finding is grave.
    pub fn is_grave(&self) -> bool {
        self.findings.iter().any(Finding::is_grave)
    }

    /// Whether all that applies to this machine is unknown: such an audit shows nothing.
    pub fn knows_nothing(&self) -> bool {
        let unknown = self.count(FindingState::Unknown);
        unknown > 0 && unknown + self.count(FindingState::NotApplicable) == self.findings.len()
    }

    /// The audit in one line.
    pub fn summary(&self) -> String {
        let failing = self.findings.iter();
        let failing = failing.filter(|one| one.state == FindingState::Fail);
        summary(failing.map(|one| one.severity), |state| self.count(state))
    }
}

/// An audit in one line: the severities of what fails, and how many findings are in a
/// state.
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
        (true, _, true) => "nothing of what is known fails".to_owned(),
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
mod tests {
    use super::*;

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
        assert!(said(&[Ok, Unknown]).starts_with("nothing of what is known fails; "));
        assert!(said(&[Unknown, NotApplicable]).starts_with("nothing is known; "));
        assert!(said(&[Unknown, Fail]).starts_with("fails: 1 high; "));
    }
}
