//! The data of a statement about a recording.

use punctual_model::{IntervalRow, ReadError, Recording, ThreadRecord, ToJson, counted};
use serde_json::Value;

use super::{Findings, digest_of, verdict};
use crate::Check;
use crate::assumptions::assumptions;
use crate::statement::{Statement, name_of, result};

pub(super) fn findings(statement: &Statement, data: &Value) -> Result<Findings, ReadError> {
    let mut recording = recording(statement)?;
    let stated = recording.verdict.clone();
    recording.verdict = recording.judge_data();
    let own = &recording.verdict;
    let is_same = *own == stated && result(own.outcome) == statement.predicate.result;
    Ok(Findings {
        about: name_of(recording.id),
        integrity: vec![
            digest_of(statement, data, &recording.to_value()),
            verdict(is_same, &stated.sentence, own.sentence.clone()),
            accounting(&recording),
        ],
        assumptions: assumptions(&recording),
    })
}

/// Returns the recording with the verdict of the statement.
fn recording(statement: &Statement) -> Result<Recording, ReadError> {
    let mut predicate = statement.to_value()["predicate"].take();
    let verdict = predicate["verdict"].take();
    let mut recording = predicate["recording"].take();
    if let Some(fields) = recording.as_object_mut() {
        fields.insert("verdict".to_owned(), verdict);
    }
    Recording::from_json(&recording.to_string())
}

/// Checks that the data of the recording agree with each other.
pub(super) fn accounting(recording: &Recording) -> Check {
    let threads = (0..).zip(&recording.threads);
    let wrong = threads.filter_map(|(place, thread)| contradiction(recording, place, thread));
    let wrong: Vec<String> = wrong.collect();
    let count = counted(recording.threads.len() as u64, "thread", "threads");
    let found = if wrong.is_empty() {
        format!("samples, missed periods and histograms of {count} agree")
    } else {
        wrong.join("; ")
    };
    Check::new("accounting", wrong.is_empty(), found)
}

fn contradiction(recording: &Recording, place: u32, thread: &ThreadRecord) -> Option<String> {
    let account = thread.accounting;
    let title = thread.title();
    if !account.balances() {
        return Some(format!("the periods of {title} do not add up"));
    }
    if thread.histogram.recorded() != account.recorded {
        return Some(format!(
            "the histogram of {title} has another number of samples"
        ));
    }
    let rows = recording
        .series
        .rows
        .iter()
        .filter(|row| row.thread == place);
    let sum = |of: fn(&IntervalRow) -> u64| rows.clone().map(of).fold(0, u64::saturating_add);
    let (count, missed) = (sum(|row| row.count), sum(|row| row.missed));
    // Old rows may have been removed, and a full ring buffer drops rows.
    let has_rows = rows.clone().next().is_some() && recording.series.dropped == 0;
    if has_rows && (count, missed) != (account.recorded, account.missed) {
        return Some(format!(
            "the time series of {title} has another number of periods"
        ));
    }
    let samples = recording.top_samples.iter();
    let largest = samples.filter(|sample| sample.thread == place);
    let largest = largest.map(|sample| sample.latency_ns).max();
    (largest > thread.histogram.max() && thread.missed_histogram.is_none())
        .then(|| format!("a sample of {title} is larger than its maximum"))
}
