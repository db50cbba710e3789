//! Whether two recordings were measured alike, and on what.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{Completion, CpuSet, Nanos, Recording, Scheduling, Unknown, grouped};
use serde_json::Value;

use crate::Difference;

/// What is known to differ, and what is not known.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) measured: Vec<Difference>,
    pub(crate) machine: Vec<Difference>,
    pub(crate) not_known: Vec<String>,
}

/// Sets two recordings against each other, but for their figures.
pub(crate) fn known(both: [&Recording; 2]) -> Known {
    let mut known = Known::default();
    let [a, b] = both.map(measurement);
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    for name in names {
        let values = [&a, &b].map(|side| side.get(name).cloned().flatten());
        differ(name, values, &mut known.measured, &mut known.not_known);
    }
    let [a, b] = both.map(facts);
    if [&a, &b]
        .into_iter()
        .any(|side| side.values().all(Option::is_none))
    {
        known.not_known.push("machine".to_owned());
        return known;
    }
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    for name in names {
        let values = [&a, &b].map(|side| side.get(name).cloned().flatten());
        if values.iter().all(Option::is_none) {
            // Not there on either, as far as can be seen.
            continue;
        }
        differ(name, values, &mut known.machine, &mut known.not_known);
    }
    known
}

fn differ(
    name: &str,
    values: [Option<String>; 2],
    differences: &mut Vec<Difference>,
    not_known: &mut Vec<String>,
) {
    match values {
        [Some(a), Some(b)] if a == b => {}
        [Some(baseline), Some(candidate)] => differences.push(Difference {
            what: name.to_owned(),
            baseline,
            candidate,
        }),
        _ => not_known.push(name.to_owned()),
    }
}

/// How a recording was measured, by name; `None` where its source does not say.
fn measurement(recording: &Recording) -> BTreeMap<String, Option<String>> {
    let mut rows = BTreeMap::new();
    let asked = recording.probe.parameters.iter();
    // Of these counts what the threads got, below.
    for (key, value) in asked.filter(|(key, _)| !["policy", "priority"].contains(&key.as_str())) {
        let (name, shown) = match (key.strip_suffix("_ns"), value.as_u64()) {
            (Some(name), Some(ns)) => (name, Nanos(ns).to_string()),
            _ => (key.as_str(), plain(value)),
        };
        rows.insert(name.replace('_', " "), Some(shown));
    }
    let told = |what: Unknown, value: String| recording.knows(what).then_some(value);
    rows.insert(
        "threads".to_owned(),
        told(Unknown::Cpus, threads(recording)),
    );
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

/// `CPUs 0-3`, or each thread's name.
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
            .map(|(key, value)| match *key == load.name {
                true => format!("'{}'", plain(value)),
                false => format!("{key}={}", plain(value)),
            })
            .collect();
        match parameters.is_empty() {
            true => load.name.clone(),
            false => format!("{} {}", load.name, parameters.join(" ")),
        }
    });
    each.collect::<Vec<_>>().join("; ")
}

/// A value as people read it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(each) => each.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// The facts of a machine by their path in JSON (`kernel.release`); of CPUs that
/// are alike in one, together. `None` where a fact is not known. What is the name
/// of the thing itself, or changes by itself, is left out.
fn facts(recording: &Recording) -> BTreeMap<String, Option<String>> {
    const LEFT_OUT: [&str; 3] = ["memory.total_bytes", "clock.available", "distribution.id"];
    let mut rows = BTreeMap::new();
    // What is plain data always serialises.
    let Ok(Value::Object(host)) = serde_json::to_value(&recording.host) else {
        return rows;
    };
    for (topic, value) in host.iter().filter(|(topic, _)| *topic != "cpus") {
        collect(topic, value, &mut rows);
    }
    rows.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
    let mut of_cpus: BTreeMap<String, BTreeMap<Option<String>, CpuSet>> = BTreeMap::new();
    for cpu in host
        .get("cpus")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let mut of_cpu = BTreeMap::new();
        for (name, value) in cpu.as_object().into_iter().flatten() {
            collect(name, value, &mut of_cpu);
        }
        let number = cpu.get("cpu").and_then(Value::as_u64).unwrap_or(0) as u32;
        for (name, value) in of_cpu {
            let set = of_cpus.entry(name).or_default().entry(value).or_default();
            set.insert(number);
        }
    }
    for (name, values) in of_cpus {
        let known: Vec<String> = (values.iter())
            .filter_map(|(value, cpus)| {
                let value = value.as_ref()?;
                Some(match values.len() {
                    1 => value.clone(),
                    _ if cpus.len() == 1 => format!("{value} (CPU {cpus})"),
                    _ => format!("{value} (CPUs {cpus})"),
                })
            })
            .collect();
        let value = (!known.is_empty()).then(|| known.join(", "));
        rows.insert(format!("cpu.{name}"), value);
    }
    rows
}

