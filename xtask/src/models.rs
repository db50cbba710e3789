//! `cargo xtask loom` and `cargo xtask miri`: tests under models of memory.

use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::paths::{self, repository};

#[derive(Args)]
pub(crate) struct MiriOptions {
    /// Crates, without `punctual-`
    #[arg(default_values_t = ["app", "model"].map(str::to_owned))]
    crates: Vec<String>,
    /// Parts of the names of the tests
    #[arg(last = true, value_name = "TEST")]
    tests: Vec<String>,
}

/// Tests each order of the accesses to memory that threads share without a lock.
pub(crate) fn loom() -> Result<bool> {
    let mut command = paths::cargo();
    command.args(["test", "--lib"]);
    for name in ["app", "probes", "rt", "trace"] {
        command.arg(format!("--package=punctual-{name}"));
    }
    command.arg("loom");
    // The flag changes every crate, so the build is separate.
    command
        .arg("--target-dir")
        .arg(paths::target().join("loom"));
    command.env("RUSTFLAGS", "--cfg loom");
    command.env_remove("RUSTC_WORKSPACE_WRAPPER");
    succeeds(&mut command)
}

/// Runs unit tests in Miri, which detects undefined behaviour. Miri needs a nightly toolchain, and
/// takes a thousand times longer than the processor, so property tests use two cases.
pub(crate) fn miri(options: &MiriOptions) -> Result<bool> {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "miri", "test", "--lib"]);
    for name in &options.crates {
        command.arg(format!("--package=punctual-{name}"));
    }
    command.arg("--").args(&options.tests);
    // Tests read files and clocks. Miri makes random rounding errors, which some exact tests exclude.
    let flags = "-Zmiri-disable-isolation -Zmiri-deterministic-floats";
    command.env("MIRIFLAGS", flags);
    command.env("PROPTEST_CASES", "2");
    for name in ["RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    succeeds(&mut command)
}

fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command.current_dir(repository()).status();
    Ok(status
        .with_context(|| format!("{}", command.get_program().display()))?
        .success())
}
