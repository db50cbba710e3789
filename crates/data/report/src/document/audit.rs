//! An audit with the most important findings first, which is the output of `doctor`.

use punctual_model::{Audit, Expectation, Fact, Finding, FindingState, Nanos, Severity, counted};

use super::table::{Cell, Column, Fold, Row, Table};
use super::{Answer, Block, Document, Field, Section, Tone};

/// How much detail is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditDetail {
    /// Whether to include passed and inapplicable checks, and each reason and source.
    pub all: bool,
}

/// Maximum number of facts shown per finding, and of unknown checks shown per reason.
const FACTS: usize = 3;
const UNKNOWN: usize = 5;

/// Returns an audit: a summary, failed checks, checks that need attention, and unknown checks. The
/// remaining checks follow if all are requested.
pub fn audit(audit: &Audit, detail: AuditDetail) -> Document {
    let all = detail.all;
    let mut document = Document::default();
    head(&mut document, audit);
    let problems = audit.findings.iter().filter(|finding| finding.is_problem());
    let (grave, minor): (Vec<_>, Vec<_>) =
        problems.partition(|finding| finding.severity >= Severity::Medium);
    grave
        .into_iter()
        .for_each(|finding| document.push(problem(finding, all)));
    if all {
        (minor.into_iter()).for_each(|finding| document.push(problem(finding, true)))
    } else {
        document.push(brief("Low severity", &minor))
    }
    document.push(unknown(audit, all));
    if all {
        for (state, title) in [
            (FindingState::Ok, "Ok"),
            (FindingState::NotApplicable, "Not applicable"),
        ] {
            let found = audit.findings.iter().filter(|f| f.state == state);
            document.push(brief(title, &found.collect::<Vec<_>>()));
        }
    }
    foot(&mut document, audit, all);
    document
}

fn head(document: &mut Document, audit: &Audit) {
    let host = &audit.host;
    let rest: Vec<&str> = [&host.processor, &host.kernel, &host.distribution]
        .into_iter()
        .filter_map(|text| text.as_deref())
        .collect();
    let cpus = if audit.cpus.is_empty() {
        String::new()
    } else {
        format!("; CPU {} ({})", audit.cpus, audit.cpus_because)
    };
    let role = format!("role {} ({}){cpus}", audit.role, audit.role_meaning);
    let name = host.hostname.as_deref().unwrap_or("unnamed machine");
    let machine = Section {
        aside: Some(rest.join(" · ")),
        ..Section::titled(name, vec![Block::faint(role)])
    };
    document.push(machine);
    let problem = audit.findings.iter().any(Finding::is_problem);
    let tone = match (audit.is_grave(), problem) {
        (true, _) => Tone::Bad,
        (_, true) => Tone::Warning,
        _ => Tone::Good,
    };
    let mut summary = vec![Block::Answer(Answer::new(tone, audit.summary()))];
    if !audit.cpus.is_empty() {
        summary.push(Block::faint(expectation(&audit.expectation)));
    }
    document.push(Section::new(summary));
}

/// Returns the latency that a machine like this can reach, and the largest latency measured.
fn expectation(expectation: &Expectation) -> String {
    let frequency = expectation.frequency_khz.as_ref().and_then(Fact::get);
    let mut text = match (frequency, expectation.max_ns) {
        (Some(khz), Some(largest)) => format!(
            "The worst case of a tuned machine at {} is expected to be near {largest} (100,000 \
             clock cycles, a rule of thumb by OSADL).",
            gigahertz(*khz)
        ),
        _ => "Expected worst case: unknown, because the clock frequency is unknown.".to_owned(),
    };
    match (&expectation.measured, &expectation.not_measured) {
        (Some(measured), _) => text.push_str(&format!(
            " Largest latency last measured with these settings: {} in {} of {} ({}, {}).",
            measured.max_ns,
            counted(measured.samples, "sample", "samples"),
            measured.headline,
            measured.recording,
            measured.started.strftime("%Y-%m-%d"),
        )),
        (None, Some(why)) => text.push_str(&format!(
            " The store has no comparable recording ({why}). To measure: punctual measure timer."
        )),
        (None, None) => text.push_str(
            " Nothing was measured on this machine yet. To measure: \
            punctual measure timer.",
        ),
    }
    text
}

/// Returns a problem with all its details.
fn problem(finding: &Finding, all: bool) -> Section {
    let mut fields = vec![
        Field::new("recommended", &finding.expected),
        Field::new("why", &finding.why),
    ];
    fields.extend((finding.role_note.as_ref()).map(|note| Field::new("role", note)));
    fields.extend(finding.now.iter().map(|command| Field {
        is_command: true,
        ..Field::toned("now", Tone::Good, command)
    }));
    fields.extend((finding.reboot.as_ref()).map(|reboot| Field::new("permanently", reboot)));
    let shown = if all { usize::MAX } else { FACTS };
    let read = finding.evidence.iter().take(shown);
    fields.extend(read.map(|fact| Field::toned("read", Tone::Faint, evidence(fact))));
    if finding.evidence.len() > shown {
        let more = format!("and {} more: --all", finding.evidence.len() - shown);
        fields.push(Field::toned("", Tone::Faint, more));
    }
    fields.push(Field::toned("source", Tone::Faint, &finding.source));
    Section {
        state: Some(state_mark(finding.state, finding.severity)),
        aside: Some(finding.id.clone()),
        ..Section::titled(&finding.title, vec![Block::Fields(fields)])
    }
}

