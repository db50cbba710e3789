//! HdrHistogram's histogram in its "V2 compressed" encoding, as in the lines of a `.hlog` file.
//!
//! This is based on HdrHistogram's `AbstractHistogram.encodeIntoByteBuffer` and
//! `ZigZagEncoding`. The text is base64 of a cookie, a length, and zlib data. The data is a
//! header and the counts as ZigZag LEB128 numbers of at most 9 bytes. A negative number is a run of
//! empty buckets.
//!
//! The crate `hdrhistogram` is not used: its decoder allocates the length that the header states,
//! and overflows on the longest run that can be encoded, so that a malicious file can crash the
//! program.

use std::io::{Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

/// Cookies of the encodings, without the bits for the size of a word.
const COMPRESSED: u32 = 0x1c84_9304;
const PLAIN: u32 = 0x1c84_9303;
const OLD_COMPRESSED: [u32; 2] = [0x1c84_9309, 0x1c84_9302];
const WORD_BITS: u32 = 0xf0;
const WORD: u32 = 0x10;

/// Length of the header: cookie, length, offset, digits, two limits, and a ratio.
const HEADER: usize = 40;

/// Maximum length of the counts.
const LONGEST: usize = 8 << 20;

/// Maximum number of filled buckets.
const MOST: usize = 1 << 20;

/// Significant digits of the histograms that are written. With one digit more than punctual's own
/// buckets, each of these contains a whole bucket of HdrHistogram, so a file that is imported again
/// has the same counts.
const DIGITS: u32 = 4;

/// Reason why a text is not a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotHdr {
    #[error("the histogram is not base64 text: the line is truncated or damaged")]
    Text,
    #[error(
        "the histogram has an old encoding (V0 or V1) of HdrHistogram before 2.1.5: convert the \
         log with a newer HdrHistogram"
    )]
    Old,
    #[error("the histogram does not have HdrHistogram's V2 encoding")]
    Cookie,
    #[error("the compressed histogram is damaged or truncated")]
    Compressed,
    #[error("the header of the histogram has an impossible value")]
    Header,
    #[error("the histogram was shifted or scaled, which cannot be read")]
    Shifted,
    #[error("the histogram has more buckets than its header allows")]
    Buckets,
}

/// A filled bucket: smallest and largest value, in the unit of the file, and the number of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) lowest: u64,
    pub(crate) highest: u64,
    pub(crate) count: u64,
}

/// The grid of a histogram: buckets of one width up to `2 * half`, then `half` buckets in each
/// doubling.
#[derive(Clone, Copy, Debug)]
struct Grid {
    /// Base-2 logarithm of the width of the first buckets.
    unit: u32,
    /// Base-2 logarithm of the number of buckets in each doubling.
    half: u32,
}

impl Grid {
    /// Returns the grid for the smallest value and the number of digits of a header.
    fn new(lowest: u64, digits: u32) -> Option<Self> {
        let valid = (1..=5).contains(&digits) && lowest > 0;
        let steps = 2 * 10_u64.pow(digits.min(5));
        let half = steps.next_power_of_two().ilog2() - 1;
        let unit = lowest.checked_ilog2()?;
        (valid && unit + half < 62).then_some(Self { unit, half })
    }

    /// Returns the smallest and largest value of a bucket; `None` if they exceed 64 bits.
    fn bounds(self, index: u64) -> Option<(u64, u64)> {
        let doubling = u32::try_from((index >> self.half).saturating_sub(1)).ok()?;
        let step = index - (u64::from(doubling) << self.half);
        let shift = doubling.checked_add(self.unit)?;
        let lowest = step.checked_shl(shift)?;
        let width = 1_u64.checked_shl(shift)?;
        let fits = lowest >> shift == step;
        let highest = lowest.checked_add(width - 1)?;
        fits.then_some((lowest, highest))
    }

    /// Returns the bucket of a value.
    fn index(self, value: u64) -> u64 {
        let length = value.checked_ilog2().map_or(0, |log| log + 1);
        let doubling = length.saturating_sub(self.unit + self.half + 1);
        (u64::from(doubling) << self.half) + (value >> (doubling + self.unit))
    }
}

/// Reads a histogram, and returns its filled buckets in ascending order.
pub(crate) fn decode(text: &[u8]) -> Result<Vec<Bucket>, NotHdr> {
    let bytes = STANDARD.decode(text).map_err(|_| NotHdr::Text)?;
    let mut rest = bytes.as_slice();
    match take_u32(&mut rest).ok_or(NotHdr::Text)? & !WORD_BITS {
        COMPRESSED => {}
        cookie if OLD_COMPRESSED.contains(&(cookie & !WORD_BITS)) => return Err(NotHdr::Old),
        _ => return Err(NotHdr::Cookie),
    }
    let length = take_u32(&mut rest).ok_or(NotHdr::Text)? as usize;
    let zlib = rest.get(..length).ok_or(NotHdr::Text)?;
    let mut plain = Vec::new();
    let most = HEADER + LONGEST;
    #[expect(clippy::disallowed_methods, reason = "the reader is limited")]
    ZlibDecoder::new(zlib)
        .take(most as u64 + 1)
        .read_to_end(&mut plain)
        .map_err(|_| NotHdr::Compressed)?;
    if plain.len() > most {
        return Err(NotHdr::Buckets);
    }
    counts(&plain)
}

