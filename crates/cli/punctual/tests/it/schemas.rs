//! The JSON output of the verbs must agree with the schemas that `schema` prints.

use std::time::Duration;

use crate::common::Sandbox;
use punctual_model::{Completion, Histogram, Recording, RecordingId, SignedNanos};
use punctual_store::{Lease, Store};
use serde_json::Value;

/// Each type of document, with a command that prints it.
const FORMS: &[(&str, &str)] = &[
    ("audit", "doctor --json --no-sample --report-only"),
    ("audit", "machine kernel check --json --report-only"),
    ("checkup", "check --json -q -D 2s --load none"),
    ("facts", "machine facts capture --sample 20ms"),
    (
        "plan",
        "tune plan --json --set swappiness=61 --set thp=never",
    ),
    ("plan", "tune plan --json low-latency"),
    ("status", "tune status --json"),
    ("reverted", "tune revert --json"),
    ("boot", "tune boot status --json"),
    ("cmdline", "tune cmdline show --json"),
    ("cmdline-revert", "tune cmdline revert --json"),
    ("threads", "machine threads --json"),
    ("threads", "machine threads --json --watch 100ms"),
    ("irqs", "machine irqs --json --all"),
    ("irqs", "machine irqs --json --watch 100ms"),
    ("topology", "machine topology --json"),
    ("placements", "machine place beside --cpu 0 --json"),
    ("clocks", "machine clocks --json"),
    ("applications", "app list --json"),
    ("recordings", "list --json"),
    ("experiments", "experiment list --json"),
    ("slots", "monitor slots --json"),
    ("store", "store stats --json"),
    ("damage", "store check --json"),
];

/// Finds those parts of `value` that the schema does not allow. Supports only those features of
/// JSON Schema that these schemas use.
fn unfit(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).unwrap();
        return unfit(root, target, value, at);
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(all) = schema[choice].as_array() {
            let fits = |one: &Value| unfit(root, one, value, at).is_empty();
            return if all.iter().any(fits) {
                Vec::new()
            } else {
                vec![format!("{at}: {value} matches no alternative")]
            };
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        return if words.contains(value) {
            Vec::new()
        } else {
            vec![format!("{at}: {value} is not in the enum")]
        };
    }
    if !schema["const"].is_null() && schema["const"] != *value {
        return vec![format!("{at}: {value} is not {}", schema["const"])];
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let number = kind == "integer" && kinds.contains(&"number");
    if !kinds.is_empty() && !kinds.contains(&kind) && !number {
        return vec![format!("{at}: {kind} where {kinds:?} is said")];
    }
    match value {
        Value::Array(items) if schema["prefixItems"].is_null() => items
            .iter()
            .enumerate()
            .flat_map(|(nth, item)| unfit(root, &schema["items"], item, &format!("{at}/{nth}")))
            .collect(),
        Value::Object(fields) => {
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let lacking = required
                .iter()
                .filter_map(Value::as_str)
                .filter(|key| !fields.contains_key(*key))
                .map(|key| format!("{at} lacks {key}"));
            let told = fields.iter().flat_map(|(key, field)| {
                let place = format!("{at}/{key}");
                match (&schema["properties"][key], &schema["additionalProperties"]) {
                    (Value::Null, Value::Null | Value::Bool(false)) => {
                        vec![format!("{place} is not told of")]
                    }
                    (Value::Null, other) => unfit(root, other, field, &place),
                    (known, _) => unfit(root, known, field, &place),
                }
            });
            lacking.chain(told).collect()
        }
        _ => Vec::new(),
    }
}

/// Checks the output of a command against its schema, and returns the output.
fn follows(place: &Sandbox, form: &str, line: &str) -> Value {
    let schema: Value = serde_json::from_str(&place.done(&format!("schema {form}"))).unwrap();
    let output = place.run(line);
    let printed: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{line}: {error}: {output:?}"));
    let wrong = unfit(&schema, &schema, &printed, form);
    let shown = &wrong[..wrong.len().min(5)];
    assert!(wrong.is_empty(), "{line}: {shown:#?}");
    printed
}

#[test]
fn what_is_printed_follows_its_schema() {
    let place = Sandbox::new();
    place.done("measure timer -q --policy other -D 200ms --dma-latency off");
    for (form, line) in FORMS {
        follows(&place, form, line);
    }
}

#[test]
fn so_does_what_is_explained_and_watched() {
    let place = Sandbox::new();
    let watched = place.run("watch --no-bpf -q -D 200ms --json");
    match watched.status.code() {
        Some(0) => {
            follows(&place, "wakeups", "watch -q -D 300ms --by cpu,comm --json");
            follows(&place, "wakeups", "watch --no-bpf -q -D 300ms --json");
        }
        _ => punctual_testing::skip_refused("watch", String::from_utf8_lossy(&watched.stderr)),
    }
    let line = "measure timer -q --policy other --dma-latency off -D 500ms -i 20ms \
                --explain --threshold 1us";
    let measured = place.run(line);
    if measured.status.code() != Some(0) {
        punctual_testing::skip_refused("explain", String::from_utf8_lossy(&measured.stderr));
        return;
    }
    follows(&place, "recording", "show last --json");
    let explained = follows(&place, "explained", "explain last --json");
    let number = &explained["outliers"][0]["outlier"]["number"];
    let one = format!("explain last --outlier {number} --json");
    let outlier = follows(&place, "outlier", &one);
    if explained["explanation"]["events"]
        .as_array()
        .unwrap()
        .is_empty()
    {
        return punctual_testing::skip!(Right, "explain: no trace events, only own switches");
    }
    assert!(!outlier["window"]["events"].as_array().unwrap().is_empty());
}

