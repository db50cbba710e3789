//! What a machine must hold, and whether it did.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Histogram, Nanos, ThreadRecord};

/// Limits on a measurement; without any, a run is only a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Requirement {
    /// Each must hold on each thread.
    pub limits: Vec<Limit>,
}

/// One limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// What is limited.
    pub metric: Metric,
    /// It may be this much and no more: nanoseconds for latencies, a number
    /// for counts.
    pub at_most: u64,
}

/// What a limit can be put on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Metric {
    /// The largest latency: `max`.
    Max,
    /// A percentile of the latency: `p99.9`.
    Percentile(f64),
    /// Periods without a sample: `missed`.
    Missed,
}

impl Metric {
    /// The metric of one thread; `None` where nothing was measured.
    pub fn of(self, thread: &ThreadRecord) -> Option<u64> {
        let histogram = &thread.histogram;
        if histogram.recorded() == 0 {
            return None;
        }
        match self {
            // A thread that only ever woke early was never late.
            Self::Max => Some(histogram.max().unwrap_or_default().0),
            // Nor is a percentile known where its samples are in no row.
            Self::Percentile(percent) => match histogram.quantile(percent / 100.0) {
                None if histogram.count() > 0 => None,
                quantile => Some(quantile.unwrap_or_default().0),
            },
            Self::Missed => Some(thread.accounting.missed),
        }
    }

    /// A value of this metric as people read it.
    pub fn show(self, value: u64) -> String {
        match self {
            Self::Max | Self::Percentile(_) => Nanos(value).to_string(),
            Self::Missed => value.to_string(),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max => f.pad("max"),
            Self::Percentile(percent) => f.pad(&format!("p{percent}")),
            Self::Missed => f.pad("missed"),
        }
    }
}

/// A metric nobody knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' cannot be limited: one of max, missed, or a percentile such as p99.9")]
pub struct MetricError(String);

impl FromStr for Metric {
    type Err = MetricError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || MetricError(text.to_owned());
        match text {
            "max" => Ok(Self::Max),
            "missed" => Ok(Self::Missed),
            _ => {
                let percent: f64 = text
                    .strip_prefix('p')
                    .and_then(|number| number.parse().ok())
                    .ok_or_else(error)?;
                (percent > 0.0 && percent < 100.0)
                    .then_some(Self::Percentile(percent))
                    .ok_or_else(error)
            }
        }
    }
}

impl TryFrom<String> for Metric {
    type Error = MetricError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Metric> for String {
    fn from(metric: Metric) -> Self {
        metric.to_string()
    }
}

/// Whether the requirement was held, and what the figures are worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The answer in one word.
    pub outcome: Outcome,
    /// The answer in one sentence.
    pub sentence: String,
    /// Each limit, judged on the thread where it came out worst.
    pub limits: Vec<LimitResult>,
    /// With 95% confidence a wake-up exceeds the largest one seen with at most
    /// this probability (1 − 0.05^(1/n) for the n samples of all threads).
    /// Null without samples.
    pub exceedance_bound: Option<f64>,
}

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Each limit was held on each thread.
    Held,
    /// At least one was not.
    Missed,
    /// There was no limit to hold.
    NoRequirement,
    /// There were limits, but a thread measured nothing to judge by.
    Unknown,
}

/// One limit, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitResult {
    /// The limit.
    pub limit: Limit,
    /// The worst value of any thread; null where a thread measured nothing.
    pub measured: Option<u64>,
    /// That thread, as its place in `threads`.
    pub thread: Option<u32>,
    /// Whether it was held; null where that is not known.
    pub held: Option<bool>,
}

impl Requirement {
    /// Judges what was measured.
    pub fn judge(&self, threads: &[ThreadRecord]) -> Verdict {
        let limits: Vec<LimitResult> = self
            .limits
            .iter()
            .map(|limit| limit.judge(threads))
            .collect();
        let any = |held: Option<bool>| limits.iter().any(|result| result.held == held);
        let outcome = if limits.is_empty() {
            Outcome::NoRequirement
        } else if any(Some(false)) {
            // A limit known to be broken stays broken, whatever else is unknown.
            Outcome::Missed
        } else if any(None) {
            Outcome::Unknown
        } else {
            Outcome::Held
        };
        Verdict {
            outcome,
            sentence: sentence(outcome, &limits, threads),
            limits,
            exceedance_bound: exceedance_bound(
                threads
                    .iter()
                    .map(|t| t.histogram.recorded())
                    .fold(0, u64::saturating_add),
            ),
        }
    }
}

impl Limit {
    fn judge(self, threads: &[ThreadRecord]) -> LimitResult {
        let values: Vec<Option<u64>> = threads.iter().map(|t| self.metric.of(t)).collect();
        let worst = values
            .iter()
            .enumerate()
            .filter_map(|(thread, value)| value.map(|value| (value, thread)))
            .max_by_key(|(value, _)| *value);
        let complete = !values.is_empty() && values.iter().all(Option::is_some);
        let held = match worst {
            Some((value, _)) if value > self.at_most => Some(false),
            Some(_) if complete => Some(true),
            _ => None,
        };
        LimitResult {
            limit: self,
            measured: worst.map(|(value, _)| value),
            thread: worst.map(|(_, thread)| thread as u32),
            held,
        }
    }
}

