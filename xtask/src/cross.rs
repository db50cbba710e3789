//! `cargo xtask cross`: checks that the program builds for other processors, and that its tests
//! pass under user emulation.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::paths::{self, program, repository};

/// A target for which the program is built, with the tools that this machine needs for the build.
pub(crate) struct Target {
    pub(crate) triple: &'static str,
    /// The C compiler, which is also the linker. `package` is its Debian package.
    gcc: &'static str,
    package: &'static str,
    /// The emulator of qemu-user. `libraries` is the folder with the libraries of the target.
    emulator: &'static str,
    libraries: &'static str,
}

pub(crate) const TARGETS: &[Target] = &[
    Target {
        triple: "aarch64-unknown-linux-gnu",
        gcc: "aarch64-linux-gnu-gcc",
        package: "gcc-aarch64-linux-gnu",
        emulator: "qemu-aarch64",
        libraries: "/usr/aarch64-linux-gnu",
    },
    Target {
        triple: "armv7-unknown-linux-gnueabihf",
        gcc: "arm-linux-gnueabihf-gcc",
        package: "gcc-arm-linux-gnueabihf",
        emulator: "qemu-arm",
        libraries: "/usr/arm-linux-gnueabihf",
    },
    Target {
        triple: "riscv64gc-unknown-linux-gnu",
        gcc: "riscv64-linux-gnu-gcc",
        package: "gcc-riscv64-linux-gnu",
        emulator: "qemu-riscv64",
        libraries: "/usr/riscv64-linux-gnu",
    },
];

/// Tests that run under emulation: those of the clocks, whose code depends on the processor, those
/// of plain data, and those of the facts of other machines.
const TESTS: &[(&str, &[&str])] = &[
    (
        "punctual-rt",
        &["--lib", "--", "tsc", "posix_clock", "clock"],
    ),
    ("punctual-model", &["--lib"]),
    ("punctual-host", &["--lib", "--test", "trees"]),
];

#[derive(Args)]
pub(crate) struct Options {
    /// Target, such as aarch64-unknown-linux-gnu [default: all that can be built here]
    #[arg(long)]
    target: Vec<String>,
    /// Check only; run nothing under emulation
    #[arg(long)]
    check_only: bool,
}

/// Checks each target and runs the tests that can run here.
///
/// # Errors
/// Fails for an unknown target, or if a program cannot be started.
pub(crate) fn run(options: &Options) -> Result<bool> {
    for name in &options.target {
        if !TARGETS.iter().any(|target| target.triple == name) {
            let known: Vec<&str> = TARGETS.iter().map(|target| target.triple).collect();
            bail!("unknown target {name}: choose from {}", known.join(", "));
        }
    }
    let wanted = |target: &&Target| {
        options.target.is_empty() || options.target.iter().any(|name| name == target.triple)
    };
    let mut good = true;
    for target in TARGETS.iter().filter(wanted) {
        if let Err(error) = program(target.gcc, target.package) {
            println!("SKIP {}: {error}", target.triple);
            good &= options.target.is_empty();
            continue;
        }
        println!("{}: cargo check", target.triple);
        good &= cargo(target, &["check", "--workspace", "--exclude", "xtask"])?;
        if options.check_only {
            continue;
        }
        match program(target.emulator, "qemu-user") {
            Ok(emulator) => good &= emulated(target, &emulator)?,
            Err(error) => println!("SKIP {} under emulation: {error}", target.triple),
        }
    }
    Ok(good)
}

/// Runs the tests of processor-specific code under emulation.
fn emulated(target: &Target, emulator: &Path) -> Result<bool> {
    let runner = format!("{} -L {}", emulator.display(), target.libraries);
    let mut good = true;
    for (package, words) in TESTS {
        let mut command = cargo_for(target);
        command
            .env(variable(target, "RUNNER"), &runner)
            .args(["test", "--package", package, "--target", target.triple])
            .args(*words);
        println!(
            "{}: tests of {package} under {}",
            target.triple, target.emulator
        );
        good &= command.status()?.success();
    }
    Ok(good)
}

fn cargo(target: &Target, arguments: &[&str]) -> Result<bool> {
    let mut command = cargo_for(target);
    command.args(arguments).args(["--target", target.triple]);
    Ok(command.status()?.success())
}

fn cargo_for(target: &Target) -> Command {
    let mut command = paths::cargo();
    command
        .current_dir(repository())
        .envs(compilers_for(target.triple));
    command
}

/// Returns variables that name the compilers of a target. Empty if cargo chooses the right ones
/// itself.
pub(crate) fn compilers_for(triple: &str) -> Vec<(String, &'static str)> {
    let Some(target) = TARGETS.iter().find(|target| target.triple == triple) else {
        return Vec::new();
    };
    let underscored = target.triple.replace('-', "_");
    vec![
        (format!("CC_{underscored}"), target.gcc),
        (variable(target, "LINKER"), target.gcc),
    ]
}

/// Returns the name of cargo's variable for a target.
fn variable(target: &Target, what: &str) -> String {
    let name = target.triple.replace('-', "_").to_uppercase();
    format!("CARGO_TARGET_{name}_{what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_those_of_cargo() {
        assert_eq!(
            variable(&TARGETS[0], "LINKER"),
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER"
        );
    }
}
