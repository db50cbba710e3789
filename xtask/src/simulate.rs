//! Counts the errors of the statistics on simulated machines, for the tables in docs/simulation.md.

use anyhow::{Context, Result};
use clap::{Args, value_parser};

use crate::paths::{self, repository};

/// Options of `cargo xtask simulate`.
#[derive(Args)]
pub(crate) struct Options {
    /// Number of simulated machines behind each figure.
    #[arg(default_value_t = 2_000, value_parser = value_parser!(u64).range(1..=1_000_000))]
    machines: u64,
    /// Print only one table, the simulated series of the trend as JSON, or the critical values of a
    /// step
    ///
    /// A trend has one series for seven machines.
    #[arg(long, value_name = "NAME")]
    #[arg(value_parser = ["compare", "trend", "wandering", "noise", "fleet", "rates", "weeks", "experiments", "series", "critical"])]
    only: Option<String>,
}

/// Builds and runs the simulation with optimisation. Returns whether it succeeded.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let mut command = paths::cargo();
    command
        .args([
            "run",
            "--quiet",
            "--profile",
            "bench",
            "--package",
            "punctual-stats",
        ])
        .args(["--example", "simulate", "--"])
        .arg(options.machines.to_string())
        .args(&options.only)
        .current_dir(repository());
    Ok(command.status().context("cargo run")?.success())
}
