//! Software from other projects: the kernel, the emulator, busybox.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::arch::Arch;
use crate::paths::{folder, program};

/// Returns a static busybox.
pub(super) fn static_busybox(arch: &Arch) -> Result<PathBuf> {
    if arch.foreign.is_some() {
        let folder = folder().join(format!("{}busybox", arch.prefix()));
        let places = ["bin/busybox", "usr/bin/busybox"].map(|place| folder.join(place));
        let busybox = || places.iter().find(|place| place.is_file()).cloned();
        if busybox().is_none() {
            download(arch, "busybox-static", &folder)?;
        }
        return busybox().with_context(|| format!("no busybox in {}", folder.display()));
    }
    let busybox = program("busybox", "busybox-static")?;
    let bytes = fs::read(&busybox).with_context(|| busybox.display().to_string())?;
    let loader: &[u8] = b"/ld-linux";
    if bytes.windows(loader.len()).any(|window| window == loader) {
        bail!(
            "{} needs shared libraries: install the package busybox-static",
            busybox.display()
        );
    }
    Ok(busybox)
}

/// Returns the kernel's image: the one in `PUNCTUAL_VM_KERNEL`, or the one that was downloaded
/// before. If there is neither, downloads and unpacks it.
pub(super) fn find(arch: &Arch) -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("PUNCTUAL_VM_KERNEL") {
        return Ok(PathBuf::from(named));
    }
    let folder = folder().join(format!("{}kernel", arch.prefix()));
    if let Some(image) = image_in(&folder) {
        return Ok(image);
    }
    let package = concrete_package(arch)?;
    download(arch, &package, &folder)?;
    image_in(&folder).with_context(|| format!("no kernel in {package}"))
}

/// Unpacks a Debian package into a folder, without installing it.
pub(super) fn download(arch: &Arch, package: &str, folder: &Path) -> Result<()> {
    for tool in ["apt-get", "apt-cache", "dpkg"] {
        program(tool, "apt").context(
            "the kernel is Debian's; elsewhere, name a PREEMPT_RT image in PUNCTUAL_VM_KERNEL",
        )?;
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    println!("downloading {package}");
    said(
        apt(arch, "apt-get")?
            .args(["download", "-qq", package])
            .current_dir(folder),
    )?;
    let archive = (fs::read_dir(folder)?.flatten().map(|e| e.path()))
        .find(|path| path.extension().is_some_and(|e| e == "deb"))
        .with_context(|| format!("apt-get left no package in {}", folder.display()))?;
    said(Command::new("dpkg").arg("-x").arg(&archive).arg(folder))?;
    Ok(fs::remove_file(&archive)?)
}

/// Returns a command of apt. For another processor, it uses separate package lists, so that those
/// of this machine stay unchanged.
fn apt(arch: &Arch, tool: &str) -> Result<Command> {
    let mut command = Command::new(tool);
    if arch.foreign.is_none() {
        return Ok(command);
    }
    let state = folder().join(format!("{}apt", arch.prefix()));
    let lists = state.join("lists");
    let fresh = !lists.exists();
    fs::create_dir_all(lists.join("partial"))?;
    fs::create_dir_all(state.join("cache/archives/partial"))?;
    fs::write(state.join("status"), "")?;
    let options = [
        format!("APT::Architecture={}", arch.name),
        format!("APT::Architectures::={}", arch.name),
        format!("Dir::State={}", state.display()),
        format!("Dir::State::status={}", state.join("status").display()),
        format!("Dir::Cache={}", state.join("cache").display()),
        "APT::Sandbox::User=root".to_owned(),
    ];
    let with_options = |command: &mut Command| {
        for option in &options {
            command.args(["-o", option]);
        }
    };
    if fresh {
        let mut update = Command::new("apt-get");
        with_options(&mut update);
        if let Err(error) = said(update.args(["update", "-qq"])) {
            let _ = fs::remove_dir_all(&lists);
            return Err(error);
        }
    }
    with_options(&mut command);
    Ok(command)
}

/// Returns an unpacked module of the kernel.
pub(super) fn module(kernel: &Path, name: &str, busybox: &Path) -> Result<PathBuf> {
    let boot = kernel.parent().and_then(Path::parent);
    let folder = boot.context("the kernel's package")?.join("lib/modules");
    let file = format!("{name}.ko.xz");
    let packed =
        found(&folder, &file).with_context(|| format!("no {file} below {}", folder.display()))?;
    let output = Command::new(busybox)
        .args(["unxz", "-c"])
        .arg(packed)
        .output()?;
    if !output.status.success() {
        bail!("unxz {file}: {}", output.status);
    }
    let path = crate::paths::folder().join(format!("{name}.ko"));
    fs::write(&path, output.stdout).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// Returns the file with this name below a folder.
fn found(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut entries = fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    entries.find_map(|path| {
        if path.is_dir() && !path.is_symlink() {
            found(&path, name)
        } else {
            path.file_name()
                .is_some_and(|of| of == name)
                .then_some(path)
        }
    })
}

fn image_in(folder: &Path) -> Option<PathBuf> {
    fs::read_dir(folder.join("boot"))
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(b"vmlinuz"))
        })
}

/// Returns the current kernel package that the package for the newest kernel depends on.
fn concrete_package(arch: &Arch) -> Result<String> {
    let depends = said(apt(arch, "apt-cache")?.args(["depends", arch.kernel]))?;
    depends
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: "))
        .map(str::to_owned)
        .with_context(|| {
            format!(
                "apt knows no {} (has apt-get update been run?)",
                arch.kernel
            )
        })
}

/// Runs a command to its end and returns its output.
pub(super) fn said(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!(
            "{command:?}: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
