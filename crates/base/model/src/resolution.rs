//! What a histogram that another tool counted says less of than our own.

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::schema::JsonSchema;
use crate::varint::{push_varint, take_varint};

/// How coarse the figures of a histogram are that another tool counted, and
/// which of its samples are in no row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Grain")]
pub struct Resolution {
    /// The unit of minimum, maximum and rows, which are rounded down to it:
    /// 1 µs for most tools.
    pub unit_ns: Nanos,
    /// How wide the tool's rows are; a multiple of the unit.
    pub row_ns: Nanos,
    /// Samples that the tool counted without saying how late they were: its
    /// overflows, or all of them where it keeps no histogram. They take part
    /// in count, sum, minimum and maximum.
    #[serde(default)]
    pub unplaced: u64,
    /// None of these was less late than this.
    #[serde(default)]
    pub unplaced_from_ns: Nanos,
    /// Whether the mean is not known, where samples are in no row and the tool
    /// does not say it.
    #[serde(default)]
    pub mean_unknown: bool,
    /// Whether the maximum is not known: samples are in no row, and the tool
    /// does not say how late the latest was.
    #[serde(default)]
    pub max_unknown: bool,
    /// The tool's rows from 1 ms on, as [lower edge in ns, count], rising:
    /// there our own buckets are wider than a microsecond.
    #[serde(default)]
    pub rows: Vec<(u64, u64)>,
}

impl Resolution {
    /// Figures in steps of `unit`, counted in rows of `row`; nothing is counted
    /// yet. What is smaller than 1 ns, or a row than its unit, is made that.
    pub fn new(unit: Nanos, row: Nanos) -> Self {
        let unit = unit.max(Nanos(1));
        Self {
            unit_ns: unit,
            row_ns: row.max(unit),
            unplaced: 0,
            unplaced_from_ns: Nanos::ZERO,
            mean_unknown: false,
            max_unknown: false,
            rows: Vec::new(),
        }
    }

    /// The width of a row, at least 1 ns (a file may say anything).
    pub(crate) fn row(&self) -> u64 {
        self.row_ns.0.max(1)
    }

    /// The last value of the row that holds `ns`, in whole units.
    pub(crate) fn upper(&self, ns: u64) -> u64 {
        let row = self.row();
        let end = (ns / row).saturating_add(1).saturating_mul(row) - 1;
        end - end % self.unit_ns.0.max(1)
    }

    /// Counts samples that are in no row.
    pub(crate) fn add_unplaced(&mut self, count: u64, from: Nanos) {
        self.unplaced_from_ns = match self.unplaced {
            0 => from,
            _ => self.unplaced_from_ns.min(from),
        };
        self.unplaced = self.unplaced.saturating_add(count);
    }

    /// Counts a row from 1 ms on.
    pub(crate) fn add_row(&mut self, lower: u64, count: u64) {
        match self.rows.binary_search_by_key(&lower, |(edge, _)| *edge) {
            Ok(place) => self.rows[place].1 = self.rows[place].1.saturating_add(count),
            Err(place) => self.rows.insert(place, (lower, count)),
        }
    }

    /// What is as coarse as the coarser of both.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.unit_ns = self.unit_ns.max(other.unit_ns);
        self.row_ns = self.row_ns.max(other.row_ns);
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
            u64::from(self.mean_unknown) | u64::from(self.max_unknown) << 1,
            self.rows.len() as u64,
        ] {
            push_varint(bytes, number);
        }
        for &(lower, count) in &self.rows {
            push_varint(bytes, lower);
            push_varint(bytes, count);
        }
    }

    /// Takes what [`encode`](Self::encode) wrote from the front.
    pub(crate) fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let mut next = || take_varint(bytes);
        let mut resolution = Self::new(Nanos(next()?), Nanos(next()?));
        resolution.unplaced = next()?;
        resolution.unplaced_from_ns = Nanos(next()?);
        let unknown = next()?;
        resolution.mean_unknown = unknown & 1 != 0;
        resolution.max_unknown = unknown & 2 != 0;
        for _ in 0..next()? {
            resolution.rows.push((next()?, next()?));
        }
        Some(resolution)
    }
}
