//! Late periods that share a cause, counted once.
//!
//! Late periods come in clusters. How much is told by the extremal index: the share of
//! late periods that begin a new cluster, 1 where each comes by itself. Two estimators:
//! K-gaps (Süveges and Davison, Annals of Applied Statistics 4, 2010) and intervals
//! (Ferro and Segers, Journal of the Royal Statistical Society B 65, 2003). The latter
//! also says which gaps are those between clusters.

/// The late periods of a run, clustered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Episodes {
    /// Late periods: each counted once, whatever the number of CPUs that were late.
    pub late: u64,
    /// Each episode: its first and its last late period.
    pub each: Vec<(u64, u64)>,
    /// The share of the late periods that begin an episode (K-gaps with K = 1);
    /// `None` with fewer than two.
    pub extremal_index: Option<f64>,
}

impl Episodes {
    /// Clusters the numbers of the late periods among `periods` of a run. The numbers
    /// may come in any order and several times.
    ///
    /// Periods that follow each other are one episode. Of longer gaps the largest
    /// separate episodes: as many as the intervals estimator says, at least as many as
    /// K-gaps does, so that a bound on episodes is not too low.
    pub fn of(late: &[u64], periods: u64) -> Self {
        let mut late = late.to_vec();
        late.sort_unstable();
        late.dedup();
        let gaps: Vec<u64> = late.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (Some(first), Some(last)) = (late.first(), late.last()) else {
            return Self::default();
        };
        let share = late.len() as f64 / periods.max(late.len() as u64) as f64;
        let extremal_index = k_gaps(&gaps, share, 1);
        let index = match (extremal_index, intervals(&gaps)) {
            (Some(one), Some(other)) => one.max(other),
            _ => 1.0,
        };
        let wanted = (index * late.len() as f64).ceil() as usize;
        let mut sorted: Vec<u64> = gaps.iter().copied().filter(|gap| *gap > 1).collect();
        sorted.sort_unstable_by_key(|gap| std::cmp::Reverse(*gap));
        // Equal gaps are alike: all of them separate, or none would be told why.
        let least = match wanted.checked_sub(2) {
            Some(place) => sorted
                .get(place)
                .or(sorted.last())
                .copied()
                .unwrap_or(u64::MAX),
            None => u64::MAX,
        };
        let mut each = vec![(*first, *last)];
        for pair in late.windows(2).filter(|pair| pair[1] - pair[0] >= least) {
            if let Some(open) = each.last_mut() {
                open.1 = pair[0];
            }
            each.push((pair[1], *last));
        }
        Self {
            late: late.len() as u64,
            each,
            extremal_index,
        }
    }

    /// How many episodes.
    pub fn count(&self) -> u64 {
        self.each.len() as u64
    }
}

/// The extremal index by K-gaps, of the gaps between late periods, of which the share
/// `late` of all periods was; `None` without gaps. The maximum of the likelihood
/// (1 - θ)^N0 θ^(2 N1) exp(-θ Σ S), N0 of the gaps being no longer than `k` periods.
pub fn k_gaps(gaps: &[u64], late: f64, k: u64) -> Option<f64> {
    if gaps.is_empty() {
        return None;
    }
    let beyond = || gaps.iter().map(|gap| gap.saturating_sub(k));
    let within = beyond().filter(|gap| *gap == 0).count() as f64;
    let between = gaps.len() as f64 - within;
    let sum = beyond().map(|gap| late * gap as f64).sum::<f64>();
    if between == 0.0 {
        return Some(0.0);
    }
    if within == 0.0 {
        return Some((2.0 * between / sum).min(1.0));
    }
    let middle = within + 2.0 * between + sum;
    let root = (middle * middle - 8.0 * between * sum).max(0.0).sqrt();
    Some((4.0 * between / (middle + root)).min(1.0))
}

