//! The kernel modules of the tests, built with Debian's headers of that kernel. They are downloaded
//! and unpacked, but not installed.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::Parts;
use super::kernel::{download, said};
use crate::paths::{folder, program, repository};

/// The names of the modules, which are those of their sources in `xtask/module`.
const NAMES: [&str; 2] = ["punctual_delay", "punctual_gpio"];

/// Suffix of the kernel's packages.
const FLAVOUR: &str = "-rt-amd64";

/// Builds the modules for the kernel of a machine and returns their paths.
///
/// # Errors
/// Fails if the headers of this kernel, or a compiler, are not available.
pub(super) fn build(parts: &Parts) -> Result<Vec<PathBuf>> {
    let name = parts.kernel.file_name().and_then(|name| name.to_str());
    let version = name.and_then(|name| name.strip_prefix("vmlinuz-"));
    let version = version.context("the kernel's file name has no version")?;
    let common = version
        .strip_suffix(FLAVOUR)
        .with_context(|| format!("{version} is not one of Debian's kernels"))?;
    let make = program("make", "make")?;
    let headers = headers(parts, version, common)?;
    let place = folder().join("modules");
    std::fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
    let mut objects = String::from("obj-m :=");
    for name in NAMES {
        let source = repository().join(format!("xtask/module/{name}.c"));
        std::fs::copy(&source, place.join(format!("{name}.c")))
            .with_context(|| source.display().to_string())?;
        objects += &format!(" {name}.o");
    }
    std::fs::write(place.join("Kbuild"), objects + "\n")?;
    let place = place.canonicalize()?;
    said(
        Command::new(make)
            .arg("-s")
            .arg("-C")
            .arg(headers.join(format!("usr/src/linux-headers-{version}")))
            .arg(format!("M={}", place.display()))
            // The modules are built without BTF, which would need a program from another Debian
            // package.
            .args(["CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"]),
    )?;
    let paths = NAMES.iter().map(|name| place.join(format!("{name}.ko")));
    Ok(paths.collect())
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
