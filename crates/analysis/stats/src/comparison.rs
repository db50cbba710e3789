//! A comparison: what it says, as data.

use jiff::Timestamp;
use punctual_model::{Bound, Completion, Nanos, Recording, SignedNanos, Unknown};
use serde::{Deserialize, Serialize};

use crate::JsonSchema;

/// The version of the JSON form. Keys are only ever added; a number that rises
/// says that something changed its meaning.
pub const COMPARISON_SCHEMA: u32 = 1;

/// What is compared, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Quantiles, 0 to 1.
    pub quantiles: Vec<f64>,
    /// Samples at least as late as this are counted.
    pub threshold: Option<Nanos>,
    /// Draws of the resampling.
    pub replicates: usize,
    /// Where its random numbers begin.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            quantiles: vec![0.5, 0.9, 0.99, 0.999, 0.9999],
            threshold: None,
            replicates: 2_000,
            seed: 1,
        }
    }
}

/// What is drawn from, or put in another order, to say what chance may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Stretches of one run a side: it tells these two runs apart.
    #[default]
    Stretch,
    /// Runs: what changes from one start to the next is in it.
    Run,
}

/// What is too short or too few for a figure, and what would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shortfall {
    /// The figures it is about; empty: all.
    pub figures: Vec<String>,
    /// What is lacking, in words.
    pub why: String,
    /// How long each run would have to be; null where no length helps, or it is not
    /// known.
    pub measure_ns: Option<Nanos>,
    /// How many runs a side would do; null where it is not about these.
    pub runs: Option<u64>,
}

/// Two recordings, compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The version of this form ([`COMPARISON_SCHEMA`]).
    pub schema: u32,
    /// The answer in one sentence.
    pub summary: String,
    /// The answer in one word: worse where anything is, better where something is
    /// and nothing worse; of the rest unknown, where a figure that has enough samples
    /// could not be judged.
    pub change: Change,
    /// What chance is reckoned from.
    #[serde(default)]
    pub unit: Unit,
    /// What is too short for all figures or for some, each said once.
    #[serde(default)]
    pub shortfalls: Vec<Shortfall>,
    /// What the other is compared with.
    pub baseline: Side,
    /// What is compared with it.
    pub candidate: Side,
    /// In what the measurements differ, as far as both are known: whoever reads on
    /// should know that the machine may not be the reason.
    pub measured_differently: Vec<Difference>,
    /// In what the machines or their settings differ, as far as both are known.
    pub machine: Vec<Difference>,
    /// What of measurement and machine is known of one recording only, or of
    /// neither.
    pub not_known: Vec<String>,
    /// What else the reader must know.
    pub cautions: Vec<String>,
    /// The figures: one lane for all threads, or where each thread is a way of its
    /// own, one for each that both recordings have.
    pub lanes: Vec<Lane>,
    /// Draws of the resampling; of several runs a side, the arrangements looked at.
    pub replicates: u64,
    /// The seed of its random numbers.
    pub seed: u64,
}

/// One of the two recordings, or several runs that stand for one side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// Its ID; of several runs, the first one's.
    pub id: String,
    /// The IDs of all runs, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<String>,
    /// What `punctual tune` had set; `none`; null where it is not known.
    #[serde(default)]
    pub tune: Option<String>,
    /// Its name, where the user gave one.
    pub label: Option<String>,
    /// What was measured, in a line.
    pub headline: String,
    /// When it (the first) began; null where a file from elsewhere does not say.
    pub started: Option<Timestamp>,
    /// How long it (all of them) lasted; null where a file from elsewhere does not say.
    pub duration_ns: Option<Nanos>,
    /// The fingerprint of machine and settings; empty where too little is known.
    pub fingerprint: String,
    /// Whether it came to its end.
    pub completion: Completion,
    /// Samples.
    pub recorded: u64,
    /// The largest latency. It is not compared: the maximum of another run of the
    /// same machine differs as much.
    pub max_ns: Option<Nanos>,
    /// How often it is exceeded at most; null where that is not known.
    pub bound: Option<Bound>,
}

/// In what two recordings differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// What: `interval`, `kernel.release`.
    pub what: String,
    /// The baseline's.
    pub baseline: String,
    /// The candidate's.
    pub candidate: String,
}

/// What became of a figure.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is larger, and that is no chance.
    Worse,
    /// It is smaller, and that is no chance.
    Better,
    /// What difference there is may be chance.
    NoneFound,
    /// There is not enough to tell.
    Unknown,
}

/// The figures of one lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lane {
    /// Its name; null where all threads are taken together.
    pub title: Option<String>,
    /// Samples of the baseline and of the candidate.
    pub recorded: [u64; 2],
    /// Independent blocks of baseline and candidate that the intervals are made
    /// of; null where there are none.
    pub blocks: Option<[u64; 2]>,
    /// How many intervals of the time series make a block, of each.
    pub block_intervals: Option<[u64; 2]>,
    /// Why there are none.
    pub no_blocks: Option<String>,
    /// The quantiles that were asked for.
    pub quantiles: Vec<Quantile>,
    /// Counts that should be none.
    pub rates: Vec<Rate>,
    /// How likely a wake-up of the candidate is later than one of the baseline.
    pub later: Later,
}

