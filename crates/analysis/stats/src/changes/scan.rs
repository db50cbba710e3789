//! The best split of a series of runs, and its probability if there is no change.

use fastrand::Rng;

use super::LEAST_RUNS;

/// A permutation test ends after this many permutations that are equally extreme, because its
/// p-value is then sufficiently accurate (Besag and Clifford, Biometrika 78, 1991).
const EXTREME_ENOUGH: u64 = 10;

/// Maximum number of places that are tried for a split in a permutation.
const PLACES: usize = 1_024;

/// Ratios that differ by less than this are treated as equal.
const NEAR: f64 = 1e-9;

/// Half of the 95% quantile of chi-squared with one degree of freedom.
const LIKELY: f64 = 1.92;

/// The normal quantile of 97.5%.
const NORMAL: f64 = 1.96;

/// Both likelihoods are used for counts whose variance exceeds this multiple of their mean.
const SPREAD: f64 = 1.25;

/// The likelihood used to find a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// Poisson counts, or ranks.
    Plain,
    /// Negative binomial counts. In the Poisson likelihood, a few consecutive high counts are as
    /// improbable as a separate level, and would hide a step.
    Spread,
}

/// Runs as pairs of numbers that can be summed: events and exposure, or a centred rank and 1.
pub(super) struct Pairs {
    each: Vec<(f64, f64)>,
    is_counts: bool,
}

/// Variation of counts in excess of Poisson counts: their rates have a gamma distribution.
#[derive(Clone, Copy)]
struct Excess {
    /// The shape of that distribution for a run with the mean exposure.
    shape: f64,
    /// The mean exposure.
    exposure: f64,
}

impl Excess {
    /// Estimates the variation from moments of neighbouring runs, which are hardly affected by a
    /// change of level. Returns `None` if the counts vary no more than Poisson counts.
    fn new(each: &[(f64, f64)]) -> Option<Self> {
        let (events, exposure) = sum(each);
        let mean = events / each.len() as f64;
        // One is added to the sums, so that they are not zero.
        let (mut beyond, mut squares) = (0.0, mean * mean);
        for pair in each.windows(2) {
            let ((a, here), (b, there)) = (pair[0], pair[1]);
            let both = here + there;
            if both <= 0.0 {
                continue;
            }
            let rate = (a + b) / both;
            beyond += (a - rate * here).powi(2) + (b - rate * there).powi(2);
            beyond -= rate * 2.0 * here * there / both;
            squares += a * b;
        }
        (beyond > 0.0 && squares > 0.0).then(|| Self {
            shape: squares / beyond,
            exposure: exposure / each.len() as f64,
        })
    }

    /// Returns the reduction of a range's log likelihood compared with Poisson counts, without
    /// terms that are the same for all splits.
    fn lower(self, (events, exposure): (f64, f64)) -> f64 {
        if events <= 0.0 || exposure <= 0.0 {
            return 0.0;
        }
        let size = exposure / self.exposure * self.shape;
        (events + size) * (events / size).ln_1p()
    }
}

/// The best split by one likelihood: the number of runs before it, and its log likelihood ratio.
type Best = (usize, f64);

impl Pairs {
    pub(super) fn of_counts(counts: &[(u64, u64)]) -> Self {
        let pair = |(events, exposure): &(u64, u64)| (*events as f64, *exposure as f64);
        Self {
            each: counts.iter().map(pair).collect(),
            is_counts: true,
        }
    }

    /// Returns ranks with mean 0 and variance 1.
    pub(super) fn of_ranks(figures: &[f64]) -> Self {
        let mut order: Vec<usize> = (0..figures.len()).collect();
        order.sort_by(|a, b| figures[*a].total_cmp(&figures[*b]));
        let middle = (figures.len() as f64 - 1.0) / 2.0;
        let mut ranks = vec![0.0; figures.len()];
        let mut start = 0;
        for equal in order.chunk_by(|a, b| figures[*a] == figures[*b]) {
            let rank = start as f64 + (equal.len() as f64 - 1.0) / 2.0;
            equal.iter().for_each(|place| ranks[*place] = rank - middle);
            start += equal.len();
        }
        let variance = ranks.iter().map(|rank| rank * rank).sum::<f64>() / figures.len() as f64;
        let unit = if variance > 0.0 { variance.sqrt() } else { 1.0 };
        Self {
            each: ranks.into_iter().map(|rank| (rank / unit, 1.0)).collect(),
            is_counts: false,
        }
    }

