//! Deliveries of recordings.

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use jiff::Timestamp;
use punctual_model::{
    BoundedTexts, Completion, FromJson, IntervalRow, Recording, RecordingId, cut_to,
};
use punctual_push::protocol::{DICTIONARY, HASH, Ids, Membership, SERIES, sha256};
use punctual_store::{AuditLine, Collection, Delivery, Received, Refused};
use serde::Serialize;
use subtle::ConstantTimeEq;
use uuid::Uuid;

use super::body::{receive, unpack_with};
use super::dictionary;
use crate::NotTaken;
use crate::access::Who;
use crate::problem::Problem;
use crate::state::{App, Inner};

/// Maximum number of IDs per request.
const IDS: usize = 10_000;

/// Why a body is not quarantined.
const FULL: &str = "the quota for quarantined recordings is full";
/// Maximum length of a reason that is stored and returned, in bytes, because it can quote the body.
const LONGEST_REASON: usize = 500;

/// The result of a delivery.
#[derive(Serialize)]
pub(crate) struct Receipt {
    /// The ID of the recording.
    id: RecordingId,
    /// `new` or `known`.
    state: &'static str,
}

/// Accepts a recording.
pub(super) async fn put(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Receipt>), Problem> {
    let id = Uuid::try_parse(&id)
        .map(RecordingId)
        .map_err(|_| Problem::bad_request("the path does not end with a UUID"))?;
    let hash = check_headers(&headers)?;
    let series = series_of(&headers)?;
    let dictionary = headers.get(DICTIONARY);
    let dictionary = dictionary.and_then(|value| value.to_str().ok().map(str::to_owned));
    let sent = receive(&app, &headers, body).await?;
    let received = app
        .keep(move |app| {
            // Keeps the memory of the body reserved, because the client may disconnect before the
            // recording is stored.
            let sent = sent;
            let dictionary = dictionary::named(app, dictionary.as_deref())?;
            let dictionary = dictionary.as_deref().unwrap_or_default();
            let most = app.config.limits.unpacked;
            let body = unpack_with(&sent.bytes, most, dictionary.as_bytes())?;
            keep(app, &who, (id, &hash), series, &body)
        })
        .await?;
    let answer = |status, state| Ok((status, Json(Receipt { id, state })));
    match received {
        Received::New => answer(StatusCode::CREATED, "new"),
        Received::Known => answer(StatusCode::OK, "known"),
        Received::Conflict { aside } => {
            let what = if aside {
                "this one was quarantined"
            } else {
                "this recording was not quarantined, because the quota of this machine is full"
            };
            let message = format!("different content is stored under this ID; {what}");
            Err(Problem::new(StatusCode::CONFLICT, message))
        }
    }
}

/// Returns the hash in the headers.
fn check_headers(headers: &HeaderMap) -> Result<String, Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let hash = text(HASH).map(str::to_ascii_lowercase);
    hash.filter(|hash| hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()))
        .ok_or_else(|| {
            Problem::bad_request(
                "the header Punctual-SHA256 is missing or not a \
            SHA-256",
            )
        })
}

/// Returns the series in the headers.
fn series_of(headers: &HeaderMap) -> Result<Option<Membership>, Problem> {
    let Some(value) = headers.get(SERIES) else {
        return Ok(None);
    };
    let text = value
        .to_str()
        .map_err(|_| Problem::bad_request("the header Punctual-Series is not ASCII"))?;
    Membership::read(text)
        .map(Some)
        .map_err(Problem::bad_request)
}

