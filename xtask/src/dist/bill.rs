//! The parts of the program with their licences: a software bill of materials in CycloneDX 1.5
//! (cyclonedx.org/docs/1.5/json), based on cargo's metadata.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Build;

/// Returns the bill of a build.
pub(super) fn of_materials(build: &Build) -> Result<String> {
    let mut command = crate::paths::cargo();
    command
        .args(["metadata", "--locked", "--format-version=1"])
        .args(["--filter-platform", &build.target])
        // Without it, cargo reports the features of the whole workspace.
        .args(["--manifest-path", "crates/cli/punctual/Cargo.toml"]);
    if build.board {
        command.arg("--no-default-features");
    }
    let metadata =
        serde_json::from_str(&super::text_of(&mut command)?).context("cargo metadata")?;
    let bill =
        bill(&metadata, &build.version).context("cargo metadata names no package punctual")?;
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

fn bill(metadata: &Value, version: &str) -> Option<Value> {
    let packages = metadata["packages"].as_array()?;
    let by_id: BTreeMap<&str, &Value> = packages
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let of_program = |id: &&&str| by_id[**id]["name"] == "punctual";
    let root = *by_id.keys().find(of_program)?;
    let edges = edges(metadata);
    let mut reached = BTreeSet::new();
    let mut waiting = vec![root];
    while let Some(id) = waiting.pop() {
        if reached.insert(id) {
            waiting.extend(edges.get(id).into_iter().flatten());
        }
    }
    let reference = |id: &str| {
        let package = by_id.get(id)?;
        let (name, version) = (package["name"].as_str()?, package["version"].as_str()?);
        Some(format!("pkg:cargo/{name}@{version}"))
    };
    let component = |id: &&str| {
        let package = by_id.get(*id)?;
        let mut one = json!({
            "type": if *id == root { "application" } else { "library" },
            "bom-ref": reference(id)?,
            "name": package["name"],
            "version": package["version"],
            "purl": reference(id)?,
        });
        if let Some(licence) = package["license"].as_str() {
            // Older crates use a slash for OR.
            one["licenses"] = json!([{"expression": licence.replace('/', " OR ")}]);
        }
        Some(one)
    };
    let dependencies = reached.iter().filter_map(|id| {
        let needs = edges.get(*id).into_iter().flatten();
        let mut needs: Vec<String> = needs.filter_map(|id| reference(id)).collect();
        needs.sort();
        needs.dedup();
        Some(json!({"ref": reference(id)?, "dependsOn": needs}))
    });
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application", "bom-ref": reference(root)?, "name": "punctual", "version": version,
        }},
        "components": reached.iter().filter(|id| **id != root).filter_map(component)
            .collect::<Vec<_>>(),
        "dependencies": dependencies.collect::<Vec<_>>(),
    }))
}

/// Returns the packages that each package needs for building or running, without those that only
/// its tests need.
fn edges(metadata: &Value) -> BTreeMap<&str, Vec<&str>> {
    let nodes = metadata["resolve"]["nodes"].as_array();
    let mut edges = BTreeMap::new();
    for node in nodes.into_iter().flatten() {
        let Some(id) = node["id"].as_str() else {
            continue;
        };
        let needed = |dependency: &&Value| {
            let kinds = dependency["dep_kinds"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"] != "dev"))
        };
        let all = node["deps"].as_array().into_iter().flatten();
        let needs = all.filter(needed).filter_map(|one| one["pkg"].as_str());
        edges.insert(id, needs.collect());
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_tests_need_is_no_part() {
        let package = |name: &str| json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0"});
        let dependency =
            |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [package("punctual"), package("a"), package("b"), package("t")],
            "resolve": {"nodes": [
                {"id": "punctual", "deps": [
                    dependency("a", Value::Null), dependency("t", json!("dev"))]},
                {"id": "a", "deps": [dependency("b", json!("build"))]},
                {"id": "b", "deps": []},
                {"id": "t", "deps": []},
            ]},
        });
        let bill = bill(&metadata, "1.0.0").unwrap();
        let names: Vec<&str> = (bill["components"].as_array().unwrap().iter())
            .filter_map(|one| one["name"].as_str())
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(
            bill["components"][0]["licenses"][0]["expression"],
            "MIT OR Apache-2.0"
        );
        assert_eq!(bill["dependencies"][0]["dependsOn"][0], "pkg:cargo/b@1.0.0");
    }
}
