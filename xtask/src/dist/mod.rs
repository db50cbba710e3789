//! `cargo xtask dist`: builds the release packages. They contain a static program with its manual
//! pages, completions, units and licences, as a tarball, .deb, .rpm and OCI image, with checksums
//! and a bill of materials.

mod bill;
mod deb;
mod flags;
mod install;
mod oci;
mod sources;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::places::{self, program, repository};

pub(crate) use install::{Options as InstallOptions, run as install};
pub(crate) use sources::{Options as SourcesOptions, run as sources};

#[derive(Args)]
pub(crate) struct Options {
    /// Target to build for; other processors than this one's need its cross compiler
    #[arg(long, default_value = "x86_64-unknown-linux-musl")]
    target: String,
    /// Profile of the build; `dev` is quick, and large
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Without the features that boards leave out: a tarball only
    #[arg(long)]
    board: bool,
    /// Pack this program of the target instead of building one
    #[arg(long, value_name = "FILE", conflicts_with = "verify")]
    program: Option<PathBuf>,
    /// Build the program twice and compare
    #[arg(long)]
    verify: bool,
}

/// A build to pack.
pub(crate) struct Build {
    target: String,
    profile: String,
    version: String,
    /// Without the features that boards leave out.
    board: bool,
    /// Time of the commit in seconds since 1970, which is the time of all files.
    epoch: String,
    target_folder: PathBuf,
    /// The output folder of the packages.
    folder: PathBuf,
    program: PathBuf,
}

/// Builds and packs.
///
/// # Errors
/// Fails if a build or a program fails. If a packager is not installed, prints that and leaves out
/// its package.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let mut build = Build::new(options, &places::target())?;
    match &options.program {
        Some(program) => build.program = fs::canonicalize(program)?,
        None => build.make(repository())?,
    }
    if options.verify {
        if !build.is_repeatable(options)? {
            println!("NOT reproducible: two builds of the program differ");
            return Ok(false);
        }
        println!("reproducible: two builds of the program, in two folders, have the same bytes");
    }
    let _ = fs::remove_dir_all(&build.folder);
    fs::create_dir_all(&build.folder)?;
    let staged = stage::make(&build)?;
    build.tarball(&staged)?;
    if !build.board {
        deb::write(&build, &staged)?;
        build.rpm(&staged)?;
        oci::write(&build, &staged)?;
    }
    let bill = build.folder.join(format!("{}.cdx.json", build.name()));
    fs::write(&bill, bill::of_materials(&build)?)?;
    sums(&build.folder)?;
    println!("{}", build.folder.display());
    Ok(true)
}

impl Build {
    /// Creates a build in a target folder, without building yet.
    fn new(options: &Options, target_folder: &Path) -> Result<Self> {
        let epoch = epoch()?;
        let profile = options.profile.clone();
        let folder = if profile == "dev" { "debug" } else { &profile };
        let mut build = Self {
            program: target_folder
                .join(&options.target)
                .join(folder)
                .join("punctual"),
            target: options.target.clone(),
            profile,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            board: options.board,
            epoch,
            target_folder: target_folder.to_owned(),
            folder: target_folder.join("packages"),
        };
        build.folder.push(build.name());
        Ok(build)
    }

    /// Builds the sources in a folder. The program contains no path of this machine.
    fn make(&self, sources: &Path) -> Result<()> {
        let here = fs::canonicalize(sources)?;
        let flags = flags::Flags::new(&self.target, &here)?;
        let mut command = places::cargo();
        command
            .current_dir(&here)
            .args(["build", "--locked", "-p", "punctual"])
            .args(["--profile", &self.profile, "--target", &self.target])
            .arg("--target-dir")
            .arg(&self.target_folder)
            .env("SOURCE_DATE_EPOCH", &self.epoch)
            .envs(crate::cross::compilers_for(&self.target));
        flags.put_on(&mut command);
        if self.board {
            command.arg("--no-default-features");
        }
        let status = command.status()?;
        if !status.success() {
            bail!("cargo build: {status}");
        }
        Ok(())
    }

    /// Returns whether a second build, from a copy of the sources in another folder, gives the same
    /// bytes.
    fn is_repeatable(&self, options: &Options) -> Result<bool> {
        let folder = places::target().join("second");
        let sources = folder.join("a-copy-of-the-sources");
        copy_sources(&sources)?;
        let second = Self::new(options, &folder.join("target"))?;
        second.make(&sources)?;
        Ok(fs::read(&self.program)? == fs::read(second.program)?)
    }

    fn name(&self) -> String {
        let set = if self.board { "-board" } else { "" };
        format!("punctual{set}-{}-{}", self.version, self.target)
    }

    /// Returns the time of the commit in RFC 3339.
    fn time(&self) -> Result<String> {
        let at = format!("@{}", self.epoch);
        text_of(Command::new("date").args(["-u", "-d", &at, "+%Y-%m-%dT%H:%M:%SZ"]))
    }

