//! The short form of a recording: what `measure` and `explain` print at the end of a run.

use punctual_model::{Blame, CauseSummary, Explanation, Recording, ShareKind};

use super::recording::{account, outcome_tone, thread_table};
use super::table::{Column, Row, Table};
use super::{Block, Document, Field, Section, Tone, findings, jobs, policies};
use crate::figures::{self, ThreadFigures};

/// Maximum number of warnings.
const WARNINGS: usize = 3;
/// With more threads than this, only those with the largest maxima are shown.
const THREADS: usize = 4;
/// Maximum number of causes.
const CAUSES: usize = 3;
/// Maximum number of rows of a table of the probe.
const ROWS: usize = 6;

/// Returns the short form of a recording, which fits a screen of 24 lines and 80 columns: the
/// verdict with its confidence, the largest latency with its cause and what removes it, the first
/// warnings, the threads with the largest maxima, and the causes of the most late reactions.
/// [`recording`](fn@super::recording) is the long form.
pub fn summary(recording: &Recording) -> Document {
    let mut document = Document {
        title: recording.headline(),
        program: (recording.origin.is_none()).then(|| recording.probe.program.clone()),
        ..Document::default()
    };
    document.push(Section::new(vec![Block::Fields(answer(recording))]));
    document.push(Section::new(warnings(recording)));
    if let Some(text) = figures::without_gap(recording) {
        document.push(Section::new(vec![Block::text(text)]));
    }
    document.push(Section::new(threads(recording)));
    let explanation = recording.explanation.as_ref();
    document.push(Section::new(explanation.map(causes).unwrap_or_default()));
    if let Some(table) = recording.tables.first() {
        document.push(findings::first_rows(table, ROWS));
    }
    document.push(Section::new(vec![Block::Fields(more(recording))]));
    document
}

/// Returns the verdict, and the largest latency with its cause.
fn answer(recording: &Recording) -> Vec<Field> {
    let verdict = &recording.verdict;
    let sign = figures::outcome_sign(verdict.outcome);
    let judged = format!("{sign} {}", verdict.sentence);
    let sentence = match jobs::sentence(recording) {
        None => judged,
        Some(jobs) if verdict.limits.is_empty() => jobs,
        Some(jobs) => format!("{judged}. {jobs}"),
    };
    let tone = outcome_tone(verdict.outcome);
    let policies = policies::sentences(recording).into_iter();
    let mut fields: Vec<Field> = policies
        .map(|text| Field::toned("policy", Tone::Bad, text))
        .collect();
    fields.push(Field::toned("verdict", tone, sentence.trim_start()));
    // Without a requirement, the bound of a short run says little.
    if !verdict.limits.is_empty() {
        let confidence = verdict.confidence();
        fields.extend(confidence.map(|text| Field::new("confidence", text)));
    }
    let Some(largest) = recording.top_samples.first() else {
        return fields;
    };
    let blame = largest.blame.as_ref();
    // The sentence about jobs contains that of the longest one.
    if jobs::sentence(recording).is_none() {
        let time = figures::time_of_day(largest.time);
        let place = figures::thread_and_cpu(recording, largest);
        let place = format!("{} at {time} UTC, {place}", largest.latency_ns);
        let text = blame.map_or(place, Blame::sentence);
        fields.push(Field::new("largest", text));
    }
    let outliers = (recording.explanation.iter()).flat_map(|explanation| &explanation.outliers);
    let longest = outliers.max_by_key(|one| one.latency_ns);
    let restored = longest.and_then(|one| policies::remedy(recording, one));
    let remedy = restored.or_else(|| blame.and_then(remedy));
    fields.extend(remedy.map(|text| Field::new("remedy", text)));
    fields
}