/// Reads the header and the counts.
fn counts(plain: &[u8]) -> Result<Vec<Bucket>, NotHdr> {
    let mut rest = plain;
    let mut word = || take_u32(&mut rest).ok_or(NotHdr::Compressed);
    if word()? & !WORD_BITS != PLAIN {
        return Err(NotHdr::Cookie);
    }
    let length = word()? as usize;
    let offset = word()?;
    let digits = word()?;
    let mut long = || Ok((u64::from(word()?) << 32) | u64::from(word()?));
    let lowest = long()?;
    let _highest = long()?;
    let ratio = f64::from_bits(long()?);
    // A ratio other than exactly 1 belongs to a scaled histogram of floating-point values.
    if offset != 0 || ratio.to_bits() != 1_f64.to_bits() {
        return Err(NotHdr::Shifted);
    }
    let grid = Grid::new(lowest, digits).ok_or(NotHdr::Header)?;
    let mut rest = rest.get(..length).ok_or(NotHdr::Compressed)?;
    let mut buckets = Vec::new();
    let mut index = 0_u64;
    while !rest.is_empty() {
        let number = take_zigzag(&mut rest).ok_or(NotHdr::Compressed)?;
        let empty = match number {
            ..0 => number.unsigned_abs(),
            _ => 1,
        };
        if number > 0 {
            let (lowest, highest) = grid.bounds(index).ok_or(NotHdr::Buckets)?;
            if buckets.len() == MOST {
                return Err(NotHdr::Buckets);
            }
            buckets.push(Bucket {
                lowest,
                highest,
                count: number.cast_unsigned(),
            });
        }
        index = index.checked_add(empty).ok_or(NotHdr::Buckets)?;
    }
    Ok(buckets)
}

/// Writes a histogram of values in ns. Each bucket is the lower edge, the width and the number of
/// samples, in ascending order; `max` is the largest value. Each bucket is written as the largest
/// of its values whose bucket in the file contains no larger value than this bucket.
pub(crate) fn encode(
    buckets: impl IntoIterator<Item = (u64, u64, u64)>,
    max: u64,
) -> std::io::Result<String> {
    const LOWEST: u64 = 1;
    let grid = Grid { unit: 0, half: 14 };
    let mut filled: Vec<(u64, u64)> = Vec::new();
    for (lower, width, count) in buckets {
        let last = lower.saturating_add(width.saturating_sub(1));
        let value = if last >= max {
            max.max(lower)
        } else {
            within(grid, last)
        };
        let index = grid.index(value);
        match filled.last_mut() {
            Some((before, sum)) if *before >= index => *sum = sum.saturating_add(count),
            _ => filled.push((index, count)),
        }
    }
    let mut counts = Vec::new();
    let mut next = 0;
    for (index, count) in filled {
        match index - next {
            0 => {}
            1 => push_zigzag(&mut counts, 0),
            empty => push_zigzag(&mut counts, -empty.cast_signed()),
        }
        let count = count.min(i64::MAX.cast_unsigned());
        push_zigzag(&mut counts, count.cast_signed());
        next = index + 1;
    }
    let length = |bytes: usize| u32::try_from(bytes).map_err(std::io::Error::other);
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(&(PLAIN | WORD).to_be_bytes())?;
    zlib.write_all(&length(counts.len())?.to_be_bytes())?;
    zlib.write_all(&0_u32.to_be_bytes())?;
    zlib.write_all(&DIGITS.to_be_bytes())?;
    zlib.write_all(&LOWEST.to_be_bytes())?;
    // Readers allocate the counts up to this value.
    let (_, highest) = grid.bounds(next.max(2)).unwrap_or((0, i64::MAX as u64));
    zlib.write_all(&highest.to_be_bytes())?;
    zlib.write_all(&1_f64.to_be_bytes())?;
    zlib.write_all(&counts)?;
    let zlib = zlib.finish()?;
    let mut bytes = Vec::with_capacity(8 + zlib.len());
    bytes.extend_from_slice(&(COMPRESSED | WORD).to_be_bytes());
    bytes.extend_from_slice(&length(zlib.len())?.to_be_bytes());
    bytes.extend_from_slice(&zlib);
    Ok(STANDARD.encode(bytes))
}

/// Returns the largest value up to `last` whose bucket ends at or before `last`.
fn within(grid: Grid, last: u64) -> u64 {
    let (lowest, highest) = grid.bounds(grid.index(last)).unwrap_or((last, last));
    if highest == last {
        last
    } else {
        lowest.saturating_sub(1)
    }
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    let (word, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_be_bytes(*word))
}

