//! The facts of a machine by name, for comparisons.

use std::collections::BTreeMap;

use punctual_model::{CpuSet, HostFacts, Nanos, Recording, ToJson};
use serde_json::Value;

/// Formats a value for people.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(each) => each.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Returns the facts of a machine by their path in JSON (`kernel.release`). CPUs with the same
/// value are combined. `None` if a fact is unknown. Leaves out names of the machine itself, and
/// facts that change on their own.
pub(super) fn facts(recording: &Recording) -> BTreeMap<String, Option<String>> {
    let mut rows = host_facts(&recording.host);
    rows.insert("tune".to_owned(), recording.tune.clone());
    rows
}

/// Returns the facts of the machine, without the facts of the recording.
pub(crate) fn host_facts(host: &HostFacts) -> BTreeMap<String, Option<String>> {
    const LEFT_OUT: [&str; 3] = ["memory.total_bytes", "clock.available", "distribution.id"];
    let mut rows = BTreeMap::new();
    let Value::Object(host) = host.to_value() else {
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

/// Descends to the facts, which are objects with a source.
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

/// JSON keys that a fact may have.
const FACT: [&str; 3] = ["value", "source", "unknown"];

/// Returns `C6 (133 µs, off)`.
fn idle_state(state: &Value) -> String {
    let name = state.get("name").and_then(Value::as_str).unwrap_or("?");
    let exit = state.get("exit_latency_ns").and_then(Value::as_u64);
    let off = state.get("disabled").and_then(Value::as_bool) == Some(true);
    let off = if off { ", off" } else { "" };
    format!("{name} ({}{off})", Nanos(exit.unwrap_or(0)))
}
