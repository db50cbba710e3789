//! The latency histogram of one thread: counting and figures. `imported` handles counts from other
//! tools, and `written` handles the stored forms.

mod above;
mod accounting;
mod bucket_counts;
mod buckets;
mod counted;
mod counts;
mod due;
mod imported;
mod interval;
mod open;
mod resolution;
mod series;
mod tail;
mod written;

pub use above::{Above, AboveLimit};
pub use accounting::Accounting;
pub use bucket_counts::{Buckets, DecodeError, MAX_TRACKABLE_NS};
pub use due::{Bounds, Due};
pub use open::OpenPeriods;
pub use resolution::Resolution;
pub use series::{IntervalRow, Series};
pub use tail::TailRemark;

use serde::{Deserialize, Serialize};

pub use counted::CountedBeside;
use counts::Counts;
use written::Written;

use crate::{Nanos, SignedNanos};
pub(crate) use bucket_counts::rank_of;
use bucket_counts::{bounds_of, index_of};

/// Latencies counted in decimal log-linear buckets with three significant digits, from 0 to 1000 s.
/// [`Buckets`] describes the grid.
///
/// A histogram takes at most 73 kB, never rescales, and is merged by addition. In addition to the buckets
/// it stores the exact count, sum, minimum and maximum. Two kinds of samples have no bucket and are
/// counted separately: early ones (negative latency), and those beyond the range. The latter are
/// part of count, sum and maximum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Histogram {
    counts: Counts,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    early: u64,
    overflow: u64,
    /// Present if another tool counted the samples.
    resolution: Option<Box<Resolution>>,
}

