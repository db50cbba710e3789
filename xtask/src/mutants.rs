//! `cargo xtask mutants`: tests the tests with a sample of small faults in the code.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::paths::{self, program, repository};

/// Version that is installed if cargo-mutants is missing.
const VERSION: &str = "27.1.0";

#[derive(Args)]
pub(crate) struct Options {
    /// Number of mutants
    #[arg(long, default_value_t = 300, value_name = "N")]
    sample: usize,
    /// Number that selects the sample
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Smallest accepted percentage of killed mutants
    #[arg(long, default_value_t = 92.0, value_name = "PERCENT")]
    at_least: f64,
    /// Crates, without `punctual-`
    #[arg(default_values_t = ["culprit", "model", "stats", "checks", "tune"].map(str::to_owned))]
    crates: Vec<String>,
}

/// Numbers of mutants by their end.
#[derive(Debug, Default, PartialEq)]
struct Ends {
    killed: usize,
    /// Mutants that no test detected.
    survivors: Vec<String>,
    /// Mutants that do not compile.
    unviable: usize,
}

/// Runs the tests of each mutant's crate, in a copy of the source tree. Returns whether enough
/// mutants were killed.
///
/// # Errors
/// Fails if cargo-mutants cannot be installed or run, or if the tests fail without a mutant.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let program = installed()?;
    let listed = cargo_mutants(&program, options).arg("--list").output()?;
    let told = String::from_utf8_lossy(&listed.stderr);
    ensure!(listed.status.success(), "{told}");
    let listed = String::from_utf8(listed.stdout)?;
    let all = listed.lines().filter(|line| !line.is_empty()).count();
    ensure!(all > 0, "no mutants: {told}");
    let folder = paths::target().join("mutants");
    fs::create_dir_all(&folder)?;
    let mut command = cargo_mutants(&program, options);
    command.args(["--sharding=round-robin", "--shard"]);
    command.arg(shard(all, options.sample, options.seed));
    command.arg("--output").arg(&folder);
    // Other threads of the machine must not turn a slow test into a kill.
    command.args(["--minimum-test-timeout", "300"]);
    // Exit codes: 2 survivors, 3 timeouts, which are kills.
    let status = command.status()?;
    if ![Some(0), Some(2), Some(3)].contains(&status.code()) {
        bail!("cargo mutants: {status}");
    }
    let ends = Ends::read(&fs::read(folder.join("mutants.out/outcomes.json"))?)?;
    Ok(ends.show(options, all))
}

impl Ends {
    fn read(outcomes: &[u8]) -> Result<Self> {
        let read: serde_json::Value = serde_json::from_slice(outcomes)?;
        let mut ends = Self::default();
        for outcome in read["outcomes"].as_array().context("no outcomes")? {
            let Some(name) = outcome["scenario"]["Mutant"]["name"].as_str() else {
                continue;
            };
            match outcome["summary"].as_str() {
                Some("CaughtMutant" | "Timeout") => ends.killed += 1,
                Some("MissedMutant") => ends.survivors.push(name.to_owned()),
                Some("Unviable") => ends.unviable += 1,
                other => bail!("{name}: unknown outcome {other:?}"),
            }
        }
        Ok(ends)
    }

    /// Prints the result and returns whether enough mutants were killed.
    #[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
    fn show(&self, options: &Options, all: usize) -> bool {
        let viable = self.killed + self.survivors.len();
        let percent = 100.0 * self.killed as f64 / viable.max(1) as f64;
        println!(
            "seed {}: {} of {viable} viable mutants killed ({percent:.1}%), {} do not compile; \
             sample of {all} mutants in {}",
            options.seed,
            self.killed,
            self.unviable,
            options.crates.join(", "),
        );
        for survivor in &self.survivors {
            println!("survived: {survivor}");
        }
        percent >= options.at_least
    }
}

/// Returns the path of cargo-mutants, and installs it if it is missing.
fn installed() -> Result<PathBuf> {
    program("cargo-mutants", "cargo-mutants (cargo install)").or_else(|_| {
        let root = paths::target().join("tools");
        let path = root.join("bin/cargo-mutants");
        if !path.is_file() {
            let mut install = paths::cargo();
            install.args(["install", "--locked", "--version", VERSION, "--root"]);
            install.arg(&root).arg("cargo-mutants");
            ensure!(install.status()?.success(), "cargo-mutants: not installed");
        }
        Ok(path)
    })
}

fn cargo_mutants(program: &PathBuf, options: &Options) -> Command {
    let mut command = Command::new(program);
    command.arg("mutants").current_dir(repository());
    for name in &options.crates {
        command.arg(format!("--package=punctual-{name}"));
    }
    // A mutant with an unused variable must compile. Property tests use the same cases each time.
    command
        .arg("--cap-lints=true")
        .args(["--no-shuffle", "--colors=never"]);
    command.env("PROPTEST_RNG_SEED", "1");
    for name in ["RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER"] {
        command.env_remove(name);
    }
    // The next sample finds the dependencies built. No mutant is debugged.
    command.env("CARGO_TARGET_DIR", paths::target().join("mutants/build"));
    command.env("CARGO_PROFILE_DEV_DEBUG", "false");
    command
}

/// Returns the shard that contains about `sample` of `all` mutants: each n-th of them, where `seed`
/// selects the first.
fn shard(all: usize, sample: usize, seed: u64) -> String {
    let apart = (all / sample.max(1)).max(1);
    format!("{}/{apart}", seed % apart as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_is_each_nth_mutant() {
        assert_eq!(shard(15_253, 300, 7), "7/50");
        assert_eq!(shard(15_253, 300, 57), "7/50");
        assert_eq!(shard(10, 300, 7), "0/1");
        assert_eq!(shard(10, 0, 7), "7/10");
    }

    #[test]
    fn outcomes_are_counted() {
        let outcome = |name: &str, summary: &str| serde_json::json!({"scenario": {"Mutant": {"name": name}}, "summary": summary});
        let outcomes = serde_json::json!({"outcomes": [
            {"scenario": "Baseline", "summary": "Success"},
            outcome("a", "CaughtMutant"),
            outcome("b", "Timeout"),
            outcome("c", "MissedMutant"),
            outcome("d", "Unviable"),
        ]});
        let ends = Ends::read(outcomes.to_string().as_bytes()).unwrap();
        let expected = Ends {
            killed: 2,
            survivors: vec!["c".to_owned()],
            unviable: 1,
        };
        assert_eq!(ends, expected);
        let odd = serde_json::json!({"outcomes": [outcome("a", "Failure")]});
        assert!(Ends::read(odd.to_string().as_bytes()).is_err());
    }
}
