//! Clustering of events, at the worst time scale.

use statrs::function::beta::checked_beta_reg;

use super::quantile::chi_squared;

/// Minimum number of blocks in the run for a block length to be used.
pub(super) const LEAST_BLOCKS: usize = 8;

/// Minimum number of blocks in the run for a block length to be local.
const LOCAL_BLOCKS: usize = 16;

/// Probability that a dispersion exceeds its upper limit.
const CHANCE: f64 = 0.10;

/// Significance level for events that are more regular than independent ones.
const REGULAR: f64 = 0.001;

/// Significance levels for a dispersion that is still rising: at the longest blocks used, and at
/// blocks longer than those. A rise counts if the probability that it is due to chance is lower
/// than the level.
const RISES: [f64; 2] = [0.10, 0.05];

/// The variance divided by the mean of the counts in blocks, at the worst block length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dispersion {
    /// The upper 90% limit, at least 1. It is 1 if events are independent.
    pub(super) factor: f64,
    /// Whether the dispersion is still rising at the end of the run, because the rate changes more
    /// slowly than the run can show.
    pub(super) rises: bool,
    /// The plain ratio at the shortest blocks, and at blocks of at most a sixteenth of the run, at
    /// least 1. A rate that changes
    /// over the whole run raises it less than `factor`.
    pub(super) local: f64,
    /// The lowest upper limit of all block lengths, at the level [`REGULAR`]. Below 1, events are more
    /// regular than independent ones.
    pub(super) most_regular: f64,
}

/// One block length: the estimated ratio of variance to mean, and the number of blocks.
type Scale = (f64, usize);

impl Dispersion {
    /// Calculates the dispersion from counts in consecutive blocks of the shortest length. Longer
    /// blocks are made by joining pairs.
    pub(super) fn from_counts(mut counts: Vec<u64>) -> Self {
        let mut scales: Vec<Scale> = Vec::new();
        // If there are no events, their clustering is unknown.
        if counts.iter().all(|count| *count == 0) {
            counts.clear();
        }
        while counts.len() >= 2 {
            scales.push((variance_by_mean(&counts), counts.len()));
            counts = (counts.chunks_exact(2))
                .map(|pair| pair[0].saturating_add(pair[1]))
                .collect();
        }
        let long = scales.partition_point(|(_, blocks)| *blocks >= LEAST_BLOCKS);
        let (scales, beyond) = scales.split_at(long);
        let limit = |(found, blocks): &Scale| chance_limit(*found, *blocks);
        let regular = |(found, blocks): &Scale| {
            let freedom = (*blocks - 1) as f64;
            found * freedom / chi_squared(REGULAR, freedom)
        };
        Self {
            most_regular: scales.iter().map(regular).fold(f64::INFINITY, f64::min),
            factor: scales.iter().map(limit).fold(1.0, f64::max),
            rises: still_rises(scales, beyond),
            local: (scales.iter().chain(beyond).enumerate())
                .filter(|(place, (_, blocks))| *place == 0 || *blocks >= LOCAL_BLOCKS)
                .map(|(_, (found, _))| *found)
                .fold(1.0, f64::max),
        }
    }
}

/// Returns the upper 90% limit of a ratio of variance to mean that was found in this number of
/// counts, at least 2.
pub(super) fn chance_limit(found: f64, counts: usize) -> f64 {
    let freedom = (counts - 1) as f64;
    found * freedom / chi_squared(CHANCE, freedom)
}

/// Returns the ratio of variance to mean, which is 1 for independent events.
pub(super) fn variance_by_mean(counts: &[u64]) -> f64 {
    let number = counts.len() as f64;
    // Joining pairs drops an odd last block. If it contained the only events, the mean is zero.
    let mean = counts.iter().map(|count| *count as f64).sum::<f64>() / number;
    if mean == 0.0 {
        return 1.0;
    }
    let squares = counts.iter().map(|count| (*count as f64 - mean).powi(2));
    squares.sum::<f64>() / (number - 1.0) / mean
}

/// Returns whether the dispersion of the longest blocks exceeds that of blocks a quarter as long by
/// more than chance can explain. Also tries longer blocks, which are too few for an estimate. The
/// dispersion rises with the block length while the rate keeps rising or falling. The ratio of two
/// equal dispersions has an F distribution.
fn still_rises(scales: &[Scale], beyond: &[Scale]) -> bool {
    let Some((last, before)) = scales.split_last() else {
        return false;
    };
    let Some(shorter) = before.get(before.len().saturating_sub(2)) else {
        return false;
    };
    let all = std::iter::once((last, RISES[0])).chain(beyond.iter().map(|one| (one, RISES[1])));
    all.into_iter().any(|(scale, rarely)| {
        let ratio = scale.0 / shorter.0.max(1.0);
        let [a, b] = [scale.1, shorter.1].map(|blocks| (blocks - 1) as f64);
        // Probability that an F variate exceeds the ratio.
        let chance = checked_beta_reg(b / 2.0, a / 2.0, b / (b + a * ratio));
        chance.is_ok_and(|chance| chance < rarely)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clusters_spreads_more() {
        // One event in each block is less dispersed than random events. Its dispersion counts as 1.
        assert_eq!(Dispersion::from_counts(vec![1; 64]).factor, 1.0);
        assert_eq!(Dispersion::from_counts(Vec::new()).factor, 1.0);
        assert_eq!(Dispersion::from_counts(vec![0; 90]).factor, 1.0);
        // Ten events in every tenth block: the ratio of variance to mean is 9.1, and 8.1 for pairs.
        let bursts: Vec<u64> = (0..100).map(|n| if n % 10 == 3 { 10 } else { 0 }).collect();
        let found = Dispersion::from_counts(bursts);
        assert!((9.0..13.0).contains(&found.factor), "{found:?}");
        assert!(!found.rises, "{found:?}");
    }

    #[test]
    fn steadily_rising_rate_outlasts_the_run() {
        let rising: Vec<u64> = (0..128).map(|n| n / 8).collect();
        let found = Dispersion::from_counts(rising);
        assert!(found.rises && found.factor > 20.0, "{found:?}");
    }

    #[test]
    fn dispersion_is_the_variance_by_the_mean() {
        for (counts, known) in [
            (vec![1, 3], 1.0),
            (vec![0, 0, 6], 6.0),
            (vec![2, 2, 2, 2], 0.0),
            (vec![0, 0], 1.0),
        ] {
            assert_eq!(variance_by_mean(&counts), known, "{counts:?}");
        }
        // 7 / scipy.stats.chi2.ppf(0.10, 7)
        assert!((chance_limit(1.0, 8) - 2.470_786).abs() < 1e-5);
        assert!((chance_limit(3.0, 8) - 3.0 * 2.470_786).abs() < 1e-4);
    }
}
