//! Results as a report for KCIDB, the database of KernelCI, in schema 5.3.

use serde_json::{Map, Value, json};

use super::xml::{Case, Measured, State, Suite};
use crate::sanitize::plain_line;

/// The name of the CI system. It is part of each ID, so a site replaces it by its own.
const ORIGIN: &str = "punctual";

/// Writes a test for each test case. The tests belong to a build with the release of the kernel as
/// its ID, because a recording contains neither the source nor the configuration of the kernel. A
/// case without a decision has the status `ERROR`. A reached warn level and a measurement without a
/// requirement have the status `DONE`, which is neither good nor bad.
pub(super) fn write(suites: &[Suite]) -> String {
    let mut builds: Vec<String> = suites.iter().map(build).collect();
    builds.sort();
    builds.dedup();
    let id_of = |build: &String| format!("{ORIGIN}:{build}");
    let checkouts = builds
        .iter()
        .map(|build| json!({ "id": id_of(build), "origin": ORIGIN }));
    let checkouts: Vec<Value> = checkouts.collect();
    let builds = builds.iter().map(|build| {
        json!({ "id": id_of(build), "checkout_id": id_of(build), "origin": ORIGIN, "comment": build })
    });
    let builds: Vec<Value> = builds.collect();
    let tests = suites
        .iter()
        .flat_map(|suite| suite.cases.iter().map(|case| test(suite, case)));
    let tests: Vec<Value> = tests.collect();
    let report = json!({
        "version": { "major": 5, "minor": 3 },
        "checkouts": checkouts,
        "builds": builds,
        "tests": tests,
    });
    format!("{report:#}\n")
}

fn property<'a>(suite: &'a Suite, name: &str) -> Option<&'a str> {
    let found = suite.properties.iter().find(|(key, _)| *key == name);
    found.map(|(_, value)| value.as_str())
}

fn build(suite: &Suite) -> String {
    plain_line(property(suite, "kernel").unwrap_or("unknown kernel"))
}

fn test(suite: &Suite, case: &Case) -> Value {
    let nodes = case.class.split('.').chain([case.name.as_str()]);
    let nodes: Vec<String> = nodes.map(word).filter(|node| !node.is_empty()).collect();
    let path = nodes.join(".");
    // A check-up has no ID, but only one of a machine can begin at a time.
    let run = property(suite, "id").map_or_else(
        || {
            let machine = property(suite, "host_fingerprint").unwrap_or_default();
            let start = suite.timestamp.as_deref().unwrap_or_default();
            format!("{machine}:{start}")
        },
        str::to_owned,
    );
    let status = match &case.state {
        State::Success => "PASS",
        State::Failure(..) => "FAIL",
        State::Error(..) => "ERROR",
        State::Warning(..) | State::Measured(..) => "DONE",
        State::Skipped(..) => "SKIP",
    };
    let comment = Some(case.message()).filter(|text| !text.is_empty());
    let mut test = Map::new();
    let mut put = |key: &str, value: Value| test.insert(key.to_owned(), value);
    let id = format!("{ORIGIN}:{}:{path}", plain_line(&run));
    put("id", id.into());
    put("origin", ORIGIN.into());
    put("build_id", format!("{ORIGIN}:{}", build(suite)).into());
    put("path", path.into());
    put("status", status.into());
    if matches!(case.state, State::Warning(..)) {
        put("misc", json!({ "punctual": { "warn_level": true } }));
    }
    if let Some(comment) = comment {
        put("comment", plain_line(comment).into());
    }
    if let Some(start) = &suite.timestamp {
        put("start_time", start.as_str().into());
    }
    if let Some(time) = case.time {
        put("duration", time.as_secs_f64().into());
    }
    if let Some(measured) = &case.measured {
        put("number", number(measured));
    }
    let host = property(suite, "host").or_else(|| property(suite, "machine"));
    if let Some(host) = host {
        put("environment", json!({ "comment": plain_line(host) }));
    }
    Value::Object(test)
}

/// Returns a value in the base unit; KCIDB adds the prefix.
fn number(measured: &Measured) -> Value {
    match *measured {
        Measured::Time(time) => json!({
            "value": time.as_secs_f64(), "unit": "s", "prefix": "metric"
        }),
        Measured::Count(count) => json!({ "value": count }),
        Measured::PerDay(seconds) => {
            json!({ "value": (seconds * 10.0).round() / 10.0, "unit": "s/d" })
        }
    }
}

/// Returns a node of a path: letters, digits and `_`.
fn word(name: &str) -> String {
    let ascii = name.replace('µ', "u");
    let words = ascii.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("_")
}
