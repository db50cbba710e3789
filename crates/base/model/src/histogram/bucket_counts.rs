//! Counts in the buckets of the grid (`grid`), without the empty buckets, as in the
//! store and in JSON.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use super::buckets::MAX_TRACKABLE_NS;
pub(crate) use super::buckets::{BUCKETS, bounds_of, index_of};

use crate::{push_varint, take_varint};

/// Error while decoding a stored histogram.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside a number.
    #[error("the histogram ends after {0} bytes, in the middle of a number")]
    Truncated(usize),
    /// A bucket number is beyond the grid.
    #[error(
        "the histogram contains bucket {0}, but the last possible bucket is {last}",
        last = BUCKETS - 1
    )]
    NoSuchBucket(u64),
    /// The counts do not add up.
    #[error("the buckets of the histogram contain {buckets} samples, but its count is {count}")]
    Inconsistent {
        /// Sum over the buckets and the overflow.
        buckets: u64,
        /// The number given as the count.
        count: u64,
    },
}

/// A histogram without its empty buckets, as in an interval of the time series, in the store and in
/// JSON.
///
/// In JSON it is a list of `[lower_ns, count]` in ascending order. The width of a bucket follows
/// from its lower edge and the table in the histogram's documentation (1 ns below 1 µs, then a
/// thousandth of the decade's end).
///
/// In memory it is encoded as in the store: one to three bytes for each bucket.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Buckets(Box<[u8]>);

impl Buckets {
    /// Creates the counts from (bucket, count) pairs in ascending order, without zero counts.
    pub(crate) fn from_sorted(pairs: impl IntoIterator<Item = (u16, u64)>) -> Self {
        let mut bytes = Vec::new();
        let mut next = 0;
        for (index, count) in pairs {
            debug_assert!(u64::from(index) >= next && count > 0);
            let empty = u64::from(index) - next;
            if empty > 0 {
                push_varint(&mut bytes, 0);
                push_varint(&mut bytes, empty);
            }
            push_varint(&mut bytes, count);
            next = u64::from(index) + 1;
        }
        Self(bytes.into())
    }

    /// Returns the (bucket, count) pairs in ascending order.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let mut reader = Reader::from_bytes(&self.0);
        // These bytes were encoded by this module, so they are valid.
        std::iter::from_fn(move || reader.pair().ok().flatten())
    }

    /// Returns whether all counts are zero.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the sum of all counts.
    pub fn total(&self) -> u64 {
        let counts = self.pairs().map(|(_, count)| count);
        counts.fold(0, u64::saturating_add)
    }

    /// Returns the filled buckets as (lower edge, width, count) in ascending order, edges in ns.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.pairs().map(|(index, count)| {
            let (lower, width) = bounds_of(index.into());
            (lower, width, count)
        })
    }

    /// Returns the given quantile (0 to 1) as the upper end of its bucket, in ns. `None` if nothing
    /// was counted.
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

    /// Returns the compact binary form for the store: one count for each bucket, starting with the
    /// first, as unsigned LEB128 numbers. A zero marks a run of empty buckets, and the next number
    /// is its length. Most buckets take one byte, because latencies are close together.
    pub fn encoded(&self) -> &[u8] {
        &self.0
    }

    /// Decodes the result of [`encoded`](Self::encoded).
    ///
    /// # Errors
    /// Fails if the bytes end early, or a bucket is beyond the grid.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::from_bytes(bytes);
        let pairs = std::iter::from_fn(|| reader.pair().transpose());
        // Encode the counts again, because the same counts can be encoded in several ways.
        pairs.collect::<Result<Vec<_>, _>>().map(Self::from_sorted)
    }
}

impl fmt::Debug for Buckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.pairs()).finish()
    }
}

/// Reads bucket counts from their compact form.
struct Reader<'a> {
    rest: &'a [u8],
    /// Total number of bytes.
    length: usize,
    /// Bucket of the next count.
    next: u64,
}

impl<'a> Reader<'a> {
    fn from_bytes(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            length: bytes.len(),
            next: 0,
        }
    }

    fn number(&mut self) -> Result<u64, DecodeError> {
        take_varint(&mut self.rest).ok_or(DecodeError::Truncated(self.length))
    }

    /// Returns the next (bucket, count) pair, or `None` at the end.
    fn pair(&mut self) -> Result<Option<(u16, u64)>, DecodeError> {
        while !self.rest.is_empty() {
            let number = self.number()?;
            if number == 0 {
                self.next = self.next.saturating_add(self.number()?);
                continue;
            }
            if self.next >= BUCKETS as u64 {
                return Err(DecodeError::NoSuchBucket(self.next));
            }
            self.next += 1;
            return Ok(Some(((self.next - 1) as u16, number)));
        }
        Ok(None)
    }
}

/// Returns the rank of `quantile` among `total` sorted values ("nearest rank"), starting at 1: the
/// smallest rank that covers this fraction of the values. `None` if there are no values.
pub(crate) fn rank_of(quantile: f64, total: u64) -> Option<u64> {
    if total == 0 {
        return None;
    }
    let exact = quantile.clamp(0.0, 1.0) * total as f64;
    // 0.999 * 1000 is 999.0000000000001 in floating point, but must give rank 999.
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
                    "bucket {lower} ns is above the maximum of {MAX_TRACKABLE_NS} ns"
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
                    "bucket {lower} ns is not above the previous bucket"
                )));
            }
            if count > 0 {
                pairs.push((index, count));
            }
        }
        Ok(Self::from_sorted(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn submillisecond_edges_lie_on_microsecond_grid() {
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
        let buckets = Buckets::from_sorted([(3, 1), (450, 300), (451, 2)]);
        let bytes = buckets.encoded();
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
            let buckets = Buckets::from_sorted(pairs.clone());
            prop_assert!(buckets.pairs().eq(pairs));
            prop_assert_eq!(Buckets::decode(buckets.encoded()), Ok(buckets));
        }

        #[test]
        fn any_bytes_decode_safely_and_canonically(
            bytes in prop::collection::vec(prop_oneof![Just(0u8), 1u8..4, any::<u8>()], 0..60),
        ) {
            if let Ok(buckets) = Buckets::decode(&bytes) {
                let again = Buckets::from_sorted(buckets.pairs());
                prop_assert_eq!(&again, &buckets);
                prop_assert!(again.encoded().len() <= bytes.len());
            }
        }

        #[test]
        fn a_value_lies_in_its_bucket(ns in 0..MAX_TRACKABLE_NS) {
            let (lower, width) = bounds_of(index_of(ns).unwrap());
            prop_assert!(lower <= ns && ns < lower + width);
            // With three significant digits, the width of a bucket is at most 1% of its values.
            prop_assert!(ns < 1_000 || width * 100 <= ns);
        }
    }
}
