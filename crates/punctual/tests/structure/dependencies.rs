//! Crates that this machine's program is built from are as `deny.toml` allows: their
//! licences, and where they come from. `cargo xtask deps` also checks other targets and
//! advisories.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;
use spdx::{Expression, Licensee, ParseMode};

/// What `deny.toml` says of licences.
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

    /// Whether a crate may be used under what it says in its `license`.
    fn allows(&self, name: &str, licence: &str) -> bool {
        // Some crates still write `MIT/Apache-2.0`.
        let expression = Expression::parse_mode(licence, ParseMode::LAX).unwrap();
        let of_its_own = self.by_crate.get(name).into_iter().flatten();
        let allowed: Vec<_> = self.everywhere.iter().chain(of_its_own).collect();
        expression.evaluate(|wanted| allowed.iter().any(|licence| licence.satisfies(wanted)))
    }
}

/// All crates of this machine's program, its tests and its build.
fn packages() -> Vec<Value> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--format-version", "1"])
        .args(["--filter-platform", &target])
        .current_dir(super::root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    match metadata["packages"].take() {
        Value::Array(packages) => packages,
        other => panic!("no list: {other}"),
    }
}

#[test]
fn dependencies_have_licences_that_may_be_given_on() {
    let allowed = Allowed::read();
    let mut refused = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or_default();
        if !allowed.allows(name, licence) {
            refused.push(format!("{name}: '{licence}'"));
        }
    }
    assert!(refused.is_empty(), "not in deny.toml: {refused:#?}");
}

#[test]
fn dependencies_come_from_the_registry_and_name_a_version() {
    for package in packages() {
        let name = &package["name"];
        let source = package["source"].as_str();
        let is_ours = source.is_none();
        let registry = "registry+https://github.com/rust-lang/crates.io-index";
        assert!(is_ours || source == Some(registry), "{name}: {source:?}");
        if !is_ours {
            continue;
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            let any = dependency["req"] == "*" && dependency["path"].is_null();
            assert!(!any, "{name} takes any version of {}", dependency["name"]);
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
