//! An audit as SARIF 2.1.0, the format of code scanning (docs.oasis-open.org/sarif/sarif/v2.1.0).

use punctual_model::{Audit, Fact, Finding, FindingState, Severity};
use serde_json::{Value, json};

use crate::sanitize::sanitize;

/// Returns the audit as one SARIF run. Each check is a rule, and each finding is a result. Findings
/// that are ok or do not apply are included (`kind`), so that a reader sees everything that was
/// checked.
pub fn sarif(audit: &Audit) -> Value {
    let rules: Vec<Value> = audit.findings.iter().map(rule).collect();
    let results: Vec<Value> = audit.findings.iter().enumerate().map(result).collect();
    let properties = json!({
        "program": sanitize(&audit.program),
        "host": sanitize(audit.host.hostname.as_deref().unwrap_or("unknown")),
        "fingerprint": sanitize(&audit.host.fingerprint),
        "cpus": audit.cpus.to_string(),
    });
    run(
        &format!("doctor/{}", audit.role),
        &rules,
        &properties,
        &results,
    )
}

/// Returns a SARIF file with one run of this program. `of` names the command, which distinguishes
/// the runs of different commands.
pub(crate) fn run(of: &str, rules: &[Value], properties: &Value, results: &[Value]) -> Value {
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "punctual",
                "informationUri": "https://docs.rs/punctual",
                "rules": rules,
            }},
            "automationDetails": {"id": format!("punctual/{of}")},
            "properties": properties,
            "results": results,
        }],
    })
}

fn rule(finding: &Finding) -> Value {
    json!({
        "id": sanitize(&finding.id),
        "shortDescription": {"text": sanitize(&finding.subject)},
        "fullDescription": {"text": sanitize(&finding.why)},
        "help": {"text": sanitize(&format!("Source: {}", finding.source))},
        "defaultConfiguration": {"level": level(finding.severity)},
        "properties": {"tags": ["latency", sanitize(&finding.topic)]},
    })
}

fn result((index, finding): (usize, &Finding)) -> Value {
    let kind = match finding.state {
        FindingState::Ok => "pass",
        FindingState::Fail => "fail",
        FindingState::Warn => "fail",
        FindingState::Unknown => "open",
        FindingState::NotApplicable => "notApplicable",
    };
    // The level is "none" unless the kind is "fail" (3.27.10).
    let level = match finding.state {
        FindingState::Fail => level(finding.severity),
        FindingState::Warn => match finding.severity {
            Severity::Info => "note",
            _ => "warning",
        },
        _ => "none",
    };
    let mut text = format!("{}; expected {}", finding.line(), finding.expected);
    for more in finding.role_note.iter().chain(&finding.reboot) {
        text.push_str(&format!(". {more}"));
    }
    json!({
        "ruleId": sanitize(&finding.id),
        "ruleIndex": index,
        "kind": kind,
        "level": level,
        "message": {"text": sanitize(&text)},
        "locations": locations(finding),
        "properties": {
            "severity": finding.severity,
            "state": finding.state,
            "now": finding.now,
        },
    })
}

/// Returns the sources of a finding: a file's URI for a path, otherwise the name of the source
/// (such as a register or a socket).
fn locations(finding: &Finding) -> Vec<Value> {
    let places = finding.evidence.iter().take(10).map(|fact| {
        // Only the path becomes a URI; a note after it stays in the message.
        let path = fact.source.split(' ').next().unwrap_or_default();
        let text = format!("{}: {}", fact.source, value(fact));
        let text = sanitize(&text);
        if path.starts_with('/') {
            json!({
                "physicalLocation": {"artifactLocation": {"uri": uri(path)}},
                "message": {"text": text},
            })
        } else {
            json!({
                "logicalLocations": [{"fullyQualifiedName": sanitize(&fact.source)}],
                "message": {"text": text},
            })
        }
    });
    places.collect()
}

fn value(fact: &Fact<String>) -> String {
    match (&fact.value, &fact.unknown) {
        (Some(value), _) => value.clone(),
        (None, why) => format!("({})", why.as_deref().unwrap_or("not known")),
    }
}

/// Returns the absolute `path` as a file URI. Escapes all characters that a URI does not allow.
pub(crate) fn uri(path: &str) -> String {
    let mut text = "file://".to_owned();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                text.push(char::from(byte));
            }
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

pub(crate) fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Fatal | Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Info => "note",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_a_uri() {
        assert_eq!(uri("/proc/cmdline"), "file:///proc/cmdline");
        assert_eq!(uri("/proc/irq/#/x y"), "file:///proc/irq/%23/x%20y");
    }
}
