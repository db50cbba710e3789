//! Tests of `sign` and `verify`: what is signed is the same in each store, and two verifiers agree.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::Sandbox;

const MEASURE: &str =
    "measure timer -q --policy other --dma-latency off -D 300ms --max-latency 100s";

/// Signs the last recording and returns the path of the statement.
fn signed(place: &Sandbox, name: &str) -> String {
    let path = place.path(name).display().to_string();
    place.done(&format!("sign last -o {path}"));
    path
}

/// Returns what was found about the digest of an intact statement.
fn digest(place: &Sandbox, statement: &str, key: &str) -> String {
    let text = place.done(&format!("verify {statement} --key {key} --json"));
    let verified: Value = serde_json::from_str(&text).unwrap();
    let integrity = verified["integrity"].as_array().unwrap();
    let digest = integrity.iter().find(|check| check["what"] == "digest");
    digest.unwrap()["found"].as_str().unwrap().to_owned()
}

/// Returns whether the verifier in Python accepts a statement; `None` without Python.
fn in_python(statement: &str, key: &str) -> Option<bool> {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging/python/verify_statement.py");
    let output = Command::new("python3")
        .arg(script)
        .args([statement, key])
        .output();
    output.ok().map(|output| output.status.success())
}

#[test]
fn statement_is_the_same_after_an_import() {
    let place = Sandbox::new();
    place.done(MEASURE);
    let key = place.done("sign --public-key").trim().to_owned();
    let own = signed(&place, "own.json");
    assert!(
        place
            .done(&format!("verify {own}"))
            .contains("the statement holds")
    );
    let file = place.path("recording.json");
    fs::write(&file, place.done("export last --format json")).unwrap();
    let other = Sandbox::new();
    other.done(&format!("import {}", file.display()));
    let theirs = other.done("sign --public-key").trim().to_owned();
    assert_ne!(key, theirs);
    let imported = signed(&other, "imported.json");
    assert_eq!(
        digest(&place, &own, &key),
        digest(&other, &imported, &theirs)
    );
    // A reader who does not know the key is told so.
    let output = other.run(&format!("verify {own}"));
    assert_eq!(output.status.code(), Some(1));
    assert!(crate::common::text(&output.stdout).contains(&format!("pass --key {key}")));
}

#[test]
fn both_verifiers_refuse_a_changed_statement() {
    let place = Sandbox::new();
    place.done(MEASURE);
    let key = place.done("sign --public-key").trim().to_owned();
    let own = signed(&place, "own.json");
    let Some(accepted) = in_python(&own, &key) else {
        punctual_testing::skip!(Program, "no python3");
        return;
    };
    assert!(accepted);
    // In base64, another letter is other data.
    let text = fs::read_to_string(&own).unwrap();
    let payload = text.find("\"payload\":\"").unwrap() + 1_000;
    let letter = &text[payload..=payload];
    let changed = place.path("changed.json");
    let other = if letter == "A" { "B" } else { "A" };
    fs::write(
        &changed,
        [&text[..payload], other, &text[payload + 1..]].concat(),
    )
    .unwrap();
    let changed = changed.display().to_string();
    let said = place.refused(&format!("verify {changed}"), 1);
    assert!(said.contains("the signature does not match"), "{said}");
    assert_eq!(in_python(&changed, &key), Some(false));
}
