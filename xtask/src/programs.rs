//! The test programs of the workspace, as `cargo test` builds them.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::paths::{self, repository};

/// The result of a build.
pub(crate) struct Programs {
    /// The program `punctual` that the tests run.
    pub(crate) binary: PathBuf,
    /// All test programs, in cargo's order.
    pub(crate) tests: Vec<TestProgram>,
}

/// Queue of a test program. The queue determines which programs may run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// The program measures, traces or changes the machine. Such programs run one at a time.
    Machine,
    /// The program writes files. Several of them run at a time, after the programs that use the
    /// machine.
    Files,
    /// The program only computes. It runs at any time, with the CPU time that is left.
    Beside,
}

/// One test program.
pub(crate) struct TestProgram {
    /// The folder of its package, which is the working directory of its tests.
    pub(crate) folder: PathBuf,
    /// The name of its file in `tests`. `None` for the unit tests of the library or binary.
    pub(crate) file: Option<String>,
    /// The program.
    pub(crate) path: PathBuf,
}

impl TestProgram {
    /// Returns `crate` or `crate/file`, for people.
    pub(crate) fn title(&self) -> String {
        let package = self.package();
        match &self.file {
            Some(file) => format!("{package}/{file}"),
            None => package.to_owned(),
        }
    }

    /// Returns the command that runs the program as cargo does, in the folder of its package.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder);
        if WAITS.contains(&self.title().as_str()) {
            let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
            command.env("RUST_TEST_THREADS", (2 * cpus).to_string());
        }
        command
    }

    /// Returns whether the program only computes or reads the sources.
    pub(crate) fn is_pure(&self) -> bool {
        PURE.contains(&self.package()) || PURE.contains(&self.title().as_str())
    }

    /// Returns the program's queue if the tests run as root.
    pub(crate) fn queue(&self) -> Queue {
        let (package, title) = (self.package(), self.title());
        if self.is_pure() || BESIDE.contains(&package) {
            Queue::Beside
        } else if SYNCS.contains(&package) || SYNCS.contains(&title.as_str()) {
            Queue::Files
        } else {
            Queue::Machine
        }
    }

    /// Returns the program's queue if the tests run without privileges. In this case, more programs
    /// cannot affect others, and may run at the same time.
    pub(crate) fn queue_without_rights(&self) -> Queue {
        match self.queue() {
            Queue::Machine if BESIDE_WITHOUT_RIGHTS.contains(&self.package()) => Queue::Beside,
            Queue::Files => Queue::Beside,
            queue => queue,
        }
    }

    /// Returns whether the program's results are independent of privileges.
    pub(crate) fn needs_no_rights(&self) -> bool {
        self.is_pure() || OF_ITS_OWN.contains(&self.title().as_str())
    }

    /// Returns the name of the folder of the program's crate.
    pub(crate) fn package(&self) -> &str {
        self.folder
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default()
    }
}

/// Crates and test files that only compute or read the sources. Neither privileges nor other
/// activity affect their results.
const PURE: &[&str] = &[
    "checks",
    "culprit",
    "formats",
    "model",
    "report",
    "stats",
    "testing",
    "xtask",
    "punctual/sources",
];

/// Test programs whose tests wait for commands that measure for a fixed time. They use a quarter of
/// the CPU time, so twice as many of them run at a time.
const WAITS: &[&str] = &["punctual/it"];

/// Test programs that only test data they create themselves. A name without a file means a crate's
/// unit tests.
const OF_ITS_OWN: &[&str] = &[
    "experiment",
    "experiment/boots",
    "lake",
    "lint",
    "punctual/faults",
    "trace",
];

/// Crates whose tests use only their own files and simulated trees. Privileges affect their
/// results, but load on the machine does not.
const BESIDE: &[&str] = &["experiment", "files", "monitor"];

/// Crates and test files that measure nothing, but whose syncs would delay tests that do measure
/// something.
const SYNCS: &[&str] = &["lake", "postgres", "punctual/faults", "serve", "store"];

/// Crates whose tests trace or change the machine if they run as root. Without privileges they use
/// simulated trees.
const BESIDE_WITHOUT_RIGHTS: &[&str] = &["trace", "tune"];

/// Builds the test programs of all packages, with the features and profile of the usual test
/// command, so that nothing that this command has already built is rebuilt.
///
/// # Errors
/// Fails if the build fails, with cargo's status.
pub(crate) fn build() -> Result<Programs> {
    built(paths::cargo().args(["test", "--workspace"]))
}

/// Builds `punctual` and some test programs for another processor. `tests` contains the test files
/// by package, with `None` for the library's unit tests.
///
/// # Errors
/// Fails like [`build`].
pub(crate) fn build_for(target: &str, tests: &BTreeSet<(&str, Option<&str>)>) -> Result<Programs> {
    let mut command = paths::cargo();
    command.args(["test", "--target", target, "--package", "punctual"]);
    // cargo builds the binary for any of its integration tests, but not for its unit tests, so one
    // integration test is named.
    command.args(["--test", "poor_kernel"]);
    for (package, file) in tests {
        command.args(["--package", package]);
        match file {
            Some(file) => command.args(["--test", file]),
            None => command.arg("--lib"),
        };
    }
    built(command.envs(crate::cross::compilers_for(target)))
}

/// Returns the programs that a cargo command builds.
fn built(command: &mut Command) -> Result<Programs> {
    command
        .args(["--no-run", "--quiet"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(repository())
        .stdout(Stdio::piped());
    let mut child = command.spawn().context("cargo")?;
    let stdout = child.stdout.take().context("the output of cargo")?;
    let (mut binary, mut tests) = (None, Vec::new());
    for line in BufReader::new(stdout).lines() {
        // Lines that are not JSON are diagnostics.
        let message: Value = serde_json::from_str(&line?).unwrap_or_default();
        match program_of(&message) {
            Some(Built::Binary(path)) => binary = Some(path),
            Some(Built::Test(test)) => tests.push(test),
            None => {}
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(Programs {
        binary: binary.context("cargo built no punctual")?,
        tests,
    })
}

enum Built {
    Binary(PathBuf),
    Test(TestProgram),
}

fn program_of(message: &Value) -> Option<Built> {
    let path = PathBuf::from(message.get("executable")?.as_str()?);
    let manifest = Path::new(message.get("manifest_path")?.as_str()?);
    let target = message.get("target")?;
    let kind = target.get("kind")?.get(0)?.as_str()?;
    let name = target.get("name")?.as_str()?;
    if !message.get("profile")?.get("test")?.as_bool()? {
        return (kind == "bin" && name == "punctual").then_some(Built::Binary(path));
    }
    Some(Built::Test(TestProgram {
        folder: manifest.parent()?.to_owned(),
        file: (kind == "test").then(|| name.to_owned()),
        path,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(kind: &str, test: bool) -> Value {
        json!({
            "executable": "/t/debug/deps/privilege-1",
            "manifest_path": "/r/crates/kit/rt/Cargo.toml",
            "target": {"kind": [kind], "name": "privilege"},
            "profile": {"test": test},
        })
    }

    #[test]
    fn test_program_knows_crate_and_file() {
        let Some(Built::Test(test)) = program_of(&message("test", true)) else {
            panic!("no test program")
        };
        assert_eq!(test.title(), "rt/privilege");
        let Some(Built::Test(test)) = program_of(&message("lib", true)) else {
            panic!("no test program")
        };
        assert_eq!((test.title().as_str(), test.file), ("rt", None));
        assert!(program_of(&message("bin", false)).is_none());
        assert!(program_of(&json!({"reason": "build-finished"})).is_none());
    }
}
