//! Locations of files on this machine, and the cargo command.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// Returns the top folder of the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Returns the folder of a crate, by its name without `punctual-`.
pub(crate) fn crate_folder(name: &str) -> Result<PathBuf> {
    let crates = repository().canonicalize()?.join("crates");
    for group in std::fs::read_dir(&crates)? {
        let folder = group?.path().join(name);
        if folder.join("Cargo.toml").is_file() {
            return Ok(folder);
        }
    }
    anyhow::bail!("no crate {name} in {}", crates.display())
}

/// Returns cargo's target folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

/// Returns the folder for all downloads and files of the emulated machines.
pub(crate) fn folder() -> PathBuf {
    target().join("vm")
}

/// Returns a cargo command without the variables that cargo sets for the programs that it runs,
/// such as this one. Some build scripts, such as that of ring, depend on these variables. So if the
/// variables were kept, much would be rebuilt whenever builds alternate between this task and a
/// shell.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_a_package) {
            command.env_remove(name);
        }
    }
    command
}

fn is_of_a_package(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"]
        .iter()
        .any(|start| variable.starts_with(start))
}

/// Returns the program with this name on the path.
pub(crate) fn program(name: &str, package: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .with_context(|| format!("{name} is not there: install the package {package}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_inherits_no_package_variables() {
        let command = cargo();
        let given = |name: &str| {
            let mut set = command.get_envs();
            !set.any(|(of, value)| of == name && value.is_none())
        };
        for name in [
            "CARGO_MANIFEST_DIR",
            "CARGO_MANIFEST_PATH",
            "CARGO_PKG_NAME",
        ] {
            assert!(std::env::var_os(name).is_some(), "cargo did not set {name}");
            assert!(!given(name), "{name}");
        }
        assert!(given("PATH"));
    }
}
