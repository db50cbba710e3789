//! Finds the number of iterations that takes the requested time.

use punctual_model::Nanos;

/// Maximum number of iterations, so that no number of them overflows a time.
pub(super) const MOST: u64 = 1_000_000_000;

/// Maximum execution time: a thread reacts to a stop only between two pieces of work.
pub(super) const LONGEST: Nanos = Nanos::from_millis(100);

/// How long the work is repeated for the final timing. A processor needs some milliseconds to raise
/// its frequency.
const SETTLE: Nanos = Nanos::from_millis(20);

/// Minimum number of repetitions. The fastest counts, because interrupts and other threads only make
/// the work slower.
const LEAST_TIMES: u64 = 5;

/// Maximum number of repetitions.
const MOST_TIMES: u64 = 100_000;

/// Returns the number of iterations that takes about `target`. `time` does this many iterations, and
/// returns how long they took. The number is rounded to three digits, so that it is easy to repeat.
pub(super) fn iterations_for(target: Nanos, mut time: impl FnMut(u64) -> Nanos) -> u64 {
    let scaled = |iterations: u64, took: Nanos| {
        let exact = u128::from(iterations) * u128::from(target.0) / u128::from(took.0.max(1));
        u64::try_from(exact).unwrap_or(MOST).clamp(1, MOST)
    };
    let mut iterations = 100;
    loop {
        let took = fastest(iterations, Nanos::ZERO, &mut time);
        if took.0 >= target.0 / 2 || iterations >= MOST {
            iterations = scaled(iterations, took);
            break;
        }
        // The first estimates are too high: the clock readings take a part of a short time.
        let next = scaled(iterations, took);
        iterations = next.clamp(iterations * 2, iterations * 16).min(MOST);
    }
    let took = fastest(iterations, SETTLE, &mut time);
    rounded(scaled(iterations, took))
}

/// Returns the shortest time of this many iterations. If fewer already take longer than `limit`,
/// returns an estimate from these, so that the check of a too large number ends soon.
pub(super) fn time_of(iterations: u64, limit: Nanos, mut time: impl FnMut(u64) -> Nanos) -> Nanos {
    let mut fewer = iterations.min(100);
    loop {
        let took = fastest(fewer, Nanos::ZERO, &mut time);
        if took > limit || fewer == iterations {
            let all = u128::from(took.0) * u128::from(iterations) / u128::from(fewer.max(1));
            return Nanos(u64::try_from(all).unwrap_or(u64::MAX));
        }
        fewer = iterations.min(fewer.saturating_mul(2));
    }
}

/// Returns the shortest time of this many iterations. Repeats them until they have taken `settle`,
/// and at least [`LEAST_TIMES`] times.
fn fastest(iterations: u64, settle: Nanos, mut time: impl FnMut(u64) -> Nanos) -> Nanos {
    let (mut least, mut sum, mut times) = (Nanos(u64::MAX), Nanos::ZERO, 0);
    while times < LEAST_TIMES || (sum < settle && times < MOST_TIMES) {
        let took = time(iterations);
        least = least.min(took);
        sum += took;
        times += 1;
    }
    least
}

/// Rounds to three digits.
const fn rounded(number: u64) -> u64 {
    let mut unit = 1;
    while number / unit >= 1_000 {
        unit *= 10;
    }
    (number + unit / 2) / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// A clock without noise, whose readings take a constant time.
        #[test]
        fn iterations_take_the_requested_time(
            picoseconds in 200_u64..500_000,
            clock in 0_u64..200,
            micros in 1_u64..=100_000,
        ) {
            let target = Nanos::from_micros(micros);
            let time = |iterations: u64| Nanos(iterations * picoseconds / 1_000 + clock);
            let iterations = iterations_for(target, time);
            let took = time(iterations);
            // Three digits are accurate to 0.5%. A single iteration may be as long as the target.
            let tolerance = target.0 / 100 + picoseconds / 1_000 + clock + 1;
            proptest::prop_assert!(took.0.abs_diff(target.0) <= tolerance, "{took} {target}");
        }
    }

    #[test]
    fn disturbed_repetitions_do_not_count() {
        let mut calls = 0;
        let iterations = iterations_for(Nanos::from_micros(100), |iterations| {
            calls += 1;
            // Only every fifth repetition is undisturbed.
            let disturbed = if calls % 5 == 0 { 0 } else { 40_000 * calls };
            Nanos(iterations * 2 + disturbed)
        });
        assert_eq!(iterations, 50_000);
    }

    #[test]
    fn a_clock_that_stands_still_does_no_harm() {
        let mut calls = 0_u64;
        let took = fastest(1, SETTLE, |_| {
            calls += 1;
            Nanos::ZERO
        });
        assert_eq!((took, calls), (Nanos::ZERO, MOST_TIMES));
    }

    #[test]
    fn too_many_iterations_are_not_run() {
        let mut most = 0;
        let mut time = |iterations: u64| {
            most = most.max(iterations);
            Nanos(iterations * 2)
        };
        let limit = Nanos::from_micros(100);
        assert_eq!(time_of(7, limit, &mut time), Nanos(14));
        assert_eq!(time_of(50_000, limit, &mut time), limit);
        assert_eq!(time_of(MOST, limit, &mut time), Nanos(2 * MOST));
        assert!(most <= 102_400, "{most}");
    }

    #[test]
    fn numbers_are_rounded_to_three_digits() {
        for (number, expected) in [
            (1, 1),
            (999, 999),
            (1_004, 1_000),
            (41_650, 41_700),
            (99_960, 100_000),
            (MOST, MOST),
        ] {
            assert_eq!(rounded(number), expected);
        }
    }
}
