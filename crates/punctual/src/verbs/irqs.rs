//! `irqs`: interrupts with their CPUs, affinity and handlers, and changes of the
//! affinity.

use std::sync::atomic::AtomicBool;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use punctual_host::Host;
use punctual_model::{CpuSet, InterruptKind, InterruptRecord, Nanos};
use punctual_report::document::{self, InterruptRow};
use punctual_report::text;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Verb, measure, parsed, tune, watching};
use crate::context::Context;
use crate::exit::Exit;
use crate::output;

pub(super) const VERB: Verb = Verb { command, run };

fn command() -> Command {
    Command::new("irqs")
        .about("List interrupts: counts per CPU, affinity and handlers")
        .long_about(
            "List the interrupts that occurred: counts per CPU, affinity and effective \
             affinity, handler threads with their priority, kind (MSI or \
             line), devices that share a line; and the kernel's own (timers, calls between CPUs, NMI). With --watch: rates.\n\n\
             `move` changes the affinity as `punctual tune` does: journalled, read back, and \
             restored exactly by `punctual tune revert`.",
        )
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("move")
                .about("Move interrupts to other CPUs, until `punctual tune revert`")
                .arg(
                    Arg::new("irq")
                        .value_name("IRQ")
                        .required(true)
                        .num_args(1..)
                        .value_delimiter(',')
                        .help("Numbers or devices: 24 25, 'eth0*'"),
                )
                .arg(
                    Arg::new("cpus")
                        .short('c')
                        .long("cpus")
                        .value_name("LIST")
                        .required(true)
                        .value_parser(parsed::<CpuSet>())
                        .help("CPUs of the affinity"),
                ),
        )
        .arg(
            Arg::new("all")
                .long("all")
                .action(ArgAction::SetTrue)
                .help("Include interrupts that never occurred"),
        )
        .arg(
            Arg::new("devices")
                .long("devices")
                .action(ArgAction::SetTrue)
                .help("Omit the kernel's own interrupts"),
        )
        .arg(watching::option("Show rates, counted over this time"))
        .arg(watching::json_option())
}

fn run(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    if let Some(("move", matches)) = matches.subcommand() {
        return send_elsewhere(matches, context);
    }
    let host = Host::live();
    let json_wanted = matches.get_flag("json");
    let text = |rows: Vec<InterruptRow>| {
        let rows = wanted(matches, rows);
        text::render(&document::interrupts(&rows), &context.list_style())
    };
    match matches.get_one::<Nanos>("watch") {
        Some(time) => {
            let stop = measure::stop_flag()?;
            if json_wanted {
                print_json(wanted(matches, watched(&host, *time, &stop)?))?;
            } else {
                watching::show(&stop, || Ok(text(watched(&host, *time, &stop)?)))?;
            }
        }
        None => {
            let rows = so_far(host.interrupts()?);
            match json_wanted {
                true => print_json(wanted(matches, rows))?,
                false => output::print(&text(rows))?,
            }
        }
    }
    Ok(Exit::Done)
}

/// The selected rows.
fn wanted(matches: &ArgMatches, mut rows: Vec<InterruptRow>) -> Vec<InterruptRow> {
    rows.retain(|row| {
        (matches.get_flag("all") || row.counts.iter().any(|count| count.1 > 0))
            && !(matches.get_flag("devices") && row.interrupt.kind == InterruptKind::Kernel)
    });
    rows
}

fn print_json(rows: Vec<InterruptRow>) -> Result<()> {
    let values: Vec<_> = rows.into_iter().map(json).collect();
    output::print(&output::json(&values)?)
}

/// Counts since the boot.
fn so_far(interrupts: Vec<InterruptRecord>) -> Vec<InterruptRow> {
    let row = |interrupt: InterruptRecord| InterruptRow {
        counts: interrupt.counts.clone(),
        interrupt,
        over_ns: None,
    };
    interrupts.into_iter().map(row).collect()
}

fn send_elsewhere(matches: &ArgMatches, context: &Context) -> Result<Exit> {
    let cpus = matches
        .get_one::<CpuSet>("cpus")
        .cloned()
        .unwrap_or_default();
    let wanted = matches.get_many::<String>("irq").into_iter().flatten();
    let settings: Vec<String> = wanted
        .map(|irq| format!("irq-affinity@{irq}={cpus}"))
        .collect();
    tune::apply_some(&settings, context)
}

fn watched(host: &Host, time: Nanos, stop: &AtomicBool) -> Result<Vec<InterruptRow>> {
    let before = host.interrupts()?;
    let over = watching::wait(Some(time), stop, || Ok(()))?;
    let after = host.interrupts()?;
    Ok(after
        .into_iter()
        .filter_map(|interrupt| {
            let earlier = before.iter().find(|before| before.id == interrupt.id)?;
            Some(InterruptRow {
                counts: interrupt.since(earlier),
                interrupt,
                over_ns: Some(over.as_nanos() as u64),
            })
        })
        .collect())
}

/// An interrupt as JSON.
#[derive(Serialize, JsonSchema)]
pub(super) struct InterruptJson {
    /// The interrupt, with its counts since the boot, or in `counts_in_ns`.
    #[serde(flatten)]
    interrupt: InterruptRecord,
    /// Time of counting with `--watch`; null without it.
    counts_in_ns: Option<u64>,
    /// Whether several devices share it.
    shared: bool,
}

fn json(row: InterruptRow) -> InterruptJson {
    InterruptJson {
        shared: row.interrupt.is_shared(),
        interrupt: InterruptRecord {
            counts: row.counts,
            ..row.interrupt
        },
        counts_in_ns: row.over_ns,
    }
}
