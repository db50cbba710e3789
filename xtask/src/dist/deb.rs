//! The package for Debian and its derivatives: the staged files and the scripts of
//! `packaging/debian`, packed by dpkg-deb.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Build;
use crate::paths::{program, repository};

/// Scripts for dpkg.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// The default maintainer. The address is in a domain that cannot exist (RFC 2606).
const NOBODY: (&str, &str) = ("The punctual authors", "no-address@punctual.invalid");

/// Writes the package.
pub(super) fn write(build: &Build, staged: &Path) -> Result<()> {
    let Ok(dpkg_deb) = program("dpkg-deb", "dpkg") else {
        println!("SKIP .deb: dpkg-deb is not installed");
        return Ok(());
    };
    let root = staged.with_file_name("deb");
    let _ = fs::remove_dir_all(&root);
    let control = root.join("DEBIAN");
    fs::create_dir_all(&control)?;
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(staged.join("usr")).arg(&root);
    ensure!(copy.status()?.success(), "{copy:?} failed");
    // The place of the licence in Debian's policy.
    let documents = root.join("usr/share/doc/punctual");
    fs::copy(repository().join("LICENSE"), documents.join("copyright"))?;
    for name in SCRIPTS {
        let to = control.join(name);
        fs::copy(repository().join("packaging/debian").join(name), &to)?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755))?;
    }
    let files = files(&root.join("usr"))?;
    fs::write(control.join("md5sums"), digests(&root, &files)?)?;
    let mut bytes = 0;
    for file in &files {
        bytes += file.metadata()?.len();
    }
    let version = format!("{}-1", build.version);
    let architecture = architecture(&build.target)
        .with_context(|| format!("Debian has no name for {}", build.target))?;
    let text = fields(&version, architecture, bytes.div_ceil(1024));
    fs::write(control.join("control"), text)?;
    let name = format!("punctual_{version}_{architecture}.deb");
    let mut pack = Command::new(dpkg_deb);
    pack.args(["--root-owner-group", "-Zxz", "--build"])
        .arg(&root)
        .arg(build.folder.join(name))
        .env("SOURCE_DATE_EPOCH", &build.epoch);
    let output = pack.output().context("dpkg-deb")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "dpkg-deb: {}", said.trim());
    Ok(fs::remove_dir_all(&root)?)
}

/// Returns the fields of the control file. The maintainer is from the variables that Debian's own
/// tools read.
fn fields(version: &str, architecture: &str, size: u64) -> String {
    let said = |name: &str, other: &str| {
        let value = std::env::var(name).unwrap_or_default();
        match value.trim() {
            "" => other.to_owned(),
            value => value.replace('\n', " "),
        }
    };
    let (name, address) = (said("DEBFULLNAME", NOBODY.0), said("DEBEMAIL", NOBODY.1));
    format!(
        "Package: punctual\nVersion: {version}\nArchitecture: {architecture}\n\
         Maintainer: {name} <{address}>\nInstalled-Size: {size}\nSection: utils\n\
         Priority: optional\n\
         Description: real-time latency measurement, diagnosis and tuning\n \
         Measures how late a Linux machine reacts (timers, signals, locks, sockets,\n \
         page faults, the hardware itself), names the cause of late reactions, audits\n \
         and tunes the host, and keeps recordings. The program is static.\n"
    )
}

/// Returns Debian's name of the architecture.
fn architecture(target: &str) -> Option<&'static str> {
    match target.split('-').next()? {
        "x86_64" => Some("amd64"),
        "aarch64" => Some("arm64"),
        "armv7" => Some("armhf"),
        "riscv64gc" => Some("riscv64"),
        _ => None,
    }
}

/// Returns the files below a folder, sorted by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?)
        } else {
            found.push(path)
        }
    }
    found.sort();
    Ok(found)
}

/// Returns lines in the format of md5sum(1). dpkg uses them to find damaged files.
fn digests(root: &Path, files: &[PathBuf]) -> Result<Vec<u8>> {
    let mut command = Command::new("md5sum");
    command.current_dir(root);
    for file in files {
        command.arg(file.strip_prefix(root)?);
    }
    let output = command.output().context("md5sum")?;
    ensure!(output.status.success(), "md5sum: {}", output.status);
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_has_a_name_in_debian() {
        for target in crate::cross::TARGETS {
            assert!(architecture(target.triple).is_some(), "{}", target.triple);
        }
    }

    #[test]
    fn description_is_folded_for_debian() {
        let text = fields("1.0.0-1", "amd64", 7);
        let (_, description) = text.split_once("Description: ").unwrap();
        assert!(
            description
                .lines()
                .skip(1)
                .all(|line| line.starts_with(' '))
        );
        assert!(text.ends_with('\n') && text.contains("Installed-Size: 7\n"));
    }
}
