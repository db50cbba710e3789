//! Single runs that stand out in their segment.

use statrs::function::beta::beta_reg;
use statrs::function::gamma::gamma_lr;

/// The probability that a spike is reported in a segment that has none.
const ALPHA: f64 = 0.001;

/// A maximum is a spike if it is this many interquartile ranges above the third quartile (of
/// logarithms): one run in 4,000 if maxima have an extreme-value distribution.
const RANGES: f64 = 4.5;

/// Minimum factor above the third quartile, so that none of several nearly equal maxima is a spike.
const FACTOR: f64 = 1.25;

/// Returns the runs of a segment with more events than the other runs can explain. Their
/// distribution is taken to be negative binomial, with the mean and variance of the other runs. The
/// most extreme run is removed first, so that it does not hide the next.
pub(crate) fn spiked_counts(counts: &[(u64, u64)]) -> Vec<usize> {
    let mut rest: Vec<usize> = (0..counts.len()).collect();
    let mut found = Vec::new();
    while rest.len() > super::LEAST_RUNS {
        let highest = rest.iter().enumerate().max_by(|(_, a), (_, b)| {
            let rate = |place: usize| counts[place].0 as f64 / counts[place].1.max(1) as f64;
            rate(**a).total_cmp(&rate(**b))
        });
        let Some((index, place)) = highest.map(|(index, place)| (index, *place)) else {
            break;
        };
        rest.swap_remove(index);
        let others: Vec<(u64, u64)> = rest.iter().map(|place| counts[*place]).collect();
        if tail(counts[place], &others) * counts.len() as f64 >= ALPHA {
            break;
        }
        found.push(place);
    }
    found.sort_unstable();
    found
}

/// Returns the probability of at least this many events, given the other runs.
fn tail((events, exposure): (u64, u64), others: &[(u64, u64)]) -> f64 {
    if events == 0 {
        return 1.0;
    }
    let all = others.iter().fold((0.0, 0.0), |sum, one| {
        (sum.0 + one.0 as f64, sum.1 + one.1 as f64)
    });
    // Half an event is added: if the others have no events, a single event is not a spike.
    let rate = (all.0 + 0.5) / all.1.max(1.0);
    let mean = rate * exposure as f64;
    let squares = others.iter().map(|one| {
        let expected = (rate * one.1 as f64).max(f64::MIN_POSITIVE);
        (one.0 as f64 - expected).powi(2) / expected
    });
    let spread = (squares.sum::<f64>() / (others.len() as f64 - 1.0).max(1.0)).max(1.0);
    if spread > 1.01 {
        // Variance = spread * mean; P(X >= k) = I(1 - p; k, r).
        let size = mean / (spread - 1.0);
        beta_reg(
            events as f64,
            size.max(f64::MIN_POSITIVE),
            (spread - 1.0) / spread,
        )
    } else {
        gamma_lr(events as f64, mean.max(f64::MIN_POSITIVE))
    }
}

/// Returns the runs whose maximum is far above those of their segment. `segments` has the start of
/// each segment. `maxima` may have any unit, and 0 means that a run has no maximum.
pub fn spiked_maxima(maxima: &[f64], segments: &[usize]) -> Vec<usize> {
    let logs: Vec<f64> = maxima
        .iter()
        .map(|max| max.max(f64::MIN_POSITIVE).ln())
        .collect();
    let mut apart = vec![0.0; logs.len()];
    for (from, to) in ranges(segments, logs.len()) {
        let middle = median(&logs[from..to]);
        for place in from..to {
            apart[place] = logs[place] - middle;
        }
    }
    let mut sorted = apart.clone();
    sorted.sort_by(f64::total_cmp);
    if sorted.len() < 2 * super::LEAST_RUNS {
        return Vec::new();
    }
    let quarter = |share: usize| sorted[(sorted.len() - 1) * share / 4];
    let fence = (quarter(3) + RANGES * (quarter(3) - quarter(1))).max(FACTOR.ln());
    let is_spike = |place: &usize| apart[*place] > fence;
    (0..maxima.len()).filter(is_spike).collect()
}

/// Returns the range of each segment.
fn ranges(starts: &[usize], runs: usize) -> Vec<(usize, usize)> {
    let mut starts = starts.to_vec();
    starts.push(0);
    starts.sort_unstable();
    starts.dedup();
    let ends = starts.iter().skip(1).copied().chain([runs]);
    starts.iter().copied().zip(ends).collect()
}

