//! The latency histogram of one thread.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::decimal::{
    BUCKETS, Buckets, DecodeError, MAX_TRACKABLE_NS, bounds_of, index_of, rank_of,
};
use crate::varint::{push_varint, take_varint};
use crate::{Grain, IntervalRow, Nanos, SignedNanos};

/// Latencies counted in decimal log-linear buckets with three significant
/// digits, from 0 to 1000 s; the grid is described at [`Buckets`].
///
/// Fixed memory (72 800 bytes), never rescales, merges by addition. Beside the
/// buckets it keeps the exact count, sum, minimum and maximum. Two kinds of
/// sample have no bucket and are counted apart: early ones (negative latency)
/// and those beyond the range (they still take part in count, sum and maximum).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "HistogramJson", into = "HistogramJson")]
#[schemars(with = "HistogramJson")]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    early: u64,
    overflow: u64,
    /// Where another tool counted.
    grain: Option<Box<Grain>>,
}

/// From here on buckets are wider than a microsecond.
const FINE: Nanos = Nanos(1_000_000);

/// What is as fine as our own figures.
const OWN: Grain = Grain {
    unit_ns: Nanos(1),
    row_ns: Nanos(1),
    unplaced: 0,
    unplaced_from_ns: Nanos::ZERO,
    mean_unknown: false,
    max_unknown: false,
    rows: Vec::new(),
};

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram; its memory is touched, so that recording does not
    /// fault.
    pub fn new() -> Self {
        let mut counts = Box::new([0; BUCKETS]);
        // A zeroed allocation is only promised pages: write each of them.
        std::hint::black_box(counts.as_mut_slice()).fill(0);
        Self {
            counts,
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
            early: 0,
            overflow: 0,
            grain: None,
        }
    }

    /// An empty one for what another tool counted, whose figures are rounded
    /// down to `unit` and whose rows are `row` wide.
    pub fn counted_elsewhere(unit: Nanos, row: Nanos) -> Self {
        Self {
            grain: Some(Box::new(Grain::new(unit, row))),
            ..Self::new()
        }
    }

    /// How coarse it is; `None` for one that punctual counted.
    pub fn grain(&self) -> Option<&Grain> {
        self.grain.as_deref()
    }

    /// Counts `count` samples of another tool's row that begins at `lower`.
    /// Sum, minimum and maximum take them as of that value, until
    /// [`set_figures`](Self::set_figures) says better.
    pub fn add_row(&mut self, lower: Nanos, count: u64) {
        if count == 0 {
            return;
        }
        match index_of(lower.0) {
            Some(index) => self.counts[index] = self.counts[index].saturating_add(count),
            None => self.overflow = self.overflow.saturating_add(count),
        }
        if lower >= FINE
            && lower.0 < MAX_TRACKABLE_NS
            && let Some(grain) = &mut self.grain
        {
            grain.add_row(lower.0, count);
        }
        self.count = self.count.saturating_add(count);
        self.sum = (self.sum).saturating_add(lower.0.saturating_mul(count));
        self.min = self.min.min(lower.0);
        if !self.max_is_unknown() {
            self.max = self.max.max(lower.0);
        }
    }

    /// Whether another tool left open how late the latest sample was.
    fn max_is_unknown(&self) -> bool {
        self.grain.as_ref().is_some_and(|grain| grain.max_unknown)
    }

    /// Counts `count` samples that another tool counted without saying how late
    /// they were; none of them was less late than `from`. Minimum, maximum and
    /// mean are then for [`set_figures`](Self::set_figures) to say.
    pub fn add_unplaced(&mut self, count: u64, from: Nanos) {
        if count == 0 {
            return;
        }
        let grain = self.grain.get_or_insert_with(|| Box::new(OWN));
        grain.add_unplaced(count, from);
        grain.mean_unknown = true;
        grain.max_unknown = true;
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
        let count = count.min(self.counts[index]);
        self.counts[index] -= count;
        if let Some(grain) = &mut self.grain {
            grain.rows.retain(|(row, _)| *row != lower.0);
        }
        self.count -= count;
        self.add_unplaced(count, lower);
    }

    /// Says from where on samples are missing in the rows.
    pub fn unplaced_begin(&mut self, from: Nanos) {
        if let Some(grain) = &mut self.grain {
            grain.unplaced_from_ns = from;
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
            if let Some(grain) = &mut self.grain {
                grain.max_unknown = false;
            }
        }
        if let Some(Nanos(sum)) = sum {
            self.sum = sum;
            if let Some(grain) = &mut self.grain {
                grain.mean_unknown = false;
            }
        }
    }

    /// Samples that another tool counted without saying how late they were.
    pub fn unplaced(&self) -> u64 {
        self.grain.as_ref().map_or(0, |grain| grain.unplaced)
    }

    /// From where on samples are missing in the rows: all that were less late
    /// are there. `None` where none is missing.
    pub fn unplaced_from(&self) -> Option<Nanos> {
        let grain = self.grain.as_ref().filter(|grain| grain.unplaced > 0);
        grain.map(|grain| grain.unplaced_from_ns)
    }

    /// The filled rows at the finest that is known, as (lower edge, width,
    /// count), in ns and rising: our own buckets, or the rows of the tool that
    /// counted.
    pub fn rows(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let grain = self.grain.as_deref();
        let row = grain.map_or(1, Grain::row);
        let fine = grain.map_or(&[][..], |grain| &grain.rows);
        let total = |counts: &mut dyn Iterator<Item = u64>| counts.fold(0, u64::saturating_add);
        let first = index_of(FINE.0).unwrap_or(BUCKETS);
        // Merged with what has no such rows, they are not all there.
        let complete = total(&mut fine.iter().map(|row| row.1))
            == total(&mut self.counts[first..].iter().copied());
        let (buckets, fine) = match complete {
            true => (&self.counts[..first], fine),
            false => (&self.counts[..], &[][..]),
        };
        let buckets = buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        let buckets = buckets.map(move |(index, count)| {
            let (lower, width) = bounds_of(index);
            (lower, width.max(row), *count)
        });
        let fine = fine.iter().map(move |(lower, count)| (*lower, row, *count));
        buckets.chain(fine)
    }

    /// Counts one latency. This is the hot path: no allocation, no lock, no
    /// floating point, no system call.
    #[inline]
    pub fn record(&mut self, latency: SignedNanos) {
        let Some(Nanos(ns)) = latency.non_negative() else {
            self.early += 1;
            return;
        };
        match index_of(ns) {
            Some(index) => self.counts[index] += 1,
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

    /// All samples: those in buckets, the overflow and the early ones.
    pub fn recorded(&self) -> u64 {
        self.count.saturating_add(self.early)
    }

    /// Samples that were not early: those that sum, minimum, maximum and
    /// quantiles are about.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Early samples (negative latency).
    pub fn early(&self) -> u64 {
        self.early
    }

    /// Samples beyond the range.
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// The exact smallest latency; `None` without samples, and where another
    /// tool does not tell.
    pub fn min(&self) -> Option<Nanos> {
        (self.count > 0 && self.min != u64::MAX).then_some(Nanos(self.min))
    }

    /// The exact largest latency; `None` without samples, and where another
    /// tool does not tell.
    pub fn max(&self) -> Option<Nanos> {
        if self.max_is_unknown() {
            return None;
        }
        (self.count > 0 && (self.max > 0 || self.min != u64::MAX)).then_some(Nanos(self.max))
    }

    /// The exact sum of all latencies that were not early.
    pub fn sum(&self) -> Nanos {
        Nanos(self.sum)
    }

    /// The mean, rounded to the nearest nanosecond; `None` without samples, and
    /// where another tool does not tell.
    pub fn mean(&self) -> Option<Nanos> {
        if self.grain.as_ref().is_some_and(|grain| grain.mean_unknown) {
            return None;
        }
        let half = self.count / 2;
        (self.sum.checked_add(half)?)
            .checked_div(self.count)
            .map(Nanos)
    }

    /// The latency that the share `quantile` (0 to 1) of the samples does not
    /// exceed, by nearest rank.
    ///
    /// The answer is the upper end of the bucket, so it never understates, and
    /// by at most 1% overstates, the exact value; it stays within the exact
    /// minimum and maximum. Where another tool counted it is the upper end of
    /// its row, and `None` where the samples in no row decide.
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        let rank = rank_of(quantile, self.count)?;
        let from = self.unplaced_from().unwrap_or(Nanos(u64::MAX));
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen = u64::saturating_add(seen, *count);
            if seen >= rank && *count > 0 {
                let (lower, width) = bounds_of(index);
                if lower >= from.0 {
                    break;
                }
                let mut upper = lower + width - 1;
                if let Some(grain) = &self.grain {
                    upper = grain.upper(upper);
                }
                let (min, max) = (self.min().unwrap_or_default(), self.max());
                // Not `clamp`, which fails where a recording from elsewhere
                // has its minimum above its maximum.
                let upper = Nanos(upper).max(min);
                return Some(max.map_or(upper, |max| upper.min(max)));
            }
        }
        // The last of all is the maximum, whatever is known of the others.
        match self.unplaced() {
            0 => self.max(),
            _ => self.max().filter(|_| rank == self.count),
        }
    }

    /// Adds all samples of `other`; each count stays at its largest value
    /// rather than begin anew.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.early = self.early.saturating_add(other.early);
        self.overflow = self.overflow.saturating_add(other.overflow);
        match (&mut self.grain, &other.grain) {
            (_, None) => {}
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (mine, theirs) => mine.clone_from(theirs),
        }
        if self.max_is_unknown() {
            self.max = 0;
        }
    }

    /// Adds what one interval of the time series holds.
    pub fn add_interval(&mut self, row: &IntervalRow) {
        let in_buckets = row.histogram.total();
        let count = row.count.saturating_sub(row.early);
        for &(index, count) in row.histogram.pairs() {
            let slot = &mut self.counts[usize::from(index)];
            *slot = slot.saturating_add(count);
        }
        self.count = self.count.saturating_add(count);
        self.sum = self.sum.saturating_add(row.sum_ns.0);
        self.min = self.min.min(row.min_ns.map_or(u64::MAX, |min| min.0));
        self.max = self.max.max(row.max_ns.map_or(0, |max| max.0));
        self.early = self.early.saturating_add(row.early);
        let beyond = count.saturating_sub(in_buckets);
        self.overflow = self.overflow.saturating_add(beyond);
    }

    /// The filled buckets.
    pub fn buckets(&self) -> Buckets {
        Buckets::from_sorted(
            self.counts
                .iter()
                .enumerate()
                .filter(|(_, count)| **count > 0)
                .map(|(index, count)| (index as u16, *count))
                .collect(),
        )
    }

    /// The samples below `bins` µs in bins of 1 µs, and how many lie at or
    /// above. Exact up to 1 ms, because no bucket below it crosses a
    /// microsecond. From 1 ms on a bucket is 10 µs wide or more, and all of it
    /// is counted at its lower edge; what another tool counted is exact there
    /// too. Samples that are in no row count as above.
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

    /// Empties it.
    pub fn clear(&mut self) {
        *self.counts = [0; BUCKETS];
        (self.count, self.sum, self.min, self.max) = (0, 0, u64::MAX, 0);
        (self.early, self.overflow) = (0, 0);
        self.grain = None;
    }

    /// The compact binary form that the store keeps: unsigned LEB128 numbers —
    /// count, sum, min, max, early, overflow, then for each filled bucket the
    /// distance from the one before and its count. The bucket behind the last
    /// stands for the [`Grain`], which follows it.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        for number in [
            self.count,
            self.sum,
            self.min,
            self.max,
            self.early,
            self.overflow,
        ] {
            push_varint(&mut bytes, number);
        }
        let mut previous = 0;
        for &(index, count) in self.buckets().pairs() {
            push_varint(&mut bytes, u64::from(index) - previous);
            push_varint(&mut bytes, count);
            previous = u64::from(index);
        }
        if let Some(grain) = &self.grain {
            push_varint(&mut bytes, BUCKETS as u64 - previous);
            grain.encode(&mut bytes);
        }
        bytes
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// Bytes that end early, a bucket beyond the grid, counts that do not add
    /// up.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut rest = bytes;
        let truncated = || DecodeError::Truncated(bytes.len());
        let mut histogram = Self::new();
        let head = [
            &mut histogram.count,
            &mut histogram.sum,
            &mut histogram.min,
            &mut histogram.max,
            &mut histogram.early,
            &mut histogram.overflow,
        ];
        for field in head {
            *field = take_varint(&mut rest).ok_or_else(truncated)?;
        }
        let mut index = 0u64;
        while !rest.is_empty() {
            let step = take_varint(&mut rest).ok_or_else(truncated)?;
            index = index.saturating_add(step);
            if index == BUCKETS as u64 && histogram.grain.is_none() {
                let grain = Grain::decode(&mut rest).ok_or_else(truncated)?;
                histogram.grain = Some(Box::new(grain));
                continue;
            }
            let count = take_varint(&mut rest).ok_or_else(truncated)?;
            let slot = usize::try_from(index)
                .ok()
                .and_then(|index| histogram.counts.get_mut(index))
                .ok_or(DecodeError::NoSuchBucket(index))?;
            *slot = slot.saturating_add(count);
        }
        histogram.check()?;
        Ok(histogram)
    }

    fn check(&self) -> Result<(), DecodeError> {
        let buckets = self
            .counts
            .iter()
            .fold(self.overflow, |sum, count| sum.saturating_add(*count))
            .saturating_add(self.unplaced());
        if buckets == self.count {
            Ok(())
        } else {
            Err(DecodeError::Inconsistent {
                buckets,
                count: self.count,
            })
        }
    }
}

