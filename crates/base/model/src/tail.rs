//! What the tail of a measurement would reach in a longer one.

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::schema::JsonSchema;

/// A return level, if the tail goes on as seen. Never part of a verdict: what did not occur
/// cannot be seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TailRemark {
    /// A generalised Pareto distribution is fitted to the latencies above this.
    pub threshold_ns: Nanos,
    /// So many there were.
    pub above: u64,
    /// Its shape.
    pub shape: f64,
    /// How many times longer than the measurement is looked ahead.
    pub times: u64,
    /// In that time one wake-up is expected above this.
    pub level_ns: Nanos,
    /// The level is at least this with 95% confidence.
    pub low_ns: Nanos,
    /// The level is at most this with 95% confidence.
    pub high_ns: Nanos,
}

impl TailRemark {
    /// The remark in one sentence.
    pub fn sentence(&self) -> String {
        format!(
            "if the tail goes on as seen, {} times as long has one wake-up above {} (95%: {} to \
             {}); a remark, no verdict",
            self.times, self.level_ns, self.low_ns, self.high_ns
        )
    }
}