/// Returns the median, or 0 if there are no values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => (sorted[even / 2 - 1] + sorted[even / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The probability of at least `count`, summed from the probabilities of smaller counts. Each is
    /// `factor` times the one before it.
    fn at_least(count: u64, none: f64, factor: impl Fn(f64) -> f64) -> f64 {
        let mut each = none;
        let mut below = 0.0;
        for smaller in 0..count {
            below += each;
            each *= factor(smaller as f64);
        }
        1.0 - below
    }

    fn near(found: f64, expected: f64) {
        let apart = (found / expected - 1.0).abs();
        assert!(apart < 1e-7, "{found} is not {expected}");
    }

    /// Six events in three runs, and half an event: a rate of 6.5 in 30.
    #[test]
    fn probability_of_a_count_is_that_of_poisson() {
        let others = [(2, 10), (1, 10), (3, 10)];
        for (count, exposure) in [(5, 10), (1, 10), (9, 20), (3, 4)] {
            let mean = 6.5 / 30.0 * exposure as f64;
            let expected = at_least(count, (-mean).exp(), |n| mean / (n + 1.0));
            near(tail((count, exposure), &others), expected);
        }
        assert_eq!(tail((0, 10), &others), 1.0);
        // Without other events, one event is not rare.
        let quiet = [(0, 10); 20];
        near(tail((1, 10), &quiet), 1.0 - (-0.5f64 / 20.0).exp());
        assert_eq!(tail((0, 10), &[]), 1.0);
    }

    /// Mean 10.125 and the squares of 10.125, 1.875, 7.125 and 14.875, over three degrees of freedom.
    /// The negative binomial distribution with this mean and a variance of `spread` times the mean.
    #[test]
    fn counts_that_vary_more_are_negative_binomial() {
        let others = [(0, 10), (12, 10), (3, 10), (25, 10)];
        let squares: f64 = [10.125f64, 1.875, 7.125, 14.875]
            .iter()
            .map(|one| one * one)
            .sum();
        let spread = squares / 10.125 / 3.0;
        for (count, exposure) in [(40, 10), (1, 10), (90, 20)] {
            let mean = 1.0125 * f64::from(exposure);
            let size = mean / (spread - 1.0);
            let share = 1.0 - 1.0 / spread;
            let none = (1.0 - share).powf(size);
            let expected = at_least(count, none, |n| (n + size) / (n + 1.0) * share);
            near(tail((count, exposure as u64), &others), expected);
        }
    }

    #[test]
    fn runs_with_unlikely_counts_are_spikes() {
        let mut counts = vec![(3, 10); 20];
        assert!(spiked_counts(&counts).is_empty());
        // The larger one does not hide the other.
        (counts[7].0, counts[2].0) = (2_000, 60);
        assert_eq!(spiked_counts(&counts), [2, 7]);
        // The rate counts, not the number.
        let mut longer = vec![(3, 10); 20];
        longer[4] = (200, 700);
        assert!(spiked_counts(&longer).is_empty());
        longer[4] = (200, 70);
        assert_eq!(spiked_counts(&longer), [4]);
        // With a mean of 3, one run of 900 has at least 10 events, and one of 300,000 at least 14.
        for (events, is_spike) in [(10, false), (14, true)] {
            let mut counts = vec![(3, 10); 20];
            counts[11].0 = events;
            assert_eq!(spiked_counts(&counts) == [11], is_spike, "{events}");
        }
        // The others must be enough for a level.
        assert!(spiked_counts(&[(3, 10), (3, 10), (3, 10), (500, 10)]).is_empty());
        assert_eq!(
            spiked_counts(&[(3, 10), (3, 10), (3, 10), (500, 10), (3, 10)]),
            [3]
        );
    }

    /// Logarithms from 0 to 1 have the median 0.5 and the quartiles 0.25 and 0.75. A spike is more
    /// than 0.25 + 4.5 * 0.5 above the median.
    #[test]
    fn maximum_beyond_the_fence_is_a_spike() {
        let spikes = |largest: f64| {
            let order: Vec<usize> = (0..101).map(|n| n * 7 % 101).collect();
            let mut maxima: Vec<f64> = order.iter().map(|n| (*n as f64 / 100.0).exp()).collect();
            let place = order.iter().position(|n| *n == 100).unwrap();
            maxima[place] = largest.exp();
            (spiked_maxima(&maxima, &[]), place)
        };
        assert!(spikes(0.5 + 2.49).0.is_empty());
        let (found, place) = spikes(0.5 + 2.51);
        assert_eq!(found, [place]);
    }

    #[test]
    fn equal_maxima_need_a_factor_to_be_a_spike() {
        let spikes = |largest: f64, runs: usize| {
            let mut maxima = vec![100.0; runs];
            maxima[3] = largest;
            spiked_maxima(&maxima, &[])
        };
        assert!(spikes(124.9, 20).is_empty());
        assert_eq!(spikes(125.1, 20), [3]);
        assert_eq!(spikes(125.1, 8), [3]);
        // Seven runs are too few.
        assert!(spikes(900.0, 7).is_empty());
        // A lower level makes another segment. A run without a maximum is not a spike.
        let mut levels = vec![100.0; 24];
        levels[12..].fill(50.0);
        (levels[5], levels[20]) = (0.0, 70.0);
        assert_eq!(spiked_maxima(&levels, &[12]), [20]);
    }

    #[test]
    fn segments_and_medians_are_those_of_the_runs() {
        assert_eq!(ranges(&[5], 10), [(0, 5), (5, 10)]);
        assert_eq!(ranges(&[7, 0, 3, 7], 10), [(0, 3), (3, 7), (7, 10)]);
        assert_eq!(ranges(&[], 4), [(0, 4)]);
        assert_eq!(
            [median(&[]), median(&[3.0]), median(&[4.0, 1.0])],
            [0.0, 3.0, 2.5]
        );
        assert_eq!(
            [median(&[4.0, 1.0, 3.0]), median(&[9.0, 4.0, 1.0, 3.0])],
            [3.0, 3.5]
        );
    }
}
