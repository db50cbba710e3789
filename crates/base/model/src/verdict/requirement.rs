//! Requirements on the latency of a machine.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::LoopRequirement;
use crate::{MissLimit, Nanos};

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
    /// Requirement of a periodic loop, which a check-up judges, or all runs of a sampled series
    /// together. Absent in other recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periodic: Option<LoopRequirement>,
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

    /// Returns the limits of late periods in windows of consecutive periods, each with the budget
    /// of a period.
    pub fn windows(&self) -> impl Iterator<Item = (MissLimit, Nanos)> + '_ {
        (self.limits.iter()).filter_map(|limit| match limit.metric {
            Metric::Misses { periods, budget } => {
                let late = u32::try_from(limit.at_most).ok()?;
                Some((MissLimit::new(late, periods)?, budget))
            }
            _ => None,
        })
    }
}

impl Limit {
    /// Returns the limit of late periods in any window of consecutive periods. A period is late if
    /// it begins later than `budget` after its due time, or is missed.
    pub fn of_misses(misses: MissLimit, budget: Nanos) -> Self {
        Self {
            metric: Metric::Misses {
                periods: misses.periods(),
                budget,
            },
            at_most: misses.late().into(),
        }
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
    /// Late periods in any window of consecutive due periods. A period is late if it begins later
    /// than the budget, in nanoseconds, or is missed: `misses/100>50000`.
    Misses {
        /// Number of periods of a window.
        periods: u32,
        /// The budget of a period.
        budget: Nanos,
    },
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
            Self::Missed | Self::Misses { .. } => value.to_string(),
        }
    }

    /// Formats a value and its limit with enough digits to distinguish them.
    pub fn show_apart(self, value: Option<u64>, limit: u64) -> (String, String) {
        let Some(value) = value else {
            return (String::new(), self.show(limit));
        };
        let both = (self.show(value), self.show(limit));
        if matches!(self, Self::Missed | Self::Misses { .. }) {
            return both;
        }
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
            Self::Misses { periods, budget } => f.pad(&format!(
                "late periods in any {} (over {budget})",
                crate::grouped(u64::from(*periods))
            )),
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
            _ if text.starts_with(MISSES) => windows(text).ok_or_else(error),
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
        match metric {
            Metric::Misses { periods, budget } => format!("{MISSES}{periods}>{}", budget.0),
            other => other.to_string(),
        }
    }
}

/// Prefix of the name of [`Metric::Misses`].
const MISSES: &str = "misses/";

/// Parses a name such as `misses/100>50000`.
fn windows(text: &str) -> Option<Metric> {
    let (periods, budget) = text.strip_prefix(MISSES)?.split_once('>')?;
    let periods = periods.parse().ok()?;
    // Check the length of the window.
    MissLimit::new(0, periods)?;
    Some(Metric::Misses {
        periods,
        budget: Nanos(budget.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_as_they_are_written() {
        for metric in ["max", "missed", "warn", "break", "p50", "p99.9999"] {
            assert_eq!(metric.parse::<Metric>().unwrap().to_string(), metric);
        }
        let windows = Limit::of_misses("2/100".parse().unwrap(), Nanos(50_000)).metric;
        assert_eq!(
            windows.to_string(),
            "late periods in any 100 (over 50.0 µs)"
        );
        let name = String::from(windows);
        assert_eq!(
            (name.as_str(), name.parse()),
            ("misses/100>50000", Ok(windows))
        );
        for metric in [
            "misses/0>5",
            "misses/100",
            "p100",
            "p0",
            "p",
            "mean",
            "pNaN",
        ] {
            assert!(metric.parse::<Metric>().is_err(), "{metric}");
        }
    }

    #[test]
    fn metrics_are_written_as_they_are_read() {
        for text in [
            "max",
            "missed",
            "warn",
            "break",
            "p99",
            "p99.9",
            "p0.1",
            "misses/100>50000",
        ] {
            let metric: Metric = text.parse().unwrap();
            assert_eq!(String::from(metric), text);
        }
        for wrong in [
            "p0",
            "p100",
            "p-1",
            "pNaN",
            "p",
            "99",
            "mean",
            "",
            "misses/0>1",
            "misses/1",
            "misses/5>x",
        ] {
            let error = wrong.parse::<Metric>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("'{wrong}' cannot be limited")),
                "{error}"
            );
        }
        let windows: Metric = "misses/2000>50000".parse().unwrap();
        assert_eq!(
            windows.to_string(),
            "late periods in any 2,000 (over 50.0 µs)"
        );
    }

    #[test]
    fn close_values_are_shown_exactly() {
        let metric = |text: &str| text.parse::<Metric>().unwrap();
        let both = |one: &str, other: &str| (one.to_owned(), other.to_owned());
        let max = metric("max");
        assert_eq!(
            max.show_apart(Some(100_001), 100_000),
            both("100.001 µs", "100 µs")
        );
        assert_eq!(
            max.show_apart(Some(100_000), 100_000),
            both("100 µs", "100 µs")
        );
        assert_eq!(
            max.show_apart(Some(200_000), 100_000),
            both("200 µs", "100 µs")
        );
        assert_eq!(max.show_apart(None, 100_000), both("", "100 µs"));
        assert_eq!(
            metric("missed").show_apart(Some(7), 1_000),
            both("7", "1000")
        );
        assert_eq!(metric("misses/9>5").show_apart(Some(7), 7), both("7", "7"));
        for text in ["p99", "warn", "break"] {
            assert_eq!(metric(text).show(5_000), "5.00 µs");
        }
    }

    #[test]
    fn latencies_and_windows_of_a_requirement_are_listed() {
        let limit = |metric: &str, at_most| Limit {
            metric: metric.parse().unwrap(),
            at_most,
        };
        let misses = "2/100".parse().unwrap();
        let asked = Requirement {
            limits: vec![
                limit("p99", 70),
                limit("max", 90),
                limit("missed", 5),
                limit("warn", 40),
                limit("p50", 70),
                Limit::of_misses(misses, Nanos(50)),
                limit("misses/10>60", 10),
                limit("misses/10>60", u64::MAX),
            ],
            ..Requirement::default()
        };
        assert_eq!(asked.latencies(), [Nanos(70), Nanos(90)]);
        // If each period of a window may be late, nothing is limited.
        assert_eq!(asked.windows().collect::<Vec<_>>(), [(misses, Nanos(50))]);
    }
}
