//! A check-up of a machine on one screen.

use punctual_model::{
    Checkup, Condition, Finding, FindingState, MeasuredOn, Nanos, RemediedCause, grouped,
};

use crate::document::recording::outcome_tone;
use crate::document::table::{Cell, Column, Fold, Row, Table};
use crate::document::{Answer, Block, Document, Field, Medium, Section, Tone};
use crate::figures;

/// Returns the verdict, one line per condition, the causes with their time and a remedy, the
/// relevant findings, what is missing for a verdict, and what to run next.
///
/// A terminal shows a screenful: the largest causes, the worst findings that are known, and one
/// command to run next. With `verbose`, it shows as much as a page.
pub fn checkup(checkup: &Checkup, verbose: bool) -> Document {
    let mut document = Document {
        title: "Check-up".to_owned(),
        ..Document::default()
    };
    let tone = outcome_tone(checkup.outcome);
    let asked = figures::asked_text(&checkup.asked);
    let verdict = Answer {
        sign: figures::outcome_sign(checkup.outcome),
        word: figures::outcome_word(checkup.outcome),
        ..Answer::new(tone, checkup.sentence.as_str())
    };
    let measured_on = measured_on(checkup.measured_on.as_ref());
    let mut page = vec![Block::Answer(verdict), Block::faint(asked.as_str())];
    page.extend(Block::fields(measured_on.clone()));
    document.push(Section::new(page).only(Medium::Page));
    let mut screen = vec![
        Field::toned("verdict", tone, checkup.sentence.as_str()),
        Field::new(if checkup.asked.jobs { "asked" } else { "loop" }, asked),
    ];
    screen.extend(
        measured_on
            .into_iter()
            .take(if verbose { usize::MAX } else { 1 }),
    );
    document.push(Section::new(vec![Block::Fields(screen)]).only(Medium::Terminal));
    let conditions = Section::new(conditions(checkup));
    document.push(conditions.heading(Medium::Page, "Conditions"));
    for (medium, short) in [(Medium::Terminal, !verbose), (Medium::Page, false)] {
        for (heading, blocks) in [
            ("Causes", causes(checkup, short)),
            ("Findings", findings(checkup, short)),
            ("Next", next(checkup, short)),
        ] {
            if !blocks.is_empty() {
                let section = Section::new(blocks).only(medium);
                document.push(section.heading(Medium::Page, heading));
            }
        }
    }
    document
}

/// Returns the machine and date of the measurement, or nothing if the check-up does not contain
/// them.
pub(super) fn measured_on(on: Option<&MeasuredOn>) -> Vec<Field> {
    on.map_or_else(Vec::new, |on| {
        vec![
            Field::new("machine", on.line()),
            Field::new("date", on.date()),
        ]
    })
}

fn conditions(checkup: &Checkup) -> Vec<Block> {
    let columns = vec![
        Column::left("condition").cut_to(12),
        Column::right("measured").drop(3),
        Column::right(unit(checkup)).drop(1),
        Column::right("late"),
        Column::right("longest series").drop(4),
        Column::right(counted_name(checkup)),
        Column::right("p99").drop(2),
        Column::right("max"),
        Column {
            short_title: Some("a day ≤".to_owned()),
            ..Column::right(format!("{} a day ≤ (95%)", counted_name(checkup)))
        },
        Column::left("verdict"),
    ];
    let rows = checkup.conditions.iter().map(condition_row);
    let table = Table::new(columns, rows.collect());
    let tails = checkup.conditions.iter().filter_map(|condition| {
        let text = condition.tail.as_ref()?.sentence();
        Some(Field::toned(
            "tail",
            Tone::Faint,
            format!("{}: {text}", condition_name(condition)),
        ))
    });
    let hardware = hardware_line(checkup).map(|line| Field::new("hardware", line));
    let table = (!table.rows.is_empty()).then_some(Block::Table(table));
    let below = Block::fields(tails.chain(hardware).collect());
    table.into_iter().chain(below).collect()
}

/// Returns the name of the events that the bounds count.
fn counted_name(checkup: &Checkup) -> &'static str {
    let first = checkup.conditions.first();
    first.map_or("late seconds", |condition| condition.counted().1)
}

/// Returns the name of what is counted: periods of a loop, or jobs of an application.
fn unit(checkup: &Checkup) -> &'static str {
    let first = checkup.conditions.first();
    first.map_or("periods", |condition| condition.units().1)
}

