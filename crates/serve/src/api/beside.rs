//! What machines deliver beside recordings: windows of wake-ups, slots, notes, decisions.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use punctual_model::{ChangeMark, Note, Slot, WakeWindow};
use punctual_store::{Collection, StoreError};
use serde::{Deserialize, Serialize};

use super::ingest::unpack;
use crate::access::Who;
use crate::membership::Membership;
use crate::problem::Problem;
use crate::state::{App, Inner};

/// A slot with the epoch of its series.
#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SlotOf {
    pub(crate) epoch: Membership,
    pub(crate) slot: Slot,
}

/// What a machine delivers beside recordings.
#[derive(Serialize, Deserialize, schemars::JsonSchema, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Beside {
    /// The name of the machine, where no token says it.
    pub(crate) machine: String,
    pub(crate) windows: Vec<WakeWindow>,
    pub(crate) slots: Vec<SlotOf>,
    /// Notes about recordings of this machine; others are left out.
    pub(crate) notes: Vec<Note>,
    /// Decisions on changes at recordings of this machine; others are left out.
    pub(crate) decisions: Vec<ChangeMark>,
}

/// How many of them are new.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Taken {
    windows: u64,
    slots: u64,
    notes: u64,
    decisions: u64,
}

/// Takes what is beside recordings.
pub(super) async fn post(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Taken>, Problem> {
    let packed = headers.get("content-encoding");
    if packed.and_then(|value| value.to_str().ok()) != Some("zstd") {
        let message = "compress the body with zstd (Content-Encoding: zstd)";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    app.work(move |app| keep(app, &who, &body)).await.map(Json)
}

fn keep(app: &Inner, who: &Who, body: &[u8]) -> Result<Taken, Problem> {
    let body = unpack(body, app.config.limits.unpacked)?;
    let mut beside: Beside = serde_json::from_slice(&body)
        .map_err(|error| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))?;
    if let Who::Bearer(token) = who {
        beside.machine.clone_from(&token.name);
    }
    let (all, machine) = (app.collection.as_ref(), beside.machine.as_str());
    for window in &mut beside.windows {
        machine.clone_into(&mut window.machine);
    }
    let windows = match beside.windows.is_empty() {
        true => 0,
        false => all.add_windows(&beside.windows)?,
    };
    let slots = beside.slots.len() as u64;
    for SlotOf { epoch, slot } in beside.slots {
        all.put_slot(&epoch.of_machine(machine), &slot)?;
    }
    Ok(Taken {
        windows,
        slots,
        notes: notes(all, machine, beside.notes)?,
        decisions: decisions(all, machine, beside.decisions)?,
    })
}

/// Whether the recording is one of this machine: nobody judges those of another.
fn is_own(
    all: &dyn Collection,
    machine: &str,
    id: punctual_model::RecordingId,
) -> Result<bool, StoreError> {
    match all.provenance(id) {
        Ok(provenance) => Ok(provenance.machine == machine),
        Err(StoreError::NoSuch { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What is known stays: somebody may have changed it here.
fn notes(all: &dyn Collection, machine: &str, notes: Vec<Note>) -> Result<u64, StoreError> {
    let known = match notes.is_empty() {
        true => Vec::new(),
        false => all.notes()?,
    };
    let mut new = 0;
    for note in notes {
        let Some(recording) = note.recording else {
            continue;
        };
        let is_known = known.iter().any(|known| known.id == note.id);
        if !is_known && is_own(all, machine, recording)? {
            all.put_note(&note)?;
            new += 1;
        }
    }
    Ok(new)
}

fn decisions(
    all: &dyn Collection,
    machine: &str,
    decisions: Vec<ChangeMark>,
) -> Result<u64, StoreError> {
    let known = match decisions.is_empty() {
        true => Vec::new(),
        false => all.change_marks(None)?,
    };
    let mut new = 0;
    for mark in decisions {
        let is_known = known.iter().any(|known| known.id == mark.id);
        if !is_known && is_own(all, machine, mark.recording)? {
            all.put_change_mark(&mark)?;
            new += 1;
        }
    }
    Ok(new)
}
