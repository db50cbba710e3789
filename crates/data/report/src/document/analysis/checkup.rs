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
mod tests {
    use punctual_model::{
        AuditedHost, CHECKUP_SCHEMA, HardwareGaps, LoopRequirement, Outcome, Severity, ShareKind,
    };

    use super::*;
    use crate::junit::CiForm;
    use crate::text::{self, TextStyle};

    fn condition(name: &str, outcome: Outcome) -> Condition {
        Condition {
            name: name.to_owned(),
            loads: vec!["farm".to_owned()],
            measured_ns: Nanos::from_secs(60),
            periods: 120_000,
            late: 12,
            longest_series: Some(4),
            late_seconds: Some(3),
            windows: None,
            episodes: None,
            dispersion: Some(1.2),
            per_day_at_most: Some(11_164.5),
            per_day_at_least: Some(1_177.4),
            max_ns: Some(Nanos(412_000)),
            p99_ns: Some(Nanos(31_200)),
            real_time: true,
            outcome,
            lacking: vec!["the load farm <failed>\u{1b}".to_owned()],
            needs_ns: Some(Nanos::from_secs(7_200)),
            needs_likely_ns: None,
            tail: None,
            no_tail: Some("there are no samples".to_owned()),
            jobs: None,
        }
    }

    fn checkup() -> Checkup {
        Checkup {
            schema: CHECKUP_SCHEMA,
            program: "punctual 0.1.0".to_owned(),
            outcome: Outcome::Broken,
            sentence: "broken: 3 late seconds".to_owned(),
            claims: Vec::new(),
            asked: LoopRequirement {
                period_ns: Nanos::from_millis(1),
                budget_ns: Nanos(100_000),
                jobs: false,
                max_late_seconds_per_day: Some(10.0),
                misses: None,
                max_misses_per_day: None,
                sample: None,
            },
            started: jiff::Timestamp::UNIX_EPOCH,
            host: AuditedHost::default(),
            measured_on: None,
            conditions: vec![
                condition("idle", Outcome::NotProven),
                condition("loaded", Outcome::Broken),
            ],
            causes: vec![RemediedCause {
                source: punctual_model::cause::Source::Nmi,
                kind: ShareKind::Blocking,
                who: "kworker/1:2 <b>".to_owned(),
                count: 12,
                total_ns: Nanos(3_210_000),
                max_ns: Nanos(412_000),
                late_only_by: Some(9),
                left: None,
                settings: Vec::new(),
                experiment: None,
                checks: vec!["isolation-workqueues".to_owned()],
                advice: "move the thread".to_owned(),
            }],
            hardware: Some(HardwareGaps {
                measured_ns: Nanos::from_secs(5),
                gaps: 7,
                max_ns: Some(Nanos(90_000)),
            }),
            findings: vec![Finding {
                id: "isolation-workqueues".to_owned(),
                topic: "isolation".to_owned(),
                subject: "mask of unbound kernel work".to_owned(),
                title: "mask of unbound kernel work: 3".to_owned(),
                state: FindingState::Fail,
                severity: Severity::Medium,
                found: "3".to_owned(),
                expected: "a mask without the measured CPUs".to_owned(),
                evidence: Vec::new(),
                why: "it runs".to_owned(),
                source: "kernel".to_owned(),
                role_note: None,
                now: Vec::new(),
                remedies: Vec::new(),
                reboot: None,
            }],
            lacking: vec!["late periods are not explained".to_owned()],
            next: vec!["punctual doctor --fix-script".to_owned()],
            recordings: vec!["id".to_owned()],
        }
    }

    #[test]
    fn a_lack_is_said_once() {
        let mut checkup = checkup();
        let said = "measured without real-time priority: what to do: punctual doctor";
        checkup.lacking = vec![said.to_owned()];
        for condition in &mut checkup.conditions {
            condition.real_time = false;
            condition.lacking = vec![Condition::NOT_REAL_TIME.to_owned(), "too short".to_owned()];
        }
        checkup.findings[0].id = "rights-priority".to_owned();
        checkup.findings[0].reboot = Some("join the group".to_owned());
        assert_eq!(lacking(&checkup), [said, "idle, loaded: too short"]);
        let text = text::render(&super::checkup(&checkup, true), &TextStyle::default());
        assert_eq!(
            text.matches("without a real-time priority").count(),
            0,
            "{text}"
        );
        assert!(text.contains("without sudo  join the group"), "{text}");
        // If there is no reason for the whole check-up, each condition states its own.
        checkup.lacking.clear();
        let both = format!("idle, loaded: {}", Condition::NOT_REAL_TIME);
        assert_eq!(lacking(&checkup), [&both, "idle, loaded: too short"]);
    }

