//! An experiment: blocks of measuring under different conditions, in random order.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{
    Boots, ExperimentPlan, ImprovementState, JudgedBy, Judgement, MeasuredOn, Nanos, Outcome,
    RecordingId,
};

/// The version of [`Experiment`] as JSON. It rises when a reader of the older form would
/// misread the newer; fields that are added do not raise it.
pub const EXPERIMENT_SCHEMA: u32 = 1;

/// An experiment with its plan, its blocks and what they show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// [`EXPERIMENT_SCHEMA`].
    pub schema: u32,
    /// Its identity, a UUID of version 7 as that of a recording.
    pub id: RecordingId,
    /// A name given by the user.
    pub label: Option<String>,
    /// The program that measured.
    pub program: String,
    /// The command line, as the program got it.
    pub command_line: Vec<String>,
    /// The machine's name; null where it is not known.
    pub host: Option<String>,
    /// When it began.
    pub started: Timestamp,
    /// Where and when its pilot was measured; null before it, and in experiments of older
    /// programs.
    #[serde(default)]
    pub measured_on: Option<MeasuredOn>,
    /// Whether it came to its end.
    pub state: ExperimentState,
    /// What is compared, and how.
    pub plan: ExperimentPlan,
    /// What was measured before the first block; null where it did not come to that.
    pub pilot: Option<Pilot>,
    /// Each block, in the order in which they were measured.
    pub blocks: Vec<ExperimentBlock>,
    /// What is known of each arm but the first, compared with the first.
    pub results: Vec<ArmResult>,
    /// The answer in one sentence.
    pub sentence: String,
    /// What the reader must know.
    pub warnings: Vec<String>,
    /// The boots of an experiment whose unit is the boot; absent in others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boots: Option<Boots>,
    /// Of the first stage of a search for settings that help: how far it is; absent in
    /// others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub improvement: Option<Box<ImprovementState>>,
}

/// Whether an experiment came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExperimentState {
    /// It runs.
    Running,
    /// The machine has to boot before its next block.
    AwaitsBoot,
    /// Its program was killed: it can be resumed. The store says so of one that was
    /// running and that no process carries out.
    Interrupted,
    /// All of the plan was measured, or it was decided before.
    Finished,
    /// The user stopped it: it can be resumed.
    Stopped,
    /// A command, a setting or a measurement failed: it can be resumed.
    Failed,
}

impl ExperimentState {
    /// The word on screen and in JSON.
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

/// What was measured of the baseline before the first block, and what follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pilot {
    /// Its recording; null where none is kept.
    pub recording: Option<RecordingId>,
    /// How long it was, without the warm-up.
    pub measured_ns: Nanos,
    /// Late slots in that time ([`ExperimentBlock::late`]).
    pub late: u64,
    /// A latency above this is late.
    pub threshold_ns: Nanos,
    /// How long a block is measured.
    pub block_ns: Nanos,
    /// The rounds that are planned; in each, every arm is measured once.
    pub rounds: u32,
    /// Variance to mean of the counts of tenths of the pilot, 1 at least.
    pub dispersion: f64,
    /// The smallest ratio of rates that the plan finds in 80% of the cases; null: none
    /// up to 10.
    pub detects: Option<f64>,
}

/// One block: one arm, measured once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentBlock {
    /// The round that it belongs to, from 0.
    pub round: u32,
    /// The arm, as its place in [`ExperimentPlan::arms`].
    pub arm: u32,
    /// Its recording; null where none is kept.
    pub recording: Option<RecordingId>,
    /// How long it was measured, without wash-out.
    pub measured_ns: Nanos,
    /// Slots of 10 ms in which a thread was late: more lateness is never a smaller count.
    pub late: u64,
    /// The same in its first and its second half.
    pub halves: [u64; 2],
    /// Slots with a latency above twice the threshold.
    pub very_late: u64,
    /// Half of the samples were not later; null without samples.
    pub median_ns: Option<Nanos>,
    /// The largest latency; null without samples.
    pub max_ns: Option<Nanos>,
    /// What the loads did, all kinds added up; null where no load counts.
    pub work: Option<u64>,
    /// The temperature of the hottest sensor at its end, in 0.001 degrees Celsius; null where
    /// none can be read.
    #[serde(default)]
    pub milli_celsius: Option<i64>,
    /// The mean frequency of the CPUs at its end, in kHz; null where none can be read.
    #[serde(default)]
    pub khz: Option<u64>,
    /// Whether it is worth less than it seems: lost samples, a load that ended.
    pub flawed: bool,
    /// The end of what the arm's command wrote; null where it wrote nothing.
    pub output: Option<String>,
}

