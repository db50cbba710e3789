//! Counts imported from another tool: its rows, and samples that it reported without a row.

use super::Histogram;
use super::bucket_counts::{BUCKETS, MAX_TRACKABLE_NS, bounds_of, index_of};
use crate::{Nanos, Resolution};

/// From this latency on, buckets are wider than a microsecond.
const FINE: Nanos = Nanos(1_000_000);

/// The resolution of figures that punctual counts itself.
const OWN: Resolution = Resolution {
    unit_ns: Nanos(1),
    row_ns: Nanos(1),
    rows_per_octave: None,
    unplaced: 0,
    unplaced_from_ns: Nanos::ZERO,
    mean_unknown: false,
    max_unknown: false,
    rows: Vec::new(),
};

impl Histogram {
    /// Creates an empty histogram for counts from another tool. The tool rounds its figures down to
    /// a multiple of `unit`, and its rows have the width `row`.
    pub fn imported(unit: Nanos, row: Nanos) -> Self {
        Self {
            resolution: Some(Box::new(Resolution::new(unit, row))),
            ..Self::new()
        }
    }

    /// Creates an empty histogram for counts of a tool whose rows become wider with the latency:
    /// `rows` for each power of two of `first`, the width of the first rows. The maximum and the
    /// mean are unknown, because they cannot be estimated from such rows.
    pub fn imported_by_octaves(unit: Nanos, first: Nanos, rows: u32) -> Self {
        let mut resolution = Resolution::new(unit, first);
        resolution.rows_per_octave = Some(rows.max(1));
        resolution.mean_unknown = true;
        resolution.max_unknown = true;
        Self {
            resolution: Some(Box::new(resolution)),
            ..Self::new()
        }
    }

    /// Returns the latency from which on the rows are kept in the resolution, because their edges
    /// are not those of buckets.
    fn rows_kept_from(&self) -> Nanos {
        let by_octaves = |one: &Resolution| one.rows_per_octave.is_some();
        match self.resolution.as_deref() {
            Some(resolution) if by_octaves(resolution) => Nanos::ZERO,
            _ => FINE,
        }
    }

    /// Returns the resolution, or `None` if punctual counted the samples.
    pub fn resolution(&self) -> Option<&Resolution> {
        self.resolution.as_deref()
    }

    /// Counts `count` samples in a row that begins at `lower`. The sum, the minimum and the maximum
    /// are based on the assumption that each sample equals `lower`, until
    /// [`set_figures`](Self::set_figures) sets more accurate values.
    pub fn add_row(&mut self, lower: Nanos, count: u64) {
        if count == 0 {
            return;
        }
        match index_of(lower.0) {
            Some(index) => self.counts.add(index, count),
            None => self.overflow = self.overflow.saturating_add(count),
        }
        if lower >= self.rows_kept_from()
            && lower.0 < MAX_TRACKABLE_NS
            && let Some(resolution) = &mut self.resolution
        {
            resolution.add_row(lower.0, count);
        }
        self.count = self.count.saturating_add(count);
        self.sum = (self.sum).saturating_add(lower.0.saturating_mul(count));
        // The smallest sample can be anywhere in a wide row.
        if self.rows_kept_from() == FINE {
            self.min = self.min.min(lower.0);
        }
        if !self.max_is_unknown() {
            self.max = self.max.max(lower.0);
        }
    }

    /// Returns whether the maximum is unknown, because the other tool did not report it.
    pub(super) fn max_is_unknown(&self) -> bool {
        self.resolution
            .as_ref()
            .is_some_and(|resolution| resolution.max_unknown)
    }

    /// Counts `count` samples whose latency the other tool did not report. Each is at least `from`
    /// late. [`set_figures`](Self::set_figures) can then set minimum, maximum and mean.
    pub fn add_unplaced(&mut self, count: u64, from: Nanos) {
        if count == 0 {
            return;
        }
        let resolution = self.resolution.get_or_insert_with(|| Box::new(OWN));
        resolution.add_unplaced(count, from);
        resolution.mean_unknown = true;
        resolution.max_unknown = true;
        self.max = 0;
        self.count = self.count.saturating_add(count);
    }

