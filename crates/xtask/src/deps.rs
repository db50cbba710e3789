//! `cargo xtask deps`: what the dependencies are allowed to be, checked for real, and the
//! oldest Rust that the workspace names.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::places::{program, repository};

#[derive(Args)]
pub(crate) struct Options {
    /// Also check with the oldest Rust that Cargo.toml names
    #[arg(long)]
    oldest_rust: bool,
}

/// Runs cargo deny, cargo audit where they are installed, and the check.
///
/// # Errors
/// Programs that cannot be started.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let mut good = true;
    match program("cargo-deny", "cargo-deny (cargo install)") {
        Ok(path) => {
            // Licences, bans and sources need no network; advisories are said apart.
            good &= succeeds(Command::new(&path).args(["check", "licenses", "bans", "sources"]))?;
            good &= advisories(&path)?;
        }
        Err(error) => println!("SKIP cargo deny: {error}"),
    }
    match program("cargo-audit", "cargo-audit (cargo install)") {
        Ok(path) => good &= succeeds(Command::new(path).arg("audit"))?,
        Err(error) => println!("SKIP cargo audit: {error}"),
    }
    if options.oldest_rust {
        good &= oldest()?;
    }
    Ok(good)
}

/// Known vulnerabilities, by the newest database that is to be had.
fn advisories(deny: &Path) -> Result<bool> {
    let output = Command::new(deny)
        .args(["check", "advisories"])
        .current_dir(repository())
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || !text.contains("failed to fetch") {
        print!("{text}");
        return Ok(output.status.success());
    }
    println!("advisories: the database was not fetched; checking with the copy kept here, if any");
    succeeds(Command::new(deny).args(["--offline", "check", "advisories"]))
}

/// Checks all crates with the Rust of `rust-version`, in a target folder of its own.
fn oldest() -> Result<bool> {
    let version = env!("CARGO_PKG_RUST_VERSION");
    let toolchains = Command::new("rustup").args(["toolchain", "list"]).output();
    let listed = toolchains.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if !listed.is_ok_and(|list| list.contains(version)) {
        bail!("Rust {version} is not installed: rustup toolchain install {version}");
    }
    let target = repository().join("target/oldest-rust");
    succeeds(
        Command::new("rustup")
            .args(["run", version, "cargo", "check", "--workspace", "--locked"])
            .arg("--target-dir")
            .arg(target),
    )
}

fn succeeds(command: &mut Command) -> Result<bool> {
    Ok(command.current_dir(repository()).status()?.success())
}
