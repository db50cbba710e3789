//! The requirements of a periodic loop.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// The requirements of a periodic loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopRequirement {
    /// Its period.
    pub period_ns: Nanos,
    /// Maximum delay of a period after its due time. A period that begins later is late.
    pub budget_ns: Nanos,
    /// Number of late seconds that the loop tolerates per day. A late second contains at least one
    /// late period or, with `misses`, at least one violated window. Null in recordings of older
    /// versions.
    #[serde(default)]
    pub max_late_seconds_per_day: Option<f64>,
    /// Number of late periods that the loop tolerates in a row of periods. Absent if each late
    /// period counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<MissLimit>,
    /// Number of episodes of late periods that the loop tolerates per day, in recordings of older
    /// versions. An episode was a series of late periods without a pause longer than 1 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_misses_per_day: Option<f64>,
}

impl LoopRequirement {
    /// Returns the name of the seconds that are limited: late or violated ones.
    pub const fn unit(&self) -> &'static str {
        match self.misses {
            None => "late seconds",
            Some(_) => "violated seconds",
        }
    }
}

/// A weakly hard requirement: at most `late` of any `periods` consecutive due periods of a thread
/// may be late (G. Bernat, A. Burns and A. Llamosi, "Weakly Hard Real-Time Systems", IEEE
/// Transactions on Computers 50, 2001). Written as `2/100`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MissLimit {
    late: u32,
    periods: u32,
}

impl MissLimit {
    /// Maximum number of periods of a window, because the late periods of a window are kept in
    /// memory.
    pub const MOST_PERIODS: u32 = 1_000_000;

    /// Creates a limit. `None` if it allows each period of the window to be late, or if the window
    /// is too long.
    pub fn new(late: u32, periods: u32) -> Option<Self> {
        (late < periods && periods <= Self::MOST_PERIODS).then_some(Self { late, periods })
    }

    /// Returns the number of late periods that are allowed in a window.
    pub const fn late(self) -> u32 {
        self.late
    }

    /// Returns the number of periods of a window.
    pub const fn periods(self) -> u32 {
        self.periods
    }
}

impl fmt::Display for MissLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.late, self.periods))
    }
}

/// A text that is no limit of late periods in a window.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not M/K with M below K and K at most {most}: 2/100 allows 2 late periods in any 100 \
     consecutive ones",
    most = MissLimit::MOST_PERIODS
)]
pub struct MissLimitError(String);

impl FromStr for MissLimit {
    type Err = MissLimitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let limit = text
            .split_once('/')
            .and_then(|(late, periods)| Self::new(late.parse().ok()?, periods.parse().ok()?));
        limit.ok_or_else(|| MissLimitError(text.to_owned()))
    }
}

impl TryFrom<String> for MissLimit {
    type Error = MissLimitError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<MissLimit> for String {
    fn from(limit: MissLimit) -> Self {
        limit.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_windows_are_refused() {
        assert_eq!("2/100".parse::<MissLimit>().unwrap().to_string(), "2/100");
        assert_eq!("0/1".parse::<MissLimit>().unwrap().late(), 0);
        for text in [
            "3/2",
            "2/2",
            "0/0",
            "-1/3",
            "1",
            "1/",
            "/2",
            "1/1000001",
            "1/2/3",
            "a/b",
        ] {
            assert!(text.parse::<MissLimit>().is_err(), "{text}");
        }
    }

    /// The requirement of a check-up of an older version is read, and its unit is not converted.
    #[test]
    fn older_requirement_keeps_its_unit() {
        let old = r#"{"period_ns": 1000000, "budget_ns": 100000, "max_misses_per_day": 10.0,
                      "episode_gap_ns": 1000000000}"#;
        let read: LoopRequirement = serde_json::from_str(old).unwrap();
        assert_eq!(read.max_misses_per_day, Some(10.0));
        assert_eq!(read.max_late_seconds_per_day, None);
    }
}