    #[test]
    fn each_form_says_the_same() {
        let checkup = checkup();
        let document = super::checkup(&checkup, true);
        let text = text::render(
            &document,
            &TextStyle {
                colour: false,
                width: 500,
            },
        );
        for line in [
            "broken: 3 late seconds",
            "late seconds a day ≤ (95%)",
            "blocking: kworker/1:2 <b>",
            "move the thread (doctor: isolation-workqueues)",
            "7 gaps in 5.00 s, the longest 90.0 µs",
            "late periods are not explained",
            "punctual doctor --fix-script",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(text.lines().count() <= 25, "{text}");
        let html = crate::html::page("check", std::slice::from_ref(&document));
        assert!(html.contains("kworker/1:2 &lt;b&gt;</td>"), "{html}");
        assert!(!html.contains('\u{1b}') && !text.contains('\u{1b}'));
    }

    /// The short form fits a screen, and no unknown value hides a known fault.
    #[test]
    fn short_form_fits_a_screen() {
        let mut checkup = checkup();
        let fault = checkup.findings[0].clone();
        let unknown = Finding {
            state: FindingState::Unknown,
            title: "thermal throttling: unknown".to_owned(),
            severity: Severity::Fatal,
            ..fault.clone()
        };
        checkup.findings = vec![unknown, fault.clone(), fault.clone(), fault];
        checkup.causes = vec![checkup.causes[0].clone(); 9];
        let style = TextStyle {
            colour: false,
            width: 80,
        };
        let short = text::render(&super::checkup(&checkup, false), &style);
        assert!(short.lines().count() <= 28, "{short}");
        assert!(!short.contains("thermal"), "{short}");
        for part in ["7 causes not shown", "2 findings not shown"] {
            assert!(short.contains(part), "{part}: {short}");
        }
        let verbose = text::render(&super::checkup(&checkup, true), &style);
        assert!(verbose.contains("thermal"), "{verbose}");
    }

    /// One fatal finding that is unrelated to any measured cause comes before many findings that
    /// are related to one. The report also shows where and when the measurement was made.
    #[test]
    fn the_most_severe_finding_is_always_shown() {
        let mut checkup = checkup();
        let minor = checkup.findings[0].clone();
        checkup.findings = vec![minor; 32];
        let last = checkup.findings.last_mut().unwrap();
        last.severity = Severity::Fatal;
        last.title = "kernel is not PREEMPT_RT".to_owned();
        let on = MeasuredOn {
            hostname: Some("bench3".to_owned()),
            kernel: Some("6.12.8-rt".to_owned()),
            processor: None,
            fingerprint: String::new(),
            cpus: "2-3".parse().unwrap(),
            started: jiff::Timestamp::UNIX_EPOCH,
        };
        checkup.measured_on = Some(on);
        let document = super::checkup(&checkup, true);
        let style = TextStyle {
            colour: false,
            width: 500,
        };
        let text = text::render(&document, &style);
        let html = crate::html::page("check", std::slice::from_ref(&document));
        for form in [&text, &html] {
            assert!(form.contains("kernel is not PREEMPT_RT"), "{form}");
            assert!(form.contains("27 findings not shown"), "{form}");
            assert!(
                form.contains("bench3, kernel 6.12.8-rt, CPUs 2-3"),
                "{form}"
            );
            assert!(form.contains("1970-01-01 00:00 UTC"), "{form}");
        }
    }

    /// A check-up of an older version is shown with its own unit.
    #[test]
    fn older_checkup_keeps_its_episodes() {
        let mut old = checkup();
        old.asked.max_late_seconds_per_day = None;
        old.asked.max_misses_per_day = Some(10.0);
        old.sentence = "broken: 7 episodes".to_owned();
        for condition in &mut old.conditions {
            (condition.late_seconds, condition.longest_series) = (None, None);
            condition.episodes = Some(7);
        }
        let style = TextStyle {
            colour: false,
            width: 500,
        };
        let text = text::render(&super::checkup(&old, true), &style);
        for part in [
            "at most 10 episodes of late periods a day",
            "episodes a day ≤ (95%)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("late seconds"), "{text}");
    }

    /// A recording made for a check-up shows the verdict of the check-up in each output format.
    #[test]
    fn recording_shows_verdict_of_its_checkup() {
        use punctual_model::{JudgedBy, Judgement};
        let mut one = punctual_model::testing::recording(1, 2);
        one.requirement.limits.clear();
        for (outcome, sign) in [
            (Outcome::Broken, "<failure"),
            (Outcome::NotProven, "<error"),
        ] {
            one.be_judged(Judgement {
                by: JudgedBy::Check,
                experiment: None,
                outcome,
                sentence: "3 late seconds (periods over 100 µs)".to_owned(),
                asked: None,
                claims: Vec::new(),
            });
            let xml = crate::junit::render(&[&one], CiForm::Junit).unwrap();
            assert!(
                xml.contains("name=\"check\"") && xml.contains(sign),
                "{xml}"
            );
            let html =
                crate::html::render(std::slice::from_ref(&one), &Default::default()).unwrap();
            for form in [&xml, &html] {
                assert!(form.contains("3 late seconds"), "{form}");
                assert!(!form.contains("no requirement was given"), "{form}");
            }
        }
    }
}