/// Stores a delivery, or quarantines it.
fn keep(
    app: &Inner,
    who: &Who,
    (id, hash): (RecordingId, &str),
    series: Option<Membership>,
    body: &[u8],
) -> Result<Received, Problem> {
    check_hash(body, hash)?;
    let received = Timestamp::now();
    let collection = app.collection.as_ref();
    let recording = match read(id, body) {
        Ok(recording) => recording,
        // The machine keeps the recording until the collector is updated.
        Err(reason @ NotTaken::Newer(_)) => {
            let message = reason.to_string();
            return Err(Problem::new(StatusCode::NOT_IMPLEMENTED, message));
        }
        Err(reason) => {
            let refused = Refused {
                id,
                machine: who.name(),
                sha256: hash,
                received,
                reason: &cut_to(reason.to_string(), LONGEST_REASON),
                body,
            };
            return Err(put_aside(app, &refused)?);
        }
    };
    let host = recording.host.hostname.get();
    let machine = match who {
        Who::Local => host.map_or("", String::as_str),
        Who::Bearer(token) => &token.name,
    };
    let series = series.map(|series| series.of_machine(machine));
    let received = collection.receive(&Delivery {
        machine,
        sha256: hash,
        received,
        series: series.as_ref(),
        recording: &recording,
        body,
    })?;
    match received {
        Received::Conflict { aside: true } => log(collection, machine, id)?,
        Received::Conflict { aside: false } => app.refusals.log(FULL, machine),
        Received::New | Received::Known => {}
    }
    Ok(received)
}

fn check_hash(body: &[u8], hash: &str) -> Result<(), Problem> {
    if bool::from(sha256(body).as_bytes().ct_eq(hash.as_bytes())) {
        Ok(())
    } else {
        Err(Problem::bad_request(
            "the SHA-256 of the body differs from the header Punctual-SHA256",
        ))
    }
}

/// Parses a recording, checks that it can be stored, and judges it by its data.
pub(crate) fn read(id: RecordingId, body: &[u8]) -> Result<Recording, NotTaken> {
    let text = std::str::from_utf8(body).map_err(|_| NotTaken::NotText)?;
    let mut recording = Recording::from_json(text)?;
    if recording.id != id {
        return Err(NotTaken::OtherId);
    }
    if recording.completion == Completion::Running {
        return Err(NotTaken::NotFinished);
    }
    if recording.threads.len() > Recording::MAX_THREADS {
        return Err(NotTaken::TooManyThreads);
    }
    recording.check_texts()?;
    let threads = recording.threads.len();
    let rows = &recording.series.rows;
    if rows.iter().any(|row| row.thread as usize >= threads) {
        return Err(NotTaken::NoThread);
    }
    // The order in a store, which keeps only one of two rows with the same start and thread.
    let place = |row: &IntervalRow| (row.start_ns, row.thread);
    if !rows.windows(2).all(|two| place(&two[0]) < place(&two[1])) {
        return Err(NotTaken::OutOfOrder);
    }
    recording.judge_anew();
    Ok(recording)
}

/// Quarantines a body that is not a valid recording unless the machine's quota is exhausted. In
/// that case, only the sender keeps the body.
fn put_aside(app: &Inner, refused: &Refused<'_>) -> Result<Problem, Problem> {
    let collection = app.collection.as_ref();
    let reason = refused.reason;
    if !collection.put_aside(refused)? {
        app.refusals.log(FULL, refused.machine);
        let message = format!(
            "this is not a valid recording ({reason}). It was not quarantined, because the quota \
             of this machine is full"
        );
        return Ok(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, message));
    }
    log(collection, refused.machine, refused.id)?;
    let message = format!("this is not a valid recording, and it was quarantined: {reason}");
    Ok(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, message))
}

fn log(collection: &dyn Collection, machine: &str, id: RecordingId) -> Result<(), Problem> {
    Ok(collection.log(&AuditLine {
        at: Timestamp::now(),
        who: machine.to_owned(),
        action: "quarantine".to_owned(),
        what: id.to_string(),
    })?)
}

/// Returns which of these recordings are not stored.
pub(super) async fn lacking(State(app): State<App>, body: Bytes) -> Result<Json<Ids>, Problem> {
    let asked = Ids::from_json(&body)
        .map_err(|error| Problem::bad_request(format!("the body is not a list of IDs: {error}")))?;
    if asked.ids.len() > IDS {
        return Err(Problem::bad_request(format!(
            "too many IDs: at most {IDS} are allowed in one request"
        )));
    }
    let ids = app.stored(move |all| all.lacking(&asked.ids)).await?;
    Ok(Json(Ids { ids }))
}