    /// Returns the shape of the gamma distribution of the rates. `None` if counts vary no more than
    /// Poisson counts.
    pub(super) fn shape(&self) -> Option<f64> {
        Excess::new(&self.each).map(|excess| excess.shape)
    }

    /// Returns whether counts vary so much that both likelihoods are used. The order of the runs
    /// does not matter, so the answer is the same for permutations.
    pub(super) fn is_spread(&self) -> bool {
        self.is_counts && dispersion(&self.each, &[]) > SPREAD
    }

    /// Returns the log likelihood ratio of each split by both likelihoods, indexed by the number of
    /// runs before it. Without `excess`, the two ratios are equal.
    fn ratios(
        &self,
        stride: usize,
        excess: Option<Excess>,
    ) -> impl Iterator<Item = (usize, [f64; 2])> + '_ {
        let runs = self.each.len();
        let all = sum(&self.each);
        let lower = move |part| excess.map_or(0.0, |excess| excess.lower(part));
        let together = [likelihood(all), lower(all)];
        let mut before = (0.0, 0.0);
        let places = self.each.iter().enumerate();
        places.filter_map(move |(place, pair)| {
            before = (before.0 + pair.0, before.1 + pair.1);
            let at = place + 1;
            let is_tried = at >= LEAST_RUNS && runs - at >= LEAST_RUNS && at.is_multiple_of(stride);
            is_tried.then(|| {
                let after = (all.0 - before.0, all.1 - before.1);
                let plain = if self.is_counts {
                    likelihood(before) + likelihood(after) - together[0]
                } else {
                    let (left, right) = (at as f64, (runs - at) as f64);
                    before.0 * before.0 * runs as f64 / (2.0 * left * right)
                };
                let less = lower(before) + lower(after) - together[1];
                (at, [plain, plain - less])
            })
        })
    }

    /// Returns the best split by each likelihood, or (0, 0) if all runs are equal.
    fn best_of(&self, stride: usize, is_spread: bool) -> [Best; 2] {
        let excess = is_spread.then(|| Excess::new(&self.each)).flatten();
        let mut best = [(0, 1e-9); 2];
        for (at, ratios) in self.ratios(stride, excess) {
            for (best, ratio) in best.iter_mut().zip(ratios) {
                if ratio > best.1 {
                    *best = (at, ratio);
                }
            }
        }
        best.map(|best| if best.0 == 0 { (0, 0.0) } else { best })
    }

    /// Returns the place of the best split by `by`. `None` if all runs are equal.
    pub(super) fn best(&self, by: By) -> Option<usize> {
        let best = self.best_of(1, by == By::Spread)[by as usize];
        (best.0 > 0).then_some(best.0)
    }

    /// Returns the probability of splits as good as the best ones in a random order, from at most
    /// `most` permutations, and the likelihood of the better one.
    ///
    /// Uses the smaller probability of the two likelihoods. The same permutations show how often
    /// this probability is that small (Westfall and Young, Resampling-Based Multiple Testing,
    /// 1993).
    pub(super) fn p_of(&mut self, most: u64, random: &mut Rng) -> (f64, By) {
        let stride = self.each.len().div_ceil(PLACES).max(1);
        let is_spread = self.is_spread();
        let ratios = |pairs: &Self| pairs.best_of(stride, is_spread).map(|best| best.1);
        // To keep the test fair, the observed split is searched at the same places as the splits of
        // the permutations.
        let seen = ratios(self);
        let mut drawn = vec![seen];
        let mut extreme = [0u64; 2];
        for done in 1..=most {
            random.shuffle(&mut self.each);
            let best = ratios(self);
            for (count, (best, seen)) in extreme.iter_mut().zip(best.iter().zip(seen)) {
                *count += u64::from(*best >= seen - NEAR);
            }
            // If there is no second likelihood, both numbers are equal.
            let least = extreme[0].min(extreme[1]);
            if least >= EXTREME_ENOUGH {
                return (least as f64 / done as f64, By::Plain);
            }
            drawn.push(best);
        }
        if is_spread {
            smaller(&drawn)
        } else {
            ((extreme[0] + 1) as f64 / (most + 1) as f64, By::Plain)
        }
    }

    /// Returns the range that contains the split with about 95% confidence. It covers the places
    /// whose likelihood is close to that of the best place.
    pub(super) fn where_about(&self, at: usize) -> (usize, usize) {
        let spread = if self.is_counts {
            dispersion(&self.each[..at], &self.each[at..])
        } else {
            1.0
        };
        let each: Vec<Best> = (self.ratios(1, None))
            .map(|(place, ratios)| (place, ratios[0]))
            .collect();
        let of_best = each.iter().find(|(place, _)| *place == at);
        let least = of_best.map_or(0.0, |best| best.1) - LIKELY * spread;
        let mut likely = each
            .iter()
            .filter(|(_, ratio)| *ratio >= least)
            .map(|(place, _)| *place);
        let first = likely.next().unwrap_or(at);
        (first.min(at), likely.next_back().unwrap_or(first).max(at))
    }
}