/// The extremal index by the intervals estimator, of the gaps between late periods;
/// `None` without gaps.
pub fn intervals(gaps: &[u64]) -> Option<f64> {
    let longest = gaps.iter().max()?;
    let number = gaps.len() as f64;
    let sum = |of: fn(f64) -> f64| gaps.iter().map(|gap| of(*gap as f64)).sum::<f64>();
    let (square, product) = match longest {
        0..=2 => (sum(|gap| gap).powi(2), sum(|gap| gap * gap)),
        _ => (
            sum(|gap| gap - 1.0).powi(2),
            sum(|gap| (gap - 1.0) * (gap - 2.0)),
        ),
    };
    Some((2.0 * square / (number * product)).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAPS: [u64; 18] = [
        1, 1, 1, 40, 2, 1, 130, 1, 77, 1, 1, 25, 310, 2, 60, 1, 1, 90,
    ];

    /// The maximum of the likelihood by scipy.optimize.minimize_scalar, and
    /// 2*((T-1).sum())**2/(N*((T-1)*(T-2)).sum()) with numpy.
    #[test]
    fn estimators_agree_with_scipy() {
        let share = 19.0 / 1_000.0;
        let near = |found: Option<f64>, known: f64| {
            let found = found.unwrap();
            assert!((found / known - 1.0).abs() < 1e-6, "{found} {known}");
        };
        near(k_gaps(&GAPS, share, 1), 0.539_569_544_9);
        near(k_gaps(&GAPS, share, 2), 0.426_525_822_9);
        near(intervals(&GAPS), 0.449_411_078_5);
        assert_eq!((k_gaps(&[], share, 1), intervals(&[])), (None, None));
        assert_eq!(k_gaps(&[1, 1, 1], 1.0, 1), Some(0.0));
    }

    /// `kgaps(newlyn, quantile(newlyn, 0.6), k = 2)` of the R package exdex is 0.1758.
    /// It also counts the times before the first and after the last surge, which are
    /// longer than observed: a difference of 0.1%. The gaps between the 1,153 of 2,894
    /// sea surges of Newlyn above that height, with how often each comes.
    #[test]
    fn the_extremal_index_of_newlyn_is_that_of_exdex() {
        let gaps = [
            (1, 944),
            (2, 49),
            (3, 33),
            (4, 4),
            (5, 14),
            (6, 16),
            (7, 13),
            (8, 7),
            (9, 2),
            (10, 8),
            (11, 3),
            (12, 7),
            (13, 2),
            (14, 5),
            (15, 7),
            (16, 2),
            (17, 2),
            (18, 5),
            (19, 2),
            (20, 1),
            (21, 2),
            (22, 3),
            (23, 2),
            (24, 1),
            (25, 3),
            (26, 1),
            (27, 2),
            (30, 4),
            (32, 1),
            (33, 1),
            (37, 1),
            (38, 2),
            (44, 1),
            (50, 1),
            (57, 1),
        ];
        let gaps: Vec<u64> = gaps
            .iter()
            .flat_map(|(gap, count)| std::iter::repeat_n(*gap, *count))
            .collect();
        assert_eq!(gaps.len(), 1_152);
        let found = k_gaps(&gaps, 1_153.0 / 2_894.0, 2).unwrap();
        assert!((found / 0.1758 - 1.0).abs() < 0.002, "{found}");
    }

    #[test]
    fn bursts_are_one_episode_each() {
        // Five bursts of 20 neighbouring periods, one each 10,000.
        let late: Vec<u64> = (0..100).map(|n| n / 20 * 10_000 + n % 20 + 5_000).collect();
        let episodes = Episodes::of(&late, 50_000);
        assert_eq!((episodes.late, episodes.count()), (100, 5), "{episodes:?}");
        assert_eq!(episodes.each[1], (15_000, 15_019));
        // What comes by itself is an episode each.
        let single: Vec<u64> = [17, 4_000, 9_000, 21_000, 33_000, 48_000].to_vec();
        assert_eq!(Episodes::of(&single, 50_000).count(), 6);
        assert_eq!(Episodes::of(&[7], 50_000).each, [(7, 7)]);
        assert_eq!(Episodes::of(&[], 50_000), Episodes::default());
        // All late: one, without an end.
        let all: Vec<u64> = (0..1_000).collect();
        assert_eq!(Episodes::of(&all, 1_000).count(), 1);
        // In any order, and on several CPUs at once.
        assert_eq!(Episodes::of(&[9, 7, 7, 8], 10).each, [(7, 9)]);
    }
}
