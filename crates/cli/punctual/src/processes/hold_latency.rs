//! `hold-latency`: keeps /dev/cpu_dma_latency open for `tune apply`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, value_parser};

use crate::context::Context;
use crate::exit::Exit;
use crate::verb::{Run, Verb};

pub(crate) const VERB: Verb = Verb::new::<HoldLatency>(punctual_tune::HOLD_VERB);

/// Hold the latency limit of applied settings until SIGTERM; started by tune apply
#[derive(Parser)]
#[command(hide = true)]
struct HoldLatency {
    #[arg(long, value_name = "latency-us", value_parser = value_parser!(i32).range(0..))]
    latency_us: i32,
    /// Journal of the applied settings; the process is recorded next to it
    #[arg(long, value_name = "journal")]
    journal: PathBuf,
}

impl Run for HoldLatency {
    fn run(self, _: &Context) -> Result<Exit> {
        punctual_tune::hold_latency(self.latency_us, &self.journal)?;
        Ok(Exit::Done)
    }
}
