//! Slots of the last day without a recording, by machine, for the overview.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use punctual_model::{SeriesEpoch, SlotState};
use punctual_store::{Collection, Machine, SlotFilter, StoreError};

/// Slots that were due within this time are counted.
const SPAN: Duration = Duration::from_secs(86_400);
/// The states of a slot without a recording.
const STATES: [SlotState; 3] = [SlotState::Missed, SlotState::Refused, SlotState::Failed];

/// The number of slots by machine. Machines without such slots are left out.
pub(crate) type ByMachine = BTreeMap<String, usize>;

/// Returns the slots of these machines without a recording.
///
/// # Errors
/// Returns an error if reading fails.
pub(crate) fn count(all: &dyn Collection, machines: &[Machine]) -> Result<ByMachine, StoreError> {
    let since = Timestamp::now() - SPAN;
    let mut by_id: ByMachine = BTreeMap::new();
    for state in STATES {
        let filter = SlotFilter {
            state: Some(state),
            since: Some(since),
            ..SlotFilter::default()
        };
        for slot in all.slots(&filter)? {
            *by_id.entry(slot.machine).or_default() += 1;
        }
    }
    let names: BTreeSet<&String> = machines.iter().map(|machine| &machine.name).collect();
    if by_id.keys().all(|id| names.contains(id)) {
        return Ok(by_id);
    }
    // Recordings measured in this store use the machine's ID; its name is in the series.
    let epochs = all.series()?;
    let name_of = |id: &String| {
        let own = |epoch: &&SeriesEpoch| epoch.machine == *id && epoch.host.is_some();
        epochs.iter().find(own).and_then(|epoch| epoch.host.clone())
    };
    let mut by_name: ByMachine = BTreeMap::new();
    for (id, count) in by_id {
        let name = name_of(&id).unwrap_or(id);
        *by_name.entry(name).or_default() += count;
    }
    Ok(by_name)
}
