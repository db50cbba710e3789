//! Conversion of a histogram to an interval of the time series, and back.

use super::Histogram;
use crate::{IntervalRow, Nanos};

impl IntervalRow {
    /// Creates the interval of `thread` that begins at `start_ns`, with these latencies and
    /// `missed` periods without a sample.
    pub fn new(thread: u32, start_ns: Nanos, missed: u64, latencies: &Histogram) -> Self {
        Self {
            thread,
            start_ns,
            count: latencies.recorded(),
            early: latencies.early(),
            missed,
            min_ns: latencies.min(),
            max_ns: latencies.max(),
            sum_ns: latencies.sum(),
            histogram: latencies.buckets(),
        }
    }
}

impl Histogram {
    /// Adds the samples of one interval of the time series.
    pub fn add_interval(&mut self, row: &IntervalRow) {
        let in_buckets = row.histogram.total();
        let count = row.count.saturating_sub(row.early);
        for (index, count) in row.histogram.pairs() {
            self.counts.add(usize::from(index), count);
        }
        self.count = self.count.saturating_add(count);
        self.sum = self.sum.saturating_add(row.sum_ns.0);
        self.min = self.min.min(row.min_ns.map_or(u64::MAX, |min| min.0));
        self.max = self.max.max(row.max_ns.map_or(0, |max| max.0));
        self.early = self.early.saturating_add(row.early);
        let beyond = count.saturating_sub(in_buckets);
        self.overflow = self.overflow.saturating_add(beyond);
    }
}
