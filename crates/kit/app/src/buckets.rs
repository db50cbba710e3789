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
//! `punctual_model` defines the same layout for recordings. It is repeated here so that an
//! application that publishes its figures needs neither that crate nor serde. A test of `session`,
//! which depends on both crates, compares the two layouts.

/// Values of at least 1000 s (in ns) are counted as overflow.
const MAX_TRACKABLE_NS: u64 = 1_000_000_000_000;

/// Buckets below 1 µs, 1 ns wide.
const LINEAR: usize = 1_000;
/// Buckets per decade from 1 µs on.
const PER_DECADE: usize = 900;
/// Decades from 1 µs to 1000 s.
const DECADES: usize = 9;
/// Total number of buckets: 9100, or 72 800 bytes of 64-bit counters. Tests with loom can only use
/// few.
pub const BUCKETS: usize = if cfg!(all(test, loom)) {
    4
} else {
    LINEAR + DECADES * PER_DECADE
};

/// Returns the bucket that counts `ns` nanoseconds, or `None` beyond the range.
///
/// This is a chain of comparisons with constant divisors. The compiler turns each division into a
/// multiplication, and common latencies match after a few well-predicted branches. A loop or a
/// logarithm costs more.
#[inline(always)]
pub fn index_of(ns: u64) -> Option<usize> {
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
