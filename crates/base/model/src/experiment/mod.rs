//! An experiment: blocks of measurements under different conditions, in random order.

mod application_change;
mod checkup;
mod condition_claim;
mod experiment_plan;
mod hunt;
mod improvement;
mod late_jobs;
mod numbers;
mod sampled_run;
mod series_proof;
mod series_runs;

pub use application_change::{ApplicationChange, ChangeKind};
pub use checkup::{
    CHECKUP_SCHEMA, Checkup, Condition, HardwareGaps, JobEvidence, LeftLate, RemediedCause, Windows,
};
pub use experiment_plan::{Arm, ArmAction, ExperimentPlan};
pub use hunt::{HUNT_SCHEMA, Hunt, WorstMix};
pub use improvement::{
    IMPROVEMENT_SCHEMA, Improvement, ImprovementState, NotTried, Proof, Stage, TriedSetting,
};
pub use numbers::{NUMBERS_SCHEMA, NumberEffect, NumberResult, NumbersBlock, NumbersExperiment};
pub use sampled_run::LateRun;
pub use series_proof::{SERIES_PROOF_SCHEMA, SampledSlot, SeriesProof};
pub use series_runs::SeriesRuns;

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Boots, JudgedBy, Judgement, MeasuredOn, Nanos, Outcome, RecordingId};

/// The version of [`Experiment`] as JSON. It is increased only if a reader of the older form would
/// misread the newer one. Adding a field does not increase it.
pub const EXPERIMENT_SCHEMA: u32 = 1;

/// An experiment with its plan, blocks and results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Version of this JSON form, [`EXPERIMENT_SCHEMA`].
    pub schema: u32,
    /// ID of the experiment: a UUID of version 7, as for a recording.
    pub id: RecordingId,
    /// A name that the user chose.
    pub label: Option<String>,
    /// Version of the program that measured.
    pub program: String,
    /// The command line, as the program received it.
    pub command_line: Vec<String>,
    /// Host name. Null if unknown.
    pub host: Option<String>,
    /// Start of the experiment.
    pub started: Timestamp,
    /// Machine and time of its pilot run. Null before the pilot, and in experiments made by older
    /// versions of the program.
    #[serde(default)]
    pub measured_on: Option<MeasuredOn>,
    /// State of the experiment.
    pub state: ExperimentState,
    /// The compared conditions and the method of measurement.
    pub plan: ExperimentPlan,
    /// Results of the pilot run before the first block. Null if there was none.
    pub pilot: Option<Pilot>,
    /// The blocks, in the order of measurement.
    pub blocks: Vec<ExperimentBlock>,
    /// Results of each arm except the first, compared with the first.
    pub results: Vec<ArmResult>,
    /// The result in one sentence.
    pub sentence: String,
    /// Warnings for the reader.
    pub warnings: Vec<String>,
    /// The numbers, if a command or the jobs of an application were measured in place of a probe. The
    /// blocks and results are those in it. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<Box<NumbersExperiment>>,
    /// The boots, if the experimental unit is the boot. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boots: Option<Boots>,
    /// Progress of a search for helpful settings. Present only in the experiment that is the first
    /// stage of the search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub improvement: Option<Box<ImprovementState>>,
}

/// State of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExperimentState {
    /// Running.
    Running,
    /// Waiting for a boot before its next block.
    AwaitsBoot,
    /// Its program was killed. The experiment can be resumed. The store reports this state for a
    /// running experiment whose process no longer exists.
    Interrupted,
    /// The whole plan was measured, or the result was known earlier.
    Finished,
    /// The user stopped it. It can be resumed.
    Stopped,
    /// A command, a setting or a measurement failed. It can be resumed.
    Failed,
}

