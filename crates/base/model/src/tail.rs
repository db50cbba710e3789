//! Extrapolation of the tail of a measurement to a longer time.

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::schema::JsonSchema;

/// A return level, assuming that the tail continues as observed. It is never part of a verdict,
/// because rarer causes remain unseen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TailRemark {
    /// The threshold of the tail: a generalised Pareto distribution is fitted to the latencies
    /// above it.
    pub threshold_ns: Nanos,
    /// Number of latencies above it.
    pub above: u64,
    /// Shape of the distribution.
    pub shape: f64,
    /// Length of the extrapolated time, in multiples of the measurement.
    pub times: u64,
    /// In that time, one wake-up is expected above this level.
    pub level_ns: Nanos,
    /// Lower end of the level's 95% confidence interval.
    pub low_ns: Nanos,
    /// Upper end of the level's 95% confidence interval.
    pub high_ns: Nanos,
}

impl TailRemark {
    /// Returns the remark in one sentence.
    pub fn sentence(&self) -> String {
        format!(
            "if the tail continues as observed, a run {} times as long has one wake-up above {} \
             (95%: {} to {}); this is an estimate, not a verdict",
            self.times, self.level_ns, self.low_ns, self.high_ns
        )
    }
}
