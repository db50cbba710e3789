//! The kernel module of the tests, built with Debian's headers of that kernel. They are downloaded
//! and unpacked, but not installed.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::Parts;
use super::kernel::{download, said};
use crate::paths::{folder, program, repository};

/// The module's name.
const NAME: &str = "punctual_delay";

/// Suffix of the kernel's packages.
const FLAVOUR: &str = "-rt-amd64";

/// Builds the module for the kernel of a machine and returns its path.
///
/// # Errors
/// Fails if the headers of this kernel, or a compiler, are not available.
pub(super) fn build(parts: &Parts) -> Result<PathBuf> {
    let name = parts.kernel.file_name().and_then(|name| name.to_str());
    let version = name.and_then(|name| name.strip_prefix("vmlinuz-"));
    let version = version.context("the kernel's file name has no version")?;
    let common = version
        .strip_suffix(FLAVOUR)
        .with_context(|| format!("{version} is not one of Debian's kernels"))?;
    let make = program("make", "make")?;
    let headers = headers(parts, version, common)?;
    let place = folder().join("delays");
    std::fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
    let source = repository().join(format!("xtask/module/{NAME}.c"));
    std::fs::copy(&source, place.join(format!("{NAME}.c")))
        .with_context(|| source.display().to_string())?;
    std::fs::write(place.join("Kbuild"), format!("obj-m := {NAME}.o\n"))?;
    let place = place.canonicalize()?;
    said(
        Command::new(make)
            .arg("-s")
            .arg("-C")
            .arg(headers.join(format!("usr/src/linux-headers-{version}")))
            .arg(format!("M={}", place.display()))
            // The module is built without BTF, which would need a program from another Debian
            // package.
            .args(["CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"]),
    )?;
    Ok(place.join(format!("{NAME}.ko")))
}

/// Returns the folder with the unpacked headers of a kernel.
fn headers(parts: &Parts, version: &str, common: &str) -> Result<PathBuf> {
    let place = folder().join("headers");
    let done = place.join(format!("{version}.complete"));
    if !done.exists() {
        for package in [
            format!("linux-headers-{version}"),
            format!("linux-headers-{common}-common-rt"),
            format!("linux-kbuild-{common}"),
        ] {
            download(parts.arch, &package, &place)?;
        }
        // The Makefile refers to the other package by its installed path.
        let sources = place.canonicalize()?.join("usr/src");
        let makefile = sources.join(format!("linux-headers-{version}/Makefile"));
        let text =
            std::fs::read_to_string(&makefile).with_context(|| makefile.display().to_string())?;
        let sources = sources.display().to_string();
        std::fs::write(&makefile, text.replace("/usr/src", &sources))?;
        std::fs::write(&done, "")?;
    }
    Ok(place.canonicalize()?)
}
