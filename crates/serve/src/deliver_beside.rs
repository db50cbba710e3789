//! The other end: what a machine delivers beside its recordings.

use punctual_model::{SeriesEpoch, Slot};
use punctual_store::{Destination, SlotFilter, Store, StoreError};

use crate::api::{Beside, SlotOf};
use crate::membership::Membership;
use crate::token::sha256;

/// Windows of a request: some kilobytes each.
const WINDOWS: usize = 100;
/// Slots of a request.
const SLOTS: usize = 500;

/// What is remembered of a destination.
const PLACE: &str = "windows";
const REST: &str = "beside";

/// A part that is delivered at once, and what is remembered then.
pub(crate) struct Part {
    pub(crate) body: Beside,
    name: &'static str,
    value: String,
}

impl Part {
    /// Remembers that it was delivered.
    pub(crate) fn done(&self, store: &Store, to: &Destination) -> Result<(), StoreError> {
        store.set_delivery_state(to, self.name, &self.value)
    }
}

/// The next windows; `None`: all were delivered.
pub(crate) fn windows(
    store: &Store,
    to: &Destination,
    machine: &str,
) -> Result<Option<Part>, StoreError> {
    let place = store.delivery_state(to, PLACE)?;
    let place = place.and_then(|text| text.parse().ok()).unwrap_or(0);
    let found = store.windows_behind(place, WINDOWS)?;
    let Some((last, _)) = found.last() else {
        return Ok(None);
    };
    Ok(Some(Part {
        name: PLACE,
        value: last.to_string(),
        body: Beside {
            machine: machine.to_owned(),
            windows: found.into_iter().map(|one| one.1).collect(),
            ..Beside::default()
        },
    }))
}

/// Slots, notes and decisions; empty where nothing changed since the last time.
pub(crate) fn rest(
    store: &Store,
    to: &Destination,
    machine: &str,
) -> Result<Vec<Part>, StoreError> {
    let epochs = store.series()?;
    let slots = store.slots(&SlotFilter::default())?;
    let (notes, decisions) = (store.notes()?, store.change_marks(None)?);
    let all = serde_json::json!([slots, notes, decisions]).to_string();
    let value = sha256(all.as_bytes());
    let nothing = slots.is_empty() && notes.is_empty() && decisions.is_empty();
    if nothing || store.delivery_state(to, REST)?.as_ref() == Some(&value) {
        return Ok(Vec::new());
    }
    let with_epoch = |slot: Slot| {
        let own = |epoch: &&SeriesEpoch| {
            (&epoch.machine, &epoch.name, epoch.epoch) == (&slot.machine, &slot.series, slot.epoch)
        };
        let epoch = Membership::of(epochs.iter().find(own)?);
        Some(SlotOf { epoch, slot })
    };
    let mut slots: Vec<SlotOf> = slots.into_iter().filter_map(with_epoch).collect();
    let mut bodies = vec![Beside {
        notes,
        decisions,
        ..Beside::default()
    }];
    while !slots.is_empty() {
        let rest = slots.split_off(slots.len().min(SLOTS));
        bodies.push(Beside {
            slots: std::mem::replace(&mut slots, rest),
            ..Beside::default()
        });
    }
    let last = bodies.len() - 1;
    let part = |(number, body): (usize, Beside)| Part {
        name: REST,
        // What is delivered in part is delivered again.
        value: if number == last {
            value.clone()
        } else {
            String::new()
        },
        body: Beside {
            machine: machine.to_owned(),
            ..body
        },
    };
    Ok(bodies.into_iter().enumerate().map(part).collect())
}

/// Makes all of it due again: the collector was restored.
pub(crate) fn forget(store: &Store, to: &Destination) -> Result<(), StoreError> {
    store.set_delivery_state(to, PLACE, "0")?;
    store.set_delivery_state(to, REST, "")
}