/// Stores sixteen runs. Those in the second half are slower.
fn keep_runs(place: &Sandbox) {
    let store = Store::open(&place.path("store.db")).unwrap();
    for number in 0..16u32 {
        let mut recording = punctual_model::testing::recording(1, 1);
        recording.id = RecordingId::new();
        recording.label = Some("nightly".to_owned());
        recording.started += Duration::from_secs(43_200 * u64::from(number));
        recording.series.rows.clear();
        let thread = &mut recording.threads[0];
        thread.histogram = Histogram::new();
        thread.missed_histogram = None;
        let level = if number < 8 { 4_000 } else { 9_000 };
        (0..thread.accounting.recorded).for_each(|n| {
            thread
                .histogram
                .record(SignedNanos(level + n as i64 % 100 + i64::from(number)))
        });
        let begun = Recording {
            completion: Completion::Running,
            ..recording.clone()
        };
        let writer = store.begin(&begun, &Lease::default()).unwrap();
        writer.finish(&recording).unwrap();
    }
}

#[test]
fn so_does_what_looks_back() {
    let place = Sandbox::in_memory();
    keep_runs(&place);
    let trend = follows(&place, "trend", "trend nightly --json");
    assert_eq!(trend["groups"][0]["runs"].as_array().unwrap().len(), 16);
    let changes = follows(&place, "changes", "trend changes nightly --json");
    assert!(!changes.as_array().unwrap().is_empty());
    place.done("trend note add last fan");
    let notes = follows(&place, "notes", "trend note list --json");
    assert_eq!(notes[0]["text"], "fan");
    let differ = follows(
        &place,
        "facts-difference",
        "machine facts diff last~1 last --json",
    );
    assert!(differ.is_object());
}

#[test]
fn apply_status_and_revert_follow_schemas() {
    let place = Sandbox::new();
    let swappiness = punctual_tune::setting("swappiness").unwrap();
    let host = punctual_host::Host::live();
    let before = punctual_tune::value(swappiness, &host).unwrap_or_default();
    if let Err(error) = punctual_tune::may_change(swappiness, &host) {
        punctual_testing::skip_refused("swappiness", &error);
        return;
    }
    let other = if before == "61" { 62 } else { 61 };
    let apply = format!("tune apply --json --set swappiness={other}");
    let applied = follows(&place, "applied", &apply);
    let status = follows(&place, "status", "tune status --json");
    let reverted = follows(&place, "reverted", "tune revert --json");
    assert_eq!(punctual_tune::value(swappiness, &host).unwrap(), before);
    assert_eq!(applied["changes"][0]["old"], before);
    assert_eq!(status["settings"][0]["old"], before);
    assert_eq!(reverted[0]["value"], before);
}

#[test]
fn imports_plans_and_merges_follow_their_schemas() {
    let place = Sandbox::new();
    let lines = "T: 0 ( 1229) P:95 I:200 C:   1293 Min:      6 Act:   12 Avg:    7 Max:     112\n";
    std::fs::write(place.path("lines.txt"), lines).unwrap();
    std::fs::write(place.path("words.txt"), "no figures\n").unwrap();
    let imported = follows(&place, "imported", "import --json lines.txt words.txt");
    assert!(imported[0]["id"].is_string() && imported[1]["error"].is_string());
    follows(&place, "recordings", "list --json");
    let plan =
        "[[series]]\nname = \"night\"\nprobe = \"timer\"\nduration = \"1s\"\nat = [\"03:00\"]\n";
    std::fs::write(place.path("plan.toml"), plan).unwrap();
    let checked = follows(&place, "monitor", "monitor check --json --plan plan.toml");
    assert_eq!(checked["series"][0]["name"], "night", "{checked:#}");
    let other = Sandbox::new();
    other.done("measure timer -q --policy other -D 200ms --dma-latency off");
    let merge = format!("store merge --json {}", other.path("store.db").display());
    assert_eq!(follows(&place, "merged", &merge)["recordings"], 1);
}

#[test]
fn value_violating_schema_is_found() {
    let place = Sandbox::new();
    let schema: Value = serde_json::from_str(&place.done("schema plan")).unwrap();
    let mut plan: Value =
        serde_json::from_str(&place.done("tune plan --json --set swappiness=61")).unwrap();
    plan["steps"][0]["risk"] = "none".into();
    plan["more"] = 1.into();
    plan["label"] = Value::Null;
    assert_eq!(unfit(&schema, &schema, &plan, "plan").len(), 3);
    plan.as_object_mut().unwrap().remove("boot");
    assert_eq!(unfit(&schema, &schema, &plan, "plan").len(), 4);
}

#[test]
fn unknown_form_is_refused_with_known_ones() {
    let error = Sandbox::new().refused("schema plans", 2);
    assert!(
        error.contains("plan") && error.contains("clocks"),
        "{error}"
    );
}

#[test]
fn a_trace_of_another_tool_follows_them() {
    let place = Sandbox::new();
    let trace = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../engine/tracefile/tests/fixtures/text/tracefs.txt"
    );
    follows(
        &place,
        "explained",
        &format!("explain --trace {trace} --json"),
    );
    let one = format!("explain --trace {trace} --outlier 1 --json");
    follows(&place, "outlier", &one);
    let chains =
        format!("explain --trace {trace} --from comm:cyclictest --to comm:cyclictest --json");
    follows(&place, "chains", &chains);
}
