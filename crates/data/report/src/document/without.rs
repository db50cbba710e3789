//! A prediction: the outliers of a run without some of their causes.

use punctual_culprit::{Without, without};
use punctual_model::cause::Source;
use punctual_model::{Explanation, LateSeconds, Nanos, Recording, counted, grouped};

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
    let unexplained = explanation.seen.saturating_sub(explanation.explained);
    let not_kept = explanation.explained.saturating_sub(examined);
    if unexplained + not_kept == 0 {
        fields.push(Field::new("late seconds", late_seconds(recording, &found)));
    }
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

/// Formats as `19 -> 12 in 60.0 s; then 9,100 to 30,000 a day (95%, ...)`.
fn late_seconds(recording: &Recording, found: &Without) -> String {
    let measured = recording.duration_ns;
    let counts = format!(
        "{} in {measured}, {} without",
        grouped(found.late.count()),
        grouped(found.late_then.count())
    );
    match interval(&found.late_then, measured) {
        Some((least, most)) => format!(
            "{counts}; then {} to {} a day (95%, if the rest of the day is like this run)",
            grouped(least),
            grouped(most)
        ),
        None => counts,
    }
}

/// Returns the 95% interval of late seconds a day. A run below a minute is too short for one.
fn interval(late: &LateSeconds, measured: Nanos) -> Option<(u64, u64)> {
    if measured < Nanos::from_secs(60) {
        return None;
    }
    let rate = late.rate(measured);
    let least = rate.per_day(rate.at_least(0.025))?;
    let most = rate.per_day(rate.at_most(0.025))?;
    Some((least.floor() as u64, most.ceil() as u64))
}
