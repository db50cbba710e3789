//! `cargo xtask dist`: builds the release packages of both programs. A package contains a static
//! program with its manual pages, completions, units and licences. cargo-deb and cargo-generate-rpm
//! pack it as described in the manifest of the program, and cargo-cyclonedx lists its parts.

mod flags;
mod image;
mod install;
mod sources;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::paths::{self, program, repository};

pub(crate) use install::{Options as InstallOptions, run as install};
pub(crate) use sources::{Options as SourcesOptions, run as sources};

#[derive(Args)]
pub(crate) struct Options {
    /// Target to build for; targets for other processors need a cross compiler
    #[arg(long, default_value = "x86_64-unknown-linux-musl")]
    target: String,
    /// Profile of the build; `dev` builds fast, but the program is large
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Pack only this program: punctual or punctual-server
    #[arg(long, value_name = "NAME")]
    package: Option<String>,
    /// Pack this file, built for the target, instead of building the program
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "verify",
        requires = "package"
    )]
    program: Option<PathBuf>,
    /// Build the programs twice and compare
    #[arg(long)]
    verify: bool,
}

/// A program with packages of its own.
pub(crate) struct Package {
    /// The name of the program, of its crate and of its packages.
    pub(crate) name: &'static str,
    /// The folder of its manifest.
    folder: &'static str,
    /// What describes its image.
    containerfile: &'static str,
}

/// The programs.
const PACKAGES: &[Package] = &[
    Package {
        name: "punctual",
        folder: "crates/cli/punctual",
        containerfile: "packaging/Containerfile",
    },
    Package {
        name: "punctual-server",
        folder: "crates/cli/server",
        containerfile: "packaging/Containerfile.server",
    },
];

/// A build of the program that is packed.
pub(crate) struct Build {
    package: &'static Package,
    target: String,
    profile: String,
    version: String,
    /// Time of the commit in seconds since 1970. All packed files get this time.
    epoch: String,
    sources: PathBuf,
    target_folder: PathBuf,
    /// The output folder of the packages.
    folder: PathBuf,
    program: PathBuf,
}

/// The packagers, which `cargo install` provides.
const PACKAGERS: [&str; 3] = ["cargo-cyclonedx", "cargo-deb", "cargo-generate-rpm"];

/// Builds the program and packs it.
///
/// # Errors
/// Fails if a packager is not installed, before the build. Fails if a build or a program fails.
pub(crate) fn run(options: &Options) -> Result<bool> {
    for name in PACKAGERS {
        if program(name, name).is_err() {
            bail!("{name} is not installed: run `cargo install --locked {name}`");
        }
    }
    let is_chosen = |package: &&Package| {
        let wanted = options.package.as_deref();
        wanted.is_none_or(|name| name == package.name)
    };
    let chosen: Vec<&Package> = PACKAGES.iter().filter(is_chosen).collect();
    if let (Some(name), true) = (&options.package, chosen.is_empty()) {
        bail!("no package '{name}': the packages are punctual and punctual-server");
    }
    let mut same = true;
    for package in chosen {
        same &= make(options, package)?;
    }
    Ok(same)
}

/// Builds a program and packs it. Returns whether a second build gave the same packages.
fn make(options: &Options, package: &'static Package) -> Result<bool> {
    let mut build = Build::new(options, package, repository(), &paths::target())?;
    match &options.program {
        Some(program) => build.program = fs::canonicalize(program)?,
        None => build.make()?,
    }
    build.pack()?;
    if options.verify {
        let folder = paths::target().join("second");
        let sources = folder.join("a-copy-of-the-sources");
        copy_sources(&sources)?;
        let second = Build::new(options, package, &sources, &folder.join("target"))?;
        second.make()?;
        second.pack()?;
        let sums = |build: &Build| fs::read_to_string(build.folder.join("SHA256SUMS"));
        let (first, second) = (sums(&build)?, sums(&second)?);
        if first != second {
            println!("NOT reproducible: two builds differ:\n{first}\n{second}");
            return Ok(false);
        }
        println!("reproducible: two builds, in two folders, gave packages with the same bytes");
    }
    println!("{}", build.folder.display());
    Ok(true)
}

impl Build {
    /// Creates a build of some sources in a target folder, without building yet.
    fn new(
        options: &Options,
        package: &'static Package,
        sources: &Path,
        target_folder: &Path,
    ) -> Result<Self> {
        fs::create_dir_all(target_folder)?;
        let target_folder = fs::canonicalize(target_folder)?;
        let mut build = Self {
            package,
            target: options.target.clone(),
            profile: options.profile.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            epoch: epoch()?,
            sources: fs::canonicalize(sources)?,
            folder: target_folder.join("packages"),
            target_folder,
            program: PathBuf::new(),
        };
        build.folder.push(build.name());
        build.program = build.products().join(package.name);
        Ok(build)
    }

