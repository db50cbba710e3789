//! The list of recordings.

use axum::extract::{Query, State};
use axum::response::Html;
use maud::{Markup, html};
use punctual_model::{Outcome, RecordingLine, sanitize};
use punctual_report::document::{self, Block, Document, ListRow, Section};
use punctual_store::{Listed, Wanted};
use serde::Deserialize;

use super::{frame, shown, unknown};
use crate::cursor::{page_of, parse_cursor};
use crate::paths::{encoded, recording_path};
use crate::problem::Problem;
use crate::state::App;

/// The filter of the page.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PageQuery {
    /// Only recordings of this machine.
    machine: String,
    /// Only recordings of this probe.
    probe: String,
    /// Only recordings with this outcome.
    outcome: String,
    /// Only recordings after this cursor.
    after: String,
}

/// Number of recordings per page.
const PAGE: usize = 50;

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

pub(super) async fn get(
    State(app): State<App>,
    Query(asked): Query<PageQuery>,
) -> Result<Html<String>, Problem> {
    let outcome = Outcome::ALL.iter().find(|(_, name)| *name == asked.outcome);
    if outcome.is_none() && !asked.outcome.is_empty() {
        return Err(unknown("verdict", &asked.outcome));
    }
    let after = some(&asked.after)
        .map(|text| parse_cursor(&text))
        .transpose()?;
    let wanted = Wanted {
        machine: some(&asked.machine),
        probe: some(&asked.probe),
        outcome: outcome.map(|(outcome, _)| *outcome),
        after,
        most: PAGE,
    };
    let (found, next) = page_of(&app, wanted).await?;
    let next = next.map(|next| {
        let [machine, probe, outcome] =
            [&asked.machine, &asked.probe, &asked.outcome].map(|text| encoded(text));
        let after = encoded(&next);
        format!("/recordings?machine={machine}&probe={probe}&outcome={outcome}&after={after}")
    });
    let body = html! {
        h1 { "Recordings" }
        (filter(&asked))
        (table(&found))
        @if let Some(next) = next { nav .turn { a rel="next" href=(next) { "Older" } } }
    };
    Ok(frame(&app, "Recordings", "/recordings", &body))
}

fn filter(asked: &PageQuery) -> Markup {
    html! {
        form .filter method="get" action="/recordings" role="search" {
            label { "Machine " input name="machine" value=(sanitize(&asked.machine)); }
            label { "Probe " input name="probe" value=(sanitize(&asked.probe)); }
            label { "Verdict "
                select name="outcome" {
                    option value="" { "all" }
                    @for (_, name) in Outcome::ALL {
                        option value=(name) selected[name == asked.outcome] { (name) }
                    }
                }
            }
            button { "Filter" }
        }
    }
}

/// Returns a table of recordings in a form that compares the selected ones.
pub(super) fn table(found: &[Listed]) -> Markup {
    let rows: Vec<ListRow> = found.iter().map(row).collect();
    let mut list = document::list(&rows);
    let blocks = list.sections.iter_mut().flat_map(|part| &mut part.blocks);
    for block in blocks {
        if let Block::Table(table) = block {
            for (row, listed) in table.rows.iter_mut().zip(found) {
                if let Some(cell) = row.cells.first_mut() {
                    cell.path = Some(recording_path(listed.summary.id));
                    cell.choice = Some(listed.summary.id.to_string());
                }
            }
        }
    }
    let list = Document {
        sections: list.sections.into_iter().collect::<Vec<Section>>(),
        ..Document::default()
    };
    html! {
        form method="get" action="/compare" {
            (shown(&[list]))
            @if found.len() > 1 { button { "Compare chosen" } }
        }
    }
}

fn row(listed: &Listed) -> ListRow {
    let line = RecordingLine {
        host: some(&listed.machine),
        ..listed.summary.clone().into_line()
    };
    line.into()
}