/// Returns whether `count` samples are enough for a quantile: at least one sample is expected above
/// it.
pub fn is_supported(quantile: f64, count: u64) -> bool {
    // 10000 * (1 - 0.9999) is 0.99999... in floating point, but must count as 1.
    count as f64 * (1.0 - quantile) > 1.0 - 1e-6
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Creates an empty histogram. It takes memory for the range of its samples only. A real-time
    /// thread needs a [preallocated](Self::preallocated) one.
    pub fn new() -> Self {
        Self::from_counters(Counts::default())
    }

    /// Creates an empty histogram whose memory has already been touched, so that recording neither
    /// allocates memory nor causes page faults.
    pub fn preallocated() -> Self {
        Self::from_counters(Counts::preallocated())
    }

    fn from_counters(counts: Counts) -> Self {
        Self {
            counts,
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
            early: 0,
            overflow: 0,
            resolution: None,
        }
    }

    /// Counts one latency. This is the hot path: no lock, no floating point, no system call, and no
    /// allocation if the histogram is preallocated.
    #[inline]
    pub fn record(&mut self, latency: SignedNanos) {
        let Some(Nanos(ns)) = latency.non_negative() else {
            self.early += 1;
            return;
        };
        match index_of(ns) {
            Some(index) => self.counts.count(index),
            None => self.overflow += 1,
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(ns);
        if ns > self.max {
            self.max = ns;
        }
        if ns < self.min {
            self.min = ns;
        }
    }

    /// Counts `count` latencies: the first is `largest`, and each of the others is smaller by
    /// `step`, but not below zero. They are the lateness of periods that passed during one wait.
    /// The cost is proportional to the number of buckets from the largest to the smallest.
    pub fn record_run(&mut self, largest: Nanos, step: Nanos, count: u64) {
        let (mut value, mut left) = (largest.0, count);
        while left > 0 {
            let index = index_of(value);
            let lower = index.map_or(MAX_TRACKABLE_NS, |index| bounds_of(index).0);
            let fit = match step.0 {
                0 => left,
                _ if value == 0 => left,
                step => ((value - lower) / step + 1).min(left),
            };
            match index {
                Some(index) => self.counts.add(index, fit),
                None => self.overflow = self.overflow.saturating_add(fit),
            }
            let last = value.saturating_sub(step.0.saturating_mul(fit - 1));
            let sum = (u128::from(value) + u128::from(last)) * u128::from(fit) / 2;
            let sum = u64::try_from(sum).unwrap_or(u64::MAX);
            self.count = self.count.saturating_add(fit);
            self.sum = self.sum.saturating_add(sum);
            self.max = self.max.max(value);
            self.min = self.min.min(last);
            left -= fit;
            value = last.saturating_sub(step.0);
        }
    }

    /// Returns the number of all samples: those in buckets, those beyond the range, and early ones.
    pub fn recorded(&self) -> u64 {
        self.count.saturating_add(self.early)
    }

    /// Returns the number of samples that were not early. Sum, minimum, maximum and quantiles
    /// describe only these samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of early samples (negative latency).
    pub fn early(&self) -> u64 {
        self.early
    }

    /// Returns the number of samples beyond the range.
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// Returns the exact minimum. `None` if there are no samples, or if another tool did not report
    /// it.
    pub fn min(&self) -> Option<Nanos> {
        (self.count > 0 && self.min != u64::MAX).then_some(Nanos(self.min))
    }

    /// Returns the exact maximum. `None` if there are no samples, or if another tool did not report
    /// it.
    pub fn max(&self) -> Option<Nanos> {
        if self.max_is_unknown() {
            return None;
        }
        (self.count > 0 && (self.max > 0 || self.min != u64::MAX)).then_some(Nanos(self.max))
    }

    /// Returns the exact sum of all latencies that were not early.
    pub fn sum(&self) -> Nanos {
        Nanos(self.sum)
    }

    /// Returns the mean, rounded to the nearest nanosecond. `None` if there are no samples, or if
    /// another tool did not report it.
    pub fn mean(&self) -> Option<Nanos> {
        if self
            .resolution
            .as_ref()
            .is_some_and(|resolution| resolution.mean_unknown)
        {
            return None;
        }
        let half = self.count / 2;
        (self.sum.checked_add(half)?)
            .checked_div(self.count)
            .map(Nanos)
    }

    /// Returns the given quantile (0 to 1) of the samples by nearest rank.
    ///
    /// The result is the upper end of a bucket, limited by the exact minimum and maximum. It never
    /// understates the exact value and overstates it by at most 1%. For imported counts it is the
    /// upper end of the tool's row, or `None` if it depends on samples that are in no row.
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        self.at_rank(rank_of(quantile, self.count)?)
    }

    /// Like [`quantile`](Self::quantile), but returns `None` if the samples do not
    /// [support](is_supported) the quantile.
    pub fn supported_quantile(&self, quantile: f64) -> Option<Nanos> {
        is_supported(quantile, self.count).then(|| self.quantile(quantile))?
    }

    /// Returns the latency of the sample with this rank, rounded as in
    /// [`quantile`](Self::quantile). Rank 1 is the smallest sample that was not early. Returns
    /// `None` beyond the last rank.
    pub(crate) fn at_rank(&self, rank: u64) -> Option<Nanos> {
        if rank > self.count {
            return None;
        }
        let from = self.unplaced_from().unwrap_or(Nanos(u64::MAX));
        let mut seen = 0;
        for (index, count) in self.counts.filled() {
            seen = u64::saturating_add(seen, count);
            if seen >= rank {
                let (lower, width) = bounds_of(index);
                if lower >= from.0 {
                    break;
                }
                let mut upper = lower + width - 1;
                if let Some(resolution) = &self.resolution {
                    upper = resolution.upper(upper);
                }
                let (min, max) = (self.min().unwrap_or_default(), self.max());
                // `clamp` would panic on an imported recording whose minimum is above its maximum.
                let upper = Nanos(upper).max(min);
                return Some(max.map_or(upper, |max| upper.min(max)));
            }
        }
        // The last sample is the maximum, which may be known even if other samples are not.
        match self.unplaced() {
            0 => self.max(),
            _ => self.max().filter(|_| rank == self.count),
        }
    }

    /// Returns how many samples are known to exceed `limit`, not counting those in the bucket of
    /// `limit`.
    pub(crate) fn above(&self, limit: Nanos) -> u64 {
        let buckets = self.counts.filled();
        buckets
            .filter(|(index, _)| bounds_of(*index).0 > limit.0)
            .map(|(_, count)| count)
            .fold(self.overflow, u64::saturating_add)
    }

    /// Returns how many samples exceed `limit`, as a lower and an upper bound. The bounds differ by
    /// the number of samples in the bucket or row that contains the limit.
    pub(crate) fn above_limit(&self, limit: Nanos) -> Above {
        let (mut at_least, mut at_most) = (self.overflow, self.overflow);
        for (lower, width, count) in self.rows() {
            if lower > limit.0 {
                at_least = u64::saturating_add(at_least, count);
            }
            if lower.saturating_add(width - 1) > limit.0 {
                at_most = u64::saturating_add(at_most, count);
            }
        }
        at_most = at_most.saturating_add(self.unplaced());
        if self.unplaced_from().is_some_and(|from| from > limit) {
            at_least = at_least.saturating_add(self.unplaced());
        }
        let unit = self.resolution().map_or(1, |one| one.unit_ns.0.max(1));
        match self.max() {
            Some(Nanos(max)) if max.saturating_add(unit - 1) <= limit.0 => at_most = at_least,
            Some(max) if max > limit => at_least = at_least.max(1).min(at_most),
            _ => {}
        }
        Above { at_least, at_most }
    }

    /// Adds all samples of `other`. Counts saturate instead of wrapping around.
    pub fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.early = self.early.saturating_add(other.early);
        self.overflow = self.overflow.saturating_add(other.overflow);
        match (&mut self.resolution, &other.resolution) {
            (_, None) => {}
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (mine, theirs) => mine.clone_from(theirs),
        }
        if self.max_is_unknown() {
            self.max = 0;
        }
    }

    /// Returns the filled buckets.
    pub fn buckets(&self) -> Buckets {
        let filled = self.counts.filled();
        Buckets::from_sorted(filled.map(|(index, count)| (index as u16, count)))
    }

    /// Returns the samples below `bins` µs in bins of 1 µs, and the number of the others. The
    /// result is exact up to 1 ms, because no bucket below 1 ms contains a boundary between two
    /// bins. From 1 ms on, buckets are at least 10 µs wide and are counted at their lower edge.
    /// Imported counts are exact there as well. Samples without a row are counted among the others.
    pub fn micros(&self, bins: usize) -> (Vec<u64>, u64) {
        let mut rows = vec![0; bins];
        let mut beyond = self.overflow.saturating_add(self.unplaced());
        for (lower, _, count) in self.rows() {
            match rows.get_mut((lower / 1_000) as usize) {
                Some(row) => *row = u64::saturating_add(*row, count),
                None => beyond = beyond.saturating_add(count),
            }
        }
        (rows, beyond)
    }

    /// Resets all counts but keeps the memory.
    pub fn clear(&mut self) {
        self.counts.clear();
        (self.count, self.sum, self.min, self.max) = (0, 0, u64::MAX, 0);
        (self.early, self.overflow) = (0, 0);
        self.resolution = None;
    }
}

#[cfg(test)]
mod tests;
