//! All crates in the program built on this machine must have licences and sources that `deny.toml`
//! allows. `cargo xtask deps` also checks other targets and advisories.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use spdx::{Expression, Licensee, ParseMode};

/// The section on licences in `deny.toml`.
struct Allowed {
    everywhere: Vec<Licensee>,
    by_crate: BTreeMap<String, Vec<Licensee>>,
}

impl Allowed {
    fn read() -> Self {
        let text = std::fs::read_to_string(super::root().join("deny.toml")).unwrap();
        let rules: toml::Table = text.parse().unwrap();
        let licences = |list: &toml::Value| -> Vec<Licensee> {
            let names = list.as_array().unwrap().iter();
            names
                .map(|name| Licensee::parse(name.as_str().unwrap()).unwrap())
                .collect()
        };
        let exceptions = rules["licenses"]["exceptions"].as_array().unwrap().iter();
        Self {
            everywhere: licences(&rules["licenses"]["allow"]),
            by_crate: exceptions
                .map(|one| {
                    (
                        one["crate"].as_str().unwrap().to_owned(),
                        licences(&one["allow"]),
                    )
                })
                .collect(),
        }
    }

    /// Returns whether the `license` field of a crate permits its use.
    fn allows(&self, name: &str, licence: &str) -> bool {
        // Some crates still write `MIT/Apache-2.0`.
        let expression = Expression::parse_mode(licence, ParseMode::LAX).unwrap();
        let of_its_own = self.by_crate.get(name).into_iter().flatten();
        let allowed: Vec<_> = self.everywhere.iter().chain(of_its_own).collect();
        expression.evaluate(|wanted| allowed.iter().any(|licence| licence.satisfies(wanted)))
    }
}

/// Returns `name` and `license` of all crates in the program built on this machine, its tests and
/// its build.
fn licences() -> Vec<(String, String)> {
    // Do not use `cargo metadata`, because it also lists dependencies of other targets and
    // features.
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--workspace", "--offline", "--prefix", "none"])
        .args(["--edges", "normal,build,dev", "--format", "{p}|{l}"])
        .current_dir(super::root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let pairs = lines.lines().filter_map(|line| line.split_once('|'));
    pairs
        .map(|(package, licence)| {
            let name = package.split(' ').next().unwrap_or_default();
            // A `(*)` marks a crate that was already listed above.
            let licence = licence.trim_end_matches(" (*)");
            (name.to_owned(), licence.to_owned())
        })
        .collect()
}

#[test]
fn dependency_licences_allow_redistribution() {
    let allowed = Allowed::read();
    let licences = licences();
    assert!(licences.len() > 100, "{licences:?}");
    let refused = |(name, licence): &&(String, String)| !allowed.allows(name, licence);
    let refused: BTreeSet<_> = licences.iter().filter(refused).collect();
    assert!(refused.is_empty(), "not in deny.toml: {refused:#?}");
}

/// The program of a machine must build without what only a server needs.
#[test]
fn first_command_needs_no_server() {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--package",
            "punctual",
            "--offline",
            "--prefix",
            "none",
        ])
        .args(["--edges", "normal,build", "--format", "{p}"])
        .current_dir(super::root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let names = lines.lines().filter_map(|line| line.split(' ').next());
    let names: BTreeSet<&str> = names.collect();
    assert!(names.contains("ureq"), "{names:?}");
    for server in ["axum", "hyper", "tokio", "postgres", "object_store"] {
        assert!(!names.contains(server), "punctual depends on {server}");
    }
}

#[test]
fn dependencies_come_from_the_registry() {
    let lock = std::fs::read_to_string(super::root().join("Cargo.lock")).unwrap();
    let sources = lock
        .lines()
        .filter_map(|line| line.strip_prefix("source = "));
    let sources: BTreeSet<&str> = sources.collect();
    let registry = "\"registry+https://github.com/rust-lang/crates.io-index\"";
    assert_eq!(sources, BTreeSet::from([registry]));
}

#[test]
fn dependencies_name_a_version() {
    let metadata = super::metadata();
    let packages = metadata["packages"].as_array().unwrap().iter();
    for dependency in packages.flat_map(|one| one["dependencies"].as_array().unwrap()) {
        let any = dependency["req"] == "*" && dependency["path"].is_null();
        assert!(!any, "any version of {}", dependency["name"]);
    }
}

/// The versions of dependencies are in the workspace's Cargo.toml only, and those of the crates
/// repeat the version of the workspace.
#[test]
fn versions_are_those_of_the_workspace() {
    let root = super::root();
    let workspace = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let own = format!("version = \"{}\"", env!("CARGO_PKG_VERSION"));
    let crates = (workspace.lines()).filter(|line| line.contains("path = \"crates/"));
    for line in crates.filter(|line| line.contains("version")) {
        assert!(line.contains(&own), "{line}");
    }
    for name in super::crates() {
        let manifest = super::folder(&name).join("Cargo.toml");
        let text = std::fs::read_to_string(manifest).unwrap();
        let mut section = "";
        for line in text.lines() {
            if line.starts_with('[') {
                section = line;
                continue;
            }
            let is_dependency = section.ends_with("dependencies]");
            let names_version = line.contains(" = \"") || line.contains("version =");
            assert!(!is_dependency || !names_version, "{name}: {line}");
        }
    }
}

#[test]
fn what_is_not_allowed_is_refused() {
    let allowed = Allowed::read();
    assert!(allowed.allows("any", "MIT OR GPL-3.0-only"));
    assert!(allowed.allows("any", "MIT/Apache-2.0"));
    assert!(!allowed.allows("any", "MIT AND GPL-3.0-only"));
    assert!(!allowed.allows("any", "MPL-2.0"));
    assert!(allowed.allows("cbindgen", "MPL-2.0"));
}
