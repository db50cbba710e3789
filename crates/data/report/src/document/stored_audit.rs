//! The findings of an audit that are kept in a recording.

use punctual_model::{FindingState, Severity, StoredAudit, StoredFinding};

use super::audit::state_mark;
use super::table::{Cell, Column, Row, Table};
use super::{Answer, Block, Field, Section, Tone};

/// Returns the findings: a summary, the problems, and the unknown checks by reason. If there was no
/// audit, the section explains that the findings are unknown.
pub fn stored_audit(audit: Option<&StoredAudit>) -> Section {
    let Some(audit) = audit else {
        let none = "unknown: this recording was made without an audit";
        return Section::titled("Audit", vec![Block::faint(none)]);
    };
    let problems: Vec<&StoredFinding> = (audit.findings.iter())
        .filter(|one| one.is_problem())
        .collect();
    let tone = match problems.as_slice() {
        [] => Tone::Plain,
        some if some.iter().any(|one| one.is_grave()) => Tone::Bad,
        _ => Tone::Warning,
    };
    let role = format!(
        "Audit before the run, for role {} and CPUs {}.",
        audit.role, audit.cpus
    );
    let mut blocks = vec![
        Block::Answer(Answer::new(tone, audit.summary())),
        Block::faint(role),
    ];
    let (minor, grave): (Vec<&StoredFinding>, Vec<&StoredFinding>) =
        (problems.into_iter()).partition(|one| one.severity == Severity::Info);
    if !grave.is_empty() {
        let rows = grave.iter().map(|one| {
            let (tone, word) = state_mark(one.state, one.severity);
            let word = Cell::from(word.trim_end().to_owned()).tone(tone);
            Row::new([word, one.title.as_str().into(), one.id.as_str().into()])
        });
        let columns = ["result", "finding", "id"].map(Column::left);
        blocks.push(Block::Table(Table::new(columns.into(), rows.collect())));
    }
    let mut fields = Vec::new();
    if !minor.is_empty() {
        let titles: Vec<&str> = minor.iter().map(|one| one.title.as_str()).collect();
        fields.push(Field::new("low severity", titles.join("; ")));
    }
    fields.extend(unknown(audit));
    blocks.extend(Block::fields(fields));
    Section::titled("Audit", blocks)
}

/// Returns the unknown checks, grouped by reason, because a single missing right often affects many
/// checks.
fn unknown(audit: &StoredAudit) -> Vec<Field> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    let all = audit.findings.iter();
    for one in all.filter(|one| one.state == FindingState::Unknown) {
        let reason = one.reason.as_deref().unwrap_or("no reason is given");
        match groups.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, titles)) => titles.push(&one.title),
            None => groups.push((reason, vec![&one.title])),
        }
    }
    let text = |(reason, titles): (&str, Vec<&str>)| format!("{}: {reason}", titles.join("; "));
    groups
        .into_iter()
        .map(|group| Field::toned("unknown", Tone::Warning, text(group)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::html::fragment;

    fn shown(audit: Option<&StoredAudit>) -> String {
        let sections = vec![stored_audit(audit)];
        fragment(&[Document {
            sections,
            ..Document::default()
        }])
    }

    #[test]
    fn unknown_is_never_shown_as_fine() {
        let none = shown(None);
        assert!(none.contains("unknown"), "{none}");
        let one = |state, severity, title: &str, reason: Option<&str>| StoredFinding {
            id: "topic-check".to_owned(),
            state,
            severity,
            title: title.to_owned(),
            reason: reason.map(str::to_owned),
        };
        let denied = Some("permission denied");
        let mut audit = StoredAudit {
            role: "control".to_owned(),
            cpus: "2-3".parse().unwrap(),
            findings: vec![
                one(FindingState::Unknown, Severity::High, "SMI count", denied),
                one(FindingState::Unknown, Severity::High, "lock <b>", denied),
            ],
            ok: 40,
            not_applicable: 7,
        };
        let unknown = shown(Some(&audit));
        assert!(unknown.contains("2 unknown, 40 ok"), "{unknown}");
        assert!(unknown.contains("SMI count; lock &lt;b&gt;"), "{unknown}");
        assert!(!unknown.contains("class=\"good"), "{unknown}");
        let fails = one(
            FindingState::Fail,
            Severity::Fatal,
            "swappiness is 60",
            None,
        );
        audit.findings.insert(0, fails);
        let fails = shown(Some(&audit));
        assert!(
            fails.contains("FAIL fatal") && fails.contains("swappiness is 60"),
            "{fails}"
        );
    }
}
