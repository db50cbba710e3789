//! The test programs and the binary, static.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::machines::{Machine, Suite};
use super::places::{program, repository};

const TRIPLE: &str = "x86_64-unknown-linux-musl";

/// What was built.
pub(crate) struct Programs {
    /// The `punctual` that the tests run.
    pub(crate) binary: PathBuf,
    /// Package, name of the test file (none: the library's own), program.
    tests: Vec<(String, Option<String>, PathBuf)>,
}

impl Programs {
    /// The test program of a suite.
    pub(crate) fn of(&self, suite: &Suite) -> Result<&PathBuf> {
        self.tests
            .iter()
            .find(|(package, name, _)| {
                package == suite.package && name.as_deref() == suite.target.name()
            })
            .map(|(_, _, path)| path)
            .with_context(|| format!("cargo built no {:?} of {}", suite.target, suite.package))
    }
}

/// Whether static programs can be built here.
pub(crate) fn target_is_there() -> Result<()> {
    // SQLite is C.
    program("musl-gcc", "musl-tools")?;
    let libraries = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TRIPLE])
        .output()
        .context("rustc")?;
    let folder = PathBuf::from(String::from_utf8_lossy(&libraries.stdout).trim());
    if !folder.is_dir() {
        bail!("no Rust for static programs: run `rustup target add {TRIPLE}`");
    }
    Ok(())
}

/// Builds what the machines run.
pub(crate) fn test_programs(machines: &[&Machine]) -> Result<Programs> {
    let suites: Vec<&Suite> = machines.iter().flat_map(|m| m.suites).collect();
    let packages: BTreeSet<&str> = suites.iter().map(|suite| suite.package).collect();
    let mut tests = Vec::new();
    let mut binary = None;
    // Package by package: a name of a test file means one package's only.
    for package in packages.into_iter().chain(["punctual"]) {
        let wanted: BTreeSet<_> = (suites.iter().filter(|s| s.package == package))
            .map(|suite| suite.target.name())
            .collect();
        let mut command = cargo(package);
        if package == "punctual" {
            command.args(["--bin", "punctual"]);
        }
        for target in &wanted {
            match target {
                Some(name) => command.args(["--test", name]),
                None => command.arg("--lib"),
            };
        }
        if binary.is_some() && package == "punctual" {
            break;
        }
        for program in built(&mut command)? {
            match program {
                Built::Binary(path) => binary = Some(path),
                Built::Test(name, path) => tests.push((package.to_owned(), name, path)),
            }
        }
    }
    Ok(Programs {
        binary: binary.context("cargo built no punctual")?,
        tests,
    })
}

fn cargo(package: &str) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command
        .args([
            "test",
            "--no-run",
            "--message-format=json-render-diagnostics",
            "--target",
        ])
        .args([TRIPLE, "--package", package])
        // What goes into memory there is made small.
        .env("CARGO_PROFILE_DEV_DEBUG", "none")
        .env("CARGO_PROFILE_DEV_STRIP", "symbols")
        .current_dir(repository())
        .stdout(Stdio::piped());
    command
}

enum Built {
    Binary(PathBuf),
    Test(Option<String>, PathBuf),
}

/// What cargo says it has built.
fn built(command: &mut Command) -> Result<Vec<Built>> {
    let mut child = command.spawn().context("cargo")?;
    let stdout = child.stdout.take().context("cargo's output")?;
    let mut programs = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let message: Value = serde_json::from_str(&line?).unwrap_or_default();
        programs.extend(program_of(&message));
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(programs)
}

fn program_of(message: &Value) -> Option<Built> {
    let path = PathBuf::from(message.get("executable")?.as_str()?);
    let target = message.get("target")?;
    let kind = target.get("kind")?.get(0)?.as_str()?;
    let name = target.get("name")?.as_str()?.to_owned();
    let is_test = message.get("profile")?.get("test")?.as_bool()?;
    match (kind, is_test) {
        ("bin", false) => Some(Built::Binary(path)),
        ("test", true) => Some(Built::Test(Some(name), path)),
        ("lib", true) => Some(Built::Test(None, path)),
        _ => None,
    }
}
