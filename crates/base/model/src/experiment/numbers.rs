//! An experiment on the numbers that a command prints.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ApplicationChange, Arm};
use crate::{Nanos, RecordingId};

/// The version of [`NumbersExperiment`] as JSON. It is increased only if a reader of the older form
/// would misread the newer one. Adding a field does not increase it.
pub const NUMBERS_SCHEMA: u32 = 1;

/// An experiment on the numbers that a command prints, such as a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumbersExperiment {
    /// Version of this JSON form, [`NUMBERS_SCHEMA`].
    pub schema: u32,
    /// Version of the program that measured.
    pub program: String,
    /// The command line, as the program received it.
    pub command_line: Vec<String>,
    /// Host name. Null if unknown.
    pub host: Option<String>,
    /// Start of the experiment.
    pub started: Timestamp,
    /// The command that prints the numbers, for a shell.
    pub command: String,
    /// Whether a higher number is better.
    pub higher_is_better: bool,
    /// The conditions. The first is the baseline.
    pub arms: Vec<Arm>,
    /// Seed of the random order.
    pub seed: u64,
    /// Number of planned rounds. Each runs the command once in each condition.
    pub rounds: u32,
    /// Largest relative difference that counts as no difference: 0.05 is 5%.
    pub margin: f64,
    /// Confidence of all results together, 0 to 1.
    pub confidence: f64,
    /// Units of the numbers, by name. A number without a name has an empty one.
    pub units: BTreeMap<String, String>,
    /// The runs of the command, in the order of measurement.
    pub blocks: Vec<NumbersBlock>,
    /// The result of each number in each condition except the first, compared with the first.
    pub results: Vec<NumberResult>,
    /// The results in one sentence.
    pub sentence: String,
    /// Whether the user stopped the experiment. Only complete rounds count.
    pub stopped: bool,
}

/// One run of the command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumbersBlock {
    /// The round, starting at 0.
    pub round: u32,
    /// The condition, as an index into `arms`.
    pub arm: u32,
    /// Duration of the run.
    pub took_ns: Nanos,
    /// The printed numbers, by name.
    pub values: BTreeMap<String, f64>,
    /// The recording of an application. Absent if it was not stored, and for a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<RecordingId>,
    /// Changes of the application: restarts, forks and new names. The block went on with the new
    /// processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<ApplicationChange>,
}

/// A number in one condition, compared with the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumberResult {
    /// The condition, as an index into `arms`.
    pub arm: u32,
    /// Name of the number. Empty if it has none.
    pub name: String,
    /// The result in one word.
    pub effect: NumberEffect,
    /// Number of pairs of runs.
    pub pairs: u32,
    /// Median of the baseline, and of the condition.
    pub medians: [f64; 2],
    /// Whether the difference is relative to the baseline: 0.03 is 3%. If a number is not above 0,
    /// it is absolute.
    pub relative: bool,
    /// The mean difference.
    pub difference: f64,
    /// Lower end of its interval. Null if there are too few pairs.
    pub low: Option<f64>,
    /// Upper end of its interval. Null if there are too few pairs.
    pub high: Option<f64>,
    /// p-value: the probability of such a difference if the condition has no effect (sign-flip
    /// randomisation test), multiplied by the number of results.
    pub p: f64,
    /// The result in one sentence.
    pub sentence: String,
}

/// Effect of a condition on a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NumberEffect {
    /// The number is proven to be better.
    Better,
    /// The number is proven to be worse.
    Worse,
    /// The number is proven to differ by less than the margin.
    Equivalent,
    /// None of these is proven.
    NotProven,
}

impl NumberEffect {
    /// Returns the words to display.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Equivalent => "equivalent",
            Self::NotProven => "not proven",
        }
    }
}

impl NumbersExperiment {
    /// Returns the name of an arm. Empty if there is no such arm.
    pub fn arm_name(&self, arm: u32) -> &str {
        let arm = self.arms.get(arm as usize);
        arm.map_or("", |arm| arm.name.as_str())
    }

    /// Returns the number of rounds that measured every arm.
    pub fn complete_rounds(&self) -> u32 {
        (self.blocks.len() / self.arms.len().max(1)) as u32
    }

    /// Returns whether each number has a proven result.
    pub fn is_proven(&self) -> bool {
        let is_open = |one: &NumberResult| one.effect == NumberEffect::NotProven;
        !self.results.is_empty() && !self.results.iter().any(is_open)
    }

    /// Returns a number of the baseline and of `arm`, for each round that measured both.
    pub fn pairs_of(&self, arm: u32, name: &str) -> Vec<[f64; 2]> {
        let of = |round: u32, arm: u32| {
            let mut blocks = self.blocks.iter();
            let found = blocks.find(|block| block.round == round && block.arm == arm)?;
            found.values.get(name).copied()
        };
        (0..self.rounds)
            .filter_map(|round| Some([of(round, 0)?, of(round, arm)?]))
            .collect()
    }
}

impl NumberResult {
    /// Returns a difference as text: `+3.1%`, or in the unit of the number.
    pub fn text(&self, difference: f64) -> String {
        if self.relative {
            format!("{:+.1}%", difference * 100.0)
        } else {
            format!("{difference:+.4}")
        }
    }
}
