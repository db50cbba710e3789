//! How the blocks of an experiment are measured.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use punctual_model::{Arm, CpuSet, ExperimentPlan, Nanos, Policy};

use crate::exit::UsageError;

/// Time to discard at the start of each block after a command.
pub(crate) const OF_COMMAND: Nanos = Nanos::from_secs(2);

/// How each block is measured.
#[derive(Args, Clone, Debug)]
pub(crate) struct Measuring {
    /// Probe that measures each block
    #[arg(
        long,
        value_name = "NAME",
        default_value = "timer",
        help_heading = "Measuring"
    )]
    pub(crate) probe: String,
    /// Parameter of the probe, as for measure: interval=250us
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Measuring")]
    pub(crate) parameter: Vec<String>,
    /// CPUs to measure: 2-3 [default: all that this process may use]
    #[arg(
        short = 'a',
        long = "cpus",
        value_name = "LIST",
        help_heading = "Measuring"
    )]
    pub(crate) cpus: Option<CpuSet>,
    /// Scheduling policy of the measuring threads [default: fifo where permitted]
    #[arg(long, value_name = "POLICY", help_heading = "Measuring")]
    pub(crate) policy: Option<Policy>,
    /// Priority of the measuring threads, 1 to 99 [default: 95, or the highest permitted]
    #[arg(short, long, value_name = "N", help_heading = "Measuring")]
    pub(crate) priority: Option<u8>,
    /// Background load during each block, as in measure
    #[arg(long, value_name = "LOAD", help_heading = "Measuring")]
    pub(crate) load: Vec<String>,
}

impl Measuring {
    /// Returns a plan with these conditions and default times.
    pub(crate) fn plan(&self, arms: Vec<Arm>) -> Result<ExperimentPlan> {
        let parameters = self.parameter.iter().map(|text| {
            let (name, value) = text
                .split_once('=')
                .ok_or_else(|| UsageError(format!("--parameter '{text}' is not NAME=VALUE")))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        });
        Ok(ExperimentPlan {
            arms,
            probe: self.probe.clone(),
            parameters: parameters.collect::<Result<BTreeMap<_, _>>>()?,
            cpus: self.cpus.clone(),
            policy: self.policy,
            priority: self.priority,
            loads: (self.load.iter())
                .filter(|load| *load != "none")
                .cloned()
                .collect(),
            threshold_ns: None,
            time_ns: Nanos::from_secs(1_200),
            rounds: None,
            block_ns: None,
            wash_out_ns: OF_COMMAND,
            deadline_ns: None,
            // Use only 32 bits, so that the seed is short enough for the user to type again.
            seed: u64::from(random_seed()),
            ends_early: true,
            ranks_only: false,
        })
    }
}

/// Returns a seed from the time and the system's random numbers.
pub(crate) fn random_seed() -> u32 {
    let text = punctual_model::RecordingId::new().short();
    u32::from_str_radix(&text, 16).unwrap_or(1)
}
