//! Latency over time.

use serde::{Deserialize, Serialize};

use crate::{Buckets, Nanos};

/// The run divided into intervals, separately for each thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// Length of an interval.
    pub interval_ns: Nanos,
    /// Samples that are in the histograms but in no interval, because the buffer between the
    /// measuring thread and the writer was full.
    pub dropped: u64,
    /// The rows, ordered by start and then by thread.
    pub rows: Vec<IntervalRow>,
}

/// The samples of one thread in one interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntervalRow {
    /// The thread, as an index into `threads`.
    pub thread: u32,
    /// Start of the interval, relative to the start of the measurement.
    pub start_ns: Nanos,
    /// Number of samples, including early ones.
    pub count: u64,
    /// Number of early samples. The figures below exclude them.
    pub early: u64,
    /// Periods that passed without a sample.
    pub missed: u64,
    /// The smallest latency. Null if there are no samples.
    pub min_ns: Option<Nanos>,
    /// The largest latency. Null if there are no samples.
    pub max_ns: Option<Nanos>,
    /// The sum of the latencies.
    pub sum_ns: Nanos,
    /// Their histogram.
    pub histogram: Buckets,
}

impl IntervalRow {
    /// Returns the mean latency of the interval.
    pub fn mean(&self) -> Option<Nanos> {
        self.sum_ns
            .0
            .checked_div(self.count.saturating_sub(self.early))
            .map(Nanos)
    }

    /// Returns the given quantile of the samples, limited by the maximum.
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        let max = self.max_ns?;
        Some(
            self.histogram
                .quantile(quantile)
                .map_or(max, |ns| Nanos(ns).min(max)),
        )
    }
}
