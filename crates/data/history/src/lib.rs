//! The runs of a series over time, from any store.
//!
//! **For:** everything that looks back: trends, change points, plots and reports of a series, on a
//! machine and in a collector; the decisions about change points; and the verdict over the runs of a
//! sampled series.
//!
//! **Knows:** the store, statistics.
//!
//! **Must not know:** terminals, HTTP, how anything is measured.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod decision;
mod proof;
#[cfg(test)]
mod proof_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_model::{
    Condition, FromJson, MeasuredOn, Metric, Nanos, ProbeRun, Recording, RecordingId, SeriesEpoch,
    SeriesRun, SlotState, Unknown, run_groups,
};
use punctual_stats::trend::{
    self, Acknowledgement, Facts, Group, Hole, Note, Question, Run, Setup, Trend, TrendQuery,
};
use punctual_store::{Filter, SeriesStore, SlotFilter, StoreError};
use serde_json::Value;

use decision::acknowledged;
pub use decision::decide;
pub use proof::{ProofQuery, prove, prove_newest};

/// Errors from reading a series or deciding about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// What was asked for does not exist, or is ambiguous.
    #[error("{0}")]
    Choice(String),
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A series that was read from the store.
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its runs, oldest first.
    pub runs: Vec<Run>,
    holes: Vec<Hole>,
    notes: Vec<Note>,
    acknowledged: Vec<Acknowledgement>,
    /// The machine and the time of the newest run.
    measured_on: Option<MeasuredOn>,
}

impl Series {
    /// Loads the series with this name, or the only series if no name is given. If no plan contains
    /// a series with this name, the recordings with this label form the series.
    pub fn load(
        store: &dyn SeriesStore,
        name: Option<&str>,
        query: &TrendQuery,
    ) -> Result<Self, HistoryError> {
        let name = name_of(store, name)?;
        let epochs = store.series_named(&name, query.host.as_deref())?;
        let mut series = if epochs.is_empty() {
            labelled(store, &name, query)?
        } else {
            planned(store, &name, &epochs, query)?
        };
        series.notes = notes(store, &series, query.host.as_deref())?;
        series.acknowledged = acknowledged(&store.change_marks(Some(&name))?, &series.runs);
        Ok(series)
    }

    /// Judges the series over time.
    pub fn trend(&self, query: &TrendQuery) -> Trend {
        let question = Question {
            series: self.name.clone(),
            asked: query.clone(),
            holes: self.holes.clone(),
            notes: self.notes.clone(),
            acknowledged: self.acknowledged.clone(),
        };
        Trend {
            measured_on: self.measured_on.clone(),
            ..trend::judge(&self.runs, question)
        }
    }
}

/// Returns the given name, or the name of the only series if no name is given.
pub fn name_of(store: &dyn SeriesStore, given: Option<&str>) -> Result<String, HistoryError> {
    match given {
        Some(name) => Ok(name.to_owned()),
        None => only(&store.series()?),
    }
}

/// Returns the name of the only series.
fn only(epochs: &[SeriesEpoch]) -> Result<String, HistoryError> {
    let names: BTreeSet<&String> = epochs.iter().map(|epoch| &epoch.name).collect();
    match Vec::from_iter(names).as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(HistoryError::Choice(
            "the store has no series: pass a label of recordings, or plan a series with punctual monitor"
                .to_owned(),
        )),
        several => {
            let names: Vec<&str> = several.iter().map(|name| name.as_str()).collect();
            let text = format!(
                "the store has several series: pass one of {}",
                names.join(", ")
            );
            Err(HistoryError::Choice(text))
        }
    }
}

