//! Counts in the buckets of the grid ([`punctual_grid`]): without the empty ones, as
//! the store keeps them and JSON shows them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use punctual_grid::MAX_TRACKABLE_NS;
pub(crate) use punctual_grid::{BUCKETS, bounds_of, index_of};

use crate::varint::{push_varint, take_varint};

/// A kept histogram that could not be read back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside a number.
    #[error("the histogram ends after {0} bytes, inside a number")]
    Truncated(usize),
    /// A bucket number beyond the grid.
    #[error("the histogram names bucket {0}, the last is {last}", last = BUCKETS - 1)]
    NoSuchBucket(u64),
    /// The counts do not add up.
    #[error("the histogram's buckets hold {buckets} samples, its count says {count}")]
    Inconsistent {
        /// Sum over the buckets and the overflow.
        buckets: u64,
        /// What the count says.
        count: u64,
    },
}

/// A histogram without its empty buckets: what an interval of the time series
/// holds, what the store keeps and what JSON shows.
///
/// In JSON: a list of `[lower_ns, count]`, rising; the width of a bucket
/// follows from its lower edge by the table of the histogram's documentation
/// (1 ns below 1 µs, then a thousandth of the decade's end).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets(Vec<(u16, u64)>);

impl Buckets {
    /// From (bucket, count) pairs that rise and hold no zero.
    pub(crate) fn from_sorted(pairs: Vec<(u16, u64)>) -> Self {
        debug_assert!(pairs.windows(2).all(|w| w[0].0 < w[1].0));
        Self(pairs)
    }

    /// The (bucket, count) pairs, rising.
    pub(crate) fn pairs(&self) -> &[(u16, u64)] {
        &self.0
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sum of all counts.
    pub fn total(&self) -> u64 {
        let counts = self.0.iter().map(|(_, count)| *count);
        counts.fold(0, u64::saturating_add)
    }

    /// The filled buckets as (lower edge, width, count), edges in ns, rising.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.0.iter().map(|&(index, count)| {
            let (lower, width) = bounds_of(index.into());
            (lower, width, count)
        })
    }

    /// The value below or at which the share `quantile` (0 to 1) of the counts
    /// lies, as the upper end of its bucket, in ns; `None` where nothing was
    /// counted.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let total = self.total();
        let rank = rank_of(quantile, total)?;
        let mut seen = 0;
        for (lower, width, count) in self.iter() {
            seen = u64::saturating_add(seen, count);
            if seen >= rank {
                return Some(lower + width - 1);
            }
        }
        None
    }

    /// The compact binary form that the store keeps: one count for each bucket
    /// from the first on, as unsigned LEB128 numbers. Empty buckets are not
    /// written one by one: a zero says that some follow, and the number after
    /// it how many. Latencies lie close together, so most buckets take a byte.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 * self.0.len());
        let mut next = 0;
        for &(index, count) in &self.0 {
            let empty = u64::from(index) - next;
            if empty > 0 {
                push_varint(&mut bytes, 0);
                push_varint(&mut bytes, empty);
            }
            push_varint(&mut bytes, count);
            next = u64::from(index) + 1;
        }
        bytes
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// Bytes that end early, a bucket beyond the grid.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut rest = bytes;
        let truncated = || DecodeError::Truncated(bytes.len());
        let mut pairs = Vec::new();
        let mut next = 0u64;
        while !rest.is_empty() {
            let number = take_varint(&mut rest).ok_or_else(truncated)?;
            if number == 0 {
                let empty = take_varint(&mut rest).ok_or_else(truncated)?;
                next = next.saturating_add(empty);
                continue;
            }
            if next >= BUCKETS as u64 {
                return Err(DecodeError::NoSuchBucket(next));
            }
            pairs.push((next as u16, number));
            next += 1;
        }
        Ok(Self(pairs))
    }
}

