//! Many recordings, a line each: what `list` prints.

use std::collections::BTreeSet;

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
    /// The name of the machine, where it is known.
    pub host: Option<String>,
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
            host: recording.host.hostname.get().cloned(),
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

/// Below this many columns a start is shown without its year.
const NARROW: usize = 72;
/// From so many on a label has room for a few words more.
const WIDE: usize = 90;

/// One line a recording, in the order given; times are UTC. Where the recordings are
/// of several machines, with a column for these.
///
/// Where it is too wide for the style, the number of samples goes first, then the
/// duration, the missed periods, the machine and the label; what was measured, results
/// and labels are cut. It fits into 60 columns.
pub fn list(rows: &[ListRow], style: &TextStyle) -> String {
    if rows.is_empty() {
        return "no recordings\n".to_owned();
    }
    let width = style.columns();
    let label = if width < WIDE { 12 } else { 20 };
    let result = if width < NARROW { 9 } else { 11 };
    let mut columns = vec![
        Column::left("id", 0),
        Column::left(
            if width < NARROW {
                "UTC"
            } else {
                "started (UTC)"
            },
            0,
        ),
        Column::left("measured", 0).cut_to(16),
        Column::right("duration", 5),
        Column::right("recorded", 6),
        Column::right("missed", 4),
        Column::right("max", 0),
        Column::left("result", 0).cut_to(result).first(),
    ];
    let hosts: BTreeSet<&String> = rows.iter().filter_map(|row| row.host.as_ref()).collect();
    let with_host = hosts.len() > 1;
    if with_host {
        columns.push(Column::left("host", 3).cut_to(10).first());
    }
    columns.push(Column::left("label", 2).cut_to(label).first());
    let cells = rows
        .iter()
        .map(|row| cells(row, width, with_host))
        .collect();
    let mut out = table::lines(&columns, cells, width, *style).join("\n");
    out.push('\n');
    out
}

fn cells(row: &ListRow, width: usize, with_host: bool) -> Vec<String> {
    let label = row.label.as_deref().unwrap_or_default();
    let year = if width < NARROW { 5 } else { 0 };
    let to_the_minute =
        |time| -> String { figures::wall(time, 0).chars().take(16).skip(year).collect() };
    let dash = || "-".to_owned();
    let mut cells = vec![
        clean(&row.id).into_owned(),
        row.started.map_or_else(dash, to_the_minute),
        clean(&row.headline).into_owned(),
        figures::or_dash(row.duration),
        grouped(row.recorded),
        figures::count_or_dash(row.missed),
        figures::or_dash(row.max),
        row.result(),
    ];
    if with_host {
        let host = row.host.as_deref().map(clean);
        cells.push(host.map_or_else(dash, |host| host.into_owned()));
    }
    cells.push(shorten(&clean(label), 64));
    cells
}