impl ExperimentState {
    /// Returns the word to display, which is also used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::AwaitsBoot => "awaits boot",
            Self::Interrupted => "interrupted",
            Self::Finished => "finished",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for ExperimentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A measurement of the baseline before the first block, and the resulting parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pilot {
    /// Its recording. Null if none is stored.
    pub recording: Option<RecordingId>,
    /// Its length without the warm-up.
    pub measured_ns: Nanos,
    /// Number of late slots in that time ([`ExperimentBlock::late`]).
    pub late: u64,
    /// Threshold: latencies above it are late.
    pub threshold_ns: Nanos,
    /// Measuring time of a block.
    pub block_ns: Nanos,
    /// Number of planned rounds. Each measures every arm once.
    pub rounds: u32,
    /// Dispersion of the late slots: the variance divided by the mean of the counts in tenths of
    /// the pilot, at least 1.
    pub dispersion: f64,
    /// The smallest ratio of rates that the plan detects in 80% of cases. Null if the plan detects
    /// no ratio up to 10.
    pub detects: Option<f64>,
}

/// One block: one arm, measured once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentBlock {
    /// The round of the block, starting at 0.
    pub round: u32,
    /// The arm, as an index into [`ExperimentPlan::arms`].
    pub arm: u32,
    /// Its recording. Null if none is stored.
    pub recording: Option<RecordingId>,
    /// Its measuring time, without the wash-out time at the start.
    pub measured_ns: Nanos,
    /// Number of late slots: time slots of 10 ms with a late thread. Additional lateness never
    /// reduces this count.
    pub late: u64,
    /// Number of late slots in the first and second half of the block.
    pub halves: [u64; 2],
    /// Number of slots with a latency above twice the threshold.
    pub very_late: u64,
    /// The median latency. Null if there are no samples.
    pub median_ns: Option<Nanos>,
    /// The largest latency. Null if there are no samples.
    pub max_ns: Option<Nanos>,
    /// Work done by the loads, summed over all kinds. Null if no load counts its work.
    pub work: Option<u64>,
    /// Temperature of the hottest sensor at the end, in 0.001 degrees Celsius. Null if none can be
    /// read.
    #[serde(default)]
    pub milli_celsius: Option<i64>,
    /// Mean frequency of the CPUs at the end, in kHz. Null if none can be read.
    #[serde(default)]
    pub khz: Option<u64>,
    /// Mean power of the machine, in mW. Null if no energy counter covers the processor.
    #[serde(default)]
    pub milliwatts: Option<u64>,
    /// Whether its results are doubtful, because samples were lost or a load ended early.
    pub flawed: bool,
    /// The last part of the output of the arm's command. Null if there was none.
    pub output: Option<String>,
}

/// Effect of an arm on the rate of late slots, compared with the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The arm is proven to have fewer late slots.
    Fewer,
    /// The arm is proven to have more late slots.
    More,
    /// The arm is proven to be equivalent: its rate is within 0.8 to 1.25 times that of the
    /// baseline.
    Equivalent,
    /// None of these is proven.
    NotProven,
}

impl Effect {
    /// Returns the words to display.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Fewer => "fewer",
            Self::More => "more",
            Self::Equivalent => "equivalent",
            Self::NotProven => "not proven",
        }
    }
}

/// Results of an arm, compared with the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmResult {
    /// The arm, as an index into [`ExperimentPlan::arms`].
    pub arm: u32,
    /// The result in one word.
    pub effect: Effect,
    /// Number of pairs of blocks, each with a block of the baseline and one of the arm.
    pub pairs: u32,
    /// Number of late slots of the baseline, and of the arm.
    pub late: [u64; 2],
    /// Ratio of the arm's rate to that of the baseline. Null if one of them is unknown.
    pub ratio: Option<f64>,
    /// Lower end of its 95% confidence interval. Null if unknown.
    pub low: Option<f64>,
    /// Upper end of its 95% confidence interval. Null if unknown.
    pub high: Option<f64>,
    /// p-value: the probability of a difference at least this large if the arm has no effect,
    /// adjusted for all arms (sign-flip randomisation test, Holm).
    pub p: f64,
    /// Wealth in a sequential test that bets on a difference. It starts at 1.
    pub wealth: f64,
    /// Figures that must not get worse.
    pub guards: Vec<Guard>,
    /// The mean power of the machine in mW, as a figure that changes no result. Null if it is
    /// unknown.
    #[serde(default)]
    pub power: Option<Guard>,
    /// Reasons why neither a difference nor an equivalence may be claimed.
    pub refused: Vec<String>,
    /// The result in one sentence.
    pub sentence: String,
}

