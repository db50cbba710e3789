//! `cargo xtask probe`: the feature set for boards, built and tried: its unit tests, and
//! each kind of verb once.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::dist::PROBE_FEATURES;
use crate::places::{self, repository};

#[derive(Args)]
pub(crate) struct Options {
    /// Try this program instead of building one
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Verbs of a board, with the status that they may end with: 3 and 4 are verdicts about
/// the machine, and no failure of the program.
const VERBS: &[(&[&str], &[i32])] = &[
    (&["--version"], &[0]),
    (
        &["measure", "timer", "-D", "200ms", "-q", "--policy", "other"],
        &[0, 4],
    ),
    (&["list"], &[0]),
    (&["show"], &[0]),
    (&["export", "--format", "cyclictest-hist"], &[0]),
    (&["doctor"], &[0, 3]),
    (&["facts", "capture"], &[0]),
    (&["tune", "status"], &[0]),
    (&["tune", "settings"], &[0]),
    (&["topology"], &[0]),
    (&["probes"], &[0]),
];

/// Verbs of a workstation, which it does not have.
const LEFT_OUT: &[&str] = &[
    "serve",
    "import",
    "report",
    "plot",
    "experiment",
    "compare",
    "schema",
    "man",
    "completions",
];

/// Builds, runs its unit tests, tries it.
///
/// # Errors
/// A build that fails, or a verb that does not do what it is for.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => {
            let mut test = cargo(&["test", "-p", "punctual", "--bin", "punctual"]);
            ensure!(test.status()?.success(), "{test:?} failed");
            let mut build = cargo(&["build", "-p", "punctual"]);
            // Beside the whole program, which tests run under the same name.
            let folder = crate::places::target().join("probe");
            build.arg("--target-dir").arg(&folder);
            ensure!(build.status()?.success(), "{build:?} failed");
            folder.join("debug/punctual")
        }
    };
    try_all(&program)?;
    println!(
        "probe: {} verbs ran, {} are left out",
        VERBS.len(),
        LEFT_OUT.len()
    );
    Ok(true)
}

fn cargo(words: &[&str]) -> Command {
    let mut command = places::cargo();
    command
        .current_dir(repository())
        .args(words)
        .args(PROBE_FEATURES);
    command
}

/// Runs each verb on a store of its own.
fn try_all(program: &Path) -> Result<()> {
    let folder = crate::places::target().join("probe-store");
    try_verbs(program, &folder)?;
    for verb in LEFT_OUT {
        let output = call(program, &[verb], &folder)?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.code() == Some(2) && text.contains("was built without"),
            "punctual {verb}: {}: {}",
            output.status,
            text.trim()
        );
    }
    Ok(())
}

/// The folder of the store vanishes at the end, unless a verb fails.
fn try_verbs(program: &Path, folder: &Path) -> Result<()> {
    let _ = std::fs::remove_dir_all(folder);
    for (words, allowed) in VERBS {
        let output = call(program, words, folder)?;
        let code = output.status.code();
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(
            code.is_some_and(|code| allowed.contains(&code)),
            "punctual {}: {}: {}",
            words.join(" "),
            output.status,
            text.trim()
        );
    }
    let _ = std::fs::remove_dir_all(folder);
    Ok(())
}

fn call(program: &Path, words: &[&str], folder: &Path) -> Result<Output> {
    let mut command = Command::new(program);
    let store = folder.join("store.db");
    command.args(words).env("PUNCTUAL_STORE", store);
    command
        .output()
        .with_context(|| program.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With all features it has them, too; the gate has built it.
    #[test]
    fn the_verbs_of_a_board_do_what_they_are_for() {
        let folder = crate::places::target();
        let program = folder.join("debug/punctual");
        if !program.is_file() {
            println!("SKIP: {} is not built", program.display());
            return;
        }
        try_verbs(&program, &folder.join("probe-verbs")).unwrap();
    }
}
