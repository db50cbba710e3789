//! Many recordings, a line each: what `list` prints.

use jiff::Timestamp;
use punctual_model::{Completion, Nanos, Outcome, Recording, Unknown, grouped};

use super::TextStyle;
use super::table::{self, Column};
use crate::clean::{clean, shorten};
use crate::figures;

/// What the list shows of one recording; the store fills it without reading
/// the histograms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRow {
    /// The short id ([`RecordingId::short`](punctual_model::RecordingId::short)).
    pub id: String,
    /// When the measurement began; `None` where a file from elsewhere does not
    /// say.
    pub started: Option<Timestamp>,
    /// What was measured, in a line ([`Recording::headline`]).
    pub headline: String,
    /// How long it lasted; `None` where a file from elsewhere does not say.
    pub duration: Option<Nanos>,
    /// Samples of all threads.
    pub recorded: u64,
    /// Missed periods of all threads; `None` where a file from elsewhere does
    /// not say.
    pub missed: Option<u64>,
    /// The largest latency of any thread; `None` where nothing was late.
    pub max: Option<Nanos>,
    /// Whether it came to its end.
    pub completion: Completion,
    /// Whether the requirement was held.
    pub outcome: Outcome,
    /// The user's name for it.
    pub label: Option<String>,
}

impl From<&Recording> for ListRow {
    fn from(recording: &Recording) -> Self {
        let all = recording.accounting();
        Self {
            id: recording.id.short(),
            started: recording
                .knows(Unknown::Started)
                .then_some(recording.started),
            headline: recording.headline(),
            duration: recording
                .knows(Unknown::Duration)
                .then_some(recording.duration_ns),
            recorded: all.recorded,
            missed: recording.knows(Unknown::Missed).then_some(all.missed),
            max: recording
                .threads
                .iter()
                .filter_map(|t| t.histogram.max())
                .max(),
            completion: recording.completion,
            outcome: recording.verdict.outcome,
            label: recording.label.clone(),
        }
    }
}

impl ListRow {
    /// `held`, `missed (stopped)`, `interrupted`.
    fn result(&self) -> String {
        match (self.outcome, self.completion) {
            (Outcome::NoRequirement, Completion::Finished) => "measured".to_owned(),
            (Outcome::NoRequirement, completion) => completion.to_string(),
            (outcome, Completion::Finished) => figures::outcome_word(outcome).to_owned(),
            (outcome, completion) => format!("{} ({completion})", figures::outcome_word(outcome)),
        }
    }
}

/// One line a recording, in the order given; times are UTC.
///
/// Where it is too wide for the style, the number of samples goes first, then
/// the label, the duration and the missed periods; what was measured is cut.
pub fn list(rows: &[ListRow], style: &TextStyle) -> String {
    if rows.is_empty() {
        return "no recordings\n".to_owned();
    }
    let columns = [
        Column::left("id", 0),
        Column::left("started (UTC)", 0),
        Column::left("measured", 0).cut_to(24),
        Column::right("duration", 2),
        Column::right("recorded", 4),
        Column::right("missed", 1),
        Column::right("max", 0),
        Column::left("result", 0),
        Column::left("label", 3),
    ];
    let cells = rows.iter().map(cells).collect();
    let mut out = table::lines(&columns, cells, style.columns(), *style).join("\n");
    out.push('\n');
    out
}

fn cells(row: &ListRow) -> Vec<String> {
    let label = row.label.as_deref().unwrap_or_default();
    let to_the_minute = |time| figures::wall(time, 0).chars().take(16).collect();
    let dash = || "-".to_owned();
    vec![
        clean(&row.id).into_owned(),
        row.started.map_or_else(dash, to_the_minute),
        clean(&row.headline).into_owned(),
        figures::or_dash(row.duration),
        grouped(row.recorded),
        figures::count_or_dash(row.missed),
        figures::or_dash(row.max),
        row.result(),
        shorten(&clean(label), 32),
    ]
}