fn planned(
    store: &dyn SeriesStore,
    name: &str,
    epochs: &[SeriesEpoch],
    query: &TrendQuery,
) -> Result<Series, HistoryError> {
    let mut known: BTreeMap<(Option<String>, u32, String), Setup> = BTreeMap::new();
    let (mut runs, mut hosts) = (Vec::new(), BTreeSet::new());
    let (mut last, mut failed) = (None, None);
    let mut take = |run: SeriesRun| -> Result<(), HistoryError> {
        hosts.extend(run.host.clone());
        last = Some(run.recording);
        let key = (run.facts.clone(), run.epoch, run.program.clone());
        let setup = match known.get(&key) {
            Some(setup) => setup.clone(),
            None => {
                let epoch = epochs.iter().find(|epoch| {
                    epoch.epoch == run.epoch
                        && (run.host.is_none() || epoch.host.is_none() || epoch.host == run.host)
                });
                let setup = setup(store, &run, epoch)?;
                known.insert(key, setup.clone());
                setup
            }
        };
        // Keep only the data that a trend needs. This data takes a tenth of the memory of a run, so
        // that ten years of runs fit into memory.
        runs.extend(trend::runs_of(&run, &setup));
        Ok(())
    };
    store.each_run(name, query.host.as_deref(), query.since, &mut |run| {
        if failed.is_none() {
            failed = take(run).err();
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    check_hosts(name, &hosts)?;
    let newest = last.map(|last| store.recording(last)).transpose()?;
    let limit = newest.as_ref().and_then(limit_of);
    runs.iter_mut().for_each(|run| run.limit = limit);
    Ok(Series {
        name: name.to_owned(),
        runs,
        holes: holes(store, name, query)?,
        notes: Vec::new(),
        acknowledged: Vec::new(),
        measured_on: newest.as_ref().map(MeasuredOn::from_recording),
    })
}

/// Returns an error if the runs are from several machines, because they do not form a trend.
fn check_hosts(name: &str, hosts: &BTreeSet<String>) -> Result<(), HistoryError> {
    match hosts.len() {
        0 | 1 => Ok(()),
        _ => {
            let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
            let hosts = hosts.join(", ");
            Err(HistoryError::Choice(format!(
                "{name} has runs of several machines: pass --host with one of {hosts}"
            )))
        }
    }
}

fn setup(
    store: &dyn SeriesStore,
    run: &SeriesRun,
    epoch: Option<&SeriesEpoch>,
) -> Result<Setup, HistoryError> {
    let host = match &run.facts {
        Some(hash) => store.facts(hash)?,
        None => None,
    };
    let host = match host {
        Some(host) => host,
        None => store.recording(run.recording)?.host,
    };
    let mut facts = trend::facts_of(&host);
    facts.insert("measurement.program".to_owned(), Some(run.program.clone()));
    let definition = epoch.and_then(|epoch| Value::from_json(epoch.definition.as_bytes()).ok());
    let fields = definition.as_ref().and_then(Value::as_object);
    for (key, value) in fields
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null())
    {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        facts.insert(format!("series.{key}"), Some(text));
    }
    let load = fields.and_then(|fields| fields.get("load"));
    let load = load.and_then(|load| match load {
        Value::String(text) => Some(text.clone()),
        Value::Array(each) => Some(
            each.iter()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join("+"),
        ),
        _ => None,
    });
    let load = load.filter(|load| !load.is_empty() && load != "none");
    let probe = fields.and_then(|fields| fields.get("probe")?.as_str());
    let without = match probe {
        Some(ProbeRun::JOBS) => OWN_LOAD,
        _ => NO_LOAD,
    };
    Ok(Setup {
        load: load.unwrap_or_else(|| without.to_owned()),
        // The limit is taken from the newest run, which is not known yet.
        limit: None,
        facts: Arc::new(facts),
    })
}

/// Name of the condition without a load.
const NO_LOAD: &str = "idle";

/// Name of the condition of a watched application.
const OWN_LOAD: &str = Condition::APPLICATION;

/// Name of the condition of a recording whose load is unknown.
const UNKNOWN_LOAD: &str = "unknown";

/// Returns the recordings with a label as a series.
fn labelled(
    store: &dyn SeriesStore,
    name: &str,
    query: &TrendQuery,
) -> Result<Series, HistoryError> {
    let filter = Filter {
        label: Some(name.to_owned()),
        since: query.since,
        host: query.host.clone(),
        without_blocks: true,
        ..Filter::default()
    };
    let mut listed = store.list_by(&filter)?;
    listed.retain(|one| one.label.as_deref() == Some(name));
    if listed.is_empty() {
        let of = (query.host.as_ref()).map_or_else(String::new, |host| format!(" of {host}"));
        let since = (query.since).map_or_else(String::new, |since| format!(" since {since}"));
        return Err(HistoryError::Choice(format!(
            "'{name}' is neither a series of the store nor the label of a recording{of}{since}"
        )));
    }
    let mut runs = Vec::new();
    let mut known: Vec<Arc<Facts>> = Vec::new();
    let mut measured_on = None;
    for one in listed.iter().rev() {
        let recording = store.recording(one.id)?;
        let mut facts = trend::facts_of(&recording.host);
        facts.append(&mut trend::measured_how(&recording));
        let facts = match known.iter().find(|known| ***known == facts) {
            Some(known) => Arc::clone(known),
            None => {
                known.push(Arc::new(facts));
                Arc::clone(&known[known.len() - 1])
            }
        };
        let setup = Setup {
            load: load_of(&recording),
            limit: limit_of(&recording),
            facts,
        };
        runs.extend(trend::runs_of(&as_run(&recording), &setup));
        measured_on = Some(MeasuredOn::from_recording(&recording));
    }
    Ok(Series {
        name: name.to_owned(),
        runs,
        holes: Vec::new(),
        notes: Vec::new(),
        acknowledged: Vec::new(),
        measured_on,
    })
}

fn as_run(recording: &Recording) -> SeriesRun {
    SeriesRun {
        recording: recording.id,
        epoch: 1,
        host: recording.host.hostname.get().cloned(),
        started: recording.started,
        duration_ns: recording.duration_ns,
        completion: recording.completion,
        outcome: recording.verdict.outcome,
        facts: None,
        program: recording.probe.program.clone(),
        groups: run_groups(recording),
    }
}

/// Returns the name of the load. If the load failed, the name states this, so that it counts as a
/// different load.
fn load_of(recording: &Recording) -> String {
    let names: Vec<&str> = recording
        .load
        .iter()
        .map(|load| load.name.as_str())
        .collect();
    let failed = recording.load.iter().any(|load| load.failed);
    match (names.is_empty(), failed) {
        // An application runs under its own load.
        (true, _) if recording.probe.name == ProbeRun::JOBS => OWN_LOAD.to_owned(),
        // Other tools do not store the load.
        (true, _) if !recording.knows(Unknown::Load) => UNKNOWN_LOAD.to_owned(),
        (true, _) => NO_LOAD.to_owned(),
        (false, true) => format!("{} (failed)", names.join("+")),
        (false, false) => names.join("+"),
    }
}

fn limit_of(recording: &Recording) -> Option<Nanos> {
    let limits = recording.requirement.limits.iter();
    let limits = limits.filter(|limit| limit.metric == Metric::Max);
    let budget = recording.periodic().map(|asked| asked.budget_ns);
    limits.map(|limit| Nanos(limit.at_most)).chain(budget).min()
}

/// Returns the slots without a complete recording.
fn holes(
    store: &dyn SeriesStore,
    name: &str,
    query: &TrendQuery,
) -> Result<Vec<Hole>, HistoryError> {
    let filter = SlotFilter {
        series: Some(name.to_owned()),
        host: query.host.clone(),
        since: query.since,
        ..SlotFilter::default()
    };
    let is_hole = |state: SlotState| {
        matches!(
            state,
            SlotState::Missed | SlotState::Refused | SlotState::Failed
        )
    };
    let mut holes: Vec<Hole> = (store.slots(&filter)?.into_iter())
        .filter(|slot| is_hole(slot.state))
        .map(|slot| Hole {
            due: slot.due,
            reason: match slot.reason {
                Some(reason) => format!("{}: {reason}", slot.state),
                None => slot.state.to_string(),
            },
        })
        .collect();
    holes.sort_by_key(|hole| hole.due);
    Ok(holes)
}

/// Returns the notes about this series, about its recordings, or about no particular series. If a
/// machine is requested, notes about other machines are left out.
fn notes(
    store: &dyn SeriesStore,
    series: &Series,
    host: Option<&str>,
) -> Result<Vec<Note>, HistoryError> {
    let own: BTreeSet<RecordingId> = series.runs.iter().map(|run| run.recording).collect();
    let is_here = |note: &punctual_model::Note| match (host, &note.machine) {
        (Some(host), Some(machine)) => machine == host,
        _ => true,
    };
    let is_about = |note: &punctual_model::Note| match (&note.series, note.recording) {
        (Some(name), _) => *name == series.name,
        (None, Some(recording)) => own.contains(&recording),
        (None, None) => true,
    };
    let all = store.notes()?.into_iter();
    let all = all.filter(|note| is_here(note) && is_about(note));
    Ok(all
        .map(|note| Note {
            at: note.at,
            recording: note.recording,
            who: note.author,
            text: note.text,
        })
        .collect())
}

/// Returns the group with this name, or the first group if no name is given.
pub fn group<'a>(trend: &'a Trend, name: Option<&str>) -> Result<&'a Group, HistoryError> {
    let names = || {
        trend
            .groups
            .iter()
            .map(Group::name)
            .collect::<Vec<_>>()
            .join("; ")
    };
    let refused = match name {
        Some(name) => match trend.groups.iter().find(|group| group.name() == name) {
            Some(group) => return Ok(group),
            None => format!(
                "{} has no group '{name}': its groups are {}",
                trend.series,
                names()
            ),
        },
        None => match trend.groups.first() {
            Some(group) => return Ok(group),
            None => format!("{} has no runs in this time", trend.series),
        },
    };
    Err(HistoryError::Choice(refused))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use punctual_model::{Slot, SlotCause};
    use punctual_store::Store;

    use super::*;

    /// In a collector, two machines can have series with the same name. Each of them must have only
    /// its own slots, its own notes, and the notes about no particular machine.
    #[test]
    fn series_stays_separate_per_machine() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("fleet.db")).unwrap();
        let now = Timestamp::UNIX_EPOCH;
        let machines = [Some("a"), Some("b"), None];
        for machine in machines {
            let note = punctual_model::Note {
                id: RecordingId::new(),
                recording: None,
                series: None,
                machine: machine.map(str::to_owned),
                at: now,
                text: machine.unwrap_or("all").to_owned(),
                author: "ada".to_owned(),
                written: now,
            };
            store.put_note(&note).unwrap();
        }
        for machine in machines.into_iter().flatten() {
            let epoch = store.put_series(machine, Some(machine), "osadl", "{}", now);
            let epoch = epoch.unwrap();
            let slot = Slot {
                machine: machine.to_owned(),
                series: "osadl".to_owned(),
                epoch: epoch.epoch,
                due: now,
                cause: SlotCause::At,
                state: SlotState::Missed,
                reason: Some(format!("{machine} was off")),
                recording: None,
            };
            store.add_slot(&epoch, &slot).unwrap();
        }
        let query = TrendQuery {
            host: Some("b".to_owned()),
            ..TrendQuery::default()
        };
        let series = Series::load(&store, Some("osadl"), &query).unwrap();
        let notes: Vec<&str> = series.notes.iter().map(|note| &*note.text).collect();
        assert_eq!(notes, ["b", "all"]);
        let holes: Vec<&str> = series.holes.iter().map(|hole| &*hole.reason).collect();
        assert_eq!(holes, ["missed: b was off"]);
        let all = Series::load(&store, Some("osadl"), &TrendQuery::default()).unwrap();
        assert_eq!((all.notes.len(), all.holes.len()), (3, 2));
    }
}
