//! `cargo xtask vm-grub`: tests `punctual tune cmdline` on a Debian system with a real GRUB, on a
//! disk that the emulated machine boots. The output of the kernel shows whether the parameters have
//! reached it.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::boot::{Machinery, lines_of};
use super::kernel;
use crate::paths::{self, program};

#[derive(Args)]
pub(crate) struct Options {
    /// Program to test, which must run in the Debian root
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
    /// Debian release of the root
    #[arg(long, default_value = "bookworm")]
    release: String,
}

/// Text that the kernel prints before its command line.
const PRINTED: &str = "Command line:";

/// Time limit for the machine to print its command line.
const PATIENCE: Duration = Duration::from_secs(180);

/// The added argument, which occurs only once in the file and in the kernel's output.
const ADDED: &str = "rcu_nocbs=1";

/// A script for grub-mkconfig(8) that creates one entry, with the parameters in the same place as
/// in 10_linux.
const ENTRY: &str = "#!/bin/sh\ncat <<EOF\nmenuentry 'Linux' {\n\
    linux /boot/vmlinuz-6.12-rt $GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT\n}\nEOF\n";

const SOURCE: &str = "etc/default/grub";
const CONFIG: &str = "boot/grub/grub.cfg";

/// Writes the parameters, boots, reverts them, and boots again.
///
/// # Errors
/// Fails if a step fails, with its output.
pub(crate) fn run(options: &Options) -> Result<bool> {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: loop devices need root");
        return Ok(true);
    }
    let needed = [
        ("debootstrap", "debootstrap"),
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("mkfs.ext4", "e2fsprogs"),
        ("losetup", "mount"),
    ];
    for (name, package) in needed {
        if let Err(error) = program(name, package) {
            println!("SKIP: {error}");
            return Ok(true);
        }
    }
    let disk = Disk::new(&options.release)?;
    disk.install(&options.program)?;
    disk.steps()?;
    println!("vm-grub: written, booted, restored byte for byte, booted");
    Ok(true)
}

/// A disk with a Debian system, which is unmounted on drop.
struct Disk {
    image: PathBuf,
    device: String,
    root: PathBuf,
}

impl Disk {
    fn new(release: &str) -> Result<Self> {
        let folder = paths::target().join("packages/roots");
        let fresh = debian(&folder, release)?;
        let image = paths::folder().join("grub.img");
        fs::create_dir_all(paths::folder())?;
        fs::File::create(&image)?.set_len(1 << 30)?;
        let device = said(Command::new("losetup").args(["-f", "--show"]).arg(&image))?;
        let disk = Self {
            image,
            device: device.trim().to_owned(),
            root: folder.join("grub"),
        };
        fs::create_dir_all(&disk.root)?;
        // GRUB does not replay a journal. If there is no journal, it reads all data that was
        // synced.
        said(Command::new("mkfs.ext4").args(["-q", "-F", "-O", "^has_journal", &disk.device]))?;
        said(Command::new("mount").arg(&disk.device).arg(&disk.root))?;
        said(
            Command::new("tar")
                .arg("-xf")
                .arg(fresh)
                .arg("-C")
                .arg(&disk.root),
        )?;
        for folder in ["dev", "proc", "sys"] {
            said(
                Command::new("mount")
                    .args(["--bind", &format!("/{folder}")])
                    .arg(disk.root.join(folder)),
            )?;
        }
        Ok(disk)
    }

    /// Installs the kernel, the program, and GRUB on the whole disk.
    fn install(&self, program: &Path) -> Result<()> {
        fs::copy(program, self.root.join("usr/bin/punctual"))?;
        fs::copy(
            kernel::find(super::arch::usual())?,
            self.root.join("boot/vmlinuz-6.12-rt"),
        )?;
        let source = self.root.join(SOURCE);
        let text = fs::read_to_string(&source).unwrap_or_default();
        // The kernel panics because it has no root file system, but its first lines are enough.
        let serial = "GRUB_CMDLINE_LINUX=\"console=ttyS0 panic=-1 ignore_loglevel\"\nGRUB_TERMINAL=serial\n\
                      GRUB_TIMEOUT=0\nGRUB_DISABLE_OS_PROBER=true\n";
        fs::write(source, text + serial)?;
        // GRUB's own script creates no entries for a system on a loop device.
        let script = self.root.join("etc/grub.d/11_kernel");
        fs::write(&script, ENTRY)?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        self.done(&[
            "grub-install",
            "--target=i386-pc",
            "--force",
            "--skip-fs-probe",
            &self.device,
        ])?;
        self.done(&["update-grub"])?;
        Ok(())
    }