/// A figure that must not get worse.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guard {
    /// Name of the figure: `median`, `over twice the threshold`, `work of the load`, `temperature`
    /// or `frequency`.
    pub name: String,
    /// Mean of the figure over the baseline's blocks.
    pub baseline: f64,
    /// Mean of the figure over the arm's blocks.
    pub arm: f64,
    /// p-value: the probability of a difference at least this large if the arm has no effect.
    pub p: f64,
    /// Whether the figure is proven to be worse in the arm (p below 5%).
    pub worse: bool,
}

impl Experiment {
    /// Returns the name of an arm. Empty if there is no such arm.
    pub fn arm_name(&self, arm: u32) -> &str {
        let arm = self.plan.arms.get(arm as usize);
        arm.map_or("", |arm| arm.name.as_str())
    }

    /// Returns the number of rounds that measured every arm.
    pub fn complete_rounds(&self) -> u32 {
        let arms = self.plan.arms.len().max(1);
        (self.blocks.len() / arms) as u32
    }

    /// Returns a figure of the baseline and of `arm`, for each round that measured both.
    pub fn pairs_of<T>(&self, arm: u32, figure: impl Fn(&ExperimentBlock) -> T) -> Vec<(T, T)> {
        let of = |round: u32, arm: u32| {
            let mut blocks = self.blocks.iter();
            blocks.find(|block| block.round == round && block.arm == arm)
        };
        (0..=self
            .blocks
            .iter()
            .map(|block| block.round)
            .max()
            .unwrap_or(0))
            .filter_map(|round| Some((figure(of(round, 0)?), figure(of(round, arm)?))))
            .collect()
    }

    /// Returns the verdict for the recordings of the experiment: not proven unless each condition
    /// is proven to differ or to be equivalent.
    pub fn judgement(&self) -> Judgement {
        let open = |one: &ArmResult| one.effect == Effect::NotProven;
        let (is_empty, open) = match &self.numbers {
            Some(numbers) => (numbers.results.is_empty(), !numbers.is_proven()),
            None => {
                let is_empty = self.results.is_empty();
                (is_empty, is_empty || self.results.iter().any(open))
            }
        };
        let sentence = if is_empty {
            "not proven: nothing was compared"
        } else {
            self.sentence.as_str()
        };
        Judgement {
            by: JudgedBy::Experiment,
            experiment: Some(self.id),
            outcome: if open && !self.plan.ranks_only {
                Outcome::NotProven
            } else {
                Outcome::NoRequirement
            },
            sentence: format!("experiment {}: {sentence}", self.id.short()),
            asked: None,
            claims: Vec::new(),
        }
    }

    /// Returns the recordings of the experiment, starting with the pilot.
    pub fn recordings(&self) -> Vec<RecordingId> {
        let pilot = self.pilot.iter().filter_map(|pilot| pilot.recording);
        pilot
            .chain(self.recordings_by_arm().map(|(_, id)| id))
            .collect()
    }

    /// Returns the recordings of the blocks, with their conditions.
    pub fn recordings_by_arm(&self) -> impl Iterator<Item = (u32, RecordingId)> {
        let blocks = self.blocks.iter();
        let blocks = blocks.filter_map(|block| Some((block.arm, block.recording?)));
        let numbers = self.numbers.iter().flat_map(|numbers| &numbers.blocks);
        blocks.chain(numbers.filter_map(|block| Some((block.arm, block.recording?))))
    }
}

#[cfg(test)]
mod tests;
