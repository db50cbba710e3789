//! `cargo xtask dist-sources`: packs the sources with all required crates, for systems that build
//! without a network (Yocto, Buildroot, distributions).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

use super::{copy_sources, epoch, gzip, sums, tar, text_of};
use crate::cross::TARGETS;
use crate::paths;

#[derive(Args)]
pub(crate) struct Options {
    /// Also build the program from the archive, without a network
    #[arg(long)]
    build: bool,
}

/// Targets for this machine's own processor, which are supported in addition to those of `cross`.
const NATIVE: [&str; 2] = ["x86_64-unknown-linux-gnu", "x86_64-unknown-linux-musl"];

/// Packs the sources, and checks that cargo needs nothing else.
///
/// # Errors
/// Fails if a step fails, with its command.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let version = env!("CARGO_PKG_VERSION");
    let folder = paths::target().join("packages/sources");
    let name = format!("punctual-{version}");
    let sources = folder.join(&name);
    copy_sources(&sources)?;
    let mut vendor = paths::cargo();
    vendor.args(["vendor", "--locked", "--versioned-dirs", "vendor"]);
    let output = vendor.current_dir(&sources).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo vendor: {}", said.trim());
    fs::write(sources.join(".cargo/vendor.toml"), output.stdout)?;
    let emptied = empty_others(&sources.join("vendor"))?;
    println!("{emptied} crates of other systems are emptied");
    let path = folder.join(format!("{name}-vendored.tar"));
    tar(&epoch()?, &path, &folder, &[&name])?;
    gzip(&path)?;
    fs::remove_dir_all(&sources)?;
    sums(&folder)?;
    let packed = path.with_extension("tar.gz");
    let size = packed.metadata()?.len() as f64 / 1e6;
    println!("{}: {size:.1} MB", fs::canonicalize(&packed)?.display());
    try_it(&folder, &packed, &name, options.build)
}

/// Unpacks the archive, then runs cargo without access to a registry: either only for the build
/// plan, or to build the program.
fn try_it(folder: &Path, packed: &Path, name: &str, build: bool) -> Result<bool> {
    let place = folder.join("unpacked");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(place.join("cargo-home"))?;
    let mut unpack = Command::new("tar");
    unpack.arg("-xzf").arg(packed).arg("-C").arg(&place);
    ensure!(unpack.status()?.success(), "{unpack:?} failed");
    let words: &[&str] = if build {
        &["build", "--package", "punctual"]
    } else {
        &["tree", "--package", "punctual", "--quiet"]
    };
    let mut cargo = paths::cargo();
    cargo
        .args(words)
        .args(["--offline", "--locked", "--config", ".cargo/vendor.toml"])
        .current_dir(place.join(name))
        .env("CARGO_HOME", place.join("cargo-home"))
        .env_remove("CARGO_TARGET_DIR");
    let good = if build {
        cargo.status()?.success()
    } else {
        let output = cargo.output()?;
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        output.status.success()
    };
    fs::remove_dir_all(&place)?;
    let done = if build { "builds" } else { "is complete" };
    println!(
        "without a network it {}{done}",
        if good { "" } else { "NOT " }
    );
    Ok(good)
}

/// Removes the sources of crates that no supported target needs, but keeps their manifests for
/// cargo. The crates for Windows alone account for most of the size. Returns the number of crates.
fn empty_others(vendor: &Path) -> Result<usize> {
    let needed = needed()?;
    let mut emptied = 0;
    for entry in fs::read_dir(vendor)? {
        let folder = entry?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        if needed.contains(name.as_ref()) {
            continue;
        }
        empty(&folder).with_context(|| folder.display().to_string())?;
        emptied += 1;
    }
    Ok(emptied)
}

/// Returns the crates that a supported target needs, including tests, as `name-version`.
fn needed() -> Result<BTreeSet<String>> {
    let mut needed = BTreeSet::new();
    let others = TARGETS.iter().map(|target| target.triple);
    for target in NATIVE.into_iter().chain(others) {
        let mut command = paths::cargo();
        command
            .args(["metadata", "--locked", "--all-features"])
            .args(["--format-version=1", "--filter-platform", target]);
        let metadata: Value = serde_json::from_str(&text_of(&mut command)?)?;
        let packages = metadata["packages"].as_array();
        let packages = packages.context("cargo metadata names no packages")?;
        needed.extend(packages.iter().filter_map(|package| {
            let (name, version) = (package["name"].as_str()?, package["version"].as_str()?);
            Some(format!("{name}-{version}"))
        }));
    }
    Ok(needed)
}

/// Replaces a crate by its manifest and an empty library.
fn empty(folder: &Path) -> Result<()> {
    let manifest = fs::read(folder.join("Cargo.toml"))?;
    let sums = fs::read_to_string(folder.join(".cargo-checksum.json"))?;
    let sums: Value = serde_json::from_str(&sums)?;
    fs::remove_dir_all(folder)?;
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(folder.join("src/lib.rs"), "")?;
    // The checksum of the package is kept, because it must match Cargo.lock. The list of file
    // checksums is empty, because the files were replaced.
    let kept = serde_json::json!({"files": {}, "package": sums["package"]});
    let path: PathBuf = folder.join(".cargo-checksum.json");
    Ok(fs::write(path, kept.to_string())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emptied_crate_keeps_manifest_and_checksum() {
        let folder = std::env::temp_dir().join(format!("punctual-empty-{}", std::process::id()));
        fs::create_dir_all(folder.join("src/deep")).unwrap();
        let manifest = "[package]\nname = \"w\"\nversion = \"1.0.0\"\n";
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        fs::write(folder.join("src/deep/large.rs"), "fn large() {}").unwrap();
        let sums = r#"{"files":{"src/deep/large.rs":"00"},"package":"ab"}"#;
        fs::write(folder.join(".cargo-checksum.json"), sums).unwrap();
        empty(&folder).unwrap();
        let left = fs::read_to_string(folder.join(".cargo-checksum.json")).unwrap();
        assert_eq!(left, r#"{"files":{},"package":"ab"}"#);
        let kept = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        assert_eq!(kept, manifest);
        assert!(!folder.join("src/deep").exists() && folder.join("src/lib.rs").exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
