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
