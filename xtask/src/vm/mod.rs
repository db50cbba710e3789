//! Tests on a PREEMPT_RT kernel in an emulated machine.
//!
//! The kernel is Debian's, downloaded and unpacked but not installed. The first file system
//! contains busybox, the program and the test programs at the paths of the build, with the
//! libraries that they load, so that tests run as they do on this machine. Latencies that are
//! measured there mean nothing. The tests only check the behaviour of the program.

mod arch;
mod archive;
mod boot;
mod boots;
mod build;
mod console;
mod grub;
mod kernel;
mod machines;
mod modules;
mod network;
mod rtla_suite;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::gate::{self, Gate};
use crate::paths;
use arch::{ARCHES, Arch};
pub(crate) use boots::{Options as BootOptions, run as run_boots};
use console::Tally;
pub(crate) use grub::{Options as GrubOptions, run as run_grub};
use machines::Machine;
pub(crate) use rtla_suite::{Options as RtlaOptions, run as run_rtla};

/// Options of `cargo xtask vm`.
#[derive(Args)]
pub(crate) struct Options {
    /// Run only the machines with these names.
    machines: Vec<String>,
    /// Processor of the machines: x86_64 or arm64.
    #[arg(long, value_name = "NAME", default_value = "x86_64")]
    arch: String,
    /// Fail instead of skipping if the emulator, busybox or the kernel is missing.
    #[arg(long)]
    required: bool,
    /// Show all output of the machine's console.
    #[arg(long)]
    verbose: bool,
    /// Run a machine with failed tests again only when this file exists, because other tests take its
    /// CPU time until then.
    #[arg(long, value_name = "FILE")]
    repeat_after: Option<PathBuf>,
    #[command(flatten)]
    gate: gate::Options,
}

/// Runs the tests of each machine and returns whether all passed. A machine with a failed test runs
/// again alone.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let arch = arch_of(&options.arch)?;
    let machines = chosen(arch, &options.machines)?;
    let gate = Gate::new(&options.gate)?;
    let gate = if options.machines.is_empty() {
        gate.of_all()
    } else {
        gate
    };
    let parts = match needed(arch) {
        Ok(parts) => parts,
        Err(lacking) if !options.required => {
            println!("SKIP vm: {lacking:#}");
            return Ok(true);
        }
        Err(lacking) => return Err(lacking),
    };
    let payload = build::payload(arch, &machines)?;
    let modules = modules::build(&parts)
        .inspect_err(|lacking| println!("SKIP the tests' modules of the kernel: {lacking:#}"))
        .unwrap_or_default();
    let mut ready = Vec::new();
    for machine in machines {
        let archive = archive::write(machine, &payload, &parts, &modules)?;
        ready.push((machine, archive));
    }
    let run = |machine, archive| come_up(machine, &parts, archive, options.verbose);
    // Each machine emulates its CPUs on one thread, so several machines run in parallel.
    let (tallies, boots): (Vec<Result<Tally>>, Result<bool>) = std::thread::scope(|scope| {
        // The experiment on boots needs modules of the gate's kernel.
        let with_boots = options.machines.is_empty() && arch.foreign.is_none();
        let boots = with_boots
            .then(|| scope.spawn(|| boots::few(&parts, payload.binary(), options.verbose)));
        let started: Vec<_> = (ready.iter())
            .map(|(machine, archive)| {
                println!("machine {}: {}", machine.name, machine.summary);
                scope.spawn(move || run(machine, archive))
            })
            .collect();
        let ended = started.into_iter().map(|thread| thread.join());
        let tallies = ended.map(|tally| tally.unwrap_or_else(|_| bail!("its thread panicked")));
        let tallies = tallies.collect();
        let boots = boots.map_or(Ok(true), |thread| {
            thread
                .join()
                .unwrap_or_else(|_| bail!("its thread panicked"))
        });
        (tallies, boots)
    });
    let mut all = Tally::default();
    for ((machine, archive), tally) in ready.iter().zip(tallies) {
        let of_machine = || format!("machine {}", machine.name);
        let mut tally = tally.with_context(of_machine)?;
        println!("{}: {tally}", of_machine());
        if !tally.good() {
            wait_for(options.repeat_after.as_deref());
            println!("{}: run again", of_machine());
            let again = run(machine, archive).with_context(of_machine)?;
            tally = tally.then(again, machine.name);
            println!("{}: {tally}", of_machine());
        }
        all.add(&tally);
    }
    println!("\nvm: {all}");
    let accepted = gate.accepts(&all.programs, &all.rerun)?;
    Ok(boots.context("machine boots")? && all.good() && accepted)
}

/// Waits until a file exists. The process that creates it ends this one if it fails.
fn wait_for(file: Option<&Path>) {
    while file.is_some_and(|file| !file.exists()) {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Number of attempts to start a machine that does not reach its first test. The emulator sometimes
/// runs a stale copy of code that the kernel rewrites while booting.
const STARTS: u32 = 3;

/// Runs a machine until an attempt reaches its first test.
fn come_up(machine: &Machine, parts: &Parts, archive: &Path, verbose: bool) -> Result<Tally> {
    let mut start = 1;
    loop {
        let tally = boot::run(machine, parts, archive, verbose)?;
        if tally.began() || start == STARTS {
            return Ok(tally);
        }
        println!(
            "{}: the machine did not come up (start {start} of {STARTS})",
            machine.name
        );
        start += 1;
    }
}

/// Software and files that the emulation of a machine needs.
struct Parts {
    qemu: PathBuf,
    busybox: PathBuf,
    kernel: PathBuf,
    arch: &'static Arch,
}

fn needed(arch: &'static Arch) -> Result<Parts> {
    let qemu = paths::program(arch.qemu, arch.qemu_package)?;
    if let Some(foreign) = &arch.foreign {
        paths::program(&format!("{}gcc", foreign.tools), foreign.compiler)?;
    }
    Ok(Parts {
        qemu,
        busybox: kernel::static_busybox(arch)?,
        kernel: kernel::find(arch)?,
        arch,
    })
}

fn arch_of(name: &str) -> Result<&'static Arch> {
    let known: Vec<_> = ARCHES.iter().map(|arch| arch.name).collect();
    (ARCHES.iter().find(|arch| arch.name == name))
        .with_context(|| format!("no processor '{name}': there are {}", known.join(", ")))
}

fn chosen(arch: &Arch, names: &[String]) -> Result<Vec<&'static Machine>> {
    let known = || {
        let names: Vec<_> = arch.machines.iter().map(|m| m.name).collect();
        names.join(", ")
    };
    if names.is_empty() {
        let usual = arch.machines.iter().filter(|machine| !machine.on_request);
        return Ok(usual.collect());
    }
    names
        .iter()
        .map(|name| {
            (arch.machines.iter().find(|machine| machine.name == name))
                .with_context(|| format!("no machine '{name}': there are {}", known()))
        })
        .collect()
}
