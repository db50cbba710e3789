//! Copies one collection into another, of any kind.

use std::collections::BTreeSet;

use jiff::Timestamp;
use punctual_model::{RecordingId, SeriesEpoch, ToJson, WakeWindow};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{AuditLine, Collection, Delivery, Received, Refused, Wanted};
use crate::facts::hex;
use crate::texts::{self, LeftOut};
use crate::{SlotFilter, StoreError};

/// Number of list entries that are read at once.
const PAGE: usize = 500;
/// Number of windows that are read at once.
const WINDOWS: usize = 1_000;
/// Reason given for not quarantining an entry.
const FULL: &str = "the machine's quota for quarantined deliveries is full";

/// Provenance of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Provenance {
    /// Machine that delivered the recording. If it was not delivered, its host name.
    pub machine: String,
    /// SHA-256 of the delivery; `None` if it was not delivered.
    pub sha256: Option<String>,
    /// Time of arrival; `None` if it was not delivered.
    pub received: Option<Timestamp>,
    /// Epoch of its series.
    pub series: Option<SeriesEpoch>,
}

/// Counts of copied data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Copied {
    /// Number of recordings.
    pub recordings: u64,
    /// Number of recordings that already existed.
    pub known: u64,
    /// Number of recordings whose ID already exists with different content. The existing content is
    /// kept, and the other content was quarantined if the quota of its machine allowed it.
    pub conflicts: u64,
    /// Number of recordings whose samples were not copied.
    pub samples: u64,
    /// Number of wake-up windows.
    pub windows: u64,
    /// Number of slots.
    pub slots: u64,
    /// Number of notes and decisions on changes.
    pub annotations: u64,
    /// Number of tokens.
    pub tokens: u64,
    /// Entries that were left out.
    #[serde(flatten)]
    pub refused: LeftOut,
}

punctual_model::to_json!(Copied);

/// Copies everything that is in `from` but not in `to`. An interrupted copy can be repeated. Skips
/// samples, trace events, and running recordings. Leaves out and counts entries whose texts exceed
/// their limits.
///
/// # Errors
/// Returns an error if the store cannot be read or written.
pub fn copy(
    from: &dyn Collection,
    to: &dyn Collection,
    said: &mut dyn FnMut(&Copied),
) -> Result<Copied, StoreError> {
    let mut copied = Copied::default();
    let mut wanted = Wanted {
        most: PAGE,
        ..Wanted::default()
    };
    loop {
        let page = from.list(&wanted)?;
        let Some(last) = page.last() else { break };
        wanted.after = Some((last.summary.started, last.summary.id));
        for one in &page {
            if one.summary.completion != punctual_model::Completion::Running {
                copied.samples += u64::from(one.summary.samples);
                recording(from, to, one.summary.id, &mut copied)?;
            }
        }
        said(&copied);
    }
    windows(from, to, &mut copied)?;
    copy_sidecar(from, to, &mut copied)?;
    users(from, to, &mut copied)?;
    Ok(copied)
}

fn recording(
    from: &dyn Collection,
    to: &dyn Collection,
    id: RecordingId,
    copied: &mut Copied,
) -> Result<(), StoreError> {
    let provenance = from.provenance(id)?;
    let (_, mut recording) = from.load(id)?;
    let body = recording.to_json();
    recording.judge_anew();
    let sha256 = provenance
        .sha256
        .unwrap_or_else(|| hex(&Sha256::digest(&body)));
    let series = provenance.series.map(|epoch| SeriesEpoch {
        machine: provenance.machine.clone(),
        host: Some(provenance.machine.clone()),
        ..epoch
    });
    let received = to.receive(&Delivery {
        machine: &provenance.machine,
        sha256: &sha256,
        received: provenance.received.unwrap_or(recording.started),
        series: series.as_ref(),
        recording: &recording,
        body: body.as_bytes(),
    });
    match copied.refused.pass(received)? {
        Some(Received::New) => copied.recordings += 1,
        Some(Received::Known) => copied.known += 1,
        Some(Received::Conflict { aside }) => {
            copied.conflicts += 1;
            if !aside {
                copied.refused.add(FULL);
            }
        }
        None => {}
    }
    Ok(())
}

