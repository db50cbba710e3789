//! The plan of an experiment: conditions and method.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{CpuSet, Nanos, Policy};

/// The conditions that an experiment compares, and how it measures them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentPlan {
    /// The conditions. The first is the baseline.
    pub arms: Vec<Arm>,
    /// The probe.
    pub probe: String,
    /// Parameters of the probe, as the user gave them.
    pub parameters: BTreeMap<String, String>,
    /// The measured CPUs. Null: all that the program may use.
    pub cpus: Option<CpuSet>,
    /// The policy of the measuring threads. Null: fifo if permitted.
    pub policy: Option<Policy>,
    /// The priority of the measuring threads. Null: the highest permitted, at most 95.
    pub priority: Option<u8>,
    /// Loads during each block, as the user gave them.
    pub loads: Vec<String>,
    /// Threshold: latencies above it are late. Null: the pilot run determines it.
    pub threshold_ns: Option<Nanos>,
    /// Upper limit of the total time.
    pub time_ns: Nanos,
    /// The number of rounds. Null: as many as fit into the time.
    pub rounds: Option<u32>,
    /// Measuring time of a block. Null: the pilot run determines it.
    pub block_ns: Option<Nanos>,
    /// Time at the start of each block that is allowed for a change to take effect. Samples from
    /// this time are discarded.
    pub wash_out_ns: Nanos,
    /// Longest run of a command of a condition. Null: 10 min.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<Nanos>,
    /// The seed of the random order.
    pub seed: u64,
    /// Whether the experiment ends as soon as the result is known or can no longer be reached.
    pub ends_early: bool,
    /// Whether the arms are rows of a screening design. Such arms are ranked but not tested.
    pub ranks_only: bool,
}

/// A condition of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// Its name in tables and plots.
    pub name: String,
    /// How to bring the machine into this condition.
    pub action: ArmAction,
}

/// How to bring the machine into a condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ArmAction {
    /// Leave it as it was before the experiment.
    Unchanged,
    /// Run a command before each block.
    Command {
        /// The command, for a shell.
        command: String,
    },
    /// Apply settings of `punctual tune`.
    Settings {
        /// Each as `name=value` or `name@instance=value`.
        assignments: Vec<String>,
    },
    /// Boot the machine.
    Boot {
        /// Arguments added to the usual kernel command line. May be empty.
        parameters: String,
    },
}