/// Walks down to the facts: objects that say where they were read.
fn collect(path: &str, value: &Value, rows: &mut BTreeMap<String, Option<String>>) {
    let Value::Object(fields) = value else {
        return;
    };
    if fields.contains_key("source") && fields.keys().all(|key| FACT.contains(&key.as_str())) {
        let value = fields.get("value").map(|value| match value {
            Value::Array(states) if states.iter().any(Value::is_object) => {
                states.iter().map(idle_state).collect::<Vec<_>>().join(", ")
            }
            other => plain(other),
        });
        rows.insert(path.to_owned(), value);
        return;
    }
    for (name, value) in fields {
        collect(&format!("{path}.{name}"), value, rows);
    }
}

/// The keys of a fact.
const FACT: [&str; 3] = ["value", "source", "unknown"];

/// `C6 (133 µs, off)`.
fn idle_state(state: &Value) -> String {
    let name = state.get("name").and_then(Value::as_str).unwrap_or("?");
    let exit = state.get("exit_latency_ns").and_then(Value::as_u64);
    let off = state.get("disabled").and_then(Value::as_bool) == Some(true);
    let off = if off { ", off" } else { "" };
    format!("{name} ({}{off})", Nanos(exit.unwrap_or(0)))
}

/// What takes worth from the figures, whichever of the two it is about.
pub(crate) fn cautions(both: [&Recording; 2]) -> Vec<String> {
    let mut said = Vec::new();
    if both[0].id == both[1].id {
        said.push("both are the same recording".to_owned());
    }
    for (name, recording) in ["baseline", "candidate"].into_iter().zip(both) {
        let cut = match recording.completion {
            Completion::Finished => None,
            Completion::Break => Some(
                "stopped when its break value was crossed: one late sample \
                                       ends it, so its tail is no fair one",
            ),
            Completion::Stopped => Some("was stopped before its time"),
            Completion::Interrupted => Some("was interrupted: what came last is lost"),
            Completion::Running => Some("still runs: what was measured so far is compared"),
        };
        said.extend(cut.map(|cut| format!("the {name} {cut}")));
        let all = recording.all_latencies();
        if all.unplaced() > 0 {
            said.push(format!(
                "of {} samples of the {name} the latency is not known",
                grouped(all.unplaced())
            ));
        }
        if recording.series.dropped > 0 {
            said.push(format!(
                "{} samples of the {name} are in no interval of its time series",
                grouped(recording.series.dropped)
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

#[cfg(test)]
mod tests {
    use punctual_model::{Fact, HostFacts, LoadRecord, testing};

    use super::*;

    fn names(differences: &[Difference]) -> Vec<&str> {
        differences.iter().map(|one| one.what.as_str()).collect()
    }

    #[test]
    fn the_same_differs_in_nothing() {
        let recording = testing::recording(2, 3);
        let known = known([&recording, &recording]);
        assert!(known.measured.is_empty(), "{:?}", known.measured);
        assert!(known.machine.is_empty(), "{:?}", known.machine);
        assert!(known.not_known.is_empty(), "{:?}", known.not_known);
        assert_eq!(
            cautions([&recording, &recording]),
            ["both are the same recording"]
        );
    }

    #[test]
    fn each_difference_is_named() {
        let a = testing::recording(2, 3);
        let mut b = testing::recording(1, 3);
        let parameters = &mut b.probe.parameters;
        parameters.insert("interval_ns".to_owned(), 200_000.into());
        b.threads[0].scheduling.priority = 80;
        b.load.push(LoadRecord {
            name: "cpu".to_owned(),
            ..a.load[0].clone()
        });
        b.host.kernel.release = Fact::known("6.13".to_owned(), "");
        b.host.cpus[0].governor = Fact::known("powersave".to_owned(), "");
        b.completion = Completion::Break;
        let known = known([&a, &b]);
        assert_eq!(
            names(&known.measured),
            ["interval", "load", "policy and priority", "threads"]
        );
        let interval = &known.measured[0];
        assert_eq!(
            (interval.baseline.as_str(), interval.candidate.as_str()),
            ("1.00 ms", "200 µs")
        );
        assert!(names(&known.machine).contains(&"kernel.release"));
        assert!(
            names(&known.machine).contains(&"cpu.governor"),
            "{:?}",
            known.machine
        );
        let said = cautions([&a, &b]);
        assert!(
            said.iter().any(|one| one.contains("break value")),
            "{said:?}"
        );
    }

    #[test]
    fn what_is_not_known_is_no_difference() {
        let a = testing::recording(1, 3);
        let mut b = a.clone();
        b.host = HostFacts::unknown("x.txt", "it does not say");
        b.threads[0].scheduling = Scheduling::UNKNOWN;
        b.probe.parameters.clear();
        let known = known([&a, &b]);
        assert!(known.measured.is_empty() && known.machine.is_empty());
        for what in ["interval", "policy and priority", "machine"] {
            assert!(
                known.not_known.iter().any(|one| one == what),
                "{:?}",
                known.not_known
            );
        }
    }
}
