//! The result of a comparison, as data.

use jiff::Timestamp;
use punctual_model::{Bound, Completion, Nanos, Recording, SignedNanos, Unknown};
use serde::{Deserialize, Serialize};

/// The version of the JSON form. New keys can be added at any time. The number increases if the
/// meaning of a key changes.
pub const COMPARISON_SCHEMA: u32 = 1;

/// Options of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Quantiles, 0 to 1.
    pub quantiles: Vec<f64>,
    /// Samples with at least this latency are counted.
    pub threshold: Option<Nanos>,
    /// Number of resampling draws.
    pub replicates: usize,
    /// Seed of the random numbers.
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

/// The unit that is resampled or permuted to find the effect of chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Blocks of one run per side. The result applies only to these two runs.
    #[default]
    #[serde(rename = "stretch")]
    Block,
    /// Runs. The result includes differences between runs of the same machine.
    Run,
}

/// Data that a figure lacks, and the amount that would be enough.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    /// The affected figures. Empty: all.
    pub figures: Vec<String>,
    /// The reason why the data are not enough, in words.
    pub why: String,
    /// Required length of each run. Null if no length helps, or it is unknown.
    pub measure_ns: Option<Nanos>,
    /// Required number of runs per side. Null if the number of runs is not the reason.
    pub runs: Option<u64>,
}

/// Two recordings, compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The version of this form ([`COMPARISON_SCHEMA`]).
    pub schema: u32,
    /// The result in one sentence.
    pub summary: String,
    /// The result in one word: worse if any figure is worse; better if any figure is better and
    /// none is worse. Otherwise, unknown if a figure with enough samples could not be judged.
    pub change: Change,
    /// The unit for estimating the effect of chance.
    #[serde(default)]
    pub unit: Unit,
    /// Missing data for all figures or for some, without duplicates.
    #[serde(default)]
    pub shortfalls: Vec<Shortfall>,
    /// The side with which the candidate is compared.
    pub baseline: Side,
    /// The side that is compared with the baseline.
    pub candidate: Side,
    /// Known differences between the measurements. A result may be due to them instead of the
    /// machine.
    pub measured_differently: Vec<Difference>,
    /// Known differences between the machines or their settings.
    pub machine: Vec<Difference>,
    /// Facts about measurement and machine that are known for only one recording, or for neither.
    pub not_known: Vec<String>,
    /// Other warnings for the reader.
    pub cautions: Vec<String>,
    /// The figures. Usually there is one channel for all threads. If each thread measures a
    /// different mechanism, there is one channel for each thread that both recordings contain.
    pub channels: Vec<Channel>,
    /// Number of resampling draws. For several runs per side, the number of permutations.
    pub replicates: u64,
    /// The seed of the random numbers.
    pub seed: u64,
}

punctual_model::to_json!(Comparison);

/// One of the two recordings, or several runs of one side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// ID of the recording. For several runs, the ID of the first one.
    pub id: String,
    /// The IDs of all runs, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<String>,
    /// The settings that `punctual tune` had applied, or `none`. Null if unknown.
    #[serde(default)]
    pub tune: Option<String>,
    /// A name that the user chose.
    pub label: Option<String>,
    /// Probe and parameters in one line.
    pub headline: String,
    /// Start of the (first) run. Null if an imported file does not contain it.
    pub started: Option<Timestamp>,
    /// Total length. Null if an imported file does not contain it.
    pub duration_ns: Option<Nanos>,
    /// The fingerprint of machine and settings. Empty if too little is known.
    pub fingerprint: String,
    /// State of the recording at its end. For several runs, the state of the first unfinished run,
    /// if there is one.
    pub completion: Completion,
    /// Number of samples.
    pub recorded: u64,
    /// The largest latency. Maxima are not compared, because they differ just as much between runs
    /// of the same machine.
    pub max_ns: Option<Nanos>,
    /// Upper bound of the rate at which the largest latency is exceeded. Null if unknown.
    pub bound: Option<Bound>,
}

/// A difference between two recordings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The fact: `interval`, `kernel.release`.
    pub what: String,
    /// Value of the baseline.
    pub baseline: String,
    /// Value of the candidate.
    pub candidate: String,
}