    /// Writes the tarball. It has all files in a folder with its name.
    fn tarball(&self, staged: &Path) -> Result<()> {
        let parent = staged.with_file_name("tarball");
        let named = parent.join(self.name());
        let _ = fs::remove_dir_all(&parent);
        fs::create_dir_all(&parent)?;
        fs::rename(staged, &named)?;
        let path = self.folder.join(format!("{}.tar", self.name()));
        tar(&self.epoch, &path, &parent, &[&self.name()])?;
        fs::rename(&named, staged)?;
        gzip(&path)
    }

    /// Writes the package for Fedora and its derivatives, from `packaging/punctual.spec`.
    fn rpm(&self, staged: &Path) -> Result<()> {
        let Ok(rpmbuild) = program("rpmbuild", "rpm") else {
            println!("SKIP .rpm: rpmbuild is not installed");
            return Ok(());
        };
        let top = self.target_folder.join("packages/rpmbuild");
        let _ = fs::remove_dir_all(&top);
        let define = |name: &str, value: &str| format!("--define={name} {value}");
        let status = Command::new(rpmbuild)
            .args(["-bb", "--quiet"])
            .arg(format!("--target={}-linux", rpm_architecture(&self.target)))
            .arg(define("_topdir", &top.display().to_string()))
            .arg(define("_rpmdir", &self.folder.display().to_string()))
            .arg(define(
                "_rpmfilename",
                "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
            ))
            .arg(define("stage", &staged.display().to_string()))
            .arg(define("program_version", &self.version))
            .arg(repository().join("packaging/punctual.spec"))
            .env("SOURCE_DATE_EPOCH", &self.epoch)
            .status()
            .context("rpmbuild")?;
        let _ = fs::remove_dir_all(&top);
        if !status.success() {
            bail!("rpmbuild: {status}");
        }
        Ok(())
    }
}

/// Returns the time of the commit in seconds since 1970.
fn epoch() -> Result<String> {
    text_of(Command::new("git").args(["log", "-1", "--format=%ct"]))
}

/// Writes a tar archive of some files: sorted by name, owned by root, with the time of the commit.
fn tar(epoch: &str, path: &Path, from: &Path, files: &[&str]) -> Result<()> {
    let status = Command::new("tar")
        .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .args(["--format=gnu", "--mode=go-w,a+rX"])
        .arg(format!("--mtime=@{epoch}"))
        .arg("-cf")
        .arg(path)
        .arg("-C")
        .arg(from)
        .args(files)
        .status()
        .context("tar")?;
    if !status.success() {
        bail!("tar: {status}");
    }
    Ok(())
}

/// Compresses a file, and adds `.gz` to its name.
fn gzip(path: &Path) -> Result<()> {
    let status = Command::new("gzip").arg("-9nf").arg(path).status()?;
    if !status.success() {
        bail!("gzip: {status}");
    }
    Ok(())
}

/// Writes SHA256SUMS for all files in a folder.
fn sums(folder: &Path) -> Result<()> {
    let mut names: Vec<String> = fs::read_dir(folder)?
        .flatten()
        .filter(|entry| entry.path().is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    let sums = Command::new("sha256sum")
        .current_dir(folder)
        .args(&names)
        .output()
        .context("sha256sum")?;
    if !sums.status.success() {
        bail!("sha256sum: {}", sums.status);
    }
    Ok(fs::write(folder.join("SHA256SUMS"), sums.stdout)?)
}

/// Copies the current sources to a new folder.
fn copy_sources(folder: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder)?;
    let list = Command::new("git")
        .current_dir(repository())
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output()?;
    // The list includes deleted files until the deletion is committed.
    let names = existing(&String::from_utf8(list.stdout)?);
    let status = Command::new("cp")
        .current_dir(repository())
        .args(["--parents", "--preserve=mode,timestamps", "-t"])
        .arg(folder)
        .args(names)
        .status()?;
    if !status.success() {
        bail!("cp: {status}");
    }
    Ok(())
}

/// Returns the files of a list that exist.
fn existing(list: &str) -> Vec<String> {
    let names = list.split('\0').filter(|name| !name.is_empty());
    let there = names.filter(|name| repository().join(name).is_file());
    there.map(str::to_owned).collect()
}

/// Returns Fedora's name of the architecture.
fn rpm_architecture(target: &str) -> &str {
    match target.split('-').next().unwrap_or(target) {
        "armv7" => "armv7hl",
        "riscv64gc" => "riscv64",
        same => same,
    }
}

/// Returns the output of a program, without the last line end.
fn text_of(command: &mut Command) -> Result<String> {
    let output = command.current_dir(repository()).output()?;
    if !output.status.success() {
        bail!("{command:?}: {}", output.status);
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
