//! Adds imported recordings to a series.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use punctual_model::{Recording, Slot, SlotCause, SlotState, Unknown};
use punctual_store::Store;
use serde_json::json;

use crate::exit::UsageError;
use crate::output;
use crate::verb::Invalid;

/// Parses the name of a series. The rules are the same as in a plan.
pub(super) fn name(text: &str) -> Result<String, Invalid> {
    let fits = text
        .chars()
        .all(|c| c.is_alphanumeric() || "-_.".contains(c));
    if fits && !text.is_empty() {
        Ok(text.to_owned())
    } else {
        Err("the name of a series consists of letters, digits, '-', '_' and '.'".into())
    }
}

/// Adds a recording to a series of its machine, as a slot at the start time stated in the file. A
/// file without a date is rejected, because its run would count as a run of today in a trend over
/// years.
pub(super) fn join(store: &Store, series: &str, recording: &Recording, path: &Path) -> Result<()> {
    let file = path.display();
    if !recording.knows(Unknown::Started) {
        store.delete(recording.id)?;
        let text = format!(
            "{file}: has no date, and was not imported: to join series '{series}', pass the date \
             with --at 2026-11-03T08:15:00Z, or pass --at mtime if the file was last changed when the \
             measurement ended"
        );
        return Err(UsageError(text).into());
    }
    let host = recording.host.hostname.get();
    if host.is_none() {
        output::note(&format!(
            "{file}: names no machine, so the recording joins series '{series}' of the machine \
             'imported'; pass --host NAME to name the machine"
        ));
    }
    let machine = host.cloned().unwrap_or_else(|| "imported".to_owned());
    let origin = recording.origin.as_ref().map(|origin| &origin.tool);
    let definition = json!({"imported": origin, "probe": recording.probe.name}).to_string();
    let epoch = store.put_series(
        &machine,
        host.map(String::as_str),
        series,
        &definition,
        recording.started,
    )?;
    let mut slot = Slot {
        machine: epoch.machine.clone(),
        series: epoch.name.clone(),
        epoch: epoch.epoch,
        due: recording.started,
        cause: SlotCause::Import,
        state: SlotState::Recorded,
        reason: None,
        recording: Some(recording.id),
    };
    // Files of two machines may begin in the same second. Give each of them its own slot.
    while !store.add_slot(&epoch, &slot)? {
        slot.due += Duration::from_nanos(1);
    }
    Ok(store.join_series(recording.id, &epoch)?)
}
