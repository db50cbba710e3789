//! Recordings as JSON.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use punctual_model::{Completion, Nanos, Outcome, RecordingId, Unknown};
use punctual_store::{Listed, Wanted};
use serde::{Deserialize, Serialize};

use crate::place::{place, place_of};
use crate::problem::Problem;
use crate::state::App;

/// What is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    machine: Option<String>,
    probe: Option<String>,
    outcome: Option<Outcome>,
    after: Option<String>,
    limit: Option<usize>,
}

/// Recordings of a page, by default and at most.
const USUAL: usize = 100;
const MOST: usize = 1_000;

/// A page of the list.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Page {
    /// The newest first.
    recordings: Vec<RecordingJson>,
    /// For the parameter `after` of the next page; null on the last one.
    next: Option<String>,
}

/// A line of the list.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct RecordingJson {
    /// Which recording it is.
    id: RecordingId,
    /// The machine that it is of; empty where it is not known.
    machine: String,
    /// A name given by the user.
    label: Option<String>,
    /// The probe that measured.
    probe: String,
    /// What was measured, in a line.
    headline: String,
    /// When it began; null where its source does not say.
    started: Option<Timestamp>,
    /// How long it lasted; null where its source does not say.
    duration_ns: Option<Nanos>,
    /// Whether it came to its end.
    completion: Completion,
    /// Whether its requirement was held.
    outcome: Outcome,
    /// Samples of all threads.
    recorded: u64,
    /// Missed periods of all threads; null where its source does not say.
    missed: Option<u64>,
    /// The largest latency.
    max_ns: Option<Nanos>,
    /// 99% of all samples were not later.
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

/// A page of recordings.
pub(super) async fn list(
    State(app): State<App>,
    Query(asked): Query<Asked>,
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
        after: asked.after.as_deref().map(place).transpose()?,
        // One more says whether there is a next page.
        most: most + 1,
    };
    let mut found = app.stored(move |all| all.list(&wanted)).await?;
    let more = found.len() > most;
    found.truncate(most);
    let next = found.last().filter(|_| more).map(place_of);
    let recordings = found.into_iter().map(RecordingJson::from).collect();
    Ok(Json(Page { recordings, next }))
}

/// One recording.
pub(super) async fn get(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let json = app
        .work(move |app| {
            let id = app.collection.find(&id)?;
            let (_, recording) = app.collection.load(id)?;
            serde_json::to_string(&recording)
                .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
        })
        .await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}
