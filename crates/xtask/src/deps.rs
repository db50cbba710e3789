//! `cargo xtask deps`: what the dependencies are allowed to be, checked for real, and the
//! oldest Rust that the workspace names.

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
            if !succeeds(Command::new(&path).args(["check", "advisories"]))? {
                println!("advisories: found something, or the database could not be fetched");
                good = false;
            }
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
