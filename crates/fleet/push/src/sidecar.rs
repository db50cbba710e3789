//! Delivers data of a machine other than recordings.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use punctual_model::{FromJson, SeriesEpoch, ToJson, from_json, to_json};
use punctual_store::{Destination, SlotFilter, Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::protocol::{Membership, Sidecar, SlotOf, sha256};

/// Maximum number of windows per request, and maximum number of their bytes as JSON. A window
/// typically has some kilobytes.
const WINDOWS: usize = 100;
const BYTES: usize = 4 << 20;
/// Maximum number of slots per request.
const SLOTS: usize = 500;

/// Keys of the delivery state, which is stored per destination.
const PLACE: &str = "windows";
const REST: &str = "beside";
/// The key for notes and decisions. The other keys are the months of the slots.
const MARKS: &str = "marks";

/// The hashes of the delivered content: one for each month of slots, and one for the notes and
/// decisions.
#[derive(Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Hashes(BTreeMap<String, String>);

to_json!(Hashes);
from_json!(Hashes);

/// The part of the data that is delivered in one request, and the state to store afterwards.
pub(crate) struct Part {
    pub(crate) body: Sidecar,
    /// Number of damaged windows that were left out.
    pub(crate) damaged: usize,
    name: &'static str,
    value: String,
}

impl Part {
    /// Stores that the part was delivered.
    pub(crate) fn done(&self, store: &Store, to: &Destination) -> Result<(), StoreError> {
        store.set_delivery_state(to, self.name, &self.value)
    }

    /// Returns whether there is nothing to send. The state is stored even then, because it also
    /// covers damaged windows.
    pub(crate) fn is_empty(&self) -> bool {
        let Sidecar {
            windows,
            slots,
            notes,
            decisions,
            ..
        } = &self.body;
        windows.is_empty() && slots.is_empty() && notes.is_empty() && decisions.is_empty()
    }
}

/// Returns the next windows, or `None` if all were delivered.
pub(crate) fn windows(
    store: &Store,
    to: &Destination,
    machine: &str,
) -> Result<Option<Part>, StoreError> {
    let place = store.delivery_state(to, PLACE)?;
    let mut last: i64 = place.and_then(|text| text.parse().ok()).unwrap_or(0);
    let found = store.windows_behind(last, WINDOWS)?;
    if found.is_empty() {
        return Ok(None);
    }
    let (mut windows, mut damaged, mut bytes) = (Vec::new(), 0, 0);
    for (place, window) in found {
        last = place;
        match window {
            Some(window) => {
                bytes += window.to_json().len();
                windows.push(window);
            }
            None => damaged += 1,
        }
        if bytes > BYTES {
            break;
        }
    }
    Ok(Some(Part {
        name: PLACE,
        damaged,
        value: last.to_string(),
        body: Sidecar {
            machine: machine.to_owned(),
            windows,
            ..Sidecar::default()
        },
    }))
}

/// Returns the slots of the months that changed since the last delivery, and changed notes and
/// decisions.
pub(crate) fn rest(
    store: &Store,
    to: &Destination,
    machine: &str,
) -> Result<Vec<Part>, StoreError> {
    let mut bodies: Vec<(String, String, Vec<Sidecar>)> = Vec::new();
    let (notes, decisions) = (store.notes()?, store.change_marks(None)?);
    if !notes.is_empty() || !decisions.is_empty() {
        let hash = hash_of(&(notes.to_json() + &decisions.to_json()));
        let body = Sidecar {
            notes,
            decisions,
            ..Sidecar::default()
        };
        bodies.push((MARKS.to_owned(), hash, vec![body]));
    }
    for (month, slots) in by_month(store)? {
        let hash = hash_of(&slots.to_json());
        bodies.push((month, hash, in_chunks(slots)));
    }
    let known = store.delivery_state(to, REST)?;
    let Hashes(known) = known
        .and_then(|text| Hashes::from_json(text.as_bytes()).ok())
        .unwrap_or_default();
    // Deleted entries are removed from the state at the next change.
    let mut hashes: BTreeMap<String, String> = (known.iter())
        .filter(|(name, _)| bodies.iter().any(|(own, ..)| own == *name))
        .map(|(name, hash)| (name.clone(), hash.clone()))
        .collect();
    let mut parts = Vec::new();
    for (name, hash, chunks) in bodies {
        if known.get(&name) == Some(&hash) {
            continue;
        }
        let last = chunks.len() - 1;
        for (number, body) in chunks.into_iter().enumerate() {
            // Record the hash only with the last chunk, so that a partial delivery is repeated.
            if number == last {
                hashes.insert(name.clone(), hash.clone());
            }
            parts.push(Part {
                name: REST,
                damaged: 0,
                value: Hashes(hashes.clone()).to_json(),
                body: Sidecar {
                    machine: machine.to_owned(),
                    ..body
                },
            });
        }
    }
    Ok(parts)
}

fn hash_of(json: &str) -> String {
    sha256(json.as_bytes())
}

/// Returns all slots, grouped by the month in which they were due. Months in the past do not
/// change.
fn by_month(store: &Store) -> Result<BTreeMap<String, Vec<SlotOf>>, StoreError> {
    let epochs = store.series()?;
    let mut months: BTreeMap<String, Vec<SlotOf>> = BTreeMap::new();
    for slot in store.slots(&SlotFilter::default())? {
        let own = |epoch: &&SeriesEpoch| {
            (&epoch.machine, &epoch.name, epoch.epoch) == (&slot.machine, &slot.series, slot.epoch)
        };
        let Some(epoch) = epochs.iter().find(own).map(Membership::from_epoch) else {
            continue;
        };
        let month = slot.due.to_zoned(TimeZone::UTC).strftime("%Y-%m");
        let slots = months.entry(month.to_string()).or_default();
        slots.push(SlotOf { epoch, slot });
    }
    Ok(months)
}

fn in_chunks(mut slots: Vec<SlotOf>) -> Vec<Sidecar> {
    let mut chunks = Vec::new();
    while !slots.is_empty() {
        let rest = slots.split_off(slots.len().min(SLOTS));
        chunks.push(Sidecar {
            slots: std::mem::replace(&mut slots, rest),
            ..Sidecar::default()
        });
    }
    chunks
}

/// Makes everything due again, because the collector was restored.
pub(crate) fn forget(store: &Store, to: &Destination) -> Result<(), StoreError> {
    store.set_delivery_state(to, PLACE, "0")?;
    store.set_delivery_state(to, REST, "")
}