/// Returns a count and its share, such as `12 (0.010%)`.
fn share_of(late: u64, periods: u64) -> String {
    if late == 0 || periods == 0 {
        return grouped(late);
    }
    let percent = 100.0 * late as f64 / periods as f64;
    let digits = if percent < 0.1 { 4 } else { 1 };
    format!("{} ({percent:.digits$}%)", grouped(late))
}

fn condition_row(condition: &Condition) -> Row {
    let verdict = Cell::from(figures::outcome_word(condition.outcome));
    let verdict = verdict.tone(outcome_tone(condition.outcome));
    let name = Cell::from(condition_name(condition));
    if condition.measured_ns == Nanos::ZERO {
        let nothing = std::iter::repeat_n(Cell::from("-"), 8);
        return Row::new(std::iter::once(name).chain(nothing).chain([verdict]));
    }
    let figure =
        |value: Option<Nanos>| figures::text_or_dash(value.map(|value| value.to_string())).into();
    Row::new([
        name,
        condition.measured_ns.to_string().into(),
        grouped(condition.periods).into(),
        share_of(condition.late, condition.periods).into(),
        figures::text_or_dash(condition.longest_series.map(grouped)).into(),
        grouped(condition.counted().0).into(),
        figure(condition.p99_ns),
        figure(condition.max_ns),
        figures::text_or_dash(at_most(condition)).into(),
        verdict,
    ])
}

/// Returns the causes of late periods, each with its remedy.
fn causes(checkup: &Checkup, short: bool) -> Vec<Block> {
    // Check-ups of older versions have no benefits.
    let has_left = checkup.causes.iter().any(|cause| cause.left.is_some());
    let left = has_left.then(|| Column::left("late seconds a day without it").drop(2));
    let mut columns = vec![
        Column::right("time"),
        Column::right(format!("late {}", unit(checkup))),
        Column::right("late only by it"),
    ];
    columns.extend(left);
    columns.extend([
        Column::right("longest").drop(1),
        Column::left("cause").fold(Fold::Wrap(24)),
        Column::left("what helps").fold(Fold::Below),
    ]);
    let most = if short { FEW } else { SHOWN };
    let shown = checkup.causes.iter().take(most);
    let rows = shown.map(|cause| cause_row(cause, has_left, short));
    let table = Table::new(columns, rows.collect());
    let table = (!table.rows.is_empty()).then_some(Block::Table(table));
    let more = more(checkup.causes.len(), most, "cause", "causes");
    table.into_iter().chain(more).collect()
}

/// Returns the most severe finding of the audit, then those related to the causes. Findings whose
/// value is unknown follow.
fn findings(checkup: &Checkup, short: bool) -> Vec<Block> {
    let known = |finding: &&Finding| finding.state != FindingState::Unknown;
    let largest = checkup.findings.iter().filter(known);
    let largest = largest.min_by_key(|finding| finding.order());
    let others = checkup.findings.iter();
    let others = others.filter(|one| largest.is_none_or(|largest| !std::ptr::eq(*one, largest)));
    let (others, unknown): (Vec<&Finding>, Vec<&Finding>) = others.partition(known);
    let most = if short { FEW } else { SHOWN };
    let shown = largest.into_iter().chain(others).chain(unknown).take(most);
    let lines = shown.map(|finding| Field::new("finding", finding_line(finding)));
    let more = more(checkup.findings.len(), most, "finding", "findings");
    let lines = Block::fields(lines.collect());
    lines.into_iter().chain(more).collect()
}

/// Returns a line that states the number of hidden rows.
fn more(all: usize, shown: usize, one: &str, several: &str) -> Option<Block> {
    let more = all.checked_sub(shown).filter(|more| *more > 0)? as u64;
    Some(Block::faint(format!(
        "{} not shown",
        punctual_model::counted(more, one, several)
    )))
}

/// Returns what is missing for a verdict, and what to run next.
fn next(checkup: &Checkup, short: bool) -> Vec<Block> {
    let lacking = lacking(checkup).into_iter();
    let lacking = lacking.map(|why| Field::toned("missing", Tone::Warning, why));
    let most = if short { 1 } else { usize::MAX };
    let next = checkup.next.iter().take(most).map(|command| Field {
        is_command: true,
        ..Field::toned("next", Tone::Heading, command.as_str())
    });
    let all = lacking.chain(next).chain(without_root(checkup));
    Block::fields(all.collect()).into_iter().collect()
}

