//! The stored forms of a histogram: bytes in the store, JSON elsewhere.

use serde::{Deserialize, Serialize};

use super::Histogram;
use super::bucket_counts::{BUCKETS, Buckets, DecodeError};
use crate::{Nanos, Resolution};
use crate::{push_varint, take_varint};

impl Histogram {
    /// Returns the compact binary form for the store, as unsigned LEB128 numbers: count, sum, min,
    /// max, early, overflow, then for each filled bucket the distance from the previous one and its
    /// count. A bucket number beyond the last one means that the [`Resolution`] follows.
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
        for (index, count) in self.buckets().pairs() {
            push_varint(&mut bytes, u64::from(index) - previous);
            push_varint(&mut bytes, count);
            previous = u64::from(index);
        }
        if let Some(resolution) = &self.resolution {
            push_varint(&mut bytes, BUCKETS as u64 - previous);
            resolution.encode(&mut bytes);
        }
        bytes
    }

    /// Decodes the result of [`encode`](Self::encode).
    ///
    /// # Errors
    /// Fails if the bytes end early, if a bucket is beyond the grid, or if the counts do not add
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
            if index == BUCKETS as u64 && histogram.resolution.is_none() {
                let resolution = Resolution::decode(&mut rest).ok_or_else(truncated)?;
                histogram.resolution = Some(Box::new(resolution));
                continue;
            }
            let count = take_varint(&mut rest).ok_or_else(truncated)?;
            if index >= BUCKETS as u64 {
                return Err(DecodeError::NoSuchBucket(index));
            }
            histogram.counts.add(index as usize, count);
        }
        histogram.check()?;
        Ok(histogram)
    }

    fn check(&self) -> Result<(), DecodeError> {
        let buckets = self
            .counts
            .filled()
            .fold(self.overflow, |sum, (_, count)| sum.saturating_add(count))
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

/// The JSON form of a histogram.
#[derive(Serialize, Deserialize)]
pub(super) struct Written {
    /// Samples that were not early.
    count: u64,
    /// Their exact sum.
    sum_ns: Nanos,
    /// The exact minimum. Null if there are no samples.
    min_ns: Option<Nanos>,
    /// The exact maximum. Null if there are no samples.
    max_ns: Option<Nanos>,
    /// Samples with negative latency.
    early: u64,
    /// Samples of 1000 s or more.
    overflow: u64,
    /// The filled buckets.
    buckets: Buckets,
    /// The resolution, if another tool counted the samples.
    #[serde(rename = "grain", default, skip_serializing_if = "Option::is_none")]
    resolution: Option<Box<Resolution>>,
}

impl From<Histogram> for Written {
    fn from(histogram: Histogram) -> Self {
        Self {
            count: histogram.count,
            sum_ns: histogram.sum(),
            min_ns: histogram.min(),
            max_ns: histogram.max(),
            early: histogram.early,
            overflow: histogram.overflow,
            buckets: histogram.buckets(),
            resolution: histogram.resolution,
        }
    }
}

impl TryFrom<Written> for Histogram {
    type Error = DecodeError;

    fn try_from(json: Written) -> Result<Self, Self::Error> {
        let mut histogram = Self::new();
        histogram.count = json.count;
        histogram.sum = json.sum_ns.0;
        histogram.min = json.min_ns.map_or(u64::MAX, |min| min.0);
        histogram.max = json.max_ns.map_or(0, |max| max.0);
        histogram.early = json.early;
        histogram.overflow = json.overflow;
        histogram.resolution = json.resolution;
        for (index, count) in json.buckets.pairs() {
            histogram.counts.add(usize::from(index), count);
        }
        histogram.check()?;
        Ok(histogram)
    }
}
