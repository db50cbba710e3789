//! The programs on the machines: the usual test programs without debugging information, and the
//! libraries that they load.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::arch::Arch;
use super::machines::{Machine, Suite};
use crate::paths::{self, folder, program, repository};
use crate::programs::{self, Programs};

/// Shared libraries and the loader: files of this machine, with their paths on the emulated one.
pub(super) type Libraries = BTreeMap<PathBuf, PathBuf>;

/// The programs of the machines.
pub(crate) struct Payload {
    programs: Programs,
    /// The libraries that `punctual` and the test programs load, by path on the machine.
    pub(crate) libraries: Libraries,
    /// Examples of the kit in C and C++, with their paths on the machine.
    pub(crate) kit: Vec<(PathBuf, PathBuf)>,
}

impl Payload {
    /// Returns the program `punctual` that the tests run.
    pub(crate) fn binary(&self) -> &Path {
        &self.programs.binary
    }

    /// Returns the test program of a suite.
    pub(crate) fn folder_for(&self, suite: &Suite) -> Result<&Path> {
        find(&self.programs, suite)
    }
}

/// Builds `punctual` without any tests, and returns the path of the program.
///
/// # Errors
/// Fails if the build fails.
pub(super) fn punctual() -> Result<PathBuf> {
    let status = paths::cargo()
        .args(["build", "--quiet", "--package", "punctual"])
        .current_dir(repository())
        .status()
        .context("cargo")?;
    ensure!(status.success(), "cargo build: {status}");
    Ok(paths::target().join("debug/punctual"))
}

/// Returns the examples of the kit in C and C++ with their paths on the machine. If there is no
/// compiler for a language, there are no examples in it. The library is in the folder of the test
/// program `test`.
fn kit_examples(test: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let near = test
        .parent()
        .into_iter()
        .flat_map(|folder| [Some(folder), folder.parent()]);
    let mut libraries = near
        .flatten()
        .map(|folder| folder.join("libpunctual_kit.a"));
    let library = libraries.find(|path| path.exists());
    let library = library.context("cargo built no libpunctual_kit.a")?;
    let capi = repository().join("crates/kit/capi");
    let mut built = Vec::new();
    for (compiler, standard, ending) in [("cc", "-std=c11", "c"), ("c++", "-std=c++17", "cpp")] {
        if Command::new(compiler).arg("--version").output().is_err() {
            continue;
        }
        let made = folder().join("kit").join(ending);
        std::fs::create_dir_all(&made).with_context(|| made.display().to_string())?;
        for entry in std::fs::read_dir(capi.join("examples"))? {
            let source = entry?.path();
            let (Some(name), true) = (
                source.file_stem(),
                source.extension() == Some(ending.as_ref()),
            ) else {
                continue;
            };
            let program = made.join(name);
            let status = Command::new(compiler)
                .args([standard, "-O1", "-s", "-I"])
                .arg(capi.join("include"))
                .args([&source, &library])
                .args(["-lpthread", "-ldl", "-lm", "-o"])
                .arg(&program)
                .status()?;
            if !status.success() {
                bail!("{compiler} {}: {status}", source.display());
            }
            built.push((program, Path::new(KIT).join(ending).join(name)));
        }
    }
    Ok(built)
}

/// Folder of the kit's examples on the machine. The tests of the C interface run them there.
pub(super) const KIT: &str = "/kit";

fn find<'a>(programs: &'a Programs, suite: &Suite) -> Result<&'a Path> {
    programs
        .tests
        .iter()
        .find(|test| {
            test.package() == suite.folder() && test.file.as_deref() == suite.target.name()
        })
        .map(|test| test.path.as_path())
        .with_context(|| format!("cargo built no {:?} of {}", suite.target, suite.package))
}

/// Builds the programs of the machines.
pub(crate) fn payload(arch: &Arch, machines: &[&Machine]) -> Result<Payload> {
    let suites = machines.iter().flat_map(|machine| machine.suites);
    let programs = match &arch.foreign {
        None => programs::build()?,
        Some(foreign) => {
            let tests = suites.map(|suite| (suite.package, suite.target.name()));
            programs::build_for(foreign.target, &tests.collect())?
        }
    };
    let mut libraries = libraries_of(arch, &programs.binary)?;
    let mut kit = Vec::new();
    for suite in machines.iter().flat_map(|machine| machine.suites) {
        let program = find(&programs, suite)?;
        libraries.extend(libraries_of(arch, program)?);
        if suite.package == "punctual-capi" {
            kit = kit_examples(program)?;
        }
    }
    for (program, _) in &kit {
        libraries.extend(libraries_of(arch, program)?);
    }
    Ok(Payload {
        programs,
        libraries,
        kit,
    })
}

/// Returns the shared libraries that a program loads, and its loader.
pub(super) fn libraries_of(arch: &Arch, path: &Path) -> Result<Libraries> {
    if let Some(foreign) = &arch.foreign {
        // ldd only supports programs for this machine's processor.
        let folder = Path::new(foreign.libraries);
        let names = foreign.loaded.iter();
        return Ok(names
            .map(|name| (folder.join(name), Path::new("/lib").join(name)))
            .collect());
    }
    let output = Command::new("ldd").arg(path).output().context("ldd")?;
    if !output.status.success() {
        bail!("ldd {}: {}", path.display(), output.status);
    }
    Ok(paths_of(&String::from_utf8_lossy(&output.stdout)))
}

/// Returns the files in the output of ldd(1). Libraries that the kernel provides have no file.
fn paths_of(listed: &str) -> Libraries {
    listed
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(|path| (PathBuf::from(path), PathBuf::from(path)))
        .collect()
}

/// Returns a copy of a program without debugging information, because the machine keeps all files
/// in memory.
pub(crate) fn stripped(arch: &Arch, path: &Path) -> Result<PathBuf> {
    let name = path.file_name().context("a program has a name")?;
    let copies = folder().join("stripped");
    std::fs::create_dir_all(&copies)?;
    let copy = copies.join(format!("{}{}", arch.prefix(), name.display()));
    let (tools, package) = match &arch.foreign {
        Some(foreign) => (foreign.tools, foreign.compiler),
        None => ("", "binutils"),
    };
    let strip = program(&format!("{tools}strip"), package)?;
    let status = Command::new(strip)
        .arg("-o")
        .arg(&copy)
        .arg(path)
        .status()?;
    if !status.success() {
        bail!("strip {}: {status}", path.display());
    }
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_parsed_from_ldd() {
        let listed = "\tlinux-vdso.so.1 (0x00007ffc)\n\
                      \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found: Vec<_> = paths_of(listed).into_keys().collect();
        assert_eq!(
            found,
            [
                Path::new("/lib/x86_64-linux-gnu/libc.so.6"),
                Path::new("/lib64/ld-linux-x86-64.so.2")
            ]
        );
    }
}