/// Returns a line such as `FAIL (medium) swappiness is 60; recommended: 10`.
fn finding_line(finding: &Finding) -> String {
    format!(
        "{} ({}) {}; recommended: {}",
        finding.state,
        finding.severity,
        finding.line(),
        finding.expected
    )
}

/// Maximum number of causes and findings to show; any others are only counted.
const SHOWN: usize = 5;
/// The same for the short form on a terminal.
const FEW: usize = 2;

/// Returns a name such as `loaded (farm)`.
fn condition_name(condition: &Condition) -> String {
    if condition.loads.is_empty() {
        condition.name.clone()
    } else {
        format!("{} ({})", condition.name, condition.loads.join(", "))
    }
}

/// Returns the upper bound on the number of late seconds per day, rounded up, if there is one.
fn at_most(condition: &Condition) -> Option<String> {
    let number = condition.per_day_at_most?;
    Some(grouped(number.ceil() as u64))
}

/// Returns the row of a cause. The short form names only the check that is most likely related.
fn cause_row(cause: &RemediedCause, has_left: bool, short: bool) -> Row {
    let what = if cause.who.is_empty() {
        cause.kind.name().to_owned()
    } else {
        format!("{}: {}", cause.kind.name(), cause.who)
    };
    let most = if short { 1 } else { cause.checks.len() };
    let checks = cause.checks[..most.min(cause.checks.len())].join(", ");
    let checks = match checks.as_str() {
        "" => String::new(),
        checks => format!(" (doctor: {checks})"),
    };
    let proof = match &cause.experiment {
        // On a terminal, the command is shown once, as the next one to run.
        Some(command) if !short => format!("; proof: {command}"),
        _ => String::new(),
    };
    let mut cells = vec![
        cause.total_ns.to_string(),
        grouped(cause.count),
        figures::text_or_dash(cause.late_only_by.map(grouped)),
    ];
    cells.extend(has_left.then(|| left(cause)));
    cells.extend([
        cause.max_ns.to_string(),
        what,
        format!("{}{checks}{proof}", cause.advice),
    ]);
    Row::new(cells)
}

/// Returns what would be left without a cause, as `9,100 to 30,000 (n = 12)`.
fn left(cause: &RemediedCause) -> String {
    let Some(left) = &cause.left else {
        return figures::text_or_dash(None);
    };
    let examined = grouped(left.examined);
    match left.per_day_at_least.zip(left.per_day_at_most) {
        Some((least, most)) => {
            format!("{} to {} (n = {examined})", grouped(least), grouped(most))
        }
        None => format!(
            "{} of {} s (n = {examined})",
            grouped(left.late_seconds_left),
            grouped(left.late_seconds)
        ),
    }
}

fn hardware_line(checkup: &Checkup) -> Option<String> {
    let gaps = checkup.hardware.as_ref()?;
    Some(match gaps.max_ns {
        None => format!("no gap in {}", gaps.measured_ns),
        Some(max) => format!(
            "{} gaps in {}, the longest {max} (periods during which a spinning thread did not run)",
            grouped(gaps.gaps),
            gaps.measured_ns
        ),
    })
}

/// Returns what is missing for a verdict, first for the whole check-up and then for its conditions.
/// Conditions with the same reason share a line.
fn lacking(checkup: &Checkup) -> Vec<String> {
    let is_said = |why: &str| {
        why == Condition::NOT_REAL_TIME
            && (checkup.lacking.iter()).any(|said| said.contains("real-time priority"))
    };
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for condition in &checkup.conditions {
        let lacking = condition.lacking.iter().filter(|why| !is_said(why));
        // The verdict already contains the reasons of the judged condition.
        for why in lacking.filter(|why| !checkup.sentence.contains(why.as_str())) {
            match all.iter_mut().find(|(said, _)| said == why) {
                Some((_, names)) => names.push(&condition.name),
                None => all.push((why, vec![&condition.name])),
            }
        }
    }
    let of_conditions =
        (all.into_iter()).map(|(why, names)| format!("{}: {why}", names.join(", ")));
    checkup
        .lacking
        .iter()
        .cloned()
        .chain(of_conditions)
        .collect()
}

/// Returns how to get the missing rights without root.
fn without_root(checkup: &Checkup) -> Option<Field> {
    let mut last = checkup.conditions.iter().filter(|one| !one.real_time);
    last.next()?;
    let finding = checkup
        .findings
        .iter()
        .find(|one| one.id == "rights-priority")?;
    let how = finding.reboot.as_ref()?;
    Some(Field::new("without sudo", how.as_str()))
}

#[cfg(test)]
mod tests;
