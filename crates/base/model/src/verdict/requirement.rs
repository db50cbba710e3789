//! Requirements on the latency of a machine.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// Limits on a measurement. A run without limits only measures and judges nothing. Each limit
/// applies to the due periods, including missed ones ([`crate::Due`]).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Requirement {
    /// The limits. Each applies to each thread.
    pub limits: Vec<Limit>,
    /// Required confidence of a statement about the machine, 0 to 1. Absent if only the measurement
    /// is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
}

impl Requirement {
    /// Returns the latencies that appear in the limits, without duplicates.
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// The metric that is limited.
    pub metric: Metric,
    /// The largest allowed value: nanoseconds for latencies, a number for counts.
    pub at_most: u64,
}

/// A metric that can have a limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Metric {
    /// The largest latency: `max`.
    Max,
    /// A percentile of the latency: `p99.9`.
    Percentile(f64),
    /// Periods without a sample: `missed`.
    Missed,
    /// The latency from which a run deserves a warning: `warn`. It is judged for the run, but never
    /// changes the outcome.
    Warn,
    /// The latency that ends the run: `break`. This limit is set by the run's break threshold.
    Break,
}

impl Metric {
    /// Formats a value of this metric for people.
    pub fn show(self, value: u64) -> String {
        match self {
            Self::Max | Self::Percentile(_) | Self::Warn | Self::Break => Nanos(value).to_string(),
            Self::Missed => value.to_string(),
        }
    }

    /// Formats a value and its limit with enough digits to distinguish them.
    pub fn show_apart(self, value: Option<u64>, limit: u64) -> (String, String) {
        let Some(value) = value else {
            return (String::new(), self.show(limit));
        };
        let both = (self.show(value), self.show(limit));
        if both.0 == both.1 && value != limit {
            (Nanos(value).exactly(), Nanos(limit).exactly())
        } else {
            both
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max => f.pad("max"),
            Self::Percentile(percent) => f.pad(&format!("p{percent}")),
            Self::Missed => f.pad("missed"),
            Self::Warn => f.pad("warn"),
            Self::Break => f.pad("break"),
        }
    }
}

/// An unknown metric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' cannot be limited: use max, missed, warn, break, or a percentile such as p99.9")]
pub struct MetricError(String);

impl FromStr for Metric {
    type Err = MetricError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || MetricError(text.to_owned());
        match text {
            "max" => Ok(Self::Max),
            "missed" => Ok(Self::Missed),
            "warn" => Ok(Self::Warn),
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
        for metric in ["max", "missed", "warn", "break", "p50", "p99.9999"] {
            assert_eq!(metric.parse::<Metric>().unwrap().to_string(), metric);
        }
        for metric in ["p100", "p0", "p", "mean", "pNaN"] {
            assert!(metric.parse::<Metric>().is_err(), "{metric}");
        }
    }
}