    fn steps(&self) -> Result<()> {
        let before = (self.bytes(SOURCE)?, self.bytes(CONFIG)?);
        let printed = self.boot()?;
        ensure!(
            !printed.contains(ADDED),
            "there before it was written: {printed}"
        );
        let write = ["punctual", "tune", "cmdline", "write", "-a", ADDED];
        // Standard input is empty, so the user cannot confirm.
        let unconfirmed = self.run(&write)?;
        ensure!(
            !unconfirmed.status.success(),
            "written without a confirmation"
        );
        ensure!(
            self.bytes(SOURCE)? == before.0,
            "changed without a confirmation"
        );
        let mut confirmed = write.to_vec();
        confirmed.push("--yes");
        let shown = self.done(&confirmed)?;
        ensure!(
            shown.contains(ADDED),
            "the difference is not shown: {shown}"
        );
        let config = String::from_utf8(self.bytes(CONFIG)?)?;
        ensure!(config.contains(ADDED), "update-grub did not take it over");
        let printed = self.boot()?;
        ensure!(
            printed.contains(ADDED),
            "GRUB did not pass it on: {printed}"
        );
        self.done(&["punctual", "tune", "cmdline", "revert"])?;
        ensure!(self.bytes(SOURCE)? == before.0, "{SOURCE} is not restored");
        ensure!(self.bytes(CONFIG)? == before.1, "{CONFIG} is not restored");
        let printed = self.boot()?;
        ensure!(
            !printed.contains(ADDED),
            "there after it was reverted: {printed}"
        );
        Ok(())
    }

    fn bytes(&self, path: &str) -> Result<Vec<u8>> {
        fs::read(self.root.join(path)).with_context(|| path.to_owned())
    }

    /// Boots a copy of the disk, because only one system may write to the mounted disk. Returns the
    /// command line that the kernel prints.
    fn boot(&self) -> Result<String> {
        said(Command::new("sync").arg("-f").arg(&self.root))?;
        let copy = self.image.with_extension("boot.img");
        said(
            Command::new("cp")
                .arg("--sparse=always")
                .arg(&self.image)
                .arg(&copy),
        )?;
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args(["-accel", "tcg,thread=single", "-cpu", "max", "-m", "512M"])
            .args([
                "-nodefaults",
                "-nographic",
                "-no-reboot",
                "-serial",
                "stdio",
            ])
            .arg("-drive")
            .arg(format!("file={},format=raw,if=ide", copy.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = Machinery(command.spawn().context("qemu")?);
        let lines = lines_of(&mut child.0)?;
        let mut last = String::new();
        while let Ok(line) = lines.recv_timeout(PATIENCE) {
            if line.contains(PRINTED) {
                println!("booted: {}", line.trim());
                return Ok(line);
            }
            last = line;
        }
        anyhow::bail!("the machine did not boot by GRUB; last line: {last}")
    }

    fn run(&self, words: &[&str]) -> Result<std::process::Output> {
        let mut command = Command::new("chroot");
        command
            .arg(&self.root)
            .args(words)
            .stdin(Stdio::null())
            .env_remove("XDG_STATE_HOME")
            .env("LC_ALL", "C")
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.output().with_context(|| format!("{command:?}"))
    }

    fn done(&self, words: &[&str]) -> Result<String> {
        let output = self.run(words)?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{}: {}: {}",
            words.join(" "),
            output.status,
            text.trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for folder in ["dev", "proc", "sys", ""] {
            // If it was not mounted, the error can be ignored.
            let _ = Command::new("umount")
                .arg("-q")
                .arg(self.root.join(folder))
                .output();
        }
        let _ = Command::new("losetup").args(["-d", &self.device]).output();
        let _ = fs::remove_file(&self.image);
        let _ = fs::remove_file(self.image.with_extension("boot.img"));
    }
}

/// Returns a Debian root with GRUB, which is created only once.
fn debian(folder: &Path, release: &str) -> Result<PathBuf> {
    let fresh = folder.join(format!("{release}-grub.tar"));
    if fresh.exists() {
        return Ok(fresh);
    }
    let made = folder.join(format!("{release}-grub.new"));
    let _ = fs::remove_dir_all(&made);
    fs::create_dir_all(folder)?;
    said(
        Command::new("debootstrap")
            .args(["--variant=minbase", "--include=grub-pc", release])
            .arg(&made),
    )?;
    said(
        Command::new("tar")
            .arg("-cf")
            .arg(&fresh)
            .arg("-C")
            .arg(&made)
            .arg("."),
    )?;
    fs::remove_dir_all(&made)?;
    Ok(fresh)
}

/// Runs a command to its end and returns its output.
fn said(command: &mut Command) -> Result<String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{command:?}"))?;
    let mut text = String::new();
    if let Some(out) = &mut child.stdout {
        out.read_to_string(&mut text)?;
    }
    ensure!(child.wait()?.success(), "{command:?} failed");
    Ok(text)
}
