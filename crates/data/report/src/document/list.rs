//! Many recordings, one line each. This is the output of `list`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use punctual_model::{Completion, Nanos, Outcome, Recording, RecordingLine, Unknown, grouped};

use super::recording::{outcome_badge, outcome_tone};
use super::table::{Cell, Column, Row, Table};
use super::{Block, Document, Medium};
use crate::figures;

/// The row of one recording. The store fills it without reading the histograms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRow {
    /// The short ID ([`RecordingId::short`](punctual_model::RecordingId::short)).
    pub id: String,
    /// The anchor of the recording's document, if that is on the same page.
    pub anchor: Option<String>,
    /// When the measurement began; `None` if an imported file does not contain it.
    pub started: Option<Timestamp>,
    /// The measurement on one line ([`Recording::headline`]).
    pub headline: String,
    /// The duration; `None` if an imported file does not contain it.
    pub duration: Option<Nanos>,
    /// The number of samples of all threads.
    pub recorded: u64,
    /// The number of missed periods of all threads; `None` if an imported file does not contain
    /// them.
    pub missed: Option<u64>,
    /// The largest latency of any thread; `None` if there are no latencies.
    pub max: Option<Nanos>,
    /// Whether and how the run ended.
    pub completion: Completion,
    /// Whether the requirement was met.
    pub outcome: Outcome,
    /// The name of the machine, if known.
    pub host: Option<String>,
    /// The label that the user gave the recording.
    pub label: Option<String>,
}

impl From<&Recording> for ListRow {
    fn from(recording: &Recording) -> Self {
        let all = recording.accounting();
        Self {
            id: recording.id.short(),
            anchor: Some(format!("r{}", recording.id)),
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

impl From<RecordingLine> for ListRow {
    fn from(line: RecordingLine) -> Self {
        Self {
            id: line.id.short(),
            anchor: None,
            started: line.started,
            headline: line.headline,
            duration: line.duration_ns,
            recorded: line.recorded,
            missed: line.missed,
            max: line.max_ns,
            completion: line.completion,
            outcome: line.outcome,
            host: line.host,
            label: line.label,
        }
    }
}

impl ListRow {
    /// Returns a result such as `met`, `exceeded (stopped)`, `interrupted`.
    fn result(&self) -> String {
        match (self.outcome, self.completion) {
            (Outcome::NoRequirement, Completion::Finished) => "measured".to_owned(),
            (Outcome::NoRequirement, completion) => completion.to_string(),
            (outcome, Completion::Finished) => figures::outcome_word(outcome).to_owned(),
            (outcome, completion) => format!("{} ({completion})", figures::outcome_word(outcome)),
        }
    }
}

/// Maximum length of a label on a terminal.
const LABEL: usize = 64;

/// Returns a table of recordings in the given order, with times in UTC. It has a column for the
/// machine if the recordings come from several machines.
///
/// If the terminal is too narrow, results and labels are shortened. Then columns are dropped in
/// this order: samples, duration, missed periods, machine, label. The remaining columns fit into 60
/// characters.
pub fn list(rows: &[ListRow]) -> Document {
    let block = if rows.is_empty() {
        Block::text("no recordings")
    } else {
        Block::Table(list_page(rows, several_hosts(rows)))
    };
    Document::from_blocks(vec![block])
}

/// Returns whether the recordings come from several machines.
fn several_hosts(rows: &[ListRow]) -> bool {
    let hosts: BTreeSet<&String> = rows.iter().filter_map(|row| row.host.as_ref()).collect();
    hosts.len() > 1
}

/// Returns a part of the table of [`list`]. Pass `with_host` for the machine column.
pub fn list_page(rows: &[ListRow], with_host: bool) -> Table {
    let mut columns = vec![
        Column::left("id"),
        Column {
            short_title: Some("UTC".to_owned()),
            ..Column::left("started (UTC)")
        },
        Column::left("measured").cut_to(16),
        Column::right("duration").drop(5).only(Medium::Terminal),
        Column::right("recorded").drop(6).only(Medium::Terminal),
        Column::right("missed").drop(4),
        Column::right("max"),
        Column::left("result")
            .cut_to(9)
            .first()
            .only(Medium::Terminal),
        Column::left("verdict").only(Medium::Page),
    ];
    columns.extend(with_host.then(|| Column::left("host").drop(3).cut_to(10).first()));
    columns.push(Column::left("label").drop(2).cut_to(12).first().most(LABEL));
    let rows = rows.iter().map(|row| cells(row, with_host));
    Table::new(columns, rows.collect())
}

fn cells(row: &ListRow, with_host: bool) -> Row {
    let id = Cell {
        link: row.anchor.clone(),
        ..row.id.as_str().into()
    };
    let started = row.started.map_or_else(
        || "-".into(),
        |time| {
            let minutes: String = figures::wall(time, 0).chars().take(16).collect();
            Cell {
                short: Some(minutes.chars().skip(5).collect()),
                ..minutes.into()
            }
        },
    );
    let verdict = Cell {
        badge: true,
        ..Cell::from(outcome_badge(row.outcome)).tone(outcome_tone(row.outcome))
    };
    let mut cells = vec![
        id,
        started,
        row.headline.as_str().into(),
        figures::or_dash(row.duration).into(),
        grouped(row.recorded).into(),
        figures::count_or_dash(row.missed).into(),
        figures::or_dash(row.max).into(),
        row.result().into(),
        verdict,
    ];
    cells.extend(with_host.then(|| figures::text_or_dash(row.host.clone()).into()));
    cells.push(row.label.clone().unwrap_or_default().into());
    Row::new(cells)
}
