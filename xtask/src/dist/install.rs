//! `cargo xtask dist-install`: installs, runs, removes and purges the packages of
//! both programs in a separate Debian root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::paths::program;

#[derive(Args)]
pub(crate) struct Options {
    /// Package of punctual [default: the newest that `dist` made]
    #[arg(long, value_name = "FILE")]
    deb: Option<PathBuf>,
    /// Package of punctual-server [default: the newest that `dist` made]
    #[arg(long, value_name = "FILE")]
    server_deb: Option<PathBuf>,
    /// Debian release of the root
    #[arg(long, default_value = "bookworm")]
    release: String,
}

/// Installs, runs, removes and purges the packages.
///
/// # Errors
/// Fails if a step fails, with its output.
pub(crate) fn run(options: &Options) -> Result<bool> {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: a chroot needs root");
        return Ok(true);
    }
    let Ok(debootstrap) = program("debootstrap", "debootstrap") else {
        println!("SKIP: debootstrap is not installed");
        return Ok(true);
    };
    let root = Root::new(&debootstrap, &options.release)?;
    for (name, given) in [
        ("punctual", &options.deb),
        ("punctual-server", &options.server_deb),
    ] {
        let deb = match given {
            Some(deb) => deb.clone(),
            None => newest(name)?,
        };
        let to = root.0.join(format!("{name}.deb"));
        fs::copy(&deb, to).with_context(|| deb.display().to_string())?;
        println!("{}", deb.display());
    }
    root.machine()?;
    root.server()?;
    root.removal()?;
    println!("installed, ran, removed and purged both packages");
    Ok(true)
}

/// Returns the newest package of a program.
fn newest(name: &str) -> Result<PathBuf> {
    let begin = format!("{name}_");
    let folders = fs::read_dir(crate::paths::target().join("packages"))
        .context("no packages: run `cargo xtask dist` first")?;
    let files = folders
        .flatten()
        .filter_map(|folder| fs::read_dir(folder.path()).ok())
        .flat_map(|files| files.flatten().map(|file| file.path()));
    let is_wanted = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file.starts_with(&begin) && file.ends_with(".deb")
    };
    let debs = files.filter(is_wanted);
    let dated = debs.filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)));
    let newest = dated.max().map(|(_, path)| path);
    newest.with_context(|| format!("no .deb of {name}: run `cargo xtask dist` first"))
}

/// The default store of root.
const STORE: &str = "/var/lib/punctual/punctual.db";
/// The unit of `tune enable`.
const UNIT: &str = "/etc/systemd/system/punctual-tune.service";

/// A Debian root, created once and copied for each run.
struct Root(PathBuf);

impl Root {
    fn new(debootstrap: &Path, release: &str) -> Result<Self> {
        let folder = crate::paths::target().join("packages/roots");
        let fresh = folder.join(format!("{release}.tar"));
        fs::create_dir_all(&folder)?;
        if !fresh.exists() {
            let made = folder.join(format!("{release}.new"));
            let _ = fs::remove_dir_all(&made);
            let mut command = Command::new(debootstrap);
            command.args(["--variant=minbase", release]).arg(&made);
            ensure!(command.status()?.success(), "{command:?} failed");
            let mut command = Command::new("tar");
            command.arg("-cf").arg(&fresh).arg("-C").arg(&made).arg(".");
            ensure!(command.status()?.success(), "{command:?} failed");
            fs::remove_dir_all(&made)?;
        }
        let root = folder.join("root");
        unmount(&root);
        let _ = fs::remove_dir_all(&root);
        fs::create_dir(&root)?;
        let mut command = Command::new("tar");
        command.arg("-xf").arg(&fresh).arg("-C").arg(&root);
        ensure!(command.status()?.success(), "{command:?} failed");
        let root = Self(root);
        // The file systems are mounted read-only, so that the package cannot change this machine.
        for (name, kind) in [("proc", "proc"), ("sys", "sysfs")] {
            let mut command = Command::new("mount");
            command.args(["-t", kind, "-o", "ro", kind]);
            command.arg(root.0.join(name));
            ensure!(command.status()?.success(), "{command:?} failed");
        }
        Ok(root)
    }