/// The change of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Significantly larger.
    Worse,
    /// Significantly smaller.
    Better,
    /// Not significant.
    NoneFound,
    /// Unknown, because there is too little data.
    Unknown,
}

/// The figures of one channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Channel {
    /// Name of the channel. Null if all threads are combined.
    pub title: Option<String>,
    /// Samples of the baseline and of the candidate.
    pub recorded: [u64; 2],
    /// Number of independent blocks of baseline and candidate, which the intervals are based on.
    /// Null without blocks.
    pub blocks: Option<[u64; 2]>,
    /// Number of intervals of the time series in a block, for each side.
    pub block_intervals: Option<[u64; 2]>,
    /// Reason why there are no blocks. Null if there are blocks.
    pub no_blocks: Option<String>,
    /// The requested quantiles.
    pub quantiles: Vec<Quantile>,
    /// Counts that should be zero.
    pub rates: Vec<Rate>,
    /// The probability that a wake-up of the candidate is later than one of the baseline.
    pub later: Later,
}

/// The estimated difference of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Lower end of the 95% confidence interval of the difference (candidate minus baseline), in
    /// the unit of the figure.
    pub difference_low: f64,
    /// Upper end of that interval.
    pub difference_high: f64,
    /// Lower end of the 95% confidence interval of the ratio (candidate to baseline). Null if the
    /// baseline may be zero.
    pub ratio_low: Option<f64>,
    /// Upper end of that interval.
    pub ratio_high: Option<f64>,
    /// The probability that such a difference occurs by chance.
    pub p: f64,
    /// The p-value adjusted for all figures of the comparison (Holm). Below 0.05 the difference is
    /// significant.
    pub p_adjusted: f64,
}

/// A quantile of both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantile {
    /// The quantile, 0 to 1.
    pub quantile: f64,
    /// Name of the quantile: `p99.9`.
    pub name: String,
    /// Value of the baseline, or the median of its runs. Null if there are too few samples.
    pub baseline_ns: Option<Nanos>,
    /// Value of the candidate.
    pub candidate_ns: Option<Nanos>,
    /// Candidate minus baseline, in steps of the coarser histogram (at most a hundredth of the
    /// value if punctual counted).
    pub difference_ns: Option<SignedNanos>,
    /// Ratio of candidate to baseline.
    pub ratio: Option<f64>,
    /// The estimated difference in ns. Null if unknown.
    pub estimate: Option<Estimate>,
    /// Reason why the estimate is unknown. Null if it is known.
    pub not_known: Option<String>,
    /// Length of a run that would be enough. Null if the figure was judged, or if that length is
    /// unknown.
    #[serde(default)]
    pub measure_ns: Option<Nanos>,
    /// Values of each run of baseline and candidate, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_ns: Option<[Vec<Option<Nanos>>; 2]>,
    /// The result.
    pub change: Change,
}

/// A count that should be zero, per million.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Name of the count: `missed`, `from 100 µs on`.
    pub what: String,
    /// The threshold, for samples with at least this latency.
    pub from_ns: Option<Nanos>,
    /// Value of the baseline. Null if unknown.
    pub baseline: Option<RateOfSide>,
    /// Value of the candidate.
    pub candidate: Option<RateOfSide>,
    /// The estimated difference per million. Null if unknown.
    pub estimate: Option<Estimate>,
    /// Reason why the estimate is unknown. Null if it is known.
    pub not_known: Option<String>,
    /// Length of a run that would be enough. Null if the count was judged, or if that length is
    /// unknown.
    #[serde(default)]
    pub measure_ns: Option<Nanos>,
    /// The result.
    pub change: Change,
}

/// A count of one side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateOfSide {
    /// The count.
    pub count: u64,
    /// The total, of samples or periods.
    pub of: u64,
    /// The rate per million.
    pub per_million: f64,
    /// Lower end of its 95% confidence interval, assuming that events are independent (Clopper and
    /// Pearson).
    pub low: f64,
    /// Upper end of that interval.
    pub high: f64,
}

/// The probability that a random wake-up of the candidate is later than one of the baseline. Equal
/// latencies count half, so the probability is one half if there is no difference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Later {
    /// The probability. Null without samples.
    pub probability: Option<f64>,
    /// Lower end of its 95% confidence interval.
    pub low: Option<f64>,
    /// Upper end of its 95% confidence interval.
    pub high: Option<f64>,
}

