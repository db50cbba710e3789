//! Results of `lint`: violated rules first, then unknown ones, then clean ones.

use punctual_model::{
    Frame, LintReport, LintSource, LintThread, Nanos, Policy, RuleResult, RuleState, Severity,
    Violation, grouped,
};

use crate::document::{Answer, Block, Document, Field, Section, Tone};

/// Maximum number of violations per rule, and of frames per violation, that a terminal shows.
const SITES: usize = 4;
const FRAMES: usize = 4;

/// Returns the results of `lint`. With `all`, every call site is shown in full.
pub fn lint(report: &LintReport, all: bool) -> Document {
    let mut document = Document::default();
    document.push(head(report));
    document.push(Section::new(vec![Block::Answer(answer(report))]));
    if !report.notes.is_empty() {
        document.push(Section::new(vec![Block::Warnings(report.notes.clone())]));
    }
    let violated = report
        .rules
        .iter()
        .filter(|rule| rule.state == RuleState::Violated);
    violated.for_each(|rule| document.push(violations(rule, all)));
    document.push(unknown(report));
    let clean: Vec<&str> = (report.rules.iter())
        .filter(|rule| rule.state == RuleState::Clean)
        .map(|rule| rule.title.as_str())
        .collect();
    if !clean.is_empty() {
        let text = Block::faint(clean.join(", "));
        document.push(Section::titled("Not seen", vec![text]));
    }
    document
}

fn head(report: &LintReport) -> Section {
    let how = match report.source {
        Some(LintSource::Bpf) => "BPF programs",
        Some(LintSource::Events) => "trace events, without call sites",
        None => "reading /proc only",
    };
    let mut texts = vec![format!("watched for {} by {how}", report.duration_ns)];
    if report.calls_traced_ns > Nanos::ZERO {
        texts.push(format!(
            "system calls traced for {}",
            report.calls_traced_ns
        ));
    }
    let count = report.threads.len();
    texts.push(match count {
        1 => "1 real-time thread".to_owned(),
        _ => format!("{} real-time threads", grouped(count as u64)),
    });
    let mut blocks = vec![Block::faint(texts.join("; "))];
    let shown = report.threads.iter().take(8).map(thread);
    let mut threads: Vec<String> = shown.collect();
    if count > threads.len() {
        threads.push(format!("and {} more", count - threads.len()));
    }
    if !threads.is_empty() {
        blocks.push(Block::faint(threads.join(", ")));
    }
    Section::titled(format!("lint {}", report.target), blocks)
}

fn thread(thread: &LintThread) -> String {
    let LintThread {
        tid,
        comm,
        policy,
        priority,
        ..
    } = thread;
    match policy {
        Policy::Deadline => format!("{comm} ({tid}, {policy})"),
        _ => format!("{comm} ({tid}, {policy} {priority})"),
    }
}

fn answer(report: &LintReport) -> Answer {
    let violated = report.count(RuleState::Violated);
    let unknown = report.count(RuleState::Unknown);
    let clean = report.count(RuleState::Clean);
    let tone = match (report.has_grave(RuleState::Violated), violated, unknown) {
        (true, _, _) => Tone::Bad,
        (_, 0, 0) => Tone::Good,
        _ => Tone::Warning,
    };
    let rules = if violated == 1 { "rule" } else { "rules" };
    let text = format!("{violated} {rules} violated, {unknown} unknown, {clean} without violation");
    Answer::new(tone, text)
}

fn violations(rule: &RuleResult, all: bool) -> Section {
    let mut fields = Vec::new();
    let sites = if all { usize::MAX } else { SITES };
    for found in rule.violations.iter().take(sites) {
        fields.extend(site(found, all));
    }
    let more = rule.violations.len().saturating_sub(sites);
    if more > 0 {
        let text = format!("and {more} more: --all");
        fields.push(Field::toned("", Tone::Faint, text));
    }
    fields.push(Field::new("why", &rule.why));
    fields.push(Field::toned("remedy", Tone::Good, &rule.remedy));
    fields.push(Field::toned("source", Tone::Faint, &rule.source));
    if let Some(why) = &rule.unknown {
        let text = format!("this is a lower bound: {why}");
        fields.push(Field::toned("note", Tone::Warning, text));
    }
    let count = match rule.count {
        1 => "once".to_owned(),
        count => format!("{} times", grouped(count)),
    };
    let largest = rule.max_ns.map(|largest| format!(", longest {largest}"));
    let title = format!(
        "{}: {count}{}{}",
        rule.title,
        rate(rule).unwrap_or_default(),
        largest.unwrap_or_default()
    );
    Section {
        state: Some(mark(rule)),
        aside: Some(rule.id.clone()),
        ..Section::titled(title, vec![Block::Fields(fields)])
    }
}

/// Returns ` (500/s)`, or the time of counting if there was less than one violation a second. `None`
/// if the time is unknown, or if a rate would not say more than the count.
fn rate(rule: &RuleResult) -> Option<String> {
    let time = rule.counted_ns.filter(|time| *time > Nanos::ZERO)?;
    let second = Nanos::from_secs(1);
    match u128::from(rule.count) * u128::from(second.0) / u128::from(time.0) {
        _ if rule.count < 2 => None,
        0 => Some(format!(" in {time}")),
        rate => Some(format!(" ({}/s)", grouped(rate as u64))),
    }
}

fn mark(rule: &RuleResult) -> (Tone, String) {
    let tone = match rule.severity {
        Severity::Fatal | Severity::High => Tone::Bad,
        Severity::Medium => Tone::Warning,
        Severity::Info => Tone::Plain,
    };
    (tone, format!("{:<6}", rule.severity.to_string()))
}

/// Returns a violation with its call site.
fn site(found: &Violation, all: bool) -> Vec<Field> {
    let count = match found.count {
        0 | 1 => String::new(),
        count => format!(" {}x", grouped(count)),
    };
    let largest = found.max_ns.map(|largest| format!(", longest {largest}"));
    let text = format!(
        "{} ({}):{count} {}{}",
        found.comm,
        found.tid,
        found.what,
        largest.unwrap_or_default()
    );
    let mut fields = vec![Field::toned("seen", Tone::Plain, text)];
    let most = if all { usize::MAX } else { FRAMES };
    let frames: Vec<String> = found.frames.iter().take(most).map(Frame::text).collect();
    if !frames.is_empty() {
        fields.push(Field::toned("at", Tone::Heading, frames.join(" < ")));
    }
    if let Some(why) = &found.frames_unknown {
        fields.push(Field::toned("", Tone::Faint, why));
    }
    fields
}

/// Returns the unknown rules, grouped by reason.
fn unknown(report: &LintReport) -> Section {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for rule in report
        .rules
        .iter()
        .filter(|rule| rule.state == RuleState::Unknown)
    {
        let why = rule.unknown.as_deref().unwrap_or("not seen");
        let title = format!("{} ({})", rule.title, rule.severity);
        match groups.iter_mut().find(|(known, _)| *known == why) {
            Some((_, titles)) => titles.push(title),
            None => groups.push((why, vec![title])),
        }
    }
    if groups.is_empty() {
        return Section::default();
    }
    let fields = groups.into_iter().flat_map(|(why, titles)| {
        [
            Field::toned("?", Tone::Warning, titles.join("; ")),
            Field::toned("why", Tone::Faint, why),
        ]
    });
    Section::titled("Unknown", vec![Block::Fields(fields.collect())])
}
