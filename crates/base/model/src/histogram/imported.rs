//! What another tool counted: its rows, and samples that it put into none.

use super::Histogram;
use crate::bucket_counts::{BUCKETS, MAX_TRACKABLE_NS, bounds_of, index_of};
use crate::{Nanos, Resolution};

/// From here on buckets are wider than a microsecond.
const FINE: Nanos = Nanos(1_000_000);

/// What is as fine as our own figures.
const OWN: Resolution = Resolution {
    unit_ns: Nanos(1),
    row_ns: Nanos(1),
    unplaced: 0,
    unplaced_from_ns: Nanos::ZERO,
    mean_unknown: false,
    max_unknown: false,
    rows: Vec::new(),
};

impl Histogram {
    /// An empty histogram for what another tool counted, whose figures are rounded
    /// down to `unit` and whose rows are `row` wide.
    pub fn imported(unit: Nanos, row: Nanos) -> Self {
        Self {
            resolution: Some(Box::new(Resolution::new(unit, row))),
            ..Self::new()
        }
    }

    /// How coarse it is; `None` for one that punctual counted.
    pub fn resolution(&self) -> Option<&Resolution> {
        self.resolution.as_deref()
    }

    /// Counts `count` samples of another tool's row that begins at `lower`.
    /// Sum, minimum and maximum take them as of that value, until
    /// [`set_figures`](Self::set_figures) says better.
    pub fn add_row(&mut self, lower: Nanos, count: u64) {
        if count == 0 {
            return;
        }
        match index_of(lower.0) {
            Some(index) => self.counts.add(index, count),
            None => self.overflow = self.overflow.saturating_add(count),
        }
        if lower >= FINE
            && lower.0 < MAX_TRACKABLE_NS
            && let Some(resolution) = &mut self.resolution
        {
            resolution.add_row(lower.0, count);
        }
        self.count = self.count.saturating_add(count);
        self.sum = (self.sum).saturating_add(lower.0.saturating_mul(count));
        self.min = self.min.min(lower.0);
        if !self.max_is_unknown() {
            self.max = self.max.max(lower.0);
        }
    }

    /// Whether another tool left open how late the latest sample was.
    pub(super) fn max_is_unknown(&self) -> bool {
        self.resolution
            .as_ref()
            .is_some_and(|resolution| resolution.max_unknown)
    }

    /// Counts `count` samples that another tool counted without saying how late
    /// they were; none of them was less late than `from`. Minimum, maximum and
    /// mean are then for [`set_figures`](Self::set_figures) to say.
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

    /// Counts early samples, as many as another tool says.
    pub fn add_early(&mut self, count: u64) {
        self.early = self.early.saturating_add(count);
    }

    /// Takes `count` samples out of the row that begins at `lower`, which holds
    /// later ones too, as another tool's last row may: they are then among those
    /// of which is only known that they were not less late.
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

    /// Says from where on samples are missing in the rows.
    pub fn unplaced_begin(&mut self, from: Nanos) {
        if let Some(resolution) = &mut self.resolution {
            resolution.unplaced_from_ns = from;
        }
    }

    /// Takes over what another tool says of minimum, maximum and the sum of all
    /// latencies, which is better than what follows from its rows.
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

    /// Samples that another tool counted without saying how late they were.
    pub fn unplaced(&self) -> u64 {
        self.resolution
            .as_ref()
            .map_or(0, |resolution| resolution.unplaced)
    }

    /// From where on samples are missing in the rows: all that were less late
    /// are there. `None` where none is missing.
    pub fn unplaced_from(&self) -> Option<Nanos> {
        let resolution = self
            .resolution
            .as_ref()
            .filter(|resolution| resolution.unplaced > 0);
        resolution.map(|resolution| resolution.unplaced_from_ns)
    }

    /// The filled rows at the finest that is known, as (lower edge, width,
    /// count), in ns and rising: our own buckets, or the rows of the tool that
    /// counted.
    pub fn rows(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let resolution = self.resolution.as_deref();
        let row = resolution.map_or(1, Resolution::row);
        let fine = resolution.map_or(&[][..], |resolution| &resolution.rows);
        let total = |counts: &mut dyn Iterator<Item = u64>| counts.fold(0, u64::saturating_add);
        let first = index_of(FINE.0).unwrap_or(BUCKETS);
        let coarse = self.counts.filled().skip_while(|(index, _)| *index < first);
        // Merged with what has no such rows, they are not all there.
        let complete =
            total(&mut fine.iter().map(|row| row.1)) == total(&mut coarse.map(|(_, count)| count));
        let (end, fine) = match complete {
            true => (first, fine),
            false => (BUCKETS, &[][..]),
        };
        let buckets = self
            .counts
            .filled()
            .take_while(move |(index, _)| *index < end);
        let buckets = buckets.map(move |(index, count)| {
            let (lower, width) = bounds_of(index);
            (lower, width.max(row), count)
        });
        let fine = fine.iter().map(move |(lower, count)| (*lower, row, *count));
        buckets.chain(fine)
    }
}