impl Side {
    /// Creates a side from its runs. There must be at least one.
    pub(crate) fn from_runs(runs: &[&Recording]) -> Option<Self> {
        let first = runs.first()?;
        let one = runs.len() == 1;
        // Returns the value of all runs if it is the same, otherwise `None`.
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
            runs: if one {
                Vec::new()
            } else {
                runs.iter().map(|run| run.id.to_string()).collect()
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
            // A bound applies to a single run only.
            bound: one.then(|| first.verdict.bound.clone()).flatten(),
        })
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{RecordingId, testing};

    use super::*;

    /// Three runs of 3 s. The first one began last.
    fn runs() -> Vec<Recording> {
        let run = |minute: i64| {
            let mut run = testing::recording(1, 2);
            run.id = RecordingId::new();
            run.started += jiff::SignedDuration::from_mins(minute);
            run.tune = Some("control".to_owned());
            run
        };
        [5, 2, 3].map(run).to_vec()
    }

    fn side(runs: &[Recording]) -> Side {
        Side::from_runs(&runs.iter().collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn one_run_is_described_as_it_is() {
        let all = runs();
        let (one, found) = (&all[0], side(&all[..1]));
        assert_eq!((found.id, found.runs), (one.id.to_string(), Vec::new()));
        assert_eq!(
            (found.label.as_ref(), found.tune.as_deref()),
            (one.label.as_ref(), Some("control"))
        );
        assert!(found.label.is_some() && !found.fingerprint.is_empty());
        assert_eq!(
            (found.started, found.duration_ns),
            (Some(one.started), Some(one.duration_ns))
        );
        assert_eq!(
            (found.fingerprint, found.headline),
            (one.host.fingerprint.clone(), one.headline())
        );
        assert_eq!(
            (found.recorded, found.max_ns),
            (2_000, one.all_latencies().max())
        );
        assert_eq!(
            (found.bound, found.completion),
            (one.verdict.bound.clone(), Completion::Finished)
        );
        assert_eq!(Side::from_runs(&[]), None);
    }

    #[test]
    fn several_runs_have_what_they_have_in_common() {
        let mut all = runs();
        all[2].threads[0].histogram.record(SignedNanos(900_000));
        let found = side(&all);
        assert_eq!(found.id, all[0].id.to_string());
        assert_eq!(
            found.runs,
            all.iter().map(|run| run.id.to_string()).collect::<Vec<_>>()
        );
        assert_eq!(
            (found.label.as_ref(), found.tune.as_deref()),
            (all[0].label.as_ref(), Some("control"))
        );
        assert_eq!(found.fingerprint, all[0].host.fingerprint);
        // The earliest start, the sum of the durations, and the largest latency.
        assert_eq!(
            (found.started, found.duration_ns),
            (Some(all[1].started), Some(Nanos::from_secs(9)))
        );
        assert_eq!(
            (found.recorded, found.max_ns),
            (6_001, Some(Nanos(900_000)))
        );
        assert_eq!(
            (found.bound, found.completion),
            (None, Completion::Finished)
        );
        all[1].label = None;
        all[1].tune = None;
        all[2].host.fingerprint = "0".to_owned();
        (all[1].completion, all[2].completion) = (Completion::Stopped, Completion::Break);
        let found = side(&all);
        assert_eq!(
            (found.label, found.tune, found.fingerprint.as_str()),
            (None, None, "")
        );
        // The first run that did not finish.
        assert_eq!(found.completion, Completion::Stopped);
    }

    #[test]
    fn unknown_times_of_a_run_stay_unknown() {
        let mut all = runs();
        all[1].origin = Some(punctual_model::Origin {
            format: "cyclictest-hist".to_owned(),
            tool: "cyclictest".to_owned(),
            file: "-".to_owned(),
            unknown: [Unknown::Started, Unknown::Duration].into(),
        });
        let found = side(&all);
        assert_eq!(
            (found.started, found.duration_ns),
            (Some(all[2].started), None)
        );
        assert_eq!(side(&all[1..2]).started, None);
    }
}
