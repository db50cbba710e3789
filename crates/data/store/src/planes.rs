//! Histograms of threads, arranged so that they compress well.
//!
//! Counts of neighbouring buckets are similar, so their differences are small. The lowest byte of a
//! difference is noise, and the rest is mostly zero, so these two are stored in separate planes.
//! The distances between buckets, which are mostly one, are in a third plane.

use punctual_model::{push_varint, take_varint};

/// Planes of encoded histograms.
pub(crate) struct Planes {
    /// Number of values in each histogram.
    pub(crate) lengths: Vec<u8>,
    /// Values at even positions, which are the distances.
    pub(crate) distances: Vec<u8>,
    /// Lowest bytes of the differences between values at odd positions, which are the counts.
    pub(crate) low: Vec<u8>,
    /// Remaining bytes of these differences.
    pub(crate) high: Vec<u8>,
}

/// Folds the sign of a difference into the lowest bit.
const fn folded(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)).cast_unsigned()
}

const fn unfolded(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -((number & 1).cast_signed())
}

/// Splits histograms in the format of [`punctual_model::Histogram::encode`]. Returns `None` if one
/// does not consist of numbers.
pub(crate) fn split<'a>(histograms: impl Iterator<Item = &'a [u8]>) -> Option<Planes> {
    let mut planes = Planes {
        lengths: Vec::new(),
        distances: Vec::new(),
        low: Vec::new(),
        high: Vec::new(),
    };
    for mut rest in histograms {
        let (mut length, mut before) = (0u64, 0u64);
        while !rest.is_empty() {
            let number = take_varint(&mut rest)?;
            if length.is_multiple_of(2) {
                push_varint(&mut planes.distances, number);
            } else {
                let difference = folded(number.wrapping_sub(before).cast_signed());
                planes.low.push(difference as u8);
                push_varint(&mut planes.high, difference >> 8);
                before = number;
            }
            length += 1;
        }
        push_varint(&mut planes.lengths, length);
    }
    Some(planes)
}

/// Restores the histograms. Returns `None` if the planes do not match.
pub(crate) fn join(planes: &Planes) -> Option<Vec<Vec<u8>>> {
    let mut lengths = planes.lengths.as_slice();
    let mut distances = planes.distances.as_slice();
    let (mut low, mut high) = (planes.low.iter(), planes.high.as_slice());
    let mut histograms = Vec::new();
    while !lengths.is_empty() {
        let length = take_varint(&mut lengths)?;
        let (mut bytes, mut before) = (Vec::new(), 0u64);
        for place in 0..length {
            if place.is_multiple_of(2) {
                push_varint(&mut bytes, take_varint(&mut distances)?);
            } else {
                let rest = take_varint(&mut high)?;
                let difference = rest << 8 | u64::from(*low.next()?);
                before = before.wrapping_add(unfolded(difference).cast_unsigned());
                push_varint(&mut bytes, before);
            }
        }
        histograms.push(bytes);
    }
    let is_whole = distances.is_empty() && low.next().is_none() && high.is_empty();
    is_whole.then_some(histograms)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn what_was_split_is_joined(
            numbers in proptest::collection::vec(
                proptest::collection::vec(proptest::num::u64::ANY, 0..40),
                0..5,
            ),
        ) {
            let encoded: Vec<Vec<u8>> = numbers
                .iter()
                .map(|numbers| {
                    let mut bytes = Vec::new();
                    numbers.iter().for_each(|number| push_varint(&mut bytes, *number));
                    bytes
                })
                .collect();
            let mut planes = split(encoded.iter().map(Vec::as_slice)).unwrap_or_else(|| panic!());
            assert_eq!(join(&planes), Some(encoded));
            planes.low.push(1);
            assert_eq!(join(&planes), None);
        }
    }
}
