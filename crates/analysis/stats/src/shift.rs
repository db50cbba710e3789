//! The difference between two conditions that were measured in pairs, with an exact interval.
//!
//! Chance decides which condition of a pair is measured first, so without an effect each difference
//! is equally likely to have either sign. The means of all subsets of the differences then divide
//! the line into intervals that contain the true difference with the same probability (Hartigan,
//! "Using Subsample Values as Typical Values", Journal of the American Statistical Association 64,
//! 1969). Nothing is assumed about the distribution, except that it is the same up to a shift.

/// Up to this number of pairs, all subsets are used.
const ALL: usize = 14;

/// Number of random subsets that are drawn if there are more pairs.
const DRAWS: usize = 19_999;

/// The mean difference of a condition from the baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The mean difference.
    pub found: f64,
    /// Ends of the interval; infinite if there are too few pairs for one.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Probability of such a difference if the condition has no effect (two-sided).
    pub p: f64,
}

/// Returns the smallest number of pairs that can show a difference with this error probability.
pub fn least_pairs(chance: f64) -> u32 {
    (2.0 / chance).log2().ceil() as u32
}

/// Returns the mean of the differences, with the interval that is wrong with the probability
/// `chance`. `None` without differences, or if one of them is not finite. `seed` chooses the random
/// subsets of more than 14 differences.
pub fn shift(differences: &[f64], chance: f64, seed: u64) -> Option<Shift> {
    if differences.is_empty() || differences.iter().any(|one| !one.is_finite()) {
        return None;
    }
    let mut means = if differences.len() <= ALL {
        all_means(differences)
    } else {
        random_means(differences, seed)
    };
    means.sort_unstable_by(f64::total_cmp);
    let places = (means.len() + 1) as f64;
    let beyond = (chance / 2.0 * places * (1.0 + 1e-12)) as usize;
    let (low, high) = match beyond {
        0 => (f64::NEG_INFINITY, f64::INFINITY),
        beyond => (means[beyond - 1], means[means.len() - beyond]),
    };
    let below = means.partition_point(|mean| *mean <= 0.0);
    let above = means.len() - means.partition_point(|mean| *mean < 0.0);
    let p = 2.0 * (below.min(above) + 1) as f64 / places;
    Some(Shift {
        found: differences.iter().sum::<f64>() / differences.len() as f64,
        low,
        high,
        p: p.min(1.0),
    })
}

/// Returns the mean of each subset that is not empty.
fn all_means(differences: &[f64]) -> Vec<f64> {
    let mean = |subset: u32| {
        let own = (differences.iter().enumerate()).filter(|(place, _)| subset >> place & 1 == 1);
        own.map(|(_, one)| one).sum::<f64>() / f64::from(subset.count_ones())
    };
    (1..1u32 << differences.len()).map(mean).collect()
}