/// Returns what removes the main cause, if it is known.
pub fn remedy(blame: &Blame) -> Option<String> {
    let share = blame
        .largest()
        .filter(|share| share.kind() != ShareKind::Unexplained)?;
    let advice = share.kind().advice(&share.who());
    Some(match advice.checks {
        [] => advice.text.to_owned(),
        [check, ..] => format!("{} (punctual doctor {check})", advice.text),
    })
}

/// Returns the first warnings, and the number of the others.
fn warnings(recording: &Recording) -> Vec<Block> {
    let mut warnings = figures::warnings(recording);
    if warnings.is_empty() {
        return Vec::new();
    }
    let others = warnings.len().saturating_sub(WARNINGS);
    warnings.truncate(WARNINGS);
    if others > 0 {
        warnings.push(punctual_model::counted(
            others as u64,
            "further warning",
            "further warnings",
        ));
    }
    vec![Block::Warnings(warnings)]
}

/// Returns the table of threads. If periods were missed, its percentiles are those of the due
/// periods, which the verdict uses.
fn threads(recording: &Recording) -> Vec<Block> {
    if recording.threads.is_empty() {
        return Vec::new();
    }
    let mut rows = figures::thread_rows(recording);
    if rows.iter().any(ThreadFigures::has_periods) {
        rows.retain(ThreadFigures::has_periods);
    }
    let due = figures::due_rows(recording);
    for row in &mut rows {
        let judged =
            |due: &&figures::DueRow| due.title == row.title && due.of == figures::DUE_PERIODS;
        if let Some(due) = due.iter().find(judged) {
            row.percentiles = due.percentiles;
        }
    }
    let (all, mut each): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.total);
    let more = each.len().saturating_sub(THREADS);
    if more > 0 {
        each.sort_by_key(|row| (!row.real_time, std::cmp::Reverse(row.max)));
        each.truncate(THREADS);
    }
    each.extend(all);
    let mut blocks = vec![Block::Table(thread_table(&each))];
    if more > 0 {
        let others = punctual_model::counted(more as u64, "further thread", "further threads");
        blocks.push(Block::faint(format!("{others}, with smaller maxima")));
    }
    if !due.is_empty() {
        blocks.push(Block::faint("the percentiles count missed periods as late"));
    }
    blocks
}

/// Returns the causes that were the main cause of the most outliers.
fn causes(explanation: &Explanation) -> Vec<Block> {
    let mut causes: Vec<&CauseSummary> = (explanation.causes.iter())
        .filter(|cause| cause.culprit_in > 0)
        .collect();
    if causes.len() < 2 {
        return Vec::new();
    }
    causes.sort_by_key(|cause| std::cmp::Reverse((cause.culprit_in, cause.total_ns)));
    let columns = vec![
        Column::left("main cause"),
        Column::left("").cut_to(16).most(30),
        Column::right("outliers"),
        Column::right("late only by it"),
        Column::right("total"),
        Column::right("largest"),
    ];
    let rows = causes.iter().map(|cause| {
        Row::new([
            cause.source.kind().name().to_owned(),
            cause.source.who(),
            punctual_model::grouped(cause.culprit_in),
            figures::count_or_dash(cause.late_only_by),
            cause.total_ns.to_string(),
            cause.max_ns.to_string(),
        ])
    });
    let table = Table::new(columns, rows.collect()).at_most(CAUSES);
    vec![Block::Table(
        table.further("further cause", "further causes"),
    )]
}

/// Returns the account of the periods, the identifier, and the commands that show the rest.
fn more(recording: &Recording) -> Vec<Field> {
    let command = |name: &str, verb: &str| Field {
        is_command: true,
        ..Field::new(name, format!("punctual {verb} {}", recording.id.short()))
    };
    let mut fields = vec![
        account(recording),
        Field::new("id", recording.id.to_string()),
        command("all figures", "show"),
    ];
    let outliers = recording
        .explanation
        .as_ref()
        .is_some_and(|all| !all.outliers.is_empty());
    fields.extend(outliers.then(|| command("each outlier", "explain")));
    fields
}
