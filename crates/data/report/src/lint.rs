//! Results of `lint` as SARIF 2.1.0 (docs.oasis-open.org/sarif/sarif/v2.1.0).

use punctual_model::{Frame, LintReport, RuleResult, RuleState, Violation};
use serde_json::{Value, json};

use crate::audit::{sarif_level as level, sarif_run};
use crate::sanitize::sanitize;

/// Returns one SARIF run. Each violation is a result with its call site as the stack. Unknown rules
/// and clean rules are included as results as well (`kind`).
pub fn sarif(report: &LintReport) -> Value {
    let rules: Vec<Value> = report.rules.iter().map(rule).collect();
    let results: Vec<Value> = (report.rules.iter().enumerate())
        .flat_map(|(index, rule)| results(index, rule))
        .collect();
    let properties = json!({
        "program": sanitize(&report.program),
        "target": sanitize(&report.target),
        "duration_ns": report.duration_ns,
    });
    sarif_run("lint", &rules, &properties, &results)
}

fn rule(rule: &RuleResult) -> Value {
    json!({
        "id": sanitize(&rule.id),
        "shortDescription": {"text": sanitize(&rule.title)},
        "fullDescription": {"text": sanitize(&rule.why)},
        "help": {"text": sanitize(&format!("{} Source: {}", rule.remedy, rule.source))},
        "defaultConfiguration": {"level": level(rule.severity)},
        "properties": {"tags": ["latency", "real-time"]},
    })
}

fn results(index: usize, rule: &RuleResult) -> Vec<Value> {
    let of_rule = |kind: &str, level: &str, text: &str| {
        json!({
            "ruleId": sanitize(&rule.id),
            "ruleIndex": index,
            "kind": kind,
            "level": level,
            "message": {"text": sanitize(text)},
        })
    };
    match rule.state {
        RuleState::Clean => vec![of_rule(
            "pass",
            "none",
            &format!("{}: not seen", rule.title),
        )],
        RuleState::Unknown => {
            let why = rule.unknown.as_deref().unwrap_or("not seen");
            vec![of_rule("open", "none", &format!("{}: {why}", rule.title))]
        }
        RuleState::Violated => (rule.violations.iter())
            .map(|found| {
                let text = message(rule, found);
                let mut result = of_rule("fail", level(rule.severity), &text);
                result["occurrenceCount"] = found.count.max(1).into();
                result["locations"] = found.frames.first().map(location).into_iter().collect();
                if !found.frames.is_empty() {
                    let frames = found.frames.iter();
                    let frames: Vec<Value> = frames
                        .map(|frame| json!({"location": location(frame)}))
                        .collect();
                    result["stacks"] = json!([{"frames": frames}]);
                }
                result["properties"] = json!({
                    "tid": found.tid,
                    "thread": sanitize(&found.comm),
                    "max_ns": found.max_ns,
                });
                result
            })
            .collect(),
    }
}

fn message(rule: &RuleResult, found: &Violation) -> String {
    let largest = found.max_ns.map(|largest| format!(", longest {largest}"));
    format!(
        "{}: {} ({}): {} times {}{}. {}",
        rule.title,
        found.comm,
        found.tid,
        found.count.max(1),
        found.what,
        largest.unwrap_or_default(),
        rule.remedy
    )
}

/// Returns the location of a function in a binary. Such a location has no source line.
fn location(frame: &Frame) -> Value {
    let mut location = json!({
        "logicalLocations": [{"fullyQualifiedName": sanitize(&frame.text()), "kind": "function"}],
        "message": {"text": sanitize(&frame.text())},
    });
    if let (Some(object), Some(offset)) = (&frame.object, frame.offset) {
        let address = json!({"absoluteAddress": offset});
        location["physicalLocation"] = json!({"address": address});
        if object.starts_with('/') {
            let uri = crate::audit::uri(object);
            location["physicalLocation"]["artifactLocation"] = json!({"uri": uri});
        }
    }
    location
}
