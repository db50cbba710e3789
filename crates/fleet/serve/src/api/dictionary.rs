//! Dictionaries, which send the common parts of a machine's recordings only once.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use punctual_store::{LONGEST_TEXT, text_hash};
use serde::Serialize;

use super::body::{receive, unpack};
use crate::access::Who;
use crate::problem::Problem;
use crate::state::{App, Inner};

/// The result of sending a dictionary.
#[derive(Serialize)]
pub(crate) struct Named {
    /// The first 32 hexadecimal digits of its SHA-256.
    hash: String,
}

/// Accepts a dictionary.
pub(super) async fn put(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Path(hash): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Named>, Problem> {
    let sent = receive(&app, &headers, body).await?;
    let hash = app
        .keep(move |app| {
            let sent = sent;
            let text = unpack(&sent.bytes, app.config.limits.unpacked.min(LONGEST_TEXT))?;
            let text = String::from_utf8(text)
                .map_err(|_| Problem::bad_request("the dictionary is not UTF-8"))?;
            if text_hash(&text) == hash {
                keep(app, who.name(), &text)
            } else {
                Err(Problem::bad_request(
                    "the SHA-256 of the dictionary differs from the SHA-256 in the path",
                ))
            }
        })
        .await?;
    Ok(Json(Named { hash }))
}

/// Stores a dictionary unless the quota of its machine is exhausted.
fn keep(app: &Inner, machine: &str, text: &str) -> Result<String, Problem> {
    let machine = app.collection.current_name(machine)?;
    let kept = app.collection.keep_dictionary(&machine, text)?;
    kept.ok_or_else(|| {
        app.refusals.log("quota of dictionaries is full", &machine);
        let message =
            "this machine already has the maximum number of dictionaries: send the body without a \
             dictionary";
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    })
}

/// Returns the dictionary that a delivery names.
pub(super) fn named(app: &Inner, hash: Option<&str>) -> Result<Option<String>, Problem> {
    let Some(hash) = hash else {
        return Ok(None);
    };
    let unknown = || {
        let message = "this dictionary is not stored on the collector: send it first, or send the \
            body without a dictionary";
        Problem::new(StatusCode::FAILED_DEPENDENCY, message)
    };
    app.collection.text(hash)?.ok_or_else(unknown).map(Some)
}