fn evidence(fact: &Fact<String>) -> String {
    let value = match (&fact.value, &fact.unknown) {
        (Some(value), _) if value.is_empty() => "(empty)".to_owned(),
        (Some(value), _) => value.clone(),
        (None, why) => format!("({})", why.as_deref().unwrap_or("not known")),
    };
    format!("{}: {value}", fact.source)
}

/// Returns findings on one or two lines each.
fn brief(title: &str, findings: &[&Finding]) -> Section {
    if findings.is_empty() {
        return Section::default();
    }
    let rows = findings.iter().map(|finding| {
        let (tone, word) = state_mark(finding.state, finding.severity);
        Row::new([Cell::from(word).tone(tone), finding.line().into()])
    });
    Section::titled(title, vec![Block::Table(marked(rows.collect()))])
}

/// Returns a table of marks and texts.
fn marked(rows: Vec<Row>) -> Table {
    let columns = vec![Column::left(""), Column::left("").fold(Fold::Wrap(20))];
    Table::new(columns, rows)
}

/// Returns the unknown checks, grouped by reason, because a single missing right often affects many
/// checks.
fn unknown(audit: &Audit, all: bool) -> Section {
    let mut groups: Vec<(&str, Vec<&Finding>)> = Vec::new();
    let unknown = audit.findings.iter();
    for finding in unknown.filter(|f| f.state == FindingState::Unknown) {
        match groups.iter_mut().find(|(why, _)| *why == finding.found) {
            Some((_, findings)) => findings.push(finding),
            None => groups.push((&finding.found, vec![finding])),
        }
    }
    if groups.is_empty() {
        return Section::default();
    }
    let rows = groups.into_iter().map(|(why, findings)| {
        // The most important check comes first. The others would only repeat the reason.
        let shown = if all { usize::MAX } else { UNKNOWN };
        let mut titles: Vec<String> = findings
            .iter()
            .take(shown)
            .map(|finding| format!("{} ({})", finding.title, finding.severity))
            .collect();
        if findings.len() > shown {
            titles.push(format!("and {} more", findings.len() - shown));
        }
        Row::new([
            Cell::from("?").tone(Tone::Warning),
            titles.join("; ").into(),
            Cell::from(why).tone(Tone::Faint),
        ])
    });
    let mut table = marked(rows.collect());
    table.columns.push(Column::left("").fold(Fold::Below));
    Section::titled("Unknown", vec![Block::Table(table)])
}

fn foot(document: &mut Document, audit: &Audit, all: bool) {
    let mut text = Vec::new();
    if !audit.cpus.is_empty() {
        text.push(match &audit.sample {
            Some(sample) => format!("Interrupts were counted for {}.", short(sample.duration_ns)),
            None => "Nothing was counted: pass --sample 1s.".to_owned(),
        });
    }
    if !all {
        text.push("All findings: --all.".to_owned());
    }
    if !audit.cpus.is_empty() {
        text.push(
            "To change settings: punctual tune plan --from-doctor. To get a script: punctual \
             doctor --fix-script."
                .to_owned(),
        );
    }
    if !text.is_empty() {
        document.push(Section::new(vec![Block::faint(text.join(" "))]));
    }
}

/// The width of a mark.
const MARK: usize = 11;

/// Returns the state and severity of a finding in one word.
pub(super) fn state_mark(state: FindingState, severity: Severity) -> (Tone, String) {
    let (tone, word) = match (state, severity) {
        (FindingState::Fail, Severity::Fatal) => (Tone::Bad, "FAIL fatal"),
        (FindingState::Fail, Severity::High) => (Tone::Bad, "FAIL high"),
        (FindingState::Fail, Severity::Medium) => (Tone::Warning, "fail medium"),
        (FindingState::Fail, Severity::Info) => (Tone::Plain, "fail info"),
        (FindingState::Warn, Severity::Fatal) => (Tone::Warning, "warn fatal"),
        (FindingState::Warn, Severity::High) => (Tone::Warning, "warn high"),
        (FindingState::Warn, Severity::Medium) => (Tone::Warning, "warn medium"),
        (FindingState::Warn, Severity::Info) => (Tone::Plain, "warn info"),
        (FindingState::Unknown, _) => (Tone::Warning, "?"),
        (FindingState::Ok, _) => (Tone::Good, "ok"),
        (FindingState::NotApplicable, _) => (Tone::Faint, "-"),
    };
    (tone, format!("{word:<MARK$}"))
}

fn gigahertz(khz: u64) -> String {
    format!("{}.{:02} GHz", khz / 1_000_000, khz % 1_000_000 / 10_000)
}

/// Formats a duration in seconds with one decimal; more digits are not meaningful here.
fn short(duration: Nanos) -> String {
    format!("{:.1} s", duration.0 as f64 / 1e9)
}
