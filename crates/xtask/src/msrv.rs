//! `cargo xtask msrv`: whether the oldest Rust that Cargo.toml names builds the workspace.

use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::places::{self, repository};

#[derive(Args)]
pub(crate) struct Options {
    /// Rust to check with [default: rust-version of Cargo.toml]
    #[arg(long, value_name = "VERSION")]
    rust: Option<String>,
}

/// Checks all crates, in a target folder of its own.
///
/// # Errors
/// A Rust that is not installed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let version = options.rust.as_deref();
    let version = version.unwrap_or(env!("CARGO_PKG_RUST_VERSION"));
    let listed = Command::new("rustup")
        .args(["toolchain", "list"])
        .output()
        .context("rustup")?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    if !listed.lines().any(|line| is_toolchain(line, version)) {
        bail!("Rust {version} is not installed: rustup toolchain install {version}");
    }
    let status = Command::new("rustup")
        .args(["run", version, "cargo", "check", "--workspace", "--locked"])
        .arg("--target-dir")
        .arg(places::target().join("oldest-rust"))
        // What this task was built with is not what is asked for.
        .env_remove("RUSTUP_TOOLCHAIN")
        .current_dir(repository())
        .status()?;
    println!(
        "Rust {version} {} the workspace",
        if status.success() {
            "builds"
        } else {
            "does not build"
        }
    );
    Ok(status.success())
}

/// Whether a line of `rustup toolchain list` is of this version: `1.90-x86_64-…`.
fn is_toolchain(line: &str, version: &str) -> bool {
    let name = line.split_whitespace().next().unwrap_or_default();
    let rest = name.strip_prefix(version);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-') || rest.starts_with(".0-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolchain_is_found_by_its_whole_version() {
        assert!(is_toolchain("1.90-x86_64-unknown-linux-gnu", "1.90"));
        assert!(is_toolchain(
            "1.90.0-x86_64-unknown-linux-gnu (active)",
            "1.90"
        ));
        assert!(!is_toolchain("1.90.1-x86_64-unknown-linux-gnu", "1.9"));
        assert!(!is_toolchain("1.95.0-x86_64-unknown-linux-gnu", "1.90"));
    }
}