/// A figure of both, set against each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// With 95% confidence the difference (candidate minus baseline) is at least
    /// this; in the figure's own unit.
    pub difference_low: f64,
    /// And at most this.
    pub difference_high: f64,
    /// With 95% confidence the ratio (candidate to baseline) is at least this;
    /// null where the baseline may be zero.
    pub ratio_low: Option<f64>,
    /// And at most this.
    pub ratio_high: Option<f64>,
    /// How probable so large a difference is where there is none.
    pub p: f64,
    /// The same, of all figures of the comparison together (Holm). Below 0.05 it
    /// is taken for a difference.
    pub p_adjusted: f64,
}

/// A quantile of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantile {
    /// The share of the samples that are not later, 0 to 1.
    pub quantile: f64,
    /// Its name: `p99.9`.
    pub name: String,
    /// The baseline's, of several runs their median; null where its samples do not
    /// support it.
    pub baseline_ns: Option<Nanos>,
    /// The candidate's.
    pub candidate_ns: Option<Nanos>,
    /// Candidate minus baseline, in the steps in which both were counted (a
    /// hundredth of the value at most, where punctual counted).
    pub difference_ns: Option<SignedNanos>,
    /// Candidate to baseline.
    pub ratio: Option<f64>,
    /// How sure that is, in ns; null where it is not known.
    pub estimate: Option<Estimate>,
    /// Why it is not known.
    pub not_known: Option<String>,
    /// How long a run would do to judge it; null where it was judged, or that is not
    /// known.
    #[serde(default)]
    pub measure_ns: Option<Nanos>,
    /// That of each run of baseline and candidate, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_ns: Option<[Vec<Option<Nanos>>; 2]>,
    /// What became of it.
    pub change: Change,
}

/// A count that should be none, per million.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rate {
    /// What is counted: `missed`, `from 100 µs on`.
    pub what: String,
    /// For samples that are at least so late, that limit.
    pub from_ns: Option<Nanos>,
    /// The baseline's; null where it is not known.
    pub baseline: Option<RateOfSide>,
    /// The candidate's.
    pub candidate: Option<RateOfSide>,
    /// How sure the difference is, per million; null where it is not known.
    pub estimate: Option<Estimate>,
    /// Why it is not known.
    pub not_known: Option<String>,
    /// How long a run would do to judge it; null where it was judged, or that is not
    /// known.
    #[serde(default)]
    pub measure_ns: Option<Nanos>,
    /// What became of it.
    pub change: Change,
}

/// A count of one side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateOfSide {
    /// How many there were.
    pub count: u64,
    /// Of so many.
    pub of: u64,
    /// Per million.
    pub per_million: f64,
    /// With 95% confidence at least this many per million, if they come
    /// independently of each other (Clopper and Pearson).
    pub low: f64,
    /// And at most this many.
    pub high: f64,
}

/// How likely a wake-up of the candidate is later than one of the baseline, both
/// drawn blindly; equal ones count half. A half where neither is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Later {
    /// The probability; null without samples.
    pub probability: Option<f64>,
    /// With 95% confidence at least this.
    pub low: Option<f64>,
    /// And at most this.
    pub high: Option<f64>,
}

impl Side {
    /// The runs of one side; at least one.
    pub(crate) fn of(runs: &[&Recording]) -> Option<Self> {
        let first = runs.first()?;
        let one = runs.len() == 1;
        // What all have alike.
        fn common<'a, T: PartialEq>(
            runs: &[&'a Recording],
            of: impl Fn(&'a Recording) -> T,
        ) -> Option<T> {
            let first = of(runs.first()?);
            runs.iter().all(|run| of(run) == first).then_some(first)
        }
        let started = |run: &&Recording| run.knows(Unknown::Started).then_some(run.started);
        let lasted = |run: &&Recording| run.knows(Unknown::Duration).then_some(run.duration_ns.0);
        let durations: Option<Vec<u64>> = runs.iter().map(lasted).collect();
        let unfinished = |run: &&&Recording| run.completion != Completion::Finished;
        let latencies: Vec<_> = runs.iter().map(|run| run.all_latencies()).collect();
        Some(Self {
            id: first.id.to_string(),
            runs: match one {
                true => Vec::new(),
                false => runs.iter().map(|run| run.id.to_string()).collect(),
            },
            tune: common(runs, |run| run.tune.clone()).flatten(),
            label: common(runs, |run| run.label.clone()).flatten(),
            headline: first.headline(),
            started: runs.iter().filter_map(started).min(),
            duration_ns: durations.map(|each| Nanos(each.iter().sum())),
            fingerprint: common(runs, |run| run.host.fingerprint.clone()).unwrap_or_default(),
            completion: (runs.iter().find(unfinished))
                .map_or(first.completion, |run| run.completion),
            recorded: latencies
                .iter()
                .map(punctual_model::Histogram::recorded)
                .sum(),
            max_ns: latencies
                .iter()
                .filter_map(punctual_model::Histogram::max)
                .max(),
            // That of one run speaks of one run.
            bound: one.then(|| first.verdict.bound.clone()).flatten(),
        })
    }
}
