//! The files to pack, in the layout of the installed system. The manifest of the program lists
//! them for each kind of package.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Build, succeed};
use crate::paths::{self, repository};

/// Documents in the top folder.
const DOCUMENTS: &[&str] = &[
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "LICENSE-APACHE",
    "LICENSE-MIT",
];

/// Returns the shells, with the folder and name of the completions of a program.
fn shells(name: &str) -> [(&'static str, String); 3] {
    let function = name.replace('-', "_");
    [
        (
            "bash",
            format!("usr/share/bash-completion/completions/{name}"),
        ),
        (
            "zsh",
            format!("usr/share/zsh/vendor-completions/_{function}"),
        ),
        (
            "fish",
            format!("usr/share/fish/vendor_completions.d/{name}.fish"),
        ),
    ]
}

/// Lays out the files from scratch.
pub(super) fn make(build: &Build) -> Result<PathBuf> {
    let name = build.package.name;
    let stage = build.products().join("stage").join(name);
    let _ = fs::remove_dir_all(&stage);
    let put = |from: &Path, to: &str, mode: u32| -> Result<()> {
        let to = stage.join(to);
        fs::create_dir_all(to.parent().unwrap_or(&stage))?;
        fs::copy(from, &to).with_context(|| from.display().to_string())?;
        fs::set_permissions(&to, fs::Permissions::from_mode(mode))?;
        Ok(())
    };
    put(&build.program, &format!("usr/bin/{name}"), 0o755)?;
    for document in DOCUMENTS {
        let to = format!("usr/share/doc/{name}/{document}");
        put(&build.sources.join(document), &to, 0o644)?;
    }
    let generator = generator(build)?;
    if name == "punctual" {
        units(&generator, &stage)?;
    }
    pages(&generator, name, &stage)?;
    Ok(stage)
}

/// Generates the manual pages and completions.
fn pages(generator: &Path, name: &str, stage: &Path) -> Result<()> {
    let pages = stage.join("usr/share/man/man1");
    fs::create_dir_all(&pages)?;
    succeed(Command::new(generator).arg("man").arg(&pages))?;
    for (shell, path) in shells(name) {
        let text = super::text_of(Command::new(generator).args(["completions", shell]))?;
        let to = stage.join(path);
        fs::create_dir_all(to.parent().unwrap_or(stage))?;
        fs::write(to, text + "\n")?;
    }
    for page in fs::read_dir(&pages)?.flatten() {
        succeed(Command::new("gzip").arg("-9n").arg(page.path()))?;
    }
    Ok(())
}

/// Generates the units of `tune enable` for this package. They are not enabled.
fn units(generator: &Path, stage: &Path) -> Result<()> {
    let system = stage.with_file_name("units");
    let _ = fs::remove_dir_all(&system);
    fs::create_dir_all(system.join("usr/lib/systemd"))?;
    succeed(
        Command::new(generator)
            .args([
                "tune",
                "enable",
                "control",
                "--program",
                "/usr/bin/punctual",
                "--root",
            ])
            .arg(&system),
    )?;
    let from = system.join("etc/systemd/system");
    let to = stage.join("usr/share/doc/punctual/units");
    fs::create_dir_all(&to)?;
    for unit in fs::read_dir(&from)?.flatten() {
        if unit.path().is_file() {
            fs::copy(unit.path(), to.join(unit.file_name()))?;
        }
    }
    Ok(())
}

/// Returns a program that runs here and can generate the pages: the packed program itself, or a
/// build for this processor.
fn generator(build: &Build) -> Result<PathBuf> {
    if build.target.starts_with(std::env::consts::ARCH) {
        return Ok(build.program.clone());
    }
    let status = paths::cargo()
        .current_dir(repository())
        .args(["build", "-p", build.package.name])
        .status()?;
    if !status.success() {
        bail!("cargo build: {status}");
    }
    Ok(crate::paths::target()
        .join("debug")
        .join(build.package.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_staged_folder_is_in_both_packages() {
        for package in super::super::PACKAGES {
            let name = package.name;
            let manifest = repository().join(package.folder).join("Cargo.toml");
            let manifest = fs::read_to_string(manifest).unwrap();
            let (_, manifest) = manifest.split_once("[package.metadata.deb]").unwrap();
            let (deb, rest) = manifest
                .split_once("[package.metadata.generate-rpm]")
                .unwrap();
            let (rpm, _) = rest.split_once("\n[").unwrap();
            let mut paths = vec![
                format!("usr/bin/{name}"),
                format!("usr/share/doc/{name}/*"),
                "usr/share/man/man1/*".to_owned(),
            ];
            if name == "punctual" {
                paths.push(format!("usr/share/doc/{name}/units/*"));
            }
            paths.extend(shells(name).map(|(_, path)| path));
            for path in paths {
                let source = format!("\"target/release/stage/{name}/{path}\"");
                assert!(deb.contains(&source) && rpm.contains(&source), "{source}");
            }
        }
    }
}
