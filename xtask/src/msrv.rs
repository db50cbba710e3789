//! `cargo xtask msrv`: checks that the oldest Rust named in Cargo.toml builds the workspace.

use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::paths::{self, repository};

#[derive(Args)]
pub(crate) struct Options {
    /// Rust to check with [default: rust-version of Cargo.toml]
    #[arg(long, value_name = "VERSION")]
    rust: Option<String>,
}

/// Checks all crates, in a separate target folder.
///
/// # Errors
/// Fails if that Rust is not installed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let version = options.rust.as_deref();
    let version = version.unwrap_or(env!("CARGO_PKG_RUST_VERSION"));
    let listed = Command::new("rustup")
        .args(["toolchain", "list"])
        .output()
        .context("rustup")?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    // rustup runs a toolchain only by the name with which it was installed: 1.90.0 does not run as
    // 1.90.
    let Some(toolchain) = listed.lines().find_map(|line| toolchain(line, version)) else {
        bail!("Rust {version} is not installed: rustup toolchain install {version}");
    };
    let status = Command::new("rustup")
        .args(["run", toolchain, "cargo"])
        .args(["check", "--workspace", "--locked"])
        .arg("--target-dir")
        .arg(paths::target().join("oldest-rust"))
        // cargo sets this variable to the toolchain of this task, which is not the requested one.
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

/// Returns the name in a line of `rustup toolchain list`, `1.90-x86_64-…`, if it has this version.
fn toolchain<'a>(line: &'a str, version: &str) -> Option<&'a str> {
    let name = line.split_whitespace().next()?;
    let rest = name.strip_prefix(version)?;
    let same = rest.is_empty() || rest.starts_with('-') || rest.starts_with(".0-");
    same.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolchain_is_found_by_full_version() {
        let of = |name| (name, Some(name));
        let cases = [
            of("1.90-x86_64-unknown-linux-gnu"),
            of("1.90.0-x86_64-unknown-linux-gnu"),
            ("1.90.1-x86_64-unknown-linux-gnu", None),
            ("1.95.0-x86_64-unknown-linux-gnu", None),
        ];
        for (name, found) in cases {
            let line = format!("{name} (active)");
            assert_eq!(toolchain(&line, "1.90"), found, "{name}");
        }
        assert_eq!(toolchain("1.90.1-x86_64-unknown-linux-gnu", "1.9"), None);
    }
}
