//! `topology`: the topology of CPUs, caches and memory; and `place`: CPUs for
//! threads.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};
use punctual_host::Host;
use punctual_model::{CpuSet, Placement};
use punctual_report::{document, plot, text};

use super::watching::json_option;
use super::{Verb, output_option};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output::{self, Output};

pub(super) const VERB: Verb = Verb { command, run };
pub(super) const PLACE: Verb = Verb {
    command: place_command,
    run: place,
};

fn command() -> Command {
    Command::new("topology")
        .about("Show sockets, cores, caches, memory nodes and isolated CPUs")
        .arg(output_option("Draw it to this file (SVG)"))
        .arg(json_option())
}

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let all = Host::live().topology()?;
    if let Some(path) = matches.get_one::<PathBuf>("output") {
        Output::open(path)?.put(plot::topology(&all).as_bytes())?;
        return Ok(Exit::Done);
    }
    let out = match matches.get_flag("json") {
        true => output::json(&all)?,
        false => text::render(&document::topology(&all), &context.style()),
    };
    output::print(&out)?;
    Ok(Exit::Done)
}

fn place_command() -> Command {
    let pattern = |name: &'static str, about: &'static str| Command::new(name).about(about);
    Command::new("place")
        .about("Recommend CPUs: for the system, beside an interrupt, for a pair")
        .long_about(
            "Recommend CPUs on this machine, with the reasons: one core for the system and \
             the others for real-time work; a thread beside the interrupt or the softirq it waits \
             for; a producer and its consumer on one cache. It changes nothing: give the CPUs to \
             `punctual exec --cpus` or `punctual tune`.",
        )
        .subcommand_required(true)
        .subcommand(pattern(
            "system",
            "One core for the system, the others for real-time work",
        ))
        .subcommand(
            pattern(
                "beside",
                "A thread beside an interrupt or a CPU with a softirq",
            )
            .arg(
                Arg::new("irq")
                    .long("irq")
                    .value_name("N")
                    .value_parser(value_parser!(u32))
                    .help("Interrupt whose work the thread continues"),
            )
            .arg(
                Arg::new("cpu")
                    .long("cpu")
                    .value_name("CPU")
                    .value_parser(value_parser!(u32))
                    .help("CPU whose softirqs pass work to the thread"),
            )
            .group(ArgGroup::new("what").args(["irq", "cpu"]).required(true)),
        )
        .subcommand(pattern("pair", "A producer and its consumer on one cache"))
        .arg(json_option().global(true))
        .arg(
            Arg::new("quiet")
                .short('q')
                .long("quiet")
                .global(true)
                .action(ArgAction::SetTrue)
                .help("Print only the CPUs, one per line, for scripts"),
        )
}

fn place(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let host = Host::live();
    let all = host.topology()?;
    let (name, of) = matches
        .subcommand()
        .ok_or_else(|| UsageError("a subcommand is missing: system, beside or pair".to_owned()))?;
    let places: Vec<Placement> = match name {
        "system" => all.reserve_core()?.into(),
        "pair" => all.pair()?.into(),
        _ => vec![all.beside(cpu_of(of, &host)?)?],
    };
    let out = if of.get_flag("json") {
        output::json(&places)?
    } else if of.get_flag("quiet") {
        places
            .iter()
            .map(|place| format!("{}\n", place.cpus))
            .collect()
    } else {
        text::render(&document::placements(&places), &context.style())
    };
    output::print(&out)?;
    Ok(Exit::Done)
}

/// The given CPU, or the one that serves the interrupt.
fn cpu_of(matches: &ArgMatches, host: &Host) -> Result<u32> {
    if let Some(cpu) = matches.get_one::<u32>("cpu") {
        return Ok(*cpu);
    }
    let number = matches.get_one::<u32>("irq").copied().unwrap_or_default();
    let id = number.to_string();
    let interrupts = host.interrupts()?;
    let interrupt = interrupts
        .iter()
        .find(|interrupt| interrupt.id == id)
        .ok_or_else(|| UsageError(format!("no interrupt {number} (see punctual irqs)")))?;
    let sent = [&interrupt.effective, &interrupt.affinity];
    let first = |cpus: &CpuSet| cpus.iter().next();
    sent.iter()
        .find_map(|fact| fact.get().and_then(first))
        .with_context(|| format!("the affinity of interrupt {number} cannot be read"))
}
