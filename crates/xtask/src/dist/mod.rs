//! `cargo xtask dist`: what is given to others. A static program with its manual pages,
//! completions, units and licences as a tarball, .deb and .rpm, with checksums and a list
//! of its parts.

mod bill;
mod install;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::places::{program, repository};

pub(crate) use install::{Options as InstallOptions, run as install};

#[derive(Args)]
pub(crate) struct Options {
    /// Target to build for
    #[arg(long, default_value = "x86_64-unknown-linux-musl")]
    target: String,
    /// Profile of the build; `dev` is quick, and large
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Build the program twice and compare
    #[arg(long)]
    verify: bool,
}

/// A build that is packed.
pub(crate) struct Build {
    target: String,
    version: String,
    /// Seconds since 1970 of the commit: the time of all files.
    epoch: String,
    /// Where the packages go.
    folder: PathBuf,
    program: PathBuf,
}

/// Builds and packs.
///
/// # Errors
/// A build or a program that fails. A packager that is not installed is said, and its
/// package left out.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let build = Build::of(options, &target_folder())?;
    if options.verify && !build.is_repeatable(options)? {
        println!("NOT reproducible: two builds of the program differ");
        return Ok(false);
    }
    let _ = fs::remove_dir_all(&build.folder);
    let staged = stage::make(&build)?;
    build.tarball(&staged)?;
    build.deb()?;
    build.rpm()?;
    let bill = build.folder.join(format!("{}.cdx.json", build.name()));
    fs::write(&bill, bill::of_materials(&build.target, &build.version)?)?;
    build.sums()?;
    println!("{}", build.folder.display());
    Ok(true)
}

fn target_folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| repository().join("target"))
}

impl Build {
    /// Builds the program into a target folder.
    fn of(options: &Options, target_folder: &Path) -> Result<Self> {
        let epoch = text_of(Command::new("git").args(["log", "-1", "--format=%ct"]))?;
        let home = std::env::var("CARGO_HOME")
            .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
            .context("CARGO_HOME")?;
        let here = fs::canonicalize(repository())?;
        let maps = [(here.display().to_string(), "/punctual"), (home, "/cargo")];
        let rust: Vec<String> = maps
            .iter()
            .map(|(from, to)| format!("--remap-path-prefix={from}={to}"))
            .collect();
        let c: Vec<String> = maps
            .iter()
            .map(|(from, to)| format!("-ffile-prefix-map={from}={to}"))
            .collect();
        let status = Command::new(env!("CARGO"))
            .current_dir(repository())
            .args(["build", "--locked", "-p", "punctual"])
            .args(["--profile", &options.profile, "--target", &options.target])
            .arg("--target-dir")
            .arg(target_folder)
            .env("RUSTFLAGS", rust.join(" "))
            .env("CFLAGS", c.join(" "))
            .env("SOURCE_DATE_EPOCH", &epoch)
            .status()?;
        if !status.success() {
            bail!("cargo build: {status}");
        }
        let folder = if options.profile == "dev" {
            "debug"
        } else {
            &options.profile
        };
        Ok(Self {
            program: target_folder
                .join(&options.target)
                .join(folder)
                .join("punctual"),
            target: options.target.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            epoch,
            folder: target_folder.join("packages").join(&options.target),
        })
    }

    /// Whether a second build, in another folder, gives the same bytes.
    fn is_repeatable(&self, options: &Options) -> Result<bool> {
        let second = Self::of(options, &target_folder().join("second"))?;
        Ok(fs::read(&self.program)? == fs::read(second.program)?)
    }

    fn name(&self) -> String {
        format!("punctual-{}-{}", self.version, self.target)
    }

    /// The tarball: files by name, of root, at the time of the commit.
    fn tarball(&self, staged: &Path) -> Result<()> {
        let path = self.folder.join(format!("{}.tar.gz", self.name()));
        let status = Command::new("tar")
            .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
            .args(["--format=gnu", &format!("--mtime=@{}", self.epoch)])
            .arg(format!("--transform=s,^\\.,{},", self.name()))
            .args(["--use-compress-program=gzip -9n", "-cf"])
            .arg(&path)
            .arg("-C")
            .arg(staged)
            .arg(".")
            .status()
            .context("tar")?;
        if !status.success() {
            bail!("tar: {status}");
        }
        Ok(())
    }

    /// The package for Debian and its kin, from `package.metadata.deb`.
    fn deb(&self) -> Result<()> {
        let Ok(cargo_deb) = program("cargo-deb", "cargo-deb (cargo install)") else {
            println!("SKIP .deb: cargo-deb is not installed");
            return Ok(());
        };
        self.packager(Command::new(cargo_deb).args([
            "--manifest-path",
            "crates/punctual/Cargo.toml",
            "--no-build",
            "--no-strip",
        ]))
    }

    /// The package for Fedora and its kin, from `package.metadata.generate-rpm`.
    fn rpm(&self) -> Result<()> {
        let Ok(cargo_rpm) = program("cargo-generate-rpm", "cargo-generate-rpm") else {
            println!("SKIP .rpm: cargo-generate-rpm is not installed");
            return Ok(());
        };
        self.packager(Command::new(cargo_rpm).args(["-p", "crates/punctual"]))
    }

    fn packager(&self, command: &mut Command) -> Result<()> {
        command
            .current_dir(repository())
            .args(["--target", &self.target, "--output"])
            .arg(&self.folder)
            .env("SOURCE_DATE_EPOCH", &self.epoch);
        // cargo-generate-rpm takes a folder only where it exists.
        fs::create_dir_all(&self.folder)?;
        let status = command.status()?;
        if !status.success() {
            bail!("{command:?}: {status}");
        }
        Ok(())
    }

    fn sums(&self) -> Result<()> {
        let mut names: Vec<String> = fs::read_dir(&self.folder)?
            .flatten()
            .filter(|entry| entry.path().is_file())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        let sums = Command::new("sha256sum")
            .current_dir(&self.folder)
            .args(&names)
            .output()
            .context("sha256sum")?;
        if !sums.status.success() {
            bail!("sha256sum: {}", sums.status);
        }
        Ok(fs::write(self.folder.join("SHA256SUMS"), sums.stdout)?)
    }
}

/// What a program prints, without the end of its line.
fn text_of(command: &mut Command) -> Result<String> {
    let output = command.current_dir(repository()).output()?;
    if !output.status.success() {
        bail!("{command:?}: {}", output.status);
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