    /// Tries the program of a machine.
    fn machine(&self) -> Result<()> {
        self.done(&["dpkg", "-i", "/punctual.deb"])?;
        let version = self.done(&["punctual", "--version"])?;
        ensure!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
        let measure = [
            "punctual", "measure", "timer", "-D", "200ms", "-q", "--policy", "other",
        ];
        self.done(&measure)?;
        ensure!(self.has(STORE), "the measurement left no store");
        ensure!(
            !self.has("/etc/systemd/system/multi-user.target.wants/punctual-tune.service"),
            "a unit is enabled before anybody asked for it"
        );
        ensure!(
            self.has("/usr/share/man/man1/punctual.1.gz"),
            "no manual page"
        );
        let capabilities = self.run(&["sh", "-c", "getcap /usr/bin/punctual 2>/dev/null"])?;
        ensure!(
            capabilities.stdout.is_empty(),
            "capabilities were set in silence"
        );
        self.done(&["mkdir", "-p", "/usr/lib/systemd"])?;
        self.done(&["punctual", "tune", "enable", "--set", "swappiness=60"])?;
        ensure!(self.has(UNIT), "`tune enable` wrote no unit");
        Ok(())
    }

    /// Tries the server on the store of the machine.
    fn server(&self) -> Result<()> {
        self.done(&["dpkg", "-i", "/punctual-server.deb"])?;
        ensure!(
            self.has("/usr/share/man/man1/punctual-server.1.gz"),
            "no manual page of the server"
        );
        self.done(&["punctual-server", "enrol", "board-17"])?;
        let tokens = self.done(&["punctual-server", "tokens"])?;
        ensure!(tokens.contains("board-17"), "{tokens}");
        let run = [
            "timeout",
            "--preserve-status",
            "3",
            "punctual-server",
            "run",
            "--listen",
            "127.0.0.1:0",
        ];
        let output = self.run(&run)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{said}");
        ensure!(
            said.contains("punctual-server: serving /var/lib/punctual/punctual.db"),
            "{said}"
        );
        Ok(())
    }

    /// Removes and purges both.
    fn removal(&self) -> Result<()> {
        self.done(&["dpkg", "-r", "punctual"])?;
        ensure!(!self.has("/usr/bin/punctual"), "the program stayed");
        ensure!(self.has(STORE), "removal took the store");
        ensure!(!self.has(UNIT), "removal left the unit of `tune enable`");
        self.done(&["dpkg", "-P", "punctual"])?;
        ensure!(
            self.has(STORE),
            "purge took the store of the installed server"
        );
        self.done(&["punctual-server", "tokens"])?;
        self.done(&["dpkg", "-r", "punctual-server"])?;
        ensure!(!self.has("/usr/bin/punctual-server"), "the server stayed");
        ensure!(self.has(STORE), "removal of the server took the store");
        self.done(&["dpkg", "-P", "punctual-server"])?;
        ensure!(!self.has("/var/lib/punctual"), "purge left the store");
        Ok(())
    }

    /// Returns whether a file exists. Does not follow links.
    fn has(&self, path: &str) -> bool {
        self.0
            .join(path.trim_start_matches('/'))
            .symlink_metadata()
            .is_ok()
    }

    fn run(&self, words: &[&str]) -> Result<Output> {
        let mut command = Command::new("chroot");
        command
            .arg(&self.0)
            .args(words)
            .env_remove("XDG_STATE_HOME");
        command
            .env_remove("PUNCTUAL_STORE")
            .env_remove("XDG_DATA_HOME");
        command
            .env("LC_ALL", "C")
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.output().with_context(|| format!("{command:?}"))
    }

    fn done(&self, words: &[&str]) -> Result<String> {
        let output = self.run(words)?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            bail!("{}: {}: {}", words.join(" "), output.status, text.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}

/// Unmounts the file systems that were mounted by this run or by an earlier one that was killed.
fn unmount(root: &Path) {
    for name in ["proc", "sys"] {
        let place = root.join(name);
        // If nothing is mounted, the error can be ignored.
        let _ = Command::new("umount").arg("-q").arg(place).output();
    }
}
