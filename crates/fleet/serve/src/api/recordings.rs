//! Recordings as JSON.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use punctual_model::{Outcome, RecordingLine, ToJson};
use punctual_store::{Listed, Wanted};
use serde::{Deserialize, Serialize};

use crate::cursor::{page_of, parse_cursor};
use crate::problem::Problem;
use crate::state::App;

/// The parameters of the query.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordingsQuery {
    machine: Option<String>,
    probe: Option<String>,
    outcome: Option<Outcome>,
    after: Option<String>,
    limit: Option<usize>,
}

/// Number of recordings per page, by default and at most.
const USUAL: usize = 100;
const MOST: usize = 1_000;

/// A page of the list.
#[derive(Serialize)]
pub(crate) struct Page {
    /// The recordings, newest first.
    recordings: Vec<RecordingJson>,
    /// The parameter `after` for the next page; null on the last page.
    next: Option<String>,
}

/// A line of the list.
#[derive(Serialize)]
pub(crate) struct RecordingJson {
    /// The machine that delivered or measured the recording; empty if unknown.
    machine: String,
    #[serde(flatten)]
    line: RecordingLine,
}

impl From<Listed> for RecordingJson {
    fn from(listed: Listed) -> Self {
        Self {
            machine: listed.machine,
            line: listed.summary.into_line(),
        }
    }
}

/// Returns a page of recordings.
pub(super) async fn list(
    State(app): State<App>,
    Query(asked): Query<RecordingsQuery>,
) -> Result<Json<Page>, Problem> {
    let most = asked.limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&most) {
        let message = format!("limit is 1 to {MOST}");
        return Err(Problem::bad_request(message));
    }
    let wanted = Wanted {
        machine: asked.machine,
        probe: asked.probe,
        outcome: asked.outcome,
        after: asked.after.as_deref().map(parse_cursor).transpose()?,
        most,
    };
    let (found, next) = page_of(&app, wanted).await?;
    let recordings = found.into_iter().map(RecordingJson::from).collect();
    Ok(Json(Page { recordings, next }))
}

/// Returns one recording.
pub(super) async fn get(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let json = app
        .work(move |app| {
            let id = app.collection.find(&id)?;
            let (_, recording) = app.collection.load(id)?;
            Ok(recording.in_words().to_json())
        })
        .await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}