/// Returns the smaller of the two probabilities of the first of `drawn`, and its likelihood.
fn smaller(drawn: &[[f64; 2]]) -> (f64, By) {
    let sorted = [0, 1].map(|by| {
        let mut all: Vec<f64> = drawn.iter().map(|ratios| ratios[by]).collect();
        all.sort_by(|a, b| b.total_cmp(a));
        all
    });
    // Rank by each likelihood: the number of values that are at least as large.
    let ranks = |ratios: &[f64; 2]| {
        [0, 1].map(|by| sorted[by].partition_point(|other| *other >= ratios[by] - NEAR))
    };
    let least = |ranks: [usize; 2]| ranks[0].min(ranks[1]);
    let Some(seen) = drawn.first().map(ranks) else {
        return (1.0, By::Plain);
    };
    let as_small = drawn
        .iter()
        .filter(|other| least(ranks(other)) <= least(seen))
        .count();
    let by = if seen[1] < seen[0] {
        By::Spread
    } else {
        By::Plain
    };
    (as_small as f64 / drawn.len() as f64, by)
}

fn sum(pairs: &[(f64, f64)]) -> (f64, f64) {
    let add = |sum: (f64, f64), pair: &(f64, f64)| (sum.0 + pair.0, sum.1 + pair.1);
    pairs.iter().fold((0.0, 0.0), add)
}

/// Returns the part of the Poisson log likelihood that depends on the split.
fn likelihood((events, exposure): (f64, f64)) -> f64 {
    if events > 0.0 && exposure > 0.0 {
        events * (events / exposure).ln()
    } else {
        0.0
    }
}

/// Returns the ratio of the variation of counts to that of Poisson counts, on both sides of a
/// split: Pearson's chi-squared divided by its degrees of freedom, at least 1.
fn dispersion(before: &[(f64, f64)], after: &[(f64, f64)]) -> f64 {
    let mut squares = 0.0;
    for side in [before, after] {
        let (events, exposure) = sum(side);
        if events <= 0.0 || exposure <= 0.0 {
            continue;
        }
        let rate = events / exposure;
        let expected = side
            .iter()
            .map(|pair| (pair.0, pair.1 * rate))
            .filter(|pair| pair.1 > 0.0);
        squares += expected
            .map(|(seen, mean)| (seen - mean).powi(2) / mean)
            .sum::<f64>();
    }
    let free = (before.len() + after.len()).saturating_sub(2).max(1);
    (squares / free as f64).max(1.0)
}

/// Returns the ratio of two rates with its 95% confidence interval, widened by the variation of the
/// counts.
pub(super) fn ratio_of_rates(before: &[(u64, u64)], after: &[(u64, u64)]) -> (f64, (f64, f64)) {
    let [a, b] = [before, after].map(|side| Pairs::of_counts(side).each);
    let spread = dispersion(&a, &b);
    let total = |side: &[(f64, f64)]| {
        let (events, exposure) = sum(side);
        // Half an event is added, so that the ratio exists even if there are no events.
        (events + 0.5, exposure.max(1.0))
    };
    let ((few, time), (many, later)) = (total(&a), total(&b));
    let ratio = (many / later) / (few / time);
    let wide = (NORMAL * (spread * (1.0 / few + 1.0 / many)).sqrt()).exp();
    (ratio, (ratio / wide, ratio * wide))
}

/// Returns the ratio of two medians. The interval is derived from the ratios of all pairs.
pub(super) fn ratio_of_figures(before: &[f64], after: &[f64]) -> (f64, (f64, f64)) {
    let ratio = super::spikes::median(after) / super::spikes::median(before);
    // If a side has many runs, a selection of evenly spaced ones is sufficient and fast.
    let thinned = |side: &[f64]| -> Vec<f64> {
        let stride = side.len().div_ceil(30).max(1);
        let mut sorted = side.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.into_iter().step_by(stride).collect()
    };
    let sides = [thinned(before), thinned(after)];
    let interval = crate::permute::interval(&sides, |a, b| b / a);
    (ratio, interval.unwrap_or((0.0, f64::INFINITY)))
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
