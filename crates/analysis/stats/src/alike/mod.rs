//! Checks whether two recordings were measured with the same settings, and on the same machine.

mod facts;

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{
    Completion, CpuSet, Nanos, ProbeRun, Recording, Scheduling, Unknown, counted,
};

use crate::{Difference, identity};

pub(crate) use facts::host_facts;
use facts::{facts, plain};

/// Known differences between the sides, and facts that are unknown.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) measured: Vec<Difference>,
    pub(crate) machine: Vec<Difference>,
    pub(crate) not_known: Vec<String>,
    /// Settings that differ between the runs of one side, with a sentence for each side.
    pub(crate) mixed: Vec<String>,
}

/// Value of a setting over all runs of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Setting {
    /// The value is unknown for at least one run.
    Unknown,
    /// The value is the same in all runs.
    Same(String),
    /// The runs have these different values.
    Mixed(String),
}

impl Setting {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Unknown => None,
            Self::Same(text) | Self::Mixed(text) => Some(text),
        }
    }
}

type Merged = BTreeMap<String, Setting>;

/// Returns the settings of all `runs`, by name.
fn merged(
    runs: &[&Recording],
    settings: impl Fn(&Recording) -> BTreeMap<String, Option<String>>,
) -> Merged {
    let each: Vec<BTreeMap<String, Option<String>>> =
        runs.iter().map(|run| settings(run)).collect();
    let names: BTreeSet<&String> = each.iter().flat_map(BTreeMap::keys).collect();
    let of_name = |name: &String| {
        let values: Option<BTreeSet<&String>> = (each.iter())
            .map(|run| run.get(name).and_then(Option::as_ref))
            .collect();
        match values.map(Vec::from_iter).as_deref() {
            None => Setting::Unknown,
            Some([one]) => Setting::Same((*one).clone()),
            Some(several) => {
                let each: Vec<&str> = several.iter().map(|one| one.as_str()).collect();
                Setting::Mixed(each.join(" | "))
            }
        }
    };
    (names.into_iter())
        .map(|name| (name.clone(), of_name(name)))
        .collect()
}

/// Collects the differences between the two sides, and the facts known for only one side.
/// `leave_out`: whether to omit facts that are known for neither side.
fn set_apart(
    [a, b]: &[Merged; 2],
    differences: &mut Vec<Difference>,
    not_known: &mut Vec<String>,
    leave_out: bool,
) {
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    for name in names {
        let text = |side: &'_ Merged| side.get(name).and_then(Setting::text).map(str::to_owned);
        match [text(a), text(b)] {
            [Some(a), Some(b)] if a == b => {}
            [Some(baseline), Some(candidate)] => differences.push(Difference {
                what: name.clone(),
                baseline,
                candidate,
            }),
            [None, None] if leave_out => {}
            _ => not_known.push(name.clone()),
        }
    }
}

/// Compares the recordings of two sides, except for their figures.
pub(crate) fn known(sides: [&[&Recording]; 2]) -> Known {
    let mut known = Known::default();
    let measured = sides.map(|runs| merged(runs, measurement));
    set_apart(&measured, &mut known.measured, &mut known.not_known, false);
    let machines = sides.map(|runs| merged(runs, facts));
    let unknown = |side: &Merged| side.values().all(|value| matches!(value, Setting::Unknown));
    if machines.iter().any(unknown) {
        known.not_known.push("machine".to_owned());
    } else {
        // A fact that is unknown on both sides probably does not exist on either machine.
        set_apart(&machines, &mut known.machine, &mut known.not_known, true);
    }
    for (name, side) in ["baseline", "candidate"].into_iter().zip(0..2) {
        let mixed = (measured[side].iter().chain(&machines[side]))
            .filter(|(_, value)| matches!(value, Setting::Mixed(_)));
        let mixed: Vec<String> = mixed.map(|(name, _)| name.replace('_', " ")).collect();
        if !mixed.is_empty() {
            known.mixed.push(format!(
                "the {name} runs differ from each other in: {}",
                mixed.join(", ")
            ));
        }
    }
    known
}

/// Parameters of a watched application that belong to one start of it, or to one observation.
const OF_ONE_START: [&str; 4] = [
    "targets",
    ProbeRun::WATCHED,
    ProbeRun::PROCESSES,
    "duration_ns",
];

/// Returns the settings of a measurement by name. A value is `None` if the recording's source does
/// not contain it.
pub(crate) fn measurement(recording: &Recording) -> BTreeMap<String, Option<String>> {
    let mut rows = BTreeMap::new();
    let asked = recording.probe.parameters.iter();
    // Policy and priority are taken from the threads below, which have the effective values.
    let is_application = identity::is_application(recording);
    for (key, value) in asked.filter(|(key, _)| !["policy", "priority"].contains(&key.as_str())) {
        // The IDs of an application change at each start. Shares are compared, so the length of the
        // observation may differ.
        if is_application && OF_ONE_START.contains(&key.as_str()) {
            continue;
        }
        let (name, shown) = match (key.strip_suffix("_ns"), value.as_u64()) {
            (Some(name), Some(ns)) => (name, Nanos(ns).to_string()),
            _ => (key.as_str(), plain(value)),
        };
        rows.insert(name.replace('_', " "), Some(shown));
    }
    let told = |what: Unknown, value: String| recording.knows(what).then_some(value);
    if is_application {
        let watched = recording.probe.watched().map(identity::application);
        rows.insert("application".to_owned(), watched);
    } else {
        rows.insert(
            "threads".to_owned(),
            told(Unknown::Cpus, threads(recording)),
        );
    }
    let scheduling: BTreeSet<String> = (recording.threads.iter())
        .map(|thread| thread.scheduling)
        .filter(|scheduling| *scheduling != Scheduling::UNKNOWN)
        .map(|scheduling| scheduling.to_string())
        .collect();
    let scheduling: Vec<String> = scheduling.into_iter().collect();
    let scheduling = (!scheduling.is_empty()).then(|| scheduling.join(", "));
    rows.insert("policy and priority".to_owned(), scheduling);
    rows.insert("load".to_owned(), told(Unknown::Load, loads(recording)));
    let explained = match &recording.explanation {
        Some(_) => "recorded",
        None => "not recorded",
    };
    rows.insert("trace events".to_owned(), Some(explained.to_owned()));
    rows
}

