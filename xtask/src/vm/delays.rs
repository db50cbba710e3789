//! The tests' own module of the kernel, built against Debian's headers of that kernel:
//! downloaded and unpacked, not installed.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::Parts;
use super::kernel::{download, said};
use crate::places::{folder, program, repository};

/// The module's name.
const NAME: &str = "punctual_delay";

/// What the names of the kernel's packages end in.
const FLAVOUR: &str = "-rt-amd64";

/// Builds the module for the kernel of a machine; its path.
///
/// # Errors
/// Where the headers of this kernel are not to be had, or a compiler.
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
            // The types of a module need a program that Debian has in another package.
            .args(["CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"]),
    )?;
    Ok(place.join(format!("{NAME}.ko")))
}

/// The folder in which the headers of a kernel are unpacked.
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
        // It names the other package by where it would be installed.
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
