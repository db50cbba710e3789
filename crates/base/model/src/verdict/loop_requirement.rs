//! The requirements of a periodic loop.

use serde::{Deserialize, Serialize};

use super::Sampling;
use crate::{MissLimit, Nanos};

/// The requirements of a periodic loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopRequirement {
    /// Its period. 0 if the jobs of an application need no period.
    pub period_ns: Nanos,
    /// Maximum delay of a period after its due time. A period that begins later is late. For jobs,
    /// the maximum response time.
    pub budget_ns: Nanos,
    /// Whether this limits the response times of an application's jobs, and not the wake-ups of a
    /// loop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub jobs: bool,
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
    /// Random times of the runs over which the requirement is judged together. Absent if a check-up
    /// judges it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sampling>,
}

impl LoopRequirement {
    /// Number of late seconds per day that an application tolerates, unless told otherwise.
    pub const USUAL_LATE_SECONDS: f64 = 10.0;

    /// Returns the requirement that the jobs of an application take at most `budget_ns`, without a
    /// period and without a limit of late seconds.
    pub const fn of_jobs(budget_ns: Nanos) -> Self {
        Self {
            period_ns: Nanos::ZERO,
            budget_ns,
            jobs: true,
            max_late_seconds_per_day: None,
            misses: None,
            max_misses_per_day: None,
            sample: None,
        }
    }

    /// Returns the name of the seconds that are limited: late or violated ones.
    pub const fn unit(&self) -> &'static str {
        match self.misses {
            None => "late seconds",
            Some(_) => "violated seconds",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