/// How a histogram is written as JSON.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Histogram")]
struct HistogramJson {
    /// Samples that were not early.
    count: u64,
    /// Their exact sum.
    sum_ns: Nanos,
    /// The exact smallest latency; null without samples.
    min_ns: Option<Nanos>,
    /// The exact largest latency; null without samples.
    max_ns: Option<Nanos>,
    /// Samples with negative latency.
    early: u64,
    /// Samples of 1000 s or more.
    overflow: u64,
    /// The filled buckets.
    buckets: Buckets,
    /// How coarse it is, where another tool counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grain: Option<Box<Grain>>,
}

impl From<Histogram> for HistogramJson {
    fn from(histogram: Histogram) -> Self {
        Self {
            count: histogram.count,
            sum_ns: histogram.sum(),
            min_ns: histogram.min(),
            max_ns: histogram.max(),
            early: histogram.early,
            overflow: histogram.overflow,
            buckets: histogram.buckets(),
            grain: histogram.grain,
        }
    }
}

impl TryFrom<HistogramJson> for Histogram {
    type Error = DecodeError;

    fn try_from(json: HistogramJson) -> Result<Self, Self::Error> {
        let mut histogram = Self::new();
        histogram.count = json.count;
        histogram.sum = json.sum_ns.0;
        histogram.min = json.min_ns.map_or(u64::MAX, |min| min.0);
        histogram.max = json.max_ns.map_or(0, |max| max.0);
        histogram.early = json.early;
        histogram.overflow = json.overflow;
        histogram.grain = json.grain;
        for &(index, count) in json.buckets.pairs() {
            histogram.counts[usize::from(index)] = count;
        }
        histogram.check()?;
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_TRACKABLE_NS;
    use proptest::prelude::*;

    fn of(values: &[i64]) -> Histogram {
        let mut histogram = Histogram::new();
        for value in values {
            histogram.record(SignedNanos(*value));
        }
        histogram
    }

    /// Latencies as they come: mostly microseconds, now and then anything.
    fn latencies() -> impl Strategy<Value = Vec<i64>> {
        let latency = prop_oneof![
            8 => 0i64..200_000,
            2 => 0i64..5_000_000_000,
            1 => -5_000i64..0,
            1 => (MAX_TRACKABLE_NS as i64 - 10)..(MAX_TRACKABLE_NS as i64 * 3),
        ];
        prop::collection::vec(latency, 0..200)
    }

    #[test]
    fn an_empty_one_knows_nothing() {
        let empty = Histogram::new();
        assert_eq!(empty.min(), None);
        assert_eq!(empty.max(), None);
        assert_eq!(empty.mean(), None);
        assert_eq!(empty.quantile(0.5), None);
        assert_eq!(Histogram::decode(&empty.encode()), Ok(empty));
    }

    #[test]
    fn early_and_overflow_are_counted_apart() {
        let histogram = of(&[-1, 5, MAX_TRACKABLE_NS as i64]);
        assert_eq!(histogram.recorded(), 3);
        assert_eq!(histogram.count(), 2);
        assert_eq!(histogram.early(), 1);
        assert_eq!(histogram.overflow(), 1);
        assert_eq!(histogram.max(), Some(Nanos(MAX_TRACKABLE_NS)));
        assert_eq!(histogram.quantile(1.0), Some(Nanos(MAX_TRACKABLE_NS)));
    }

    /// Rows of whole microseconds, with some samples in no row.
    fn counted(rows: &[(u64, u64)], unplaced: u64) -> Histogram {
        let us = Nanos::from_micros(1);
        let mut histogram = Histogram::counted_elsewhere(us, us);
        for (row, count) in rows {
            histogram.add_row(Nanos(row * 1_000), *count);
        }
        let next = rows.last().map_or(0, |(row, _)| row + 1);
        histogram.add_unplaced(unplaced, Nanos(next * 1_000));
        histogram
    }

    #[test]
    fn samples_in_no_row_make_no_percentile() {
        let mut histogram = counted(&[(10, 90), (12, 5)], 5);
        histogram.set_figures(None, Some(Nanos(3_000_000)), None);
        assert_eq!(histogram.recorded(), 100);
        assert_eq!(histogram.mean(), None);
        assert_eq!(histogram.quantile(0.5), Some(Nanos(10_000)));
        assert_eq!(histogram.quantile(0.95), Some(Nanos(12_000)));
        assert_eq!(histogram.quantile(0.99), None);
        assert_eq!(histogram.quantile(1.0), Some(Nanos(3_000_000)));
        let (rows, beyond) = histogram.micros(13);
        assert_eq!((rows[10], rows[12], beyond), (90, 5, 5));
        // Beside one whose rows reach further only what is below counts.
        let mut both = counted(&[(10, 10), (40, 10)], 0);
        both.merge(&histogram);
        assert_eq!(both.quantile(0.5), Some(Nanos(10_000)));
        assert_eq!(both.quantile(0.9), None);
        assert_eq!(both.unplaced_from(), Some(Nanos(13_000)));
    }

    #[test]
    fn rows_of_another_tool_stay_as_they_are() {
        let rows = [(999, 1), (1_234, 2), (1_235, 3), (40_001, 1)];
        let histogram = counted(&rows, 0);
        let found: Vec<_> = histogram.rows().map(|row| (row.0 / 1_000, row.2)).collect();
        assert_eq!(found, rows);
        assert_eq!(Histogram::decode(&histogram.encode()).unwrap(), histogram);
        let json = serde_json::to_string(&histogram).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&json).unwrap(), histogram);
        // Merged with our own, the buckets are what both have.
        let mut both = of(&[1_500_000]);
        both.merge(&histogram);
        assert_eq!(both.rows().map(|row| row.2).sum::<u64>(), 8);
        let bytes = counted(&rows, 1).encode();
        for end in 0..bytes.len() {
            assert!(Histogram::decode(&bytes[..end]).is_err(), "{end}");
        }
        // Wide rows are answered by their upper end.
        let mut wide = Histogram::counted_elsewhere(Nanos(1_000), Nanos(50_000));
        wide.add_row(Nanos(50_000), 3);
        wide.set_figures(None, Some(Nanos(120_000)), None);
        assert_eq!(wide.quantile(0.5), Some(Nanos(99_000)));
    }

    #[test]
    fn the_largest_counts_can_be_merged() {
        let json = format!(
            r#"{{"count": {max}, "sum_ns": {max}, "min_ns": null, "max_ns": null,
                "early": {max}, "overflow": 0, "buckets": [[5, {max}]]}}"#,
            max = u64::MAX
        );
        let full: Histogram = serde_json::from_str(&json).unwrap();
        let mut merged = full.clone();
        merged.merge(&full);
        assert_eq!(merged, full);
        assert_eq!(merged.recorded(), u64::MAX);
        assert_eq!(merged.buckets().total(), u64::MAX);
        // It has samples but says neither minimum nor maximum.
        assert_eq!((merged.min(), merged.max()), (None, None));
        assert_eq!(merged.quantile(0.5), Some(Nanos(5)));
        assert_eq!(merged.micros(3), (vec![u64::MAX, 0, 0], 0));
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let bytes = of(&[5, 5_000, 70_000]).encode();
        for end in 0..bytes.len() {
            assert!(Histogram::decode(&bytes[..end]).is_err(), "{end}");
        }
        assert_eq!(
            Histogram::decode(&[0, 0, 0, 0, 0, 0, 0xff, 0xff, 0x7f, 1]),
            Err(DecodeError::NoSuchBucket(0x1f_ffff))
        );
    }

    proptest! {
        #[test]
        fn nothing_is_lost(values in latencies()) {
            let histogram = of(&values);
            prop_assert_eq!(histogram.recorded(), values.len() as u64);
            prop_assert_eq!(
                histogram.buckets().total() + histogram.overflow() + histogram.early(),
                values.len() as u64
            );
        }

        #[test]
        fn merging_is_recording_both(a in latencies(), b in latencies()) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(merged, of(&[a, b].concat()));
        }

        #[test]
        fn quantiles_are_within_one_percent_of_sorting(
            values in prop::collection::vec(0i64..5_000_000_000, 1..300),
            quantile in 0.0f64..=1.0,
        ) {
            let histogram = of(&values);
            let mut sorted = values;
            sorted.sort_unstable();
            let rank = rank_of(quantile, sorted.len() as u64).unwrap();
            let exact = sorted[rank as usize - 1] as u64;
            let Nanos(found) = histogram.quantile(quantile).unwrap();
            prop_assert!(found >= exact, "{} understates {}", found, exact);
            prop_assert!(found <= exact + exact / 100 + 1, "{} overstates {}", found, exact);
        }

        #[test]
        fn microsecond_bins_are_exact_below_a_millisecond(values in prop::collection::vec(0i64..2_000_000, 0..300)) {
            let (rows, beyond) = of(&values).micros(1_000);
            let mut exact = vec![0u64; 1_000];
            for value in values.iter().filter(|v| **v < 1_000_000) {
                exact[(value / 1_000) as usize] += 1;
            }
            prop_assert_eq!(rows, exact);
            prop_assert_eq!(beyond, values.iter().filter(|v| **v >= 1_000_000).count() as u64);
        }

        #[test]
        fn both_forms_read_back(values in latencies()) {
            let histogram = of(&values);
            let json = serde_json::to_string(&histogram).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Histogram>(&json).unwrap(), &histogram);
            prop_assert_eq!(&Histogram::decode(&histogram.encode()).unwrap(), &histogram);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Histogram::decode(&bytes);
        }
    }
}
