//! A prediction: the outliers of a run without some of their causes.

use std::cmp::Reverse;

use punctual_culprit::{Without, not_examined, without};
use punctual_model::cause::Source;
use punctual_model::{CauseSummary, Explanation, Recording, counted, grouped};

use super::table::{Column, Fold, Row, Table};
use super::{Block, Document, Field, Section};

/// Returns the prediction for a run without these sources. `names` are the causes as the user wrote
/// them.
pub fn prediction(
    recording: &Recording,
    explanation: &Explanation,
    names: &[String],
    is_removed: impl Fn(&Source) -> bool,
) -> Document {
    let found = without(recording, explanation, is_removed);
    let examined = found.within + found.above;
    let title = format!(
        "Without {}, {} of {} would be at most {}.",
        names.join(" and "),
        grouped(found.within),
        counted(examined, "explained outlier", "explained outliers"),
        explanation.threshold_ns
    );
    let mut fields = vec![
        Field::new(
            "contributed to",
            counted(found.concerned, "outlier", "outliers"),
        ),
        Field::new("still above", counted(found.above, "outlier", "outliers")),
    ];
    fields.extend(
        found
            .longest
            .map(|longest| Field::new("longest left", longest.to_string())),
    );
    let [unexplained, not_kept] = not_examined(explanation);
    let others = unexplained + not_kept;
    fields.push(Field::new(
        "late seconds",
        late_seconds(recording, &found, others),
    ));
    let mut notes = vec![
        "The other shares of an outlier are assumed to stay as they are. Time that no event explains \
         is not removed."
            .to_owned(),
    ];
    for (count, why) in [
        (unexplained, "not explained, and may remain"),
        (not_kept, "not examined, because only the largest are kept"),
    ] {
        if count > 0 {
            let verb = if count == 1 { "was" } else { "were" };
            notes.push(format!(
                "{} {verb} {why}.",
                counted(count, "outlier", "outliers")
            ));
        }
    }
    let notes = notes.into_iter().map(Block::faint);
    let mut document = Document {
        title,
        ..Document::default()
    };
    document.push(Section::new(vec![Block::Fields(fields)]));
    document.push(Section::new(notes.collect()));
    document
}

/// Maximum number of causes in the table of their benefits.
const BENEFITS: usize = 8;

/// Returns what would be left without each of the causes that alone make outliers late, each with its
/// remedy. `None` if there is none.
pub(super) fn benefits(recording: &Recording, explanation: &Explanation) -> Option<Section> {
    let alone = |cause: &&CauseSummary| cause.late_only_by > Some(0);
    let mut causes: Vec<&CauseSummary> = explanation.causes.iter().filter(alone).collect();
    causes.sort_by_key(|cause| Reverse((cause.late_only_by, cause.total_ns)));
    let others = not_examined(explanation).iter().sum();
    let rows = causes.iter().take(BENEFITS).map(|cause| {
        let own = cause.source.without_ids();
        let found = without(recording, explanation, |source| source.without_ids() == own);
        let left = match found.per_day(recording.duration_ns, others) {
            Some([least, most]) => format!("{} a day", per_day(least, most)),
            None => format!(
                "{} of {} in {}",
                grouped(found.late_then.count()),
                grouped(found.late.count()),
                recording.duration_ns
            ),
        };
        let (kind, who) = (cause.source.kind(), cause.source.who());
        Row::new([
            format!("{}: {who}", kind.name()),
            format!(
                "{} of {}",
                grouped(found.within),
                grouped(found.within + found.above)
            ),
            left,
            kind.advice(&who).text.to_owned(),
        ])
    });
    let columns = vec![
        Column::left("cause").cut_to(24),
        Column::right("late only by it"),
        Column::left("late seconds without it"),
        Column::left("what helps").fold(Fold::Below),
    ];
    let table = Table::new(columns, rows.collect());
    let note = "Times without an explanation are not removed. punctual check names the experiment that \
                proves a remedy.";
    (!table.rows.is_empty()).then(|| {
        Section::titled(
            "What helps most",
            vec![Block::Table(table), Block::faint(note.to_owned())],
        )
    })
}

/// Formats as `19 in 60.0 s, 12 without; then 9,100 to 30,000 a day (95%, ...)`.
fn late_seconds(recording: &Recording, found: &Without, others: u64) -> String {
    let measured = recording.duration_ns;
    let counts = format!(
        "{} in {measured}, {} without",
        grouped(found.late.count()),
        grouped(found.late_then.count())
    );
    let all = match others {
        0 => "",
        _ => "; outliers that were not examined count as not removed",
    };
    match found.per_day(measured, others) {
        Some([least, most]) => format!(
            "{counts}; then {} a day (95%, if the rest of the day is like this run{all})",
            per_day(least, most)
        ),
        None => counts,
    }
}

/// Formats the interval of late seconds a day: `9,100 to 30,000`.
fn per_day(least: f64, most: f64) -> String {
    format!(
        "{} to {}",
        grouped(least.floor() as u64),
        grouped(most.ceil() as u64)
    )
}
