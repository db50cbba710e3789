//! Extrapolation of the tail of a measurement to a longer time.

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// A return level: a latency that is expected to be exceeded once in a longer time if the tail
/// continues as observed. It is never part of a verdict, because causes that are rarer than the
/// measurement remain unseen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TailRemark {
    /// Threshold of the tail. A generalised Pareto distribution is fitted to the latencies above
    /// it.
    pub threshold_ns: Nanos,
    /// Number of latencies above the threshold.
    pub above: u64,
    /// Shape parameter of the distribution.
    pub shape: f64,
    /// Length of the extrapolated time, as a multiple of the length of the measurement.
    pub times: u64,
    /// The level: in the extrapolated time, one wake-up is expected to exceed it.
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
            "if the tail continues as observed, a run {} times as long is expected to have one \
             wake-up above {} (95%: {} to {}); this is an estimate, not a verdict",
            self.times, self.level_ns, self.low_ns, self.high_ns
        )
    }
}
