//! What a machine must hold, and whether it did.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::schema::JsonSchema;

/// Limits on a measurement; without any, a run is only a measurement. Each is on
/// the periods that came due, missed ones included ([`crate::Due`]).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Requirement {
    /// Each must hold on each thread.
    pub limits: Vec<Limit>,
    /// How sure a statement about the machine must be, 0 to 1; absent where only what was
    /// measured is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
}

impl Requirement {
    /// The latencies that limits are put on, each once.
    pub fn latencies(&self) -> Vec<Nanos> {
        let mut list: Vec<Nanos> = (self.limits.iter())
            .filter(|limit| matches!(limit.metric, Metric::Max | Metric::Percentile(_)))
            .map(|limit| Nanos(limit.at_most))
            .collect();
        list.sort_unstable();
        list.dedup();
        list
    }
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
    /// The latency that ends the run: `break`. It comes from the run's own break
    /// value.
    Break,
}

impl Metric {
    /// A value of this metric as people read it.
    pub fn show(self, value: u64) -> String {
        match self {
            Self::Max | Self::Percentile(_) | Self::Break => Nanos(value).to_string(),
            Self::Missed => value.to_string(),
        }
    }

    /// A value and the limit on it, each with as many digits as tell them apart.
    pub fn show_apart(self, value: Option<u64>, limit: u64) -> (String, String) {
        let Some(value) = value else {
            return (String::new(), self.show(limit));
        };
        let both = (self.show(value), self.show(limit));
        match both.0 == both.1 && value != limit {
            true => (Nanos(value).exactly(), Nanos(limit).exactly()),
            false => both,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max => f.pad("max"),
            Self::Percentile(percent) => f.pad(&format!("p{percent}")),
            Self::Missed => f.pad("missed"),
            Self::Break => f.pad("break"),
        }
    }
}

/// A metric nobody knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' cannot be limited: one of max, missed, break, or a percentile such as p99.9")]
pub struct MetricError(String);

impl FromStr for Metric {
    type Err = MetricError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || MetricError(text.to_owned());
        match text {
            "max" => Ok(Self::Max),
            "missed" => Ok(Self::Missed),
            "break" => Ok(Self::Break),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_as_they_are_written() {
        for metric in ["max", "missed", "break", "p50", "p99.9999"] {
            assert_eq!(metric.parse::<Metric>().unwrap().to_string(), metric);
        }
        for metric in ["p100", "p0", "p", "mean", "pNaN"] {
            assert!(metric.parse::<Metric>().is_err(), "{metric}");
        }
    }
}
