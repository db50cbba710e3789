//! Tasks of the project that have no cargo command: `cargo xtask NAME`.
//!
//! **For:** `test`, all tests, where failed tests are repeated and skips are compared with a list;
//! `vm`, the tests that need a PREEMPT_RT kernel, in an emulated machine; `vm-boots`, an experiment
//! on boots of that machine; `vm-grub`, the parameters of its boot loader; `vm-rtla`, the
//! kernel's tests of rtla; `ordinary-user`, the
//! tests without any privilege; `simulate`, the error rates of the statistics; `years`, size and
//! speed of a store of ten years; `dist`, packages; `cross`, other processors; `deps`, licences and
//! advisories; `msrv`, the oldest Rust; `conformance`, the tests with programs of others; `mutants`, tests of the tests; `loom` and `miri`, tests under
//! models of memory; `schemas`, the JSON Schemas of the output; `regenerate`, these and all other
//! generated files.
//!
//! **Knows:** cargo, the emulator, the folders in which a distribution stores its kernels.
//!
//! **Must not know:** the other crates; it builds and runs them as a user would.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod conformance;
mod cross;
mod deps;
mod dist;
mod gate;
mod left;
mod models;
mod msrv;
mod mutants;
mod ordinary_user;
mod paths;
mod programs;
mod regenerate;
mod schemas;
mod simulate;
mod suite;
mod test;
mod vm;
mod years;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the project")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run all tests; repeat failures alone, compare skips with those expected.
    Test(test::Options),
    /// Run tests on a PREEMPT_RT kernel, in an emulated machine.
    Vm(vm::Options),
    /// Compare two kernel command lines in an emulated machine, six boots each.
    VmBoots(vm::BootOptions),
    /// Write and revert kernel parameters on a disk with GRUB, and boot that disk.
    VmGrub(vm::GrubOptions),
    /// Run the kernel's tests of rtla with punctual, in an emulated machine.
    VmRtla(vm::RtlaOptions),
    /// As root, run the tests that depend on privileges as a user without any.
    OrdinaryUser(ordinary_user::Options),
    /// Build and pack the program: tarball, .deb, .rpm, checksums, list of parts.
    Dist(dist::Options),
    /// Install, run, remove and purge the .deb in a separate Debian root.
    DistInstall(dist::InstallOptions),
    /// Pack the sources with all crates, for builds without a network.
    DistSources(dist::SourcesOptions),
    /// Run the tests with programs of others, and list those that passed.
    Conformance(conformance::Options),
    /// Check the program for other processors; run tests of the clocks under emulation.
    Cross(cross::Options),
    /// Check licences, sources and advisories of dependencies.
    Deps(deps::Options),
    /// Check the workspace with the oldest Rust that it names.
    Msrv(msrv::Options),
    /// Test every order of accesses to memory that threads share without a lock.
    Loom,
    /// Run unit tests in an interpreter that detects undefined behaviour.
    Miri(models::MiriOptions),
    /// Test the tests: run them for a sample of small faults in the code.
    Mutants(mutants::Options),
    /// Write all generated files again: schemas, pages, snapshots, seeds, the C header.
    Regenerate(regenerate::Options),
    /// Write the JSON Schemas of the output from the source.
    Schemas(schemas::Options),
    /// Count false alarms and missed differences of the statistics on simulated machines.
    Simulate(simulate::Options),
    /// Create a store of simulated years; measure the verbs that read it.
    Years(years::Options),
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Test(options) => test::run(&options),
        Task::Vm(options) => vm::run(&options),
        Task::VmBoots(options) => vm::run_boots(&options),
        Task::VmGrub(options) => vm::run_grub(&options),
        Task::VmRtla(options) => vm::run_rtla(&options),
        Task::OrdinaryUser(options) => ordinary_user::run(&options),
        Task::Dist(options) => dist::run(&options),
        Task::DistInstall(options) => dist::install(&options),
        Task::DistSources(options) => dist::sources(&options),
        Task::Conformance(options) => conformance::run(&options),
        Task::Cross(options) => cross::run(&options),
        Task::Deps(options) => deps::run(&options),
        Task::Msrv(options) => msrv::run(&options),
        Task::Loom => models::loom(),
        Task::Miri(options) => models::miri(&options),
        Task::Mutants(options) => mutants::run(&options),
        Task::Regenerate(options) => regenerate::run(&options),
        Task::Schemas(options) => schemas::run(&options),
        Task::Simulate(options) => simulate::run(&options),
        Task::Years(options) => years::run(&options),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_options_fit_together() {
        super::Cli::command().debug_assert();
    }
}