/// Takes a number of at most 9 bytes. The ninth byte has eight bits.
fn take_zigzag(bytes: &mut &[u8]) -> Option<i64> {
    let mut number = 0_u64;
    for place in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let is_last = place == 8 || *byte < 0x80;
        let bits = if place == 8 { *byte } else { *byte & 0x7f };
        number |= u64::from(bits) << (7 * place);
        if is_last {
            break;
        }
    }
    Some((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
}

fn push_zigzag(bytes: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)).cast_unsigned();
    for _ in 0..8 {
        if rest < 0x80 {
            break;
        }
        bytes.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use punctual_model::{Histogram, Nanos, SignedNanos};

    use super::*;

    fn packed(plain: &[u8]) -> String {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(plain).unwrap();
        let zlib = zlib.finish().unwrap();
        let length = u32::try_from(zlib.len()).unwrap().to_be_bytes();
        let cookie = (COMPRESSED | WORD).to_be_bytes();
        STANDARD.encode([&cookie[..], &length, &zlib].concat())
    }

    fn header(lowest: u64, digits: u32, counts: &[u8]) -> Vec<u8> {
        let length = u32::try_from(counts.len()).unwrap();
        let mut plain = Vec::new();
        for word in [PLAIN | WORD, length, 0, digits] {
            plain.extend_from_slice(&word.to_be_bytes());
        }
        plain.extend_from_slice(&lowest.to_be_bytes());
        plain.extend_from_slice(&u64::MAX.to_be_bytes());
        plain.extend_from_slice(&1_f64.to_be_bytes());
        plain.extend_from_slice(counts);
        plain
    }

    #[test]
    fn impossible_histograms_are_refused() {
        let of = |digits: u32, counts: &[u8]| decode(packed(&header(1, digits, counts)).as_bytes());
        assert_eq!(of(6, &[]), Err(NotHdr::Header));
        assert_eq!(of(0, &[]), Err(NotHdr::Header));
        assert_eq!(of(3, &[0x80]), Err(NotHdr::Compressed));
        // The longest run of empty buckets that can be encoded, and a bucket after it.
        let mut counts = vec![0xff; 9];
        counts.push(2);
        assert_eq!(of(3, &counts), Err(NotHdr::Buckets));
        assert_eq!(of(3, &vec![2; LONGEST + 1]), Err(NotHdr::Buckets));
        assert_eq!(of(5, &vec![2; MOST + 1]), Err(NotHdr::Buckets));
        // The number of doublings does not fit with the unit.
        let mut counts = Vec::new();
        push_zigzag(&mut counts, -(1_i64 << 43));
        push_zigzag(&mut counts, 1);
        let text = packed(&header(2, 3, &counts));
        assert_eq!(decode(text.as_bytes()), Err(NotHdr::Buckets));
        assert_eq!(decode(b"HISTiQAAAG54"), Err(NotHdr::Old));
        assert_eq!(decode(b"HISTIgAAAFd4"), Err(NotHdr::Old));
        assert_eq!(decode(b"AAAAAAAAAAAA"), Err(NotHdr::Cookie));
        assert_eq!(decode(b"HISTF%"), Err(NotHdr::Text));
        assert_eq!(decode(b""), Err(NotHdr::Text));
        let mut long = packed(&header(1, 3, &[2]));
        long.truncate(long.len() - 8);
        assert_eq!(decode(long.as_bytes()), Err(NotHdr::Text));
    }

    proptest! {
        #[test]
        fn numbers_come_back(number in any::<i64>()) {
            let mut bytes = Vec::new();
            push_zigzag(&mut bytes, number);
            prop_assert_eq!(take_zigzag(&mut bytes.as_slice()), Some(number));
        }

        #[test]
        fn bucket_contains_its_value(value in any::<u64>(), digits in 1u32..6, unit in 0u32..20) {
            let grid = Grid::new(1 << unit, digits).unwrap();
            let value = value >> 1;
            let (lowest, highest) = grid.bounds(grid.index(value)).unwrap();
            prop_assert!((lowest..=highest).contains(&value));
        }

        #[test]
        fn each_bucket_stays_in_its_own(latencies in prop::collection::vec(
            prop_oneof![0i64..3_000, 0i64..5_000_000, 0i64..1_000_000_000_000], 1..60,
        )) {
            let mut histogram = Histogram::new();
            latencies.iter().for_each(|ns| histogram.record(SignedNanos(*ns)));
            let max = histogram.max().map_or(0, |max| max.0);
            let text = encode(histogram.buckets().iter(), max).unwrap();
            let mut back = Histogram::new();
            for bucket in decode(text.as_bytes()).unwrap() {
                prop_assert!(bucket.lowest <= bucket.highest);
                back.add_row(Nanos(bucket.highest.min(max)), bucket.count);
            }
            prop_assert_eq!(back.buckets(), histogram.buckets());
            prop_assert_eq!(back.max(), histogram.max());
        }
    }
}
