//! Many recordings, one line each. This is the output of `list`.

use std::collections::BTreeSet;

use punctual_model::{Completion, Outcome, Recording, RecordingLine, grouped};

use super::recording::{outcome_badge, outcome_tone};
use super::table::{Cell, Column, Row, Table};
use super::{Block, Document, Medium};
use crate::figures;

/// The row of one recording. The store fills it without reading the histograms.
#[derive(Clone, Debug, PartialEq)]
pub struct ListRow {
    /// The content of the row.
    pub line: RecordingLine,
    /// The anchor of the recording's document, if that is on the same page.
    pub anchor: Option<String>,
}

impl From<&Recording> for ListRow {
    fn from(recording: &Recording) -> Self {
        Self {
            line: recording.into(),
            anchor: Some(format!("r{}", recording.id)),
        }
    }
}

impl From<RecordingLine> for ListRow {
    fn from(line: RecordingLine) -> Self {
        Self { line, anchor: None }
    }
}

/// Returns a result such as `met`, `exceeded (stopped)`, `interrupted`.
fn result(line: &RecordingLine) -> String {
    match (line.outcome, line.completion) {
        (Outcome::NoRequirement, Completion::Finished) => "measured".to_owned(),
        (Outcome::NoRequirement, completion) => completion.to_string(),
        (outcome, Completion::Finished) => figures::outcome_word(outcome).to_owned(),
        (outcome, completion) => format!("{} ({completion})", figures::outcome_word(outcome)),
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
    let hosts: BTreeSet<&String> = rows
        .iter()
        .filter_map(|row| row.line.host.as_ref())
        .collect();
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
    let line = &row.line;
    let id = Cell {
        link: row.anchor.clone(),
        ..line.id.short().into()
    };
    let started = line.started.map_or_else(
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
        ..Cell::from(outcome_badge(line.outcome)).tone(outcome_tone(line.outcome))
    };
    let mut cells = vec![
        id,
        started,
        line.headline.as_str().into(),
        figures::or_dash(line.duration_ns).into(),
        grouped(line.recorded).into(),
        figures::count_or_dash(line.missed).into(),
        figures::or_dash(line.max_ns).into(),
        result(line).into(),
        verdict,
    ];
    cells.extend(with_host.then(|| figures::text_or_dash(line.host.clone()).into()));
    cells.push(line.label.clone().unwrap_or_default().into());
    Row::new(cells)
}
