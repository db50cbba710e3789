//! Differences between two recordings other than their figures.

use std::collections::BTreeSet;

use punctual_model::{FindingState, HostFacts, Recording, RecordingId, StoredAudit};
use serde::{Deserialize, Serialize};

use super::{FactDifference, Facts};
use crate::alike;

/// Returns the facts of a machine by name (`kernel.command_line`).
pub fn facts_of(host: &HostFacts) -> Facts {
    alike::host_facts(host)
}

/// Returns the settings of a measurement, and the settings that `punctual tune` had applied.
pub fn measured_how(recording: &Recording) -> Facts {
    let mut settings: Facts = (alike::measurement(recording).into_iter())
        .map(|(name, value)| (format!("measurement.{}", name.replace(' ', "_")), value))
        .collect();
    let probe = &recording.probe;
    settings.insert("measurement.probe".to_owned(), Some(probe.name.clone()));
    settings.insert(
        "measurement.program".to_owned(),
        Some(probe.program.clone()),
    );
    settings.insert("measurement.tune".to_owned(), recording.tune.clone());
    settings
}

/// Facts whose values are lists of words, which are compared word by word.
const LISTS: [&str; 1] = ["kernel.command_line"];

/// Returns the facts that differ and are known for both recordings.
pub fn difference(before: &Facts, after: &Facts) -> Vec<FactDifference> {
    let known = before.iter().filter_map(|(name, old)| {
        let (old, new) = (old.as_deref()?, after.get(name)?.as_deref()?);
        (old != new).then(|| differing(name, old, new))
    });
    known.collect()
}

/// Returns a fact with two values that differ.
pub(super) fn differing(name: &str, old: &str, new: &str) -> FactDifference {
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    if LISTS.contains(&name) {
        (added, removed) = (words_only_in(new, old), words_only_in(old, new));
    }
    FactDifference {
        fact: name.to_owned(),
        before: Some(old.to_owned()),
        after: Some(new.to_owned()),
        added,
        removed,
    }
}

/// Returns the words of one text that the other lacks, in order.
fn words_only_in(one: &str, other: &str) -> Vec<String> {
    let known: BTreeSet<&str> = other.split_whitespace().collect();
    let words = one.split_whitespace().filter(|word| !known.contains(word));
    words.map(str::to_owned).collect()
}

impl FactDifference {
    /// Returns `kernel command line: processor.max_cstate=1 added`.
    pub fn sentence(&self) -> String {
        let name = self.fact.replace(['.', '_'], " ");
        let mut parts = Vec::new();
        if !self.added.is_empty() {
            parts.push(format!("{} added", self.added.join(" ")));
        }
        if !self.removed.is_empty() {
            parts.push(format!("{} removed", self.removed.join(" ")));
        }
        if parts.is_empty() {
            let shown = |value: &Option<String>| match value.as_deref() {
                None => "unknown".to_owned(),
                Some("") => "empty".to_owned(),
                Some(text) => text.to_owned(),
            };
            parts.push(format!("{} → {}", shown(&self.before), shown(&self.after)));
        }
        format!("{name}: {}", parts.join(", "))
    }
}

/// Differences between two recordings other than their figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactsDiffer {
    /// The first recording.
    pub a: RecordingId,
    /// The second recording.
    pub b: RecordingId,
    /// Facts and settings that differ and are known for both recordings.
    pub differences: Vec<FactDifference>,
    /// Facts that are known for only one recording, or for neither.
    pub not_known: Vec<String>,
    /// Number of facts that are known for both recordings and are equal.
    pub equal: usize,
}

punctual_model::to_json!(FactsDiffer);

/// Prefix of kernel configuration options.
pub const OPTION: &str = "CONFIG_";
/// Prefix of audit findings.
pub const FINDING: &str = "audit.";

/// Returns the state of these kernel configuration options. The configuration must be known.
fn options_of(host: &HostFacts, names: &BTreeSet<&String>) -> Facts {
    let options = &host.kernel.options;
    let state = |name: &String| {
        options
            .get(name)
            .map_or("not set", String::as_str)
            .to_owned()
    };
    (names.iter())
        .map(|name| (format!("{OPTION}{name}"), Some(state(name))))
        .collect()
}

/// Returns the states of these findings in an audit. A finding that the audit does not list is ok
/// or does not apply.
fn findings_of(audit: &StoredAudit, names: &BTreeSet<&String>) -> Facts {
    let state = |name: &String| {
        let found = audit.findings.iter().find(|one| one.id == *name);
        match found {
            None => Some("ok or not applicable".to_owned()),
            Some(one) if one.state == FindingState::Unknown => None,
            Some(one) => Some(format!("{}: {}", one.state, one.title)),
        }
    };
    let judged = [
        ("role", audit.role.clone()),
        ("cpus", audit.cpus.to_string()),
    ];
    let judged = judged.map(|(name, value)| (format!("{FINDING}{name}"), Some(value)));
    (names.iter())
        .map(|name| (format!("{FINDING}{name}"), state(name)))
        .chain(judged)
        .collect()
}

/// Compares the facts of two recordings, including the kernel configuration options that affect
/// latency, and the findings of their audits.
pub fn facts_differ(a: &Recording, b: &Recording) -> FactsDiffer {
    let both = [a, b];
    let hosts = both.map(|one| &one.host);
    let configured = (hosts.iter()).all(|host| host.kernel.configuration.get().is_some());
    let options = hosts.iter().flat_map(|host| host.kernel.options.keys());
    let options: BTreeSet<&String> = options.filter(|_| configured).collect();
    let audits = a.audit.as_ref().zip(b.audit.as_ref());
    let found = audits.iter().flat_map(|(a, b)| [a, b]);
    let found = found.flat_map(|audit| &audit.findings);
    let found: BTreeSet<&String> = found.map(|one| &one.id).collect();
    let [before, after] = both.map(|recording| {
        let mut all = facts_of(&recording.host);
        all.append(&mut measured_how(recording));
        all.append(&mut options_of(&recording.host, &options));
        match recording.audit.as_ref().filter(|_| audits.is_some()) {
            Some(audit) => all.append(&mut findings_of(audit, &found)),
            None => drop(all.insert("audit".to_owned(), None)),
        }
        all
    });
    let differences = difference(&before, &after);
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let known = |facts: &Facts, name: &String| facts.get(name).is_some_and(Option::is_some);
    let not_known: Vec<String> = (names.iter())
        .filter(|name| !known(&before, name) || !known(&after, name))
        .map(|name| (*name).clone())
        .collect();
    FactsDiffer {
        a: a.id,
        b: b.id,
        equal: names.len() - not_known.len() - differences.len(),
        differences,
        not_known,
    }
}