fn windows(
    from: &dyn Collection,
    to: &dyn Collection,
    copied: &mut Copied,
) -> Result<(), StoreError> {
    for machine in from.window_machines()? {
        let mut since = Timestamp::MIN;
        loop {
            let page = from.windows(&machine, since, WINDOWS)?;
            copied.windows += match to.add_windows(&page) {
                // An entry was refused, so copy the windows of the page one by one.
                Err(why) if why.is_refusal() => each_window(to, &page, copied)?,
                other => other?,
            };
            match page.last() {
                Some(last) if page.len() == WINDOWS => {
                    since = last.start + std::time::Duration::from_nanos(1);
                }
                _ => break,
            }
        }
    }
    Ok(())
}

/// Copies windows one by one.
fn each_window(
    to: &dyn Collection,
    page: &[WakeWindow],
    copied: &mut Copied,
) -> Result<u64, StoreError> {
    let mut new = 0;
    for window in page {
        let added = to.add_windows(std::slice::from_ref(window));
        new += copied.refused.pass(added)?.unwrap_or(0);
    }
    Ok(new)
}

/// Copies slots, notes and decisions.
fn copy_sidecar(
    from: &dyn Collection,
    to: &dyn Collection,
    copied: &mut Copied,
) -> Result<(), StoreError> {
    let epochs = from.series()?;
    let there = to.slots(&SlotFilter::default())?;
    for slot in from.slots(&SlotFilter::default())? {
        let own = |epoch: &&SeriesEpoch| {
            (&epoch.machine, &epoch.name, epoch.epoch) == (&slot.machine, &slot.series, slot.epoch)
        };
        let Some(epoch) = epochs.iter().find(own) else {
            continue;
        };
        // The machine has the same name as in the recordings of the series.
        let machine = epoch.host.clone().unwrap_or_else(|| epoch.machine.clone());
        let epoch = SeriesEpoch {
            machine: machine.clone(),
            host: Some(machine.clone()),
            ..epoch.clone()
        };
        let known = there.iter().any(|known| {
            (&known.machine, &known.series, known.due) == (&machine, &slot.series, slot.due)
                && known.state == slot.state
        });
        if !known {
            let put = copied.refused.pass(to.put_slot(&epoch, &slot))?;
            copied.slots += u64::from(put.is_some());
        }
    }
    let there = to.notes()?;
    let machines = from.machines()?;
    for mut note in from.notes()? {
        // In a machine's own store, a note about a time does not name the machine.
        if let ([only], None, None) = (&machines[..], note.recording, &note.machine) {
            note.machine = Some(only.name.clone());
        }
        if !there.contains(&note) {
            let put = copied.refused.pass(to.put_note(&note))?;
            copied.annotations += u64::from(put.is_some());
        }
    }
    let there = to.change_marks(None)?;
    for mark in from.change_marks(None)? {
        if !there.contains(&mark) {
            let put = copied.refused.pass(to.put_change_mark(&mark))?;
            copied.annotations += u64::from(put.is_some());
        }
    }
    Ok(())
}

/// Copies tokens, quarantined deliveries and the audit log.
fn users(
    from: &dyn Collection,
    to: &dyn Collection,
    copied: &mut Copied,
) -> Result<(), StoreError> {
    for token in from.tokens()? {
        let added = copied.refused.pass(to.add_token(&token))?;
        copied.tokens += u64::from(added == Some(true));
    }
    for machine in from.machines()? {
        if machine.retired.is_some() {
            to.set_retired(&machine.name, machine.retired)?;
        }
    }
    for (earlier, machine) in from.earlier_names()? {
        to.put_earlier_name(&earlier, &machine)?;
    }
    for one in from.quarantined(usize::MAX)? {
        let checked = texts::check(
            to.name(),
            format!("the quarantined delivery {}", one.id),
            &one,
        );
        if copied.refused.pass(checked)?.is_none() {
            continue;
        }
        let aside = to.put_aside(&Refused {
            id: one.id,
            machine: &one.machine,
            sha256: &one.sha256,
            received: one.received,
            reason: &one.reason,
            body: &from.quarantined_body(&one)?,
        })?;
        if !aside {
            copied.refused.add(FULL);
        }
    }
    let key = |line: &AuditLine| {
        let text = [&line.who, &line.action, &line.what].map(Clone::clone);
        (line.at, text)
    };
    let there: BTreeSet<_> = to.audit(usize::MAX)?.iter().map(key).collect();
    for line in from.audit(usize::MAX)?.iter().rev() {
        let checked = texts::check(to.name(), "a line of the audit log", line);
        if !there.contains(&key(line)) && copied.refused.pass(checked)?.is_some() {
            to.log(line)?;
        }
    }
    Ok(())
}
