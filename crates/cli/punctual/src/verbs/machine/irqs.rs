//! `machine irqs`: lists interrupts with their CPUs, affinity and handlers, and changes their affinity.

use std::sync::atomic::AtomicBool;

use anyhow::Result;
use clap::{Parser, Subcommand};
use punctual_host::Host;
use punctual_model::{CpuSet, InterruptKind, InterruptRecord, Nanos};
use punctual_report::document::{self, InterruptRow};
use punctual_report::text;
use serde::Serialize;

use crate::context::Context;
use crate::exit::Exit;
use crate::output;
use crate::running::{stop_flag, watching};
use crate::settings;
use crate::verb::Run;

const LONG: &str = "List the interrupts that occurred, with counts per CPU, affinity and effective \
    affinity, handler threads and their priority, kind (MSI or line), and devices that share a \
    line. The list includes the kernel's own interrupts (timers, calls between CPUs, NMI). With \
    --watch, it shows rates.\n\n\
    `move` changes the affinity like `punctual tune`: the old value is recorded in a journal, the \
    new value is read back, and `punctual tune revert` restores the old value exactly.";

/// List interrupts: CPUs, counts and handlers
#[derive(Parser)]
#[command(long_about = LONG)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(super) struct Irqs {
    #[command(subcommand)]
    change: Option<Change>,
    /// Include interrupts that never occurred
    #[arg(long)]
    all: bool,
    /// Omit the kernel's own interrupts
    #[arg(long)]
    devices: bool,
    /// Show rates, counted over this time [default: 1s]; on a terminal repeatedly, until Ctrl-C
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1s")]
    watch: Option<Nanos>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum Change {
    /// Move interrupts to other CPUs, until `punctual tune revert`
    Move {
        /// Numbers or devices: 24 25, 'eth0*'
        #[arg(value_name = "IRQ", required = true, num_args = 1.., value_delimiter = ',')]
        irq: Vec<String>,
        /// CPUs of the affinity
        #[arg(short = 'a', long, value_name = "LIST")]
        cpus: CpuSet,
    },
}

impl Run for Irqs {
    fn run(self, context: &Context) -> Result<Exit> {
        if let Some(Change::Move { irq, cpus }) = &self.change {
            let settings = irq.iter().map(|irq| format!("irq-affinity@{irq}={cpus}"));
            return settings::apply_some(&settings.collect::<Vec<_>>(), context);
        }
        let host = Host::live();
        let text = |rows: Vec<InterruptRow>| {
            let rows = self.wanted(rows);
            text::render(&document::interrupts(&rows), &context.list_style())
        };
        match self.watch {
            Some(time) => {
                let stop = stop_flag()?;
                if self.json {
                    print_json(self.wanted(watched(&host, time, &stop)?))?;
                } else {
                    watching::show(&stop, || Ok(text(watched(&host, time, &stop)?)))?;
                }
            }
            None => {
                let rows = so_far(host.interrupts()?);
                if self.json {
                    print_json(self.wanted(rows))?
                } else {
                    output::print(&text(rows))?
                }
            }
        }
        Ok(Exit::Done)
    }
}

impl Irqs {
    /// Returns the rows that the options select.
    fn wanted(&self, mut rows: Vec<InterruptRow>) -> Vec<InterruptRow> {
        rows.retain(|row| {
            (self.all || row.counts.iter().any(|count| count.1 > 0))
                && !(self.devices && row.interrupt.kind == InterruptKind::Kernel)
        });
        rows
    }
}

fn print_json(rows: Vec<InterruptRow>) -> Result<()> {
    let values: Vec<_> = rows.into_iter().map(json).collect();
    output::print(&output::json(&values))
}

/// Returns rows with the counts since boot.
fn so_far(interrupts: Vec<InterruptRecord>) -> Vec<InterruptRow> {
    let row = |interrupt: InterruptRecord| InterruptRow {
        counts: interrupt.counts.clone(),
        interrupt,
        over_ns: None,
    };
    interrupts.into_iter().map(row).collect()
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
#[derive(Serialize)]
pub(in crate::verbs) struct InterruptJson {
    /// The interrupt, with its counts since boot. With `--watch`, it has the counts of the time
    /// `counts_in_ns`.
    #[serde(flatten)]
    interrupt: InterruptRecord,
    /// Duration of counting with `--watch`; null without that option.
    counts_in_ns: Option<u64>,
    /// Whether several devices share the interrupt.
    shared: bool,
}

punctual_model::to_json!(InterruptJson);

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
