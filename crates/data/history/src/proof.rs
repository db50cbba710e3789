//! The verdict on a machine over the runs of a sampled series.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use punctual_model::{
    LoopRequirement, Outcome, SERIES_PROOF_SCHEMA, SampledSlot, Sampling, SeriesEpoch, SeriesProof,
    SeriesRuns, Slot, SlotCause, SlotState,
};
use punctual_store::{SeriesStore, SlotFilter, StoreError};

use crate::HistoryError;

/// Selects the runs of a proof, and its limit.
#[derive(Clone, Debug)]
pub struct ProofQuery {
    /// The machine, by its host name or ID. It is needed if the series has runs of several.
    pub host: Option<String>,
    /// A time in the period to judge; `None` for the newest period that has ended.
    pub at: Option<Timestamp>,
    /// The current time.
    pub now: Timestamp,
    /// The number of late seconds per day that is tolerated; `None` for that of the plan, or
    /// the usual one.
    pub max_late_seconds_per_day: Option<f64>,
}

/// Judges the runs of one period of a sampled series.
///
/// # Errors
/// Returns an error if there is no such series, if it is not sampled, or if it is that of several
/// machines; and the errors of the store.
pub fn prove(
    store: &dyn SeriesStore,
    name: &str,
    query: &ProofQuery,
) -> Result<SeriesProof, HistoryError> {
    let (epoch, asked, sample) = sampled(store, name, query)?;
    let filter = SlotFilter {
        series: Some(name.to_owned()),
        since: Some(epoch.begun),
        ..SlotFilter::default()
    };
    let own = |slot: &Slot| {
        slot.machine == epoch.machine
            && slot.epoch == epoch.epoch
            && slot.cause == SlotCause::Sample
    };
    let slots = store.slots(&filter)?.into_iter().filter(own);
    let slots: BTreeMap<Timestamp, Slot> = slots.map(|slot| (slot.due, slot)).collect();
    let number = period(&epoch, &sample, query);
    let out_of_range = || HistoryError::Choice(format!("the period of {name} is out of range"));
    let (from, until) = sample
        .period(epoch.begun, number)
        .ok_or_else(out_of_range)?;
    let mut proof = SeriesProof {
        schema: SERIES_PROOF_SCHEMA,
        series: name.to_owned(),
        host: epoch.host.clone(),
        outcome: Outcome::NotProven,
        sentence: String::new(),
        claims: Vec::new(),
        asked,
        epoch: epoch.epoch,
        seed: format!("{:016x}", epoch.seed()),
        from,
        until,
        measured_on: None,
        loads: Vec::new(),
        refused: Vec::new(),
        runs: Vec::new(),
    };
    let mut runs = Runs {
        store,
        checked: SeriesRuns::default(),
    };
    for place in 0..u64::from(sample.runs) {
        let run = number * u64::from(sample.runs) + place;
        let due = sample
            .due(epoch.seed(), epoch.begun, run)
            .ok_or_else(out_of_range)?;
        let mut slot = SampledSlot::new(place + 1, due);
        match slots.get(&due) {
            None if due > query.now => slot.pending = true,
            None => slot.lacking = Some("the service was not running".to_owned()),
            Some(found) => runs.fill(found, &mut slot, &mut proof)?,
        }
        proof.runs.push(slot);
    }
    proof.judge();
    Ok(proof)
}

/// Judges the newest period of a sampled series for a collection: the one that has ended, or the one
/// that is not over yet if it is already broken. Returns `None` if the runs of the series are not at
/// random times.
///
/// # Errors
/// As [`prove`].
pub fn prove_newest(
    store: &dyn SeriesStore,
    name: &str,
    query: &ProofQuery,
) -> Result<Option<SeriesProof>, HistoryError> {
    let epochs = store.series_named(name, query.host.as_deref())?;
    let newest = epochs.iter().max_by_key(|epoch| epoch.epoch);
    let asked = newest.and_then(SeriesEpoch::periodic);
    if asked.and_then(|asked| asked.sample).is_none() {
        return Ok(None);
    }
    let ended = prove(store, name, query)?;
    let at = Some(query.now);
    let now = prove(
        store,
        name,
        &ProofQuery {
            at,
            ..query.clone()
        },
    )?;
    Ok(Some(if now.outcome.is_bad() { now } else { ended }))
}

