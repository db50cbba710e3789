//! The house is as ARCHITECTURE.md says.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn short(name: &str) -> String {
    name.strip_prefix("punctual-").unwrap_or(name).to_owned()
}

/// The arrows as the page draws them.
fn arrows_on_the_page() -> BTreeMap<String, BTreeSet<String>> {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let section = page
        .split("## Arrows")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap()
        .to_owned();
    section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix("|"))
        .filter(|line| !line.starts_with("room"))
        .map(|line| {
            let (room, knows) = line.split_once('|').unwrap();
            let knows = knows
                .split(',')
                .map(|k| k.trim().to_owned())
                .filter(|k| !k.is_empty());
            (room.trim().to_owned(), knows.collect())
        })
        .collect()
}

/// The workspace as cargo sees it.
fn metadata() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The arrows as cargo sees them; tests may know more.
fn arrows_in_the_code() -> BTreeMap<String, BTreeSet<String>> {
    metadata()["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| {
            let knows = package["dependencies"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|dependency| dependency["kind"].is_null())
                .filter_map(|dependency| dependency["name"].as_str())
                .filter(|name| name.starts_with("punctual"))
                .map(short);
            (short(package["name"].as_str().unwrap()), knows.collect())
        })
        .collect()
}

#[test]
fn arrows_are_those_of_the_page() {
    assert_eq!(arrows_in_the_code(), arrows_on_the_page());
}

#[test]
fn arrows_make_no_circle() {
    fn below(room: &str, arrows: &BTreeMap<String, BTreeSet<String>>, path: &[&str]) {
        assert!(!path.contains(&room), "a circle: {path:?} -> {room}");
        let path = [path, &[room]].concat();
        for next in &arrows[room] {
            below(next, arrows, &path);
        }
    }
    let arrows = arrows_in_the_code();
    for room in arrows.keys() {
        below(room, &arrows, &[]);
    }
}

/// All Rust files of a room, with their text.
fn sources(room: &str) -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, files: &mut Vec<(PathBuf, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, files);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
    let mut files = Vec::new();
    walk(&root().join("crates").join(room).join("src"), &mut files);
    files
}

fn rooms() -> BTreeSet<String> {
    arrows_in_the_code().into_keys().collect()
}

/// What a file does outside its tests and comments.
fn code(text: &str) -> String {
    text.split("#[cfg(test)]")
        .next()
        .unwrap()
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The first command of the README: `cargo run` must know which program is meant.
#[test]
fn one_program_runs_where_none_is_named() {
    let metadata = metadata();
    let default: Vec<&str> = (metadata["workspace_default_members"].as_array().unwrap())
        .iter()
        .map(|id| id.as_str().unwrap())
        .collect();
    let programs: Vec<&str> = (metadata["packages"].as_array().unwrap().iter())
        .filter(|package| default.contains(&package["id"].as_str().unwrap()))
        .flat_map(|package| package["targets"].as_array().unwrap())
        .filter(|target| target["kind"][0] == "bin")
        .map(|target| target["name"].as_str().unwrap())
        .collect();
    assert_eq!(programs, ["punctual"]);
}

#[test]
fn unsafe_code_is_in_rt_and_trace_only() {
    let may = ["rt", "trace"];
    for room in rooms().iter().filter(|room| !may.contains(&room.as_str())) {
        for (path, text) in sources(room) {
            assert!(
                !code(&text).contains("allow(unsafe_code)"),
                "{}",
                path.display()
            );
        }
    }
}

#[test]
fn only_host_and_tune_know_files_of_proc_and_sys() {
    // Messages may name a file: what counts is a string that is one. Checks name
    // facts by their paths, and open none (`checks_touch_nothing`).
    for room in rooms()
        .iter()
        .filter(|room| !["host", "tune", "rt", "checks"].contains(&room.as_str()))
    {
        for (path, text) in sources(room) {
            // A file of our own that is open is no file of /proc.
            let code = code(&text).replace("\"/proc/self/fd/", "");
            // The table of settings names files, and opens none.
            if path.ends_with("setting/mod.rs") || path.to_string_lossy().contains("setting/table/")
            {
                continue;
            }
            // BPF programs are loaded with the kernel's description of its types.
            let code = code.replace("\"/sys/kernel/btf", "");
            for start in ["\"/proc", "\"/sys", "\"/dev/cpu"] {
                let found = code.contains(start) && !path.ends_with("testing.rs");
                assert!(!found, "{} has {start}", path.display());
            }
        }
    }
}

/// Files that a user names are written by `files`, which follows nobody else's link.
#[test]
fn crates_warn_of_writing_past_files() {
    // These write what the kernel offers, or no file of a user.
    let others = ["tune", "trace", "rt", "model", "testing", "xtask"];
    for room in rooms()
        .iter()
        .filter(|room| !others.contains(&room.as_str()))
    {
        let warns = sources(room).iter().any(|(path, text)| {
            let top = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
            top && text.contains("#![cfg_attr(not(test), warn(clippy::disallowed_methods))]")
        });
        assert!(warns, "{room} does not warn of clippy::disallowed_methods");
    }
}

#[test]
fn checks_touch_nothing() {
    for (path, text) in sources("checks") {
        let code = code(&text);
        for start in [
            "std::fs",
            "std::net",
            "std::process",
            "std::env",
            "File::",
            "println!",
        ] {
            assert!(!code.contains(start), "{} has {start}", path.display());
        }
    }
}

#[test]
fn each_room_says_what_it_is_for_and_what_it_must_not_know() {
    for room in rooms() {
        let page = ["lib.rs", "main.rs"]
            .iter()
            .find_map(|name| {
                std::fs::read_to_string(root().join("crates").join(&room).join("src").join(name))
                    .ok()
            })
            .unwrap();
        for word in ["**For:**", "**Knows:**", "**Must not know:**"] {
            assert!(page.contains(word), "{room} does not say {word}");
        }
    }
}

#[test]
fn files_fit_a_head() {
    for room in rooms() {
        for (path, text) in sources(&room) {
            let lines = code(&text).lines().count();
            assert!(lines <= 500, "{} has {lines} lines of code", path.display());
        }
    }
}
