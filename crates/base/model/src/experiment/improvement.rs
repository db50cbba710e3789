//! A search for settings that improve the latency of a machine.

use serde::{Deserialize, Serialize};

use crate::{ExperimentPlan, Guard, MeasuredOn, Nanos, RecordingId};

/// The version of [`Improvement`] as JSON. It is increased only if a reader of the older form would
/// misread the newer one. Adding a field does not increase it.
pub const IMPROVEMENT_SCHEMA: u32 = 1;

/// Settings that were tried, and the effect of each on the rate of late slots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Improvement {
    /// Version of this JSON form, [`IMPROVEMENT_SCHEMA`].
    pub schema: u32,
    /// The result in one sentence.
    pub sentence: String,
    /// Whether the user stopped the search.
    pub stopped: bool,
    /// Machine and time of the first stage. Absent if nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_on: Option<MeasuredOn>,
    /// The application whose late jobs are compared. Absent if late wake-ups of a loop are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// Threshold: latencies above it are late. Null if nothing was measured.
    pub threshold_ns: Option<Nanos>,
    /// The stages of the search.
    pub stages: Vec<Stage>,
    /// Each setting that may be tried.
    pub tried: Vec<TriedSetting>,
    /// Findings whose settings are not tried, with the reason.
    pub left_out: Vec<NotTried>,
    /// The combined effect of the settings that are kept. Absent if the search ended before it was
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
}

/// The combined effect of the settings that are kept, measured on new data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The settings, each as `name=value` or `name@instance=value`.
    pub settings: Vec<String>,
    /// Rate of late slots, or share of late jobs, with the settings, divided by that without them. Null if one of them
    /// is unknown.
    pub ratio: Option<f64>,
    /// Lower end of the 95% confidence interval of the ratio.
    pub low: Option<f64>,
    /// Upper end of the 95% confidence interval of the ratio.
    pub high: Option<f64>,
    /// Number of pairs of blocks.
    pub pairs: u32,
    /// The mean power of the machine in mW, with and without the settings. Absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<Guard>,
}

/// Progress of a search, used to resume it after the program was stopped or killed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImprovementState {
    /// How blocks are measured.
    pub plan: ExperimentPlan,
    /// Results so far.
    pub improvement: Improvement,
    /// Whether the search has finished.
    pub ended: bool,
}

/// One stage, which is an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Name of the stage: `A/A`, `screening`, `confirmation`, `group`, `leave one out` or `proof`.
    pub name: String,
    /// Number of conditions that are compared.
    pub arms: u32,
    /// Number of measurements of each condition.
    pub rounds: u32,
    /// The smallest ratio of rates that the stage detects in 80% of cases. Null if it detects no
    /// ratio up to 10, or if this is unknown.
    pub detects: Option<f64>,
    /// Its experiment. Null if it did not run.
    pub experiment: Option<RecordingId>,
}

/// One setting and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriedSetting {
    /// The setting, as `name=value` or `name@instance=value`.
    pub assignment: String,
    /// The finding of the audit that recommends it.
    pub finding: String,
    /// Rate of late slots, or share of late jobs, with the setting, divided by that without it. Measured in the
    /// confirmation alone, or in the proof if no other setting is kept. Null if unknown.
    pub ratio: Option<f64>,
    /// Lower end of the 95% confidence interval of the ratio.
    pub low: Option<f64>,
    /// Upper end of the 95% confidence interval of the ratio.
    pub high: Option<f64>,
    /// Whether the setting is proven to help and belongs to the profile.
    pub accepted: bool,
    /// Reason for the result.
    pub why: String,
}

/// A finding whose setting is not tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotTried {
    /// The finding.
    pub finding: String,
    /// Reason why it is not tried.
    pub reason: String,
    /// A command that the user may run instead. Null if there is none.
    pub command: Option<String>,
}
