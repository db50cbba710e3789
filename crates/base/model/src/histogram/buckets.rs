//! The bucket grid of the histogram: decimal, log-linear, three significant
//! digits per decade.
//!
//! | from | to | width |
//! |---|---|---|
//! | 0 | 1 µs | 1 ns |
//! | 1 µs | 10 µs | 10 ns |
//! | 10 µs | 100 µs | 100 ns |
//! | 100 µs | 1 ms | 1 µs |
//! | 1 ms | 10 ms | 10 µs |
//! | … | 1000 s | a thousandth of the decade's end |
//!
//! The grid is decimal and not binary, so that each multiple of 1 µs below 1 ms is the edge of a
//! bucket. A histogram can therefore be exported exactly with the 1 µs buckets that other tools
//! write.
//!
//! `punctual_app::grid` repeats this grid for applications, which must not depend on this crate. A
//! test of `session`, which reads the counters of applications, compares the two.

/// Values of this size (1000 s, in ns) and above are counted as overflow.
pub const MAX_TRACKABLE_NS: u64 = 1_000_000_000_000;

/// Number of buckets below 1 µs, each 1 ns wide.
const LINEAR: usize = 1_000;
/// Number of buckets per decade from 1 µs on.
const PER_DECADE: usize = 900;
/// Number of decades from 1 µs to 1000 s.
const DECADES: usize = 9;
/// Total number of buckets: 9100, which take 72 800 bytes as 64-bit counters.
pub(crate) const BUCKETS: usize = LINEAR + DECADES * PER_DECADE;

/// Returns the bucket that counts `ns` nanoseconds, or `None` beyond the range.
///
/// Compares the value with one decade after another. The divisors are constants, so the compiler
/// turns each division into a multiplication, and common latencies match after a few well-predicted
/// branches. A loop or a logarithm would cost more.
#[inline(always)]
pub(crate) fn index_of(ns: u64) -> Option<usize> {
    macro_rules! decade {
        ($d:expr, $width:expr) => {
            LINEAR + $d * PER_DECADE + (ns / $width) as usize - 100
        };
    }
    Some(match ns {
        0..1_000 => ns as usize,
        1_000..10_000 => decade!(0, 10),
        10_000..100_000 => decade!(1, 100),
        100_000..1_000_000 => decade!(2, 1_000),
        1_000_000..10_000_000 => decade!(3, 10_000),
        10_000_000..100_000_000 => decade!(4, 100_000),
        100_000_000..1_000_000_000 => decade!(5, 1_000_000),
        1_000_000_000..10_000_000_000 => decade!(6, 10_000_000),
        10_000_000_000..100_000_000_000 => decade!(7, 100_000_000),
        100_000_000_000..MAX_TRACKABLE_NS => decade!(8, 1_000_000_000),
        _ => return None,
    })
}

/// Returns the first value of bucket `index` and the bucket's width, both in ns. The index is below
/// [`BUCKETS`].
pub(crate) fn bounds_of(index: usize) -> (u64, u64) {
    if index < LINEAR {
        return (index as u64, 1);
    }
    let decade = (index - LINEAR) / PER_DECADE;
    let step = (index - LINEAR) % PER_DECADE;
    let width = 10u64.pow(decade as u32 + 1);
    ((step as u64 + 100) * width, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_their_edges_without_gaps() {
        let mut next = 0;
        for index in 0..BUCKETS {
            let (lower, width) = bounds_of(index);
            assert_eq!(lower, next);
            assert_eq!(index_of(lower), Some(index));
            assert_eq!(index_of(lower + width - 1), Some(index));
            next = lower + width;
        }
        assert_eq!(next, MAX_TRACKABLE_NS);
        assert_eq!(index_of(MAX_TRACKABLE_NS), None);
        assert_eq!(index_of(u64::MAX), None);
    }
}