/// Returns the means of random subsets. A coin flip decides whether a subset contains a difference.
fn random_means(differences: &[f64], seed: u64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut means = Vec::with_capacity(DRAWS);
    while means.len() < DRAWS {
        let (mut sum, mut count) = (0.0, 0u32);
        for one in differences {
            if random.bool() {
                sum += one;
                count += 1;
            }
        }
        if count > 0 {
            means.push(sum / f64::from(count));
        }
    }
    means
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With six pairs of the same sign, the probability is 2 of 64, and no smaller one is possible.
    #[test]
    fn six_pairs_are_the_least() {
        assert_eq!(least_pairs(0.05), 6);
        assert_eq!(least_pairs(0.01), 8);
        let same = shift(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.05, 1).unwrap();
        assert_eq!((same.found, same.p), (3.5, 0.031_25));
        assert_eq!((same.low, same.high), (1.0, 6.0));
        let few = shift(&[1.0; 5], 0.05, 1).unwrap();
        assert_eq!((few.low, few.p), (f64::NEG_INFINITY, 0.062_5));
        assert_eq!(shift(&[], 0.05, 1), None);
        assert_eq!(shift(&[f64::NAN; 8], 0.05, 1), None);
        let none = shift(&[0.0; 8], 0.05, 1).unwrap();
        assert_eq!((none.low, none.high, none.p), (0.0, 0.0, 1.0));
    }

    /// The interval and the probability never contradict each other.
    #[test]
    fn interval_agrees_with_probability() {
        let mut random = fastrand::Rng::with_seed(11);
        for pairs in [6, 9, 14, 20] {
            for _ in 0..20 {
                let all: Vec<f64> = (0..pairs).map(|_| random.f64() - 0.3).collect();
                let found = shift(&all, 0.05, 7).unwrap();
                let excludes = found.low > 0.0 || found.high < 0.0;
                assert_eq!(excludes, found.p <= 0.05 + 1e-9, "{found:?}");
            }
        }
    }

    /// A skewed benchmark: the difference of two exponential times, shifted by 0.5. Of 400
    /// intervals, 380 are expected to contain the shift. The limit is three standard deviations
    /// below this number.
    #[test]
    fn interval_holds_for_skewed_times() {
        let mut random = fastrand::Rng::with_seed(3);
        for pairs in [8, 18] {
            let mut covered = 0;
            for seed in 0..400 {
                let mut time = || -(1.0 - random.f64()).ln();
                let all: Vec<f64> = (0..pairs).map(|_| time() + 0.5 - time()).collect();
                let found = shift(&all, 0.05, seed).unwrap();
                covered += u32::from(found.low <= 0.5 && 0.5 <= found.high);
            }
            assert!(covered >= 367, "{covered} of 400 with {pairs} pairs");
        }
    }

    /// All subsets of (-1, 2, 3), in order: -1, 0.5, 1, 4/3, 2, 2.5, 3. A confidence of 50% leaves out
    /// one on both sides.
    #[test]
    fn limits_are_means_of_subsets() {
        let found = shift(&[2.0, -1.0, 3.0], 0.5, 1).unwrap();
        assert!((found.found - 4.0 / 3.0).abs() < 1e-12, "{found:?}");
        assert_eq!((found.low, found.high), (0.5, 2.5));
        // One mean is below zero: 2 * 2 of 8.
        assert_eq!(found.p, 0.5);
        let means = all_means(&[2.0, -1.0, 3.0]);
        assert_eq!(means, [2.0, -1.0, 0.5, 3.0, 2.5, 1.0, 4.0 / 3.0]);
        let mirrored = shift(&[-2.0, 1.0, -3.0], 0.5, 1).unwrap();
        assert_eq!((mirrored.low, mirrored.high, mirrored.p), (-2.5, -0.5, 0.5));
        let wide = shift(&[2.0, -1.0, 3.0], 0.2, 1).unwrap();
        assert_eq!((wide.low, wide.high), (f64::NEG_INFINITY, f64::INFINITY));
    }

    #[test]
    fn random_subsets_give_nearly_the_same() {
        // 15 equal signs: none of the 19,999 means is below zero.
        let same: Vec<f64> = (1..=15).map(f64::from).collect();
        let found = shift(&same, 0.05, 3).unwrap();
        assert_eq!((found.found, found.p), (8.0, 2.0 / 20_000.0));
        // A coin decides on each difference, so a mean has about half of them.
        let means = random_means(&same, 3);
        assert_eq!(means.len(), 19_999);
        let mean = means.iter().sum::<f64>() / 19_999.0;
        let spread = means.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / 19_999.0;
        assert!((mean - 8.0).abs() < 0.05, "{mean}");
        // The variance of a subset's mean is near that of all means of 15: 18.67/15.
        assert!((1.1..1.8).contains(&spread), "{spread}");
        assert!(
            (found.low - 5.7).abs() < 0.4 && (found.high - 10.3).abs() < 0.4,
            "{found:?}"
        );
        // With 14 pairs, all subsets are used, and the seed does not matter.
        assert_eq!(shift(&same[..14], 0.05, 1), shift(&same[..14], 0.05, 2));
        let roots: Vec<f64> = same.iter().map(|one| one.sqrt()).collect();
        assert_ne!(shift(&roots, 0.05, 1), shift(&roots, 0.05, 2));
        let pairs = [0.5, 0.25, 0.05, 0.01, 0.001].map(least_pairs);
        assert_eq!(pairs, [2, 3, 6, 8, 11]);
    }
}