    /// Counts early samples reported by the other tool.
    pub fn add_early(&mut self, count: u64) {
        self.early = self.early.saturating_add(count);
    }

    /// Moves `count` samples out of the row that begins at `lower`, because the last row of a tool
    /// may also contain later samples. Only a lower bound of their latency is known afterwards.
    pub fn unplace_row(&mut self, lower: Nanos, count: u64) {
        let Some(index) = index_of(lower.0) else {
            return;
        };
        let count = count.min(self.counts.get(index));
        self.counts.take(index, count);
        if let Some(resolution) = &mut self.resolution {
            resolution.rows.retain(|(row, _)| *row != lower.0);
        }
        self.count -= count;
        self.add_unplaced(count, lower);
    }

    /// Sets the smallest latency of samples that may be missing in the rows.
    pub fn unplaced_begin(&mut self, from: Nanos) {
        if let Some(resolution) = &mut self.resolution {
            resolution.unplaced_from_ns = from;
        }
    }

    /// Sets minimum, maximum and sum as reported by the other tool. They are more accurate than
    /// those derived from its rows.
    pub fn set_figures(&mut self, min: Option<Nanos>, max: Option<Nanos>, sum: Option<Nanos>) {
        if let Some(Nanos(min)) = min {
            self.min = min;
        }
        if let Some(Nanos(max)) = max {
            self.max = max;
            if let Some(resolution) = &mut self.resolution {
                resolution.max_unknown = false;
            }
        }
        if let Some(Nanos(sum)) = sum {
            self.sum = sum;
            if let Some(resolution) = &mut self.resolution {
                resolution.mean_unknown = false;
            }
        }
    }

    /// Returns the number of samples whose latency the other tool did not report.
    pub fn unplaced(&self) -> u64 {
        self.resolution
            .as_ref()
            .map_or(0, |resolution| resolution.unplaced)
    }

    /// Returns the smallest latency of samples that may be missing in the rows. `None` if no sample
    /// is missing.
    pub fn unplaced_from(&self) -> Option<Nanos> {
        let resolution = self
            .resolution
            .as_ref()
            .filter(|resolution| resolution.unplaced > 0);
        resolution.map(|resolution| resolution.unplaced_from_ns)
    }

    /// Returns the filled rows at the finest known resolution as (lower edge, width, count), in ns
    /// and ascending order. These are punctual's own buckets, or the rows of the other tool.
    pub fn rows(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let resolution = self.resolution.as_deref();
        let row_at = move |lower| resolution.map_or(1, |resolution| resolution.row_at(lower));
        let fine = resolution.map_or(&[][..], |resolution| &resolution.rows);
        let total = |counts: &mut dyn Iterator<Item = u64>| counts.fold(0, u64::saturating_add);
        let first = index_of(self.rows_kept_from().0).unwrap_or(BUCKETS);
        let coarse = self.counts.filled().skip_while(|(index, _)| *index < first);
        // After a merge with a histogram that has no rows, the rows are incomplete.
        let complete =
            total(&mut fine.iter().map(|row| row.1)) == total(&mut coarse.map(|(_, count)| count));
        let (end, fine) = if complete {
            (first, fine)
        } else {
            (BUCKETS, &[][..])
        };
        let buckets = self
            .counts
            .filled()
            .take_while(move |(index, _)| *index < end);
        let buckets = buckets.map(move |(index, count)| {
            let (lower, width) = bounds_of(index);
            (lower, width.max(row_at(lower)), count)
        });
        let fine = fine
            .iter()
            .map(move |(lower, count)| (*lower, row_at(*lower), *count));
        buckets.chain(fine)
    }
}
