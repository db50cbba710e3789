//! Deliveries other than recordings: windows of wake-ups, slots, notes, decisions.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use punctual_model::{
    BoundedTexts, ChangeAnnotation, FromJson, LONGEST_HOST_NAME, MOST_NOTES, Note, ToJson,
    check_host_name,
};
use punctual_push::protocol::{Sidecar, SlotOf};
use punctual_store::{Collection, LONGEST_WAKE_WINDOW, StoreError};
use serde::Serialize;

use super::body::{receive, unpack};
use crate::access::Who;
use crate::problem::Problem;
use crate::state::{App, Inner};

/// The number of new items.
#[derive(Default, Serialize)]
pub(crate) struct Taken {
    windows: u64,
    slots: u64,
    notes: u64,
    decisions: u64,
    /// Description of the entries that were left out: texts that are too long, notes beyond the
    /// quota of the machine, and notes and decisions about recordings of other machines.
    left_out: u64,
}

/// Maximum size of a decompressed body in bytes, enough for hundreds of windows.
const UNPACKED: usize = 16 << 20;

/// Accepts data other than recordings.
pub(super) async fn post(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Taken>, Problem> {
    let sent = receive(&app, &headers, body).await?;
    let most = app.config.limits.unpacked.min(UNPACKED);
    // A small body is parsed on this thread, because passing it to another thread costs more.
    let mut beside = if is_small(&sent.bytes) {
        read(&sent.bytes, most)?
    } else {
        let bytes = sent.bytes.clone();
        app.keep(move |_| read(&bytes, most)).await?
    };
    if let Who::Bearer(token) = who {
        beside.machine = token.name;
    }
    check_host_name(&beside.machine)
        .map_err(|error| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))?;
    for window in &mut beside.windows {
        beside.machine.clone_into(&mut window.machine);
    }
    let windows = match std::mem::take(&mut beside.windows) {
        none if none.is_empty() => 0,
        windows => app.windows.ask(windows).await?,
    };
    let Sidecar {
        slots,
        notes,
        decisions,
        ..
    } = &beside;
    let taken = if slots.is_empty() && notes.is_empty() && decisions.is_empty() {
        Taken::default()
    } else {
        app.keep(move |app| keep(app, beside)).await?
    };
    drop(sent);
    Ok(Json(Taken { windows, ..taken }))
}

/// Returns whether the stated size of the decompressed body is small.
fn is_small(packed: &[u8]) -> bool {
    const SMALL: u64 = 64 << 10;
    let length = zstd::zstd_safe::get_frame_content_size(packed);
    packed.len() as u64 <= SMALL && matches!(length, Ok(Some(length)) if length <= SMALL)
}

/// Parses a body.
pub(crate) fn read(body: &[u8], most: usize) -> Result<Sidecar, Problem> {
    let refuse = |reason: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, reason);
    let body = unpack(body, most)?;
    let beside = Sidecar::from_json(&body).map_err(|error| refuse(error.to_string()))?;
    // Numbers and texts may become longer when they are written again, and the name of the machine
    // is added to each entry.
    let most = LONGEST_WAKE_WINDOW - 8 * LONGEST_HOST_NAME as u64;
    if body.len() as u64 > LONGEST_WAKE_WINDOW / 8 {
        for window in &beside.windows {
            let length = window.to_json().len();
            if length as u64 > most {
                let text = format!("a window of wake-ups has more than {most} bytes");
                return Err(refuse(text));
            }
        }
    }
    Ok(beside)
}

/// Stores slots, notes and decisions.
fn keep(app: &Inner, beside: Sidecar) -> Result<Taken, Problem> {
    let all = app.collection.as_ref();
    let machine = all.current_name(&beside.machine)?;
    let machine = machine.as_str();
    let mut left = Left {
        app,
        machine,
        count: 0,
    };
    let slots: Vec<_> = (beside.slots.into_iter())
        .map(|SlotOf { epoch, slot }| (epoch.of_machine(machine), slot))
        .filter(|(epoch, slot)| left.is_within(epoch) && left.is_within(slot))
        .collect();
    if !slots.is_empty() {
        all.put_slots(&slots)?;
    }
    Ok(Taken {
        windows: 0,
        slots: slots.len() as u64,
        notes: notes(all, &mut left, beside.notes)?,
        decisions: decisions(all, &mut left, beside.decisions)?,
        left_out: left.count,
    })
}

/// Counts the delivered entries that are left out. All others are stored.
struct Left<'a> {
    app: &'a Inner,
    machine: &'a str,
    count: u64,
}

impl Left<'_> {
    /// Returns whether the texts of an entry are within their limits.
    fn is_within(&mut self, entry: &impl BoundedTexts) -> bool {
        let checked = entry.check_texts();
        if checked.is_err() {
            self.out("text that is too long");
        }
        checked.is_ok()
    }

    fn out(&mut self, why: &'static str) {
        self.app.refusals.log(why, self.machine);
        self.count += 1;
    }
}

/// Returns whether the recording belongs to this machine. Machines cannot make decisions about
/// recordings of other machines.
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

/// Stores new notes. Known notes stay as they are, because they may have been changed on this
/// collector. A note is always about the machine that delivers it.
fn notes(all: &dyn Collection, left: &mut Left<'_>, notes: Vec<Note>) -> Result<u64, StoreError> {
    let machine = left.machine;
    let known = if notes.is_empty() {
        Vec::new()
    } else {
        all.notes()?
    };
    let of_machine = |note: &&Note| note.machine.as_deref() == Some(machine);
    let mut kept = known.iter().filter(of_machine).count();
    let mut new = 0;
    for note in notes {
        let is_known = known.iter().any(|known| known.id == note.id);
        let is_own = match note.recording {
            Some(recording) => is_own(all, machine, recording)?,
            None => true,
        };
        let note = Note {
            machine: Some(machine.to_owned()),
            ..note
        };
        if is_known || !left.is_within(&note) {
            continue;
        }
        if !is_own {
            left.out(OF_OTHERS);
        } else if kept >= MOST_NOTES {
            left.out("the number of notes exceeds the limit per machine");
        } else {
            all.put_note(&note)?;
            kept += 1;
            new += 1;
        }
    }
    Ok(new)
}

/// Why a note or a decision is left out.
const OF_OTHERS: &str = "a note or decision refers to a recording of another machine";

fn decisions(
    all: &dyn Collection,
    left: &mut Left<'_>,
    decisions: Vec<ChangeAnnotation>,
) -> Result<u64, StoreError> {
    let known = if decisions.is_empty() {
        Vec::new()
    } else {
        all.change_marks(None)?
    };
    let mut new = 0;
    for mark in decisions {
        let is_known = known.iter().any(|known| known.id == mark.id);
        if is_known || !left.is_within(&mark) {
            continue;
        }
        if !is_own(all, left.machine, mark.recording)? {
            left.out(OF_OTHERS);
            continue;
        }
        all.put_change_mark(&mark)?;
        new += 1;
    }
    Ok(new)
}
