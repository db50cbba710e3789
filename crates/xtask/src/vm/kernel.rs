//! What is not ours: the kernel, the emulator, busybox.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::places::{folder, program};

/// The package whose dependency is the newest kernel of its line. The kernels
/// 6.1 of the same distribution hang in the emulator now and then.
const PACKAGE: &str = "linux-image-6.12-rt-amd64";

/// A busybox that needs no other file.
pub(crate) fn static_busybox() -> Result<PathBuf> {
    let busybox = program("busybox", "busybox-static")?;
    let bytes = std::fs::read(&busybox).with_context(|| busybox.display().to_string())?;
    let loader: &[u8] = b"/ld-linux";
    if bytes.windows(loader.len()).any(|window| window == loader) {
        bail!(
            "{} needs shared libraries: install the package busybox-static",
            busybox.display()
        );
    }
    Ok(busybox)
}

/// The kernel's image: `PUNCTUAL_VM_KERNEL` names one; else the one that was
/// downloaded before; else it is downloaded and unpacked.
pub(crate) fn find() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("PUNCTUAL_VM_KERNEL") {
        return Ok(PathBuf::from(named));
    }
    let folder = folder().join("kernel");
    if let Some(image) = image_in(&folder) {
        return Ok(image);
    }
    for tool in ["apt-get", "apt-cache", "dpkg"] {
        program(tool, "apt").context(
            "the kernel is Debian's; elsewhere, name a PREEMPT_RT image in PUNCTUAL_VM_KERNEL",
        )?;
    }
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let package = concrete_package()?;
    unpack(&package, &folder)?;
    image_in(&folder).with_context(|| format!("no kernel in {package}"))
}

/// Downloads a package of Debian's, and unpacks it into a folder.
pub(super) fn unpack(package: &str, folder: &Path) -> Result<()> {
    println!("downloading {package}");
    said(
        Command::new("apt-get")
            .args(["download", "-qq", package])
            .current_dir(folder),
    )?;
    let archive = (std::fs::read_dir(folder)?.flatten().map(|e| e.path()))
        .find(|path| path.extension().is_some_and(|e| e == "deb"))
        .with_context(|| format!("apt-get left no package in {}", folder.display()))?;
    said(Command::new("dpkg").arg("-x").arg(&archive).arg(folder))?;
    Ok(std::fs::remove_file(&archive)?)
}

/// A module of the kernel, unpacked.
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
    let path = crate::places::folder().join(format!("{name}.ko"));
    std::fs::write(&path, output.stdout).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// The file of this name below a folder.
fn found(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut entries = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    entries.find_map(|path| match path.is_dir() && !path.is_symlink() {
        true => found(&path, name),
        false => path
            .file_name()
            .is_some_and(|of| of == name)
            .then_some(path),
    })
}

fn image_in(folder: &Path) -> Option<PathBuf> {
    std::fs::read_dir(folder.join("boot"))
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(b"vmlinuz"))
        })
}

/// The kernel that [`PACKAGE`] stands for today.
fn concrete_package() -> Result<String> {
    let depends = said(Command::new("apt-cache").args(["depends", PACKAGE]))?;
    depends
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: "))
        .map(str::to_owned)
        .with_context(|| format!("apt knows no {PACKAGE} (has apt-get update been run?)"))
}

/// Runs a command to its end; its output.
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