/// Returns `CPUs 0-3`, or the name of each thread.
fn threads(recording: &Recording) -> String {
    let by_cpu = (recording.threads.iter())
        .all(|thread| thread.label.is_none() && thread.from_cpu.is_none() && thread.cpu.is_some());
    if by_cpu {
        let cpus: CpuSet = (recording.threads.iter())
            .filter_map(|thread| thread.cpu)
            .collect();
        let number = recording.threads.len();
        return match cpus.len() {
            1 if number == 1 => format!("CPU {cpus}"),
            distinct if distinct == number => format!("CPUs {cpus}"),
            _ => format!("{number} on CPUs {cpus}"),
        };
    }
    const MOST: usize = 6;
    let titles: Vec<String> = (recording.threads.iter())
        .map(punctual_model::ThreadRecord::title)
        .collect();
    match titles.len() {
        0..=MOST => titles.join(", "),
        number => format!("{}, ... ({number} in all)", titles[..MOST].join(", ")),
    }
}

fn loads(recording: &Recording) -> String {
    if recording.load.is_empty() {
        return "none".to_owned();
    }
    let each = recording.load.iter().map(|load| {
        let parameters: Vec<String> = (load.parameters.iter())
            .map(|(key, value)| {
                if *key == load.name {
                    format!("'{}'", plain(value))
                } else {
                    format!("{key}={}", plain(value))
                }
            })
            .collect();
        if parameters.is_empty() {
            load.name.clone()
        } else {
            format!("{} {}", load.name, parameters.join(" "))
        }
    });
    each.collect::<Vec<_>>().join("; ")
}

/// Returns reasons to doubt the figures of either side.
pub(crate) fn cautions(sides: [&[&Recording]; 2]) -> Vec<String> {
    let mut said = Vec::new();
    let (a, b) = (sides[0], sides[1]);
    let twice = |runs: &[&Recording], one: &Recording| {
        runs.iter().filter(|other| other.id == one.id).count() > 1
    };
    match (a, b) {
        ([a], [b]) if a.id == b.id => said.push("both are the same recording".to_owned()),
        _ => {
            let all: Vec<&Recording> = a.iter().chain(b).copied().collect();
            let repeated: BTreeSet<String> = (all.iter().filter(|one| twice(&all, one)))
                .map(|one| one.id.short())
                .collect();
            said.extend((repeated.iter()).map(|id| format!("recording {id} is given twice")));
        }
    }
    said.extend(in_turn(a, b));
    for (name, recording) in named(sides) {
        let cut = match recording.completion {
            Completion::Finished => None,
            Completion::Break => Some(
                "stopped when its break value was crossed: one late sample ends such a run, so \
                                       its tail is biased",
            ),
            Completion::Stopped => Some("was stopped early"),
            Completion::Interrupted => Some("was interrupted: its last samples are lost"),
            Completion::Running => Some("is still running: only the samples so far are compared"),
        };
        said.extend(cut.map(|cut| format!("the {name} {cut}")));
        let all = recording.all_latencies();
        if all.unplaced() > 0 {
            said.push(format!(
                "latency unknown for {} of the {name}",
                counted(all.unplaced(), "sample", "samples")
            ));
        }
        if recording.series.dropped > 0 {
            said.push(format!(
                "the time series of the {name} lacks {}",
                counted(recording.series.dropped, "sample", "samples")
            ));
        }
        for load in recording.load.iter().filter(|load| load.did_nothing()) {
            said.push(format!("the load {} of the {name} did nothing", load.name));
        }
        let ended = recording
            .load
            .iter()
            .filter(|load| load.ended_early.is_some());
        said.extend(ended.map(|load| {
            format!(
                "the load {} of the {name} ended before it was stopped",
                load.name
            )
        }));
    }
    said
}

/// Returns each run with the name that sentences use for it.
fn named<'a>(sides: [&[&'a Recording]; 2]) -> Vec<(String, &'a Recording)> {
    let side = |name: &str, runs: &[&'a Recording]| -> Vec<(String, &'a Recording)> {
        let called = |run: &Recording| match runs.len() {
            1 => name.to_owned(),
            _ => format!("{name} run {}", run.id.short()),
        };
        runs.iter().map(|run| (called(run), *run)).collect()
    };
    let mut all = side("baseline", sides[0]);
    all.extend(side("candidate", sides[1]));
    all
}

/// For several runs, returns whether all runs of one side came before those of the other. In that
/// case, a drift over hours looks like a difference between the sides.
fn in_turn(a: &[&Recording], b: &[&Recording]) -> Option<String> {
    let times = |runs: &[&Recording]| -> Option<Vec<jiff::Timestamp>> {
        let known = |run: &&Recording| run.knows(Unknown::Started).then_some(run.started);
        runs.iter().map(known).collect()
    };
    let (a, b) = (times(a)?, times(b)?);
    let apart = a.iter().max() < b.iter().min() || b.iter().max() < a.iter().min();
    (a.len() + b.len() > 2 && apart).then(|| {
        "all runs of one side were measured before the other side, so a drift of the machine looks \
         like a difference; alternate baseline and candidate"
            .to_owned()
    })
}

#[cfg(test)]
mod tests;
