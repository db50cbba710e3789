//! What was tried to make a machine better, and what helped.

use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{ExperimentPlan, MeasuredOn, Nanos, RecordingId};

/// The version of [`Improvement`] as JSON. It rises when a reader of the older form would
/// misread the newer; fields that are added do not raise it.
pub const IMPROVEMENT_SCHEMA: u32 = 1;

/// Settings that were tried, and what each does to the rate of late slots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Improvement {
    /// [`IMPROVEMENT_SCHEMA`].
    pub schema: u32,
    /// The answer in one sentence.
    pub sentence: String,
    /// Whether the user stopped it.
    pub stopped: bool,
    /// Where and when its first stage was measured; absent where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_on: Option<MeasuredOn>,
    /// A latency above this is late; null where nothing was measured.
    pub threshold_ns: Option<Nanos>,
    /// What is measured, stage by stage.
    pub stages: Vec<Stage>,
    /// Each setting that may be tried.
    pub tried: Vec<TriedSetting>,
    /// Findings that are not tried.
    pub left_out: Vec<NotTried>,
    /// What the settings that are left do together; absent where it did not come to that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
}

/// The effect of the settings that are left, all together, on fresh data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// `name=value` or `name@instance=value`, each.
    pub settings: Vec<String>,
    /// Rate of late slots with them to that without; null where a side has none.
    pub ratio: Option<f64>,
    /// It is at least this with 95% confidence.
    pub low: Option<f64>,
    /// It is at most this with 95% confidence.
    pub high: Option<f64>,
    /// Pairs of blocks.
    pub pairs: u32,
}

/// How far a search is, for going on after the program was stopped or killed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImprovementState {
    /// How blocks are measured.
    pub plan: ExperimentPlan,
    /// What is known so far.
    pub improvement: Improvement,
    /// Whether it came to its end.
    pub ended: bool,
}

/// One stage: an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// `A/A`, `screening`, `confirmation`, `group`, `leave one out`, `proof`.
    pub name: String,
    /// The conditions that are compared.
    pub arms: u32,
    /// How often each is measured.
    pub rounds: u32,
    /// The smallest ratio of rates that it finds in 80% of the cases; null: none up to 10,
    /// or not known.
    pub detects: Option<f64>,
    /// Its experiment; null where it was not carried out.
    pub experiment: Option<RecordingId>,
}

/// One setting, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TriedSetting {
    /// `name=value` or `name@instance=value`.
    pub assignment: String,
    /// The finding of the audit that asks for it.
    pub finding: String,
    /// Rate of late slots with it to that without, of its confirmation alone, or of the proof
    /// where no other is kept; null where it is not known.
    pub ratio: Option<f64>,
    /// It is at least this with 95% confidence.
    pub low: Option<f64>,
    /// It is at most this with 95% confidence.
    pub high: Option<f64>,
    /// Whether it is proven to help, and belongs to the profile.
    pub kept: bool,
    /// Why.
    pub why: String,
}

/// A finding that is not tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotTried {
    /// The finding.
    pub finding: String,
    /// Why it is not tried.
    pub reason: String,
    /// What a person may run instead; null where there is nothing.
    pub command: Option<String>,
}