/// What an arm does to the rate of late slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Fewer than the baseline: shown.
    Fewer,
    /// More than the baseline: shown.
    More,
    /// As many, within 0.8 to 1.25 times: shown.
    Equivalent,
    /// None of these is shown.
    NotProven,
}

impl Effect {
    /// The words on screen.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Fewer => "fewer",
            Self::More => "more",
            Self::Equivalent => "equivalent",
            Self::NotProven => "not proven",
        }
    }
}

/// What is known of an arm, compared with the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmResult {
    /// The arm, as its place in [`ExperimentPlan::arms`].
    pub arm: u32,
    /// The answer in one word.
    pub effect: Effect,
    /// Pairs of blocks.
    pub pairs: u32,
    /// Late slots of the baseline and of the arm.
    pub late: [u64; 2],
    /// Rate of the arm to that of the baseline; null where a side has none.
    pub ratio: Option<f64>,
    /// It is at least this with 95% confidence; null where it is not known.
    pub low: Option<f64>,
    /// It is at most this with 95% confidence; null where it is not known.
    pub high: Option<f64>,
    /// The chance of a difference like this where there is none, for all arms together
    /// (sign-flip randomisation test, Holm).
    pub p: f64,
    /// What a bet on a difference has made of 1.
    pub wealth: f64,
    /// Figures that must not become worse.
    pub guards: Vec<Guard>,
    /// Why no difference and no equivalence may be claimed.
    pub refused: Vec<String>,
    /// The answer in one sentence.
    pub sentence: String,
}

/// A figure that must not become worse.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Guard {
    /// `median`, `over twice the threshold`, `work of the load`, `temperature`, `frequency`.
    pub name: String,
    /// Its mean over the baseline's blocks.
    pub baseline: f64,
    /// Its mean over the arm's blocks.
    pub arm: f64,
    /// The chance of a difference like this where there is none.
    pub p: f64,
    /// Whether it is shown to be worse (p below 5%).
    pub worse: bool,
}

impl Experiment {
    /// The name of an arm; empty where there is none.
    pub fn arm_name(&self, arm: u32) -> &str {
        let arm = self.plan.arms.get(arm as usize);
        arm.map_or("", |arm| arm.name.as_str())
    }

    /// The rounds in which every arm was measured.
    pub fn complete_rounds(&self) -> u32 {
        let arms = self.plan.arms.len().max(1);
        (self.blocks.len() / arms) as u32
    }

    /// The figures of the baseline and of `arm`, by rounds in which both were measured.
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

    /// Its answer, as its recordings keep it: not proven unless each condition is shown to
    /// differ or to be equivalent.
    pub fn judgement(&self) -> Judgement {
        let open = |one: &ArmResult| one.effect == Effect::NotProven;
        let open = self.results.is_empty() || self.results.iter().any(open);
        let sentence = match self.results.is_empty() {
            true => "not proven: nothing was compared",
            false => self.sentence.as_str(),
        };
        Judgement {
            by: JudgedBy::Experiment,
            experiment: Some(self.id),
            outcome: match open && !self.plan.ranks_only {
                true => Outcome::NotProven,
                false => Outcome::NoRequirement,
            },
            sentence: format!("experiment {}: {sentence}", self.id.short()),
            asked: None,
        }
    }

    /// The recordings that it is made of, the pilot's first.
    pub fn recordings(&self) -> Vec<RecordingId> {
        let pilot = self.pilot.iter().filter_map(|pilot| pilot.recording);
        let blocks = self.blocks.iter().filter_map(|block| block.recording);
        pilot.chain(blocks).collect()
    }
}
