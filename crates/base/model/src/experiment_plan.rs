//! What an experiment compares, and how it measures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{CpuSet, Nanos, Policy};

/// What an experiment compares, and how it measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentPlan {
    /// The conditions that are compared; the first is the baseline.
    pub arms: Vec<Arm>,
    /// The probe.
    pub probe: String,
    /// Its parameters, as they were given.
    pub parameters: BTreeMap<String, String>,
    /// The CPUs that are measured; null: all that the program may use.
    pub cpus: Option<CpuSet>,
    /// The policy of the measuring threads; null: fifo where permitted.
    pub policy: Option<Policy>,
    /// Their priority; null: the highest permitted, 95 at most.
    pub priority: Option<u8>,
    /// What disturbs during each block, as it was given.
    pub loads: Vec<String>,
    /// A latency above this is late; null: the pilot chooses.
    pub threshold_ns: Option<Nanos>,
    /// How long it may take in all.
    pub time_ns: Nanos,
    /// The number of rounds; null: as many as fit the time.
    pub rounds: Option<u32>,
    /// How long a block is measured; null: the pilot chooses.
    pub block_ns: Option<Nanos>,
    /// What is left out at the start of each block, for a change to have its effect.
    pub wash_out_ns: Nanos,
    /// The seed of the random order.
    pub seed: u64,
    /// Whether it ends early where the answer is known, or cannot be had.
    pub ends_early: bool,
    /// Whether its arms are rows of a screening design, which are ranked and not tested.
    pub ranks_only: bool,
}

/// A condition of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Arm {
    /// Its name in tables and plots.
    pub name: String,
    /// How the machine is brought into it.
    pub action: ArmAction,
}

/// How the machine is brought into a condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ArmAction {
    /// As it was before the experiment.
    Unchanged,
    /// By a command that is run before each block.
    Command {
        /// As a shell takes it.
        command: String,
    },
    /// By settings of `punctual tune`.
    Settings {
        /// `name=value` or `name@instance=value`.
        assignments: Vec<String>,
    },
    /// By a boot of the machine.
    Boot {
        /// Words for the kernel's command line, beside the usual ones; may be empty.
        parameters: String,
    },
}
