//! `machine place`: recommends CPUs for threads.

use anyhow::{Context as _, Result};
use clap::{Args, Parser, Subcommand};
use punctual_host::Host;
use punctual_model::{CpuSet, Placement};
use punctual_report::{document, text};

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::verb::Run;

const LONG: &str = "Recommend CPUs on this machine, with the reasons: one core for the \
    system and the others for real-time work; a CPU close to the interrupt or softirq that a \
    thread waits for; or CPUs with a common cache for a producer and its consumer. The command \
    changes nothing: pass the CPUs to `punctual exec --cpus` or `punctual tune`.";

/// Recommend CPUs for the system, an interrupt, or two threads
#[derive(Parser)]
#[command(long_about = LONG, arg_required_else_help = false)]
pub(super) struct CpuLocation {
    #[command(subcommand)]
    pattern: Pattern,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// Print only the CPUs, one per line, for scripts
    #[arg(short, long, global = true)]
    quiet: bool,
}

#[derive(Subcommand)]
enum Pattern {
    /// Recommend one core for the system, and the others for real-time work
    System,
    /// Recommend a CPU for a thread waiting for an interrupt or softirq
    Beside(Beside),
    /// Recommend CPUs with a common cache for a producer and its consumer
    Pair,
}

#[derive(Args)]
#[group(id = "what", required = true, multiple = false)]
struct Beside {
    /// Interrupt whose handler passes work to the thread
    #[arg(long, value_name = "N")]
    irq: Option<u32>,
    /// CPU whose softirqs pass work to the thread
    #[arg(long, value_name = "CPU")]
    cpu: Option<u32>,
}

impl Run for CpuLocation {
    fn run(self, context: &Context) -> Result<Exit> {
        let host = Host::live();
        let all = host.topology()?;
        let places: Vec<Placement> = match self.pattern {
            Pattern::System => all.reserve_core()?.into(),
            Pattern::Pair => all.pair()?.into(),
            Pattern::Beside(beside) => vec![all.siblings_placement(beside.cpu(&host)?)?],
        };
        let out = if self.json {
            output::json(&places)
        } else if self.quiet {
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
}

impl Beside {
    /// Returns the given CPU, or the CPU that handles the given interrupt.
    fn cpu(&self, host: &Host) -> Result<u32> {
        if let Some(cpu) = self.cpu {
            return Ok(cpu);
        }
        let number = self.irq.unwrap_or_default();
        let id = number.to_string();
        let interrupts = host.interrupts()?;
        let interrupt = interrupts
            .iter()
            .find(|interrupt| interrupt.id == id)
            .ok_or_else(|| {
                UsageError(format!(
                    "interrupt {number} does not exist (see punctual machine irqs)"
                ))
            })?;
        let sent = [&interrupt.effective, &interrupt.affinity];
        let first = |cpus: &CpuSet| cpus.iter().next();
        sent.iter()
            .find_map(|fact| fact.get().and_then(first))
            .with_context(|| format!("the affinity of interrupt {number} cannot be read"))
    }
}
