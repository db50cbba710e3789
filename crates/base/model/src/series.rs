//! Latency over time.

use serde::{Deserialize, Serialize};

use crate::schema::JsonSchema;
use crate::{Buckets, Nanos};

/// The run cut into intervals, each thread for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// How long an interval is.
    pub interval_ns: Nanos,
    /// Samples that are in the histograms but in no interval, because the
    /// hand-over from the measuring thread was full.
    pub dropped: u64,
    /// The rows, by start and then by thread.
    pub rows: Vec<IntervalRow>,
}

/// What one thread measured in one interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalRow {
    /// The thread, as its place in `threads`.
    pub thread: u32,
    /// When the interval began, from the start of the measurement.
    pub start_ns: Nanos,
    /// Samples (early ones included).
    pub count: u64,
    /// Of these, early ones; they take no part in what follows.
    pub early: u64,
    /// Periods that passed without a sample.
    pub missed: u64,
    /// The smallest latency; null where there is none.
    pub min_ns: Option<Nanos>,
    /// The largest latency; null where there is none.
    pub max_ns: Option<Nanos>,
    /// The sum of the latencies.
    pub sum_ns: Nanos,
    /// Their histogram.
    pub histogram: Buckets,
}

impl IntervalRow {
    /// The mean latency of the interval.
    pub fn mean(&self) -> Option<Nanos> {
        self.sum_ns
            .0
            .checked_div(self.count.saturating_sub(self.early))
            .map(Nanos)
    }

    /// The latency that the share `quantile` of the samples does not exceed;
    /// never above the maximum.
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        let max = self.max_ns?;
        Some(
            self.histogram
                .quantile(quantile)
                .map_or(max, |ns| Nanos(ns).min(max)),
        )
    }
}