    /// Returns the folder of cargo's products, `target/release` in the manifest.
    fn products(&self) -> PathBuf {
        let folder = match self.profile.as_str() {
            "dev" => "debug",
            profile => profile,
        };
        self.target_folder.join(&self.target).join(folder)
    }

    /// Returns a command of cargo for the sources of this build.
    fn cargo(&self) -> Command {
        let mut command = paths::cargo();
        command
            .current_dir(&self.sources)
            .env("CARGO_TARGET_DIR", &self.target_folder)
            .env("SOURCE_DATE_EPOCH", &self.epoch);
        command
    }

    /// Builds the program. It contains no path of this machine.
    fn make(&self) -> Result<()> {
        let flags = flags::Flags::new(&self.target, &self.sources)?;
        let mut command = self.cargo();
        command
            .args(["build", "--locked", "-p", self.package.name])
            .args(["--profile", &self.profile, "--target", &self.target])
            .envs(crate::cross::compilers_for(&self.target));
        flags.put_on(&mut command);
        succeed(&mut command)
    }

    /// Writes all packages of the program, and their checksums.
    fn pack(&self) -> Result<()> {
        let _ = fs::remove_dir_all(&self.folder);
        fs::create_dir_all(&self.folder)?;
        let staged = stage::make(self)?;
        self.tarball(&staged)?;
        self.deb()?;
        self.rpm()?;
        image::write(self, &staged)?;
        self.bill()?;
        sums(&self.folder)
    }

    fn name(&self) -> String {
        format!("{}-{}-{}", self.package.name, self.version, self.target)
    }

    /// Writes the tarball. In it, all files are in a folder with the tarball's name.
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

    /// Writes the package for Debian and its derivatives. The maintainer is taken from the
    /// variables that Debian's own tools read.
    fn deb(&self) -> Result<()> {
        let mut command = self.cargo();
        command
            .args(["deb", "--package", self.package.name])
            .args(["--no-build", "--no-strip"])
            .args(["--locked", "--target", &self.target])
            .args(["--profile", &self.profile, "--output"])
            .arg(&self.folder);
        match (std::env::var("DEBFULLNAME"), std::env::var("DEBEMAIL")) {
            (Ok(name), Ok(address)) => {
                command.arg(format!("--maintainer={name} <{address}>"));
            }
            (Err(_), Err(_)) => {}
            _ => bail!("the maintainer is incomplete: set DEBFULLNAME and DEBEMAIL, or neither"),
        }
        succeed(&mut command)
    }

    /// Writes the package for Fedora and its derivatives.
    fn rpm(&self) -> Result<()> {
        let mut command = self.cargo();
        command
            .args(["generate-rpm", "--package", self.package.folder])
            .args(["--arch", rpm_architecture(&self.target)])
            .args(["--target", &self.target, "--profile", &self.profile])
            .arg("--target-dir")
            .arg(&self.target_folder)
            .arg("--output")
            .arg(&self.folder);
        succeed(&mut command)
    }

    /// Writes the list of the program's parts with their licences (CycloneDX 1.5). The tool writes
    /// a list into the folder of each crate, so it is run on a copy of the sources.
    fn bill(&self) -> Result<()> {
        let copy = self.target_folder.join("packages/bill");
        copy_sources(&copy)?;
        let mut command = self.cargo();
        command
            .current_dir(copy.join(self.package.folder))
            .args([
                "cyclonedx",
                "--quiet",
                "--format=json",
                "--spec-version=1.5",
            ])
            .args(["--override-filename=parts", "--target", &self.target]);
        succeed(&mut command)?;
        let bill = copy.join(self.package.folder).join("parts.json");
        let bill = fs::read_to_string(bill)?;
        let bill = bill.replace(&copy.display().to_string(), "/punctual");
        let name = format!("{}.cdx.json", self.name());
        fs::write(self.folder.join(name), bill)?;
        Ok(fs::remove_dir_all(&copy)?)
    }
}

/// Returns the time of the commit in seconds since 1970.
fn epoch() -> Result<String> {
    text_of(Command::new("git").args(["log", "-1", "--format=%ct"]))
}

/// Writes a tar archive of some files. They are sorted by name and owned by root, and have the time
/// of the commit.
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
    // git lists a deleted file until its deletion is committed, so missing files are skipped.
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

/// Runs a program that must succeed, without its output.
fn succeed(command: &mut Command) -> Result<()> {
    let status = command
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("{command:?}"))?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}

/// Returns the output of a program, without the last line end.
fn text_of(command: &mut Command) -> Result<String> {
    let output = command.current_dir(repository()).output()?;
    if !output.status.success() {
        bail!("{command:?}: {}", output.status);
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
