//! `machine`: shows the parts of this machine that matter for latency.

mod clocks;
mod facts;
mod irqs;
mod kernel;
mod place;
mod threads;
mod topology;

use anyhow::Result;
use clap::Parser;

use crate::context::Context;
use crate::exit::Exit;
use crate::verb::{Run, Verb};

pub(in crate::verbs) use clocks::ClocksJson;
pub(in crate::verbs) use irqs::InterruptJson;
pub(in crate::verbs) use threads::ThreadJson;

pub(super) const VERB: Verb = Verb::new::<Machine>("machine");

/// Show threads, interrupts, topology, clocks, kernel and facts
#[derive(Parser)]
#[command(disable_help_subcommand = true)]
enum Machine {
    Threads(threads::Threads),
    Irqs(irqs::Irqs),
    Topology(topology::ShowTopology),
    Place(place::CpuLocation),
    Clocks(clocks::Clocks),
    #[command(subcommand)]
    Kernel(kernel::Kernel),
    #[command(subcommand)]
    Facts(facts::Facts),
}

impl Run for Machine {
    fn run(self, context: &Context) -> Result<Exit> {
        match self {
            Self::Threads(threads) => threads.run(context),
            Self::Irqs(irqs) => irqs.run(context),
            Self::Topology(topology) => topology.run(context),
            Self::Place(place) => place.run(context),
            Self::Clocks(clocks) => clocks.run(context),
            Self::Kernel(kernel) => kernel.run(context),
            Self::Facts(facts) => facts.run(context),
        }
    }
}
