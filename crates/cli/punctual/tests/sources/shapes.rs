//! The forms of stored files. A version of punctual reads the files of all earlier versions, so a
//! key must not disappear without a new schema.

use std::collections::BTreeSet;
use std::path::Path;

use punctual_model::SCHEMA_VERSION;
use serde_json::Value;

/// Adds a line for each key and each word of an enumeration below `path`.
fn add(
    root: &Value,
    schema: &Value,
    path: &str,
    inside: &mut Vec<String>,
    to: &mut BTreeSet<String>,
) {
    if let Some(reference) = schema["$ref"].as_str()
        && !inside.iter().any(|known| known == reference)
    {
        let target = reference.strip_prefix('#').unwrap();
        inside.push(reference.to_owned());
        add(root, root.pointer(target).unwrap(), path, inside, to);
        inside.pop();
    }
    for choice in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        for one in schema[choice].as_array().into_iter().flatten() {
            add(root, one, path, inside, to);
        }
    }
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{key}");
        to.insert(path.clone());
        add(root, value, &path, inside, to);
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            add(root, &schema[key], &format!("{path}{mark}"), inside, to);
        }
    }
    let words = schema["enum"].as_array().into_iter().flatten();
    for word in words.chain(schema.get("const")) {
        to.insert(format!("{path}={word}"));
    }
}

#[test]
fn no_key_of_a_recording_disappears_without_new_schema() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).unwrap_or_default();
    let schema: Value = serde_json::from_str(&read("schemas/recording.json")).unwrap();
    let mut now = BTreeSet::new();
    add(&schema, &schema, "", &mut Vec::new(), &mut now);
    let name = format!("tests/fixtures/recording-{SCHEMA_VERSION}.keys");
    let text = read(&name);
    let kept: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    let gone: Vec<&String> = kept.difference(&now).collect();
    assert!(
        gone.is_empty(),
        "these keys were renamed or removed: increase SCHEMA_VERSION, add a step to \
         model/src/recording/upgrade.rs, and keep a file of the earlier schema in \
         model/tests/fixtures: {gone:?}"
    );
    let lines: String = now.iter().map(|line| format!("{line}\n")).collect();
    if std::env::var_os("PUNCTUAL_UPDATE_PAGES").is_some() {
        std::fs::write(folder.join(&name), &lines).unwrap();
    } else {
        assert!(
            text == lines,
            "{name} lacks new keys: run cargo xtask regenerate"
        );
    }
}
