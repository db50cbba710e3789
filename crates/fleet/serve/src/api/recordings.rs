//! Recordings as JSON.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use punctual_model::{Completion, Nanos, Outcome, RecordingId, ToJson, Unknown};
use punctual_store::{Listed, Wanted};
use serde::{Deserialize, Serialize};

use crate::cursor::{cursor_after, parse_cursor};
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
    /// The ID of the recording.
    id: RecordingId,
    /// The machine; empty if unknown.
    machine: String,
    /// A label given by the user.
    label: Option<String>,
    /// The probe.
    probe: String,
    /// The measurement on one line.
    headline: String,
    /// When the measurement began; null if its source does not contain the time.
    started: Option<Timestamp>,
    /// The duration of the measurement; null if its source does not contain it.
    duration_ns: Option<Nanos>,
    /// Whether and how the run ended.
    completion: Completion,
    /// Whether the requirement was met.
    outcome: Outcome,
    /// The samples of all threads.
    recorded: u64,
    /// The missed periods of all threads; null if its source does not contain them.
    missed: Option<u64>,
    /// The largest latency.
    max_ns: Option<Nanos>,
    /// The 99th percentile of all samples.
    p99_ns: Option<Nanos>,
    /// The fingerprint of the machine.
    fingerprint: String,
}

impl From<Listed> for RecordingJson {
    fn from(listed: Listed) -> Self {
        let Listed { machine, summary } = listed;
        Self {
            id: summary.id,
            machine,
            started: summary.knows(Unknown::Started).then_some(summary.started),
            duration_ns: (summary.knows(Unknown::Duration)).then_some(summary.duration_ns),
            missed: summary.knows(Unknown::Missed).then_some(summary.missed),
            label: summary.label,
            probe: summary.probe,
            headline: summary.headline,
            completion: summary.completion,
            outcome: summary.outcome,
            recorded: summary.recorded,
            max_ns: summary.max_ns,
            p99_ns: summary.p99_ns,
            fingerprint: summary.fingerprint,
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
        // Ask for one more recording, to find out whether there is a next page.
        most: most + 1,
    };
    let mut found = app.stored(move |all| all.list(&wanted)).await?;
    let more = found.len() > most;
    found.truncate(most);
    let next = found.last().filter(|_| more).map(cursor_after);
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
