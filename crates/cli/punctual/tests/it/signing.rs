//! Tests of `sign` and `verify`: what is signed is the same in each store, and two verifiers agree.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{Sandbox, files_of_bundle};

const MEASURE: &str =
    "measure timer -q --policy other --dma-latency off -D 300ms --max-latency 100s";

/// Signs the last recording and returns the path of the statement.
fn signed(place: &Sandbox, name: &str) -> String {
    let path = place.path(name).display().to_string();
    place.done(&format!("sign last -o {path}"));
    path
}

/// Returns the public key of the machine, and makes it if there is none.
fn public_key(place: &Sandbox) -> String {
    let keys: Value = serde_json::from_str(&place.done("key --json")).unwrap();
    keys["public_key"].as_str().unwrap().to_owned()
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
pub(crate) fn in_python(statement: &str, key: &str) -> Option<bool> {
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
    let key = public_key(&place);
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
    let theirs = public_key(&other);
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
fn key_is_shown_exported_and_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let place = Sandbox::new();
    place.done(MEASURE);
    let old = public_key(&place);
    let said = place.done("key");
    assert!(said.contains(&format!("public key   {old}")), "{said}");
    let file = said.lines().find_map(|line| line.strip_prefix("file "));
    let file = Path::new(file.unwrap().trim()).to_owned();
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let statement = signed(&place, "own.json");
    // The list is for a reader on another machine. It replaces no list with other keys.
    place.done("key -o keys");
    let said = place.refused("key -o keys", 1);
    assert!(said.contains("keys exists and is not replaced"), "{said}");
    assert_eq!(
        fs::read_to_string(place.path("keys")).unwrap(),
        place.done("key -o -")
    );
    let reader = Sandbox::new();
    let keys = place.path("keys").display().to_string();
    let said = reader.done(&format!("verify {statement} --keys {keys}"));
    assert!(said.contains("by the key of "), "{said}");
    assert_eq!(in_python(&statement, &keys), in_python(&statement, &old));
    reader.refused(&format!("verify {statement} --keys {keys}-missing"), 1);
    // The statement of the replaced key is still verified, here and with the new list.
    place.done("key --rotate");
    let new = public_key(&place);
    assert_ne!(new, old);
    let later = signed(&place, "later.json");
    place.done("key -o both");
    let both = place.path("both").display().to_string();
    for statement in [&statement, &later] {
        place.done(&format!("verify {statement}"));
        reader.done(&format!("verify {statement} --keys {both}"));
        assert_ne!(in_python(statement, &both), Some(false));
    }
    let said = place.done(&format!("verify {statement}"));
    assert!(said.contains(" until 20"), "{said}");
    let said = reader.run(&format!("verify {later} --key {old}"));
    assert_eq!(said.status.code(), Some(1));
    assert!(crate::common::text(&said.stdout).contains("its signer is not known"));
    // A key that others can read signs nothing, and a damaged one is not overwritten.
    fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let said = place.refused("sign last", 1);
    assert!(said.contains("punctual key --rotate"), "{said}");
    place.done("key --rotate");
    place.done("sign last -o s.json");
    fs::write(&file, "damaged").unwrap();
    place.refused("key", 1);
    place.refused("key --rotate", 1);
    assert_eq!(fs::read_to_string(&file).unwrap(), "damaged");
}

#[test]
fn both_verifiers_refuse_a_changed_statement() {
    let place = Sandbox::new();
    place.done(MEASURE);
    let key = public_key(&place);
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

/// The signature covers each byte of a certificate, also where no statement is.
#[test]
fn certificate_contains_its_statement() {
    let place = Sandbox::new();
    place.done(MEASURE);
    let key = public_key(&place);
    place.done("report last --certificate -o c.pdf");
    let said = place.done("verify c.pdf");
    assert!(said.contains("1 file has the signed digest"), "{said}");
    let path = place.path("c.pdf");
    let whole = fs::read(&path).unwrap();
    let python = in_python(&path.display().to_string(), &key);
    let accepted_in_python = |path: &Path| in_python(&path.display().to_string(), &key);
    assert!(python.is_none_or(|accepted| accepted));
    let page = whole
        .windows(10)
        .rposition(|part| part == b"%statement")
        .unwrap();
    let changed = place.path("changed.pdf");
    // In the page, at the start of the update, in the statement, and in its last lines.
    for at in [
        20,
        page / 2,
        page + 40,
        page + 400,
        whole.len() - 40,
        whole.len() - 2,
    ] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&changed, bytes).unwrap();
        place.refused("verify changed.pdf", 1);
        let accepted = python.and_then(|_| accepted_in_python(&changed));
        assert!(!accepted.unwrap_or(false), "{at}");
    }
    fs::write(&changed, [whole.as_slice(), &whole[page - 1..]].concat()).unwrap();
    place.refused("verify changed.pdf", 1);
    assert!(
        !python
            .and_then(|_| accepted_in_python(&changed))
            .unwrap_or(false)
    );
}

#[test]
fn bundle_contains_its_statement() {
    let place = Sandbox::new();
    place.done(MEASURE);
    let key = public_key(&place);
    place.done("store bundle last -o b.tar.zst");
    let said = place.done("verify b.tar.zst");
    assert!(said.contains("files have the signed digest"), "{said}");
    // Each recording is read, also that in the store.
    for name in ["recording.json", "store.db   "] {
        assert!(said.contains(&format!("\u{2713} {name}")), "{said}");
    }
    // The verifier in Python reads an unpacked bundle.
    let folder = place.path("unpacked");
    for (name, content) in files_of_bundle(&place.path("b.tar.zst")) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let folder_text = folder.display().to_string();
    let Some(accepted) = in_python(&folder_text, &key) else {
        punctual_testing::skip!(Program, "no python3");
        return;
    };
    assert!(accepted);
    std::os::unix::fs::symlink("host.json", folder.join("more")).unwrap();
    assert_eq!(in_python(&folder_text, &key), Some(false));
    fs::remove_file(folder.join("more")).unwrap();
    assert_eq!(in_python(&folder_text, &key), Some(true));
    fs::write(folder.join("more"), "").unwrap();
    assert_eq!(in_python(&folder_text, &key), Some(false));
}

#[test]
fn person_signs_with_an_ssh_key() {
    let place = Sandbox::new();
    place.done(MEASURE);
    let key = place.path("id");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&key)
        .output();
    let Ok(made) = made else {
        punctual_testing::skip!(Program, "no ssh-keygen");
        return;
    };
    assert!(made.status.success());
    let public = fs::read_to_string(key.with_extension("pub")).unwrap();
    fs::write(place.path("signers"), format!("alice@example.org {public}")).unwrap();
    fs::write(place.path("nobody"), "").unwrap();
    place.done("sign last --ssh-key id -o s.json");
    // A reader who knows only the person.
    let other = Sandbox::new();
    let read = |signers: &str| {
        let place = |name: &str| place.path(name).display().to_string();
        let (file, signers) = (place("s.json"), place(signers));
        other.run(&format!("verify {file} --ssh-signers {signers}"))
    };
    let output = read("signers");
    let said = crate::common::text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("by alice@example.org, an allowed signer"),
        "{said}"
    );
    assert_eq!(read("nobody").status.code(), Some(1));
    let missing = read("missing");
    assert!(crate::common::text(&missing.stderr).contains("allowed signers"));
    place.refused("sign last --ssh-key missing", 1);
    place.refused("report last --ssh-key id -o r.html", 2);
}