/// The 1-based rank of `quantile` among `total` sorted values ("nearest rank"):
/// the smallest rank that covers the share. `None` without values.
pub(crate) fn rank_of(quantile: f64, total: u64) -> Option<u64> {
    if total == 0 {
        return None;
    }
    let exact = quantile.clamp(0.0, 1.0) * total as f64;
    // 0.999 * 1000 is 999.0000000000001 in floating point and means rank 999.
    let rank = (exact - exact.abs() * 1e-12).ceil() as u64;
    Some(rank.clamp(1, total))
}

impl Serialize for Buckets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|(lower, _, count)| (lower, count)))
    }
}

impl<'de> Deserialize<'de> for Buckets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let rows = Vec::<(u64, u64)>::deserialize(deserializer)?;
        let mut pairs: Vec<(u16, u64)> = Vec::with_capacity(rows.len());
        for (lower, count) in rows {
            let index = index_of(lower).ok_or_else(|| {
                D::Error::custom(format!(
                    "bucket {lower} ns is beyond the range of {MAX_TRACKABLE_NS} ns"
                ))
            })?;
            if bounds_of(index).0 != lower {
                return Err(D::Error::custom(format!(
                    "{lower} ns is not the lower edge of a bucket"
                )));
            }
            let index = index as u16;
            if pairs.last().is_some_and(|(last, _)| *last >= index) {
                return Err(D::Error::custom(format!(
                    "bucket {lower} ns does not rise above the one before it"
                )));
            }
            if count > 0 {
                pairs.push((index, count));
            }
        }
        Ok(Self(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges_below_a_millisecond_lie_on_the_microsecond_grid() {
        for index in 0..BUCKETS {
            let (lower, width) = bounds_of(index);
            if lower < 1_000_000 {
                assert_eq!(lower / 1_000, (lower + width - 1) / 1_000);
            }
        }
    }

    #[test]
    fn ranks_are_nearest_ranks() {
        assert_eq!(rank_of(0.5, 0), None);
        assert_eq!(rank_of(0.0, 10), Some(1));
        assert_eq!(rank_of(0.5, 10), Some(5));
        assert_eq!(rank_of(0.999, 1000), Some(999));
        assert_eq!(rank_of(0.9991, 1000), Some(1000));
        assert_eq!(rank_of(1.0, 10), Some(10));
    }

    #[test]
    fn foreign_buckets_are_refused() {
        for json in [
            "[[1005, 1]]",
            "[[5, 1], [4, 1]]",
            "[[1000000000000, 1]]",
            "[[-1, 2]]",
        ] {
            assert!(serde_json::from_str::<Buckets>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let bytes = Buckets(vec![(3, 1), (450, 300), (451, 2)]).encode();
        assert_eq!(bytes, [0, 3, 1, 0, 0xbe, 3, 0xac, 2, 2]);
        for end in [1, 4, 5, 7] {
            assert_eq!(
                Buckets::decode(&bytes[..end]),
                Err(DecodeError::Truncated(end))
            );
        }
        assert_eq!(
            Buckets::decode(&[0, 0xff, 0xff, 0x7f, 1]),
            Err(DecodeError::NoSuchBucket(0x1f_ffff))
        );
    }

    proptest! {
        #[test]
        fn the_compact_form_reads_back(
            pairs in prop::collection::btree_map(0..BUCKETS as u16, 1u64.., 0..200),
        ) {
            let buckets = Buckets(pairs.into_iter().collect());
            prop_assert_eq!(Buckets::decode(&buckets.encode()), Ok(buckets));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Buckets::decode(&bytes);
        }

        #[test]
        fn a_value_lies_in_its_bucket(ns in 0..MAX_TRACKABLE_NS) {
            let (lower, width) = bounds_of(index_of(ns).unwrap());
            prop_assert!(lower <= ns && ns < lower + width);
            // Three significant digits: at most 1% of the value.
            prop_assert!(ns < 1_000 || width * 100 <= ns);
        }
    }
}