/// Returns the epoch to judge, with its requirement.
fn sampled(
    store: &dyn SeriesStore,
    name: &str,
    query: &ProofQuery,
) -> Result<(SeriesEpoch, LoopRequirement, Sampling), HistoryError> {
    let epochs = store.series_named(name, query.host.as_deref())?;
    let machines: BTreeSet<&str> = epochs.iter().map(|epoch| epoch.machine.as_str()).collect();
    if machines.len() > 1 {
        let names: BTreeSet<&str> = (epochs.iter())
            .map(|epoch| epoch.host.as_deref().unwrap_or(&epoch.machine))
            .collect();
        return Err(HistoryError::Choice(format!(
            "{name} has runs of {} machines, and a proof is about one: pass --host with one of {}",
            machines.len(),
            Vec::from_iter(names).join(", ")
        )));
    }
    let begun = |epoch: &&SeriesEpoch| query.at.is_none_or(|at| epoch.begun <= at);
    let newest = epochs.iter().filter(begun).max_by_key(|epoch| epoch.epoch);
    let Some(epoch) = newest else {
        return Err(HistoryError::Choice(match query.at {
            Some(at) if !epochs.is_empty() => format!("{name} had not begun at {at}"),
            _ => format!("the store has no series '{name}' of punctual monitor"),
        }));
    };
    let asked = epoch.periodic();
    let Some((asked, sample)) = asked.and_then(|asked| Some((asked.clone(), asked.sample?))) else {
        return Err(HistoryError::Choice(format!(
            "the runs of {name} are not at random times: add sample = \"60 x 1min in 7d\" and a \
             budget to its plan, or use punctual trend {name}"
        )));
    };
    let allowed = query.max_late_seconds_per_day;
    let allowed = allowed.or(asked.max_late_seconds_per_day);
    let asked = LoopRequirement {
        max_late_seconds_per_day: Some(allowed.unwrap_or(LoopRequirement::USUAL_LATE_SECONDS)),
        ..asked
    };
    Ok((epoch.clone(), asked, sample))
}

/// Returns the number of the period to judge: that of the requested time, or the newest one that
/// has ended, or else the first one. A period without a run is not skipped, because an older period
/// says nothing about it.
fn period(epoch: &SeriesEpoch, sample: &Sampling, query: &ProofQuery) -> u64 {
    let of = |time: Timestamp| {
        let number = sample.number_at(epoch.begun, time);
        number.unwrap_or_default() / u64::from(sample.runs)
    };
    match query.at {
        Some(at) => of(at),
        None => of(query.now).saturating_sub(1),
    }
}

/// The measured runs of a period.
struct Runs<'a> {
    store: &'a dyn SeriesStore,
    checked: SeriesRuns,
}

impl Runs<'_> {
    /// Fills in the result of a slot.
    fn fill(
        &mut self,
        slot: &Slot,
        shown: &mut SampledSlot,
        proof: &mut SeriesProof,
    ) -> Result<(), HistoryError> {
        shown.state = Some(slot.state);
        shown.recording = slot.recording;
        let id = match (slot.state, slot.recording) {
            (SlotState::Recorded, Some(id)) => id,
            (state, _) => {
                let reason = slot.reason.as_ref().map(|reason| format!(": {reason}"));
                shown.lacking = Some(format!("{state}{}", reason.unwrap_or_default()));
                return Ok(());
            }
        };
        match self.store.recording(id) {
            Ok(recording) => self.checked.fill(shown, &recording, proof),
            Err(StoreError::NoSuch { .. }) => {
                shown.lacking = Some("its recording was deleted".to_owned());
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
