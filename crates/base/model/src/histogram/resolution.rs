//! Limited resolution of histograms from other tools.

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::{push_varint, take_varint};

/// The resolution of an imported histogram, and its samples that are in no row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// The tool rounds minimum, maximum and rows down to this unit: 1 µs for most tools.
    pub unit_ns: Nanos,
    /// The width of the tool's rows, a multiple of the unit. If the rows become wider with the
    /// latency, this is the width of the first ones.
    pub row_ns: Nanos,
    /// If the rows become wider with the latency: the number of rows for each power of two of
    /// `row_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_per_octave: Option<u32>,
    /// Samples whose latency the tool did not report: its overflows, or all of them if it has no
    /// histogram. They are part of count, sum, minimum and maximum.
    #[serde(default)]
    pub unplaced: u64,
    /// The smallest possible latency of these samples.
    #[serde(default)]
    pub unplaced_from_ns: Nanos,
    /// Whether the mean is unknown, because samples have no row and the tool does not report the
    /// mean.
    #[serde(default)]
    pub mean_unknown: bool,
    /// Whether the maximum is unknown, because samples have no row and the tool does not report the
    /// maximum.
    #[serde(default)]
    pub max_unknown: bool,
    /// The tool's rows from 1 ms on, as [lower edge in ns, count] in ascending order. Punctual's
    /// own buckets are wider than a microsecond there.
    #[serde(default)]
    pub rows: Vec<(u64, u64)>,
}

impl Resolution {
    /// Creates a resolution without counts, for figures in steps of `unit`, counted in rows of the
    /// width `row`. The unit is at least 1 ns, and a row is at least one unit wide.
    pub fn new(unit: Nanos, row: Nanos) -> Self {
        let unit = unit.max(Nanos(1));
        Self {
            unit_ns: unit,
            row_ns: row.max(unit),
            rows_per_octave: None,
            unplaced: 0,
            unplaced_from_ns: Nanos::ZERO,
            mean_unknown: false,
            max_unknown: false,
            rows: Vec::new(),
        }
    }

    /// Returns the width of the row that contains `ns`, at least 1 ns, because a file may contain
    /// any value.
    pub fn row_at(&self, ns: u64) -> u64 {
        let first = self.row_ns.0.max(1);
        let octave = (ns / first).checked_ilog2().map_or(0, |log| 1 << log);
        match self.rows_per_octave {
            Some(rows) => (octave / u64::from(rows.max(1)))
                .max(1)
                .saturating_mul(first),
            None => first,
        }
    }

    /// Returns the width of the widest row with samples, or of each row if all have one width.
    pub fn widest_row(&self) -> Nanos {
        match (self.rows_per_octave, self.rows.last()) {
            (Some(_), Some((lower, _))) => Nanos(self.row_at(*lower)),
            _ => self.row_ns,
        }
    }

    /// Returns the last value of the row that contains `ns`, in whole units.
    pub fn upper(&self, ns: u64) -> u64 {
        let row = self.row_at(ns);
        let end = (ns / row).saturating_add(1).saturating_mul(row) - 1;
        end - end % self.unit_ns.0.max(1)
    }

    /// Counts samples without a row.
    pub(crate) fn add_unplaced(&mut self, count: u64, from: Nanos) {
        self.unplaced_from_ns = match self.unplaced {
            0 => from,
            _ => self.unplaced_from_ns.min(from),
        };
        self.unplaced = self.unplaced.saturating_add(count);
    }

    /// Counts the samples of a row from 1 ms on.
    pub(crate) fn add_row(&mut self, lower: u64, count: u64) {
        match self.rows.binary_search_by_key(&lower, |(edge, _)| *edge) {
            Ok(place) => self.rows[place].1 = self.rows[place].1.saturating_add(count),
            Err(place) => self.rows.insert(place, (lower, count)),
        }
    }

    /// Combines two resolutions into the coarser one.
    pub fn merge(&mut self, other: &Self) {
        self.unit_ns = self.unit_ns.max(other.unit_ns);
        self.row_ns = self.row_ns.max(other.row_ns);
        self.rows_per_octave = match (self.rows_per_octave, other.rows_per_octave) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        self.mean_unknown |= other.mean_unknown;
        self.max_unknown |= other.max_unknown;
        if other.unplaced > 0 {
            self.add_unplaced(other.unplaced, other.unplaced_from_ns);
        }
        let mut rows = Vec::with_capacity(self.rows.len() + other.rows.len());
        let (mut mine, mut theirs) = (self.rows.as_slice(), other.rows.as_slice());
        while let (Some(a), Some(b)) = (mine.first(), theirs.first()) {
            rows.push(match a.0.cmp(&b.0) {
                std::cmp::Ordering::Less => *a,
                std::cmp::Ordering::Greater => *b,
                std::cmp::Ordering::Equal => (a.0, a.1.saturating_add(b.1)),
            });
            mine = &mine[usize::from(a.0 <= b.0)..];
            theirs = &theirs[usize::from(b.0 <= a.0)..];
        }
        rows.extend_from_slice(mine);
        rows.extend_from_slice(theirs);
        self.rows = rows;
    }

    /// Appends the compact binary form.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        for number in [
            self.unit_ns.0,
            self.row_ns.0,
            self.unplaced,
            self.unplaced_from_ns.0,
            u64::from(self.mean_unknown)
                | u64::from(self.max_unknown) << 1
                | u64::from(self.rows_per_octave.unwrap_or_default()) << 2,
            self.rows.len() as u64,
        ] {
            push_varint(bytes, number);
        }
        for &(lower, count) in &self.rows {
            push_varint(bytes, lower);
            push_varint(bytes, count);
        }
    }

    /// Takes the result of [`encode`](Self::encode) from the front of the bytes.
    pub(crate) fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let mut next = || take_varint(bytes);
        let mut resolution = Self::new(Nanos(next()?), Nanos(next()?));
        resolution.unplaced = next()?;
        resolution.unplaced_from_ns = Nanos(next()?);
        let unknown = next()?;
        resolution.mean_unknown = unknown & 1 != 0;
        resolution.max_unknown = unknown & 2 != 0;
        let rows = u32::try_from(unknown >> 2).ok()?;
        resolution.rows_per_octave = (rows > 0).then_some(rows);
        for _ in 0..next()? {
            resolution.rows.push((next()?, next()?));
        }
        Some(resolution)
    }
}
