//! `cargo xtask regenerate`: writes all generated files again: schemas, pages, snapshots, seeds,
//! the header.
//!
//! Tests compare these files with what the code generates. With the variables of [`WRITE`], they
//! write the files instead.

use anyhow::Result;
use clap::Args;

use crate::paths::{cargo, repository};
use crate::schemas;

/// Variables that make tests write files instead of comparing them.
const WRITE: &[(&str, &str)] = &[
    ("INSTA_UPDATE", "always"),
    ("PUNCTUAL_UPDATE_HEADER", "1"),
    ("PUNCTUAL_UPDATE_PAGES", "1"),
    ("PUNCTUAL_UPDATE_SEEDS", "1"),
];

/// What is generated, and the tests that write it.
const TESTS: &[(&str, &[&str])] = &[
    ("the C header", &["-p", "punctual-capi", "--test", "header"]),
    (
        "the seeds of the fuzz targets",
        &[
            "-p",
            "punctual-store",
            "-p",
            "punctual-trace",
            "-p",
            "punctual-tracefile",
            "the_seed",
        ],
    ),
    (
        "the snapshots of causes, formats and reports",
        &[
            "-p",
            "punctual-culprit",
            "-p",
            "punctual-formats",
            "-p",
            "punctual-report",
        ],
    ),
    (
        "the snapshots of the command line",
        &[
            "-p", "punctual", "--test", "it", "--", "outputs", "doctor", "tuning",
        ],
    ),
    (
        "the pages",
        &["-p", "punctual", "--test", "sources", "generated"],
    ),
];

#[derive(Args)]
pub(crate) struct Options {}

/// Writes the schemas, and runs the tests that write files. Returns whether all of them passed.
pub(crate) fn run(_: &Options) -> Result<bool> {
    println!("generating the schemas");
    let mut passed = schemas::run(&schemas::Options::default())?;
    for (what, arguments) in TESTS {
        println!("generating {what}");
        let mut command = cargo();
        command.args(["test", "--quiet"]).args(*arguments);
        command
            .envs(WRITE.iter().copied())
            .current_dir(repository());
        passed &= command.status()?.success();
    }
    println!("read the changes before you commit them: git diff");
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Returns the variables in the sources below this folder that make a test write files.
    fn variables(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                variables(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let parts = text.split("var_os(\"").skip(1);
                let names = parts.filter_map(|rest| rest.split('"').next());
                let of_tests = names.filter(|name| name.starts_with("PUNCTUAL_UPDATE_"));
                found.extend(of_tests.map(str::to_owned));
            }
        }
    }

    #[test]
    fn each_variable_is_set() {
        let mut found = Vec::new();
        variables(&repository().join("crates"), &mut found);
        assert!(found.len() > 2, "{found:?}");
        for name in found {
            assert!(WRITE.iter().any(|(known, _)| *known == name), "{name}");
        }
    }
}