fn sentence(outcome: Outcome, limits: &[LimitResult], threads: &[ThreadRecord]) -> String {
    let describe = |result: &LimitResult| {
        let LimitResult {
            limit, measured, ..
        } = result;
        let at_most = limit.metric.show(limit.at_most);
        let place = result
            .thread
            .and_then(|thread| threads.get(thread as usize))
            .map_or_else(String::new, |thread| format!(" on {}", thread.title()));
        match measured {
            Some(value) => format!(
                "{} is {}{place}, limit {at_most}",
                limit.metric,
                limit.metric.show(*value),
            ),
            None => format!("{} could not be measured, limit {at_most}", limit.metric),
        }
    };
    let list = |held: Option<bool>| {
        limits
            .iter()
            .filter(|result| result.held == held)
            .map(describe)
            .collect::<Vec<_>>()
            .join("; ")
    };
    match outcome {
        Outcome::NoRequirement => "measured; no requirement was given".to_owned(),
        Outcome::Held => format!("requirement held: {}", list(Some(true))),
        Outcome::Missed => format!("requirement missed: {}", list(Some(false))),
        Outcome::Unknown => format!("requirement not judged: {}", list(None)),
    }
}

/// With 95% confidence, the largest probability that a further sample exceeds
/// the largest of `n` independent ones: the p that solves (1 − p)^n = 0.05,
/// near 3/n ("rule of three"; Hanley and Lippman-Hand, JAMA 1983).
fn exceedance_bound(n: u64) -> Option<f64> {
    // expm1 keeps the digits where p is tiny.
    (n > 0).then(|| -f64::exp_m1(f64::ln(0.05) / n as f64))
}

impl Verdict {
    /// What the maximum is worth, in words; nothing without samples.
    pub fn strength(&self, all: &Histogram) -> Option<String> {
        let bound = self.exceedance_bound?;
        let max = all.max()?;
        let one_in = (1.0 / bound).floor() as u64;
        Some(format!(
            "max {max} of {} samples: with 95% confidence fewer than 1 in {} is later, if samples are independent",
            crate::grouped(all.recorded()),
            crate::grouped(one_in.max(1)),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Accounting, Policy, Scheduling, SignedNanos, ThreadUsage};

    fn thread(latencies: &[i64], missed: u64) -> ThreadRecord {
        let mut histogram = Histogram::new();
        for latency in latencies {
            histogram.record(SignedNanos(*latency));
        }
        ThreadRecord {
            label: None,
            cpu: Some(1),
            from_cpu: None,
            scheduling: Scheduling {
                policy: Policy::Fifo,
                priority: 95,
            },
            accounting: Accounting {
                missed,
                ..Accounting::default()
            },
            histogram,
            usage: ThreadUsage::default(),
        }
    }

    fn require(metric: &str, at_most: u64) -> Requirement {
        Requirement {
            limits: vec![Limit {
                metric: metric.parse().unwrap(),
                at_most,
            }],
        }
    }

    #[test]
    fn a_limit_is_held_up_to_its_value() {
        let threads = [thread(&[10, 20], 0), thread(&[15, 100_000], 0)];
        let verdict = require("max", 100_000).judge(&threads);
        assert_eq!(verdict.outcome, Outcome::Held);
        let verdict = require("max", 99_999).judge(&threads);
        assert_eq!(verdict.outcome, Outcome::Missed);
        assert_eq!(verdict.limits[0].thread, Some(1));
        assert_eq!(
            verdict.sentence,
            "requirement missed: max is 100 µs on CPU 1, limit 100 µs"
        );
    }

    #[test]
    fn what_was_not_measured_is_never_held() {
        let threads = [thread(&[10], 0), thread(&[], 0)];
        assert_eq!(
            require("max", 100).judge(&threads).outcome,
            Outcome::Unknown
        );
        assert_eq!(require("max", 5).judge(&threads).outcome, Outcome::Missed);
        assert_eq!(require("max", 5).judge(&[]).outcome, Outcome::Unknown);
        assert_eq!(
            Requirement::default().judge(&threads).outcome,
            Outcome::NoRequirement
        );
    }

    #[test]
    fn percentiles_and_missed_periods_can_be_limited() {
        let threads = [thread(&[100, 200, 300, 400], 2)];
        assert_eq!(require("p50", 200).judge(&threads).outcome, Outcome::Held);
        assert_eq!(require("p75", 299).judge(&threads).outcome, Outcome::Missed);
        assert_eq!(
            require("missed", 1).judge(&threads).outcome,
            Outcome::Missed
        );
        for metric in ["p100", "p0", "p", "mean", "pNaN"] {
            assert!(metric.parse::<Metric>().is_err(), "{metric}");
        }
    }

    #[test]
    fn the_bound_is_near_three_over_n() {
        assert_eq!(exceedance_bound(0), None);
        let bound = exceedance_bound(1_000_000).unwrap();
        assert!((bound - 2.995_73e-6).abs() < 1e-9, "{bound}");
        assert!((exceedance_bound(1).unwrap() - 0.95).abs() < 1e-12);
    }
}
