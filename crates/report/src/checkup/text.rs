//! A check-up for a terminal.

use punctual_model::{Checkup, Outcome};

use super::{
    SHOWN, asked_line, cause_line, condition_line, condition_name, hardware_line, lacking,
};
use crate::clean::clean;
use crate::text::{Page, TextStyle, Tone};

/// A check-up in one screen: the verdict, a line per condition, causes by time with what
/// helps, findings that bear on them, what the verdict lacks, what to run next.
pub fn text(checkup: &Checkup, style: &TextStyle) -> String {
    let mut page = Page::new(*style);
    page.named("verdict", tone(checkup.outcome), &clean(&checkup.sentence));
    page.named("loop", Tone::Plain, &asked_line(checkup));
    for condition in &checkup.conditions {
        let line = format!(
            "{}: {}",
            condition_name(condition),
            condition_line(condition)
        );
        page.named("condition", tone(condition.outcome), &clean(&line));
    }
    if let Some(line) = hardware_line(checkup) {
        page.named("hardware", Tone::Plain, &line);
    }
    for cause in checkup.causes.iter().take(SHOWN) {
        page.named("cause", Tone::Plain, &clean(&cause_line(cause)));
    }
    for finding in checkup.findings.iter().take(SHOWN) {
        let line = format!(
            "{} ({}) {}: {}; recommended: {}",
            finding.state, finding.severity, finding.title, finding.found, finding.expected
        );
        page.named("finding", Tone::Plain, &clean(&line));
    }
    let more = [
        ("causes", checkup.causes.len()),
        ("findings", checkup.findings.len()),
    ];
    for (what, all) in more.into_iter().filter(|(_, all)| *all > SHOWN) {
        page.named("", Tone::Faint, &format!("{} more {what}", all - SHOWN));
    }
    for why in lacking(checkup) {
        page.named("lacking", Tone::Warning, &clean(&why));
    }
    for command in &checkup.next {
        page.named("next", Tone::Heading, &clean(command));
    }
    page.out
}

fn tone(outcome: Outcome) -> Tone {
    match outcome {
        Outcome::Held => Tone::Good,
        Outcome::Broken => Tone::Bad,
        Outcome::NotProven | Outcome::NoRequirement => Tone::Warning,
    }
}
