//! Where things are on this machine.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The folder of the whole project.
pub(crate) fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Cargo's folder of what is built.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

/// Where all that is downloaded and made for the emulated machines stays.
pub(crate) fn folder() -> PathBuf {
    target().join("vm")
}

/// The program of this name on the path.
pub(crate) fn program(name: &str, package: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .with_context(|| format!("{name} is not there: install the package {package}"))
}
