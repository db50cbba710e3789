//! Experiments on one variable: pairs of blocks in random order.
//!
//! The data are counts of events in blocks of two states that are measured alternately. Chance
//! decides which block of a pair comes first. The tests assume nothing about the distribution of
//! events, not even that blocks are independent. The random order alone makes them valid, as long
//! as one block does not affect the next (carry-over).

use std::cmp::Ordering;

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};

/// The events in a pair of blocks: baseline and candidate.
pub type PairCounts = (u64, u64);

/// The smallest number of pairs that can give p < 0.05 in a randomisation test.
pub const LEAST_PAIRS: usize = 6;

/// Up to this many pairs, all combinations of signs are enumerated, which is about a million.
const EXACT: usize = 20;

/// Number of random combinations of signs that are drawn if there are more pairs.
const DRAWS: u32 = 100_000;

/// Wealth at which a sequential experiment stops. If there is no difference, the chance of reaching
/// it is at most 5%.
pub const WEALTH_DECIDES: f64 = 20.0;

/// Returns the probability that such a difference occurs by chance, from the two-sided sign-flip
/// randomisation test on (b - a)/sqrt(a + b). For up to 20 pairs with events, the result is exact.
/// For more pairs, it is calculated from 100,000 random combinations of signs, drawn from `seed`.
/// It is 1 if there are no events.
pub fn sign_flip(pairs: &[PairCounts], seed: u64) -> f64 {
    let scores: Vec<f64> = (pairs.iter())
        .filter(|(a, b)| a != b)
        .map(|(a, b)| {
            let (a, b) = (*a as f64, *b as f64);
            (b - a) / (a + b).sqrt()
        })
        .collect();
    let found = scores.iter().sum::<f64>().abs() * (1.0 - 1e-12);
    if scores.is_empty() {
        return 1.0;
    }
    if scores.len() <= EXACT {
        let ways = 1u64 << scores.len();
        let sum = |signs: u64| -> f64 {
            let each = scores.iter().enumerate();
            each.map(|(place, score)| match signs >> place & 1 {
                0 => *score,
                _ => -score,
            })
            .sum()
        };
        let as_far = (0..ways).filter(|signs| sum(*signs).abs() >= found).count();
        return as_far as f64 / ways as f64;
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let mut as_far = 0u32;
    for _ in 0..DRAWS {
        let sum: f64 = (scores.iter())
            .map(|score| if random.bool() { *score } else { -score })
            .sum();
        as_far += u32::from(sum.abs() >= found);
    }
    f64::from(as_far + 1) / f64::from(DRAWS + 1)
}

/// Returns the sign of the sum of (b - a)/sqrt(a + b), the statistic of [`sign_flip`]. `Greater` if
/// the candidate has more events.
pub fn direction(pairs: &[PairCounts]) -> Ordering {
    let sum: f64 = (pairs.iter())
        .filter(|(a, b)| a != b)
        .map(|(a, b)| {
            let (a, b) = (*a as f64, *b as f64);
            (b - a) / (a + b).sqrt()
        })
        .sum();
    side(sum, 0.0)
}

fn side(one: f64, other: f64) -> Ordering {
    if (one - other).abs() <= 1e-9 * (one.abs() + other.abs()) {
        Ordering::Equal
    } else {
        one.total_cmp(&other)
    }
}

/// Returns the wealth of a bettor on a difference in either direction, who starts with 1: the mean
/// over stakes of the product of 1 + stake * (b - a)/(a + b) (Waudby-Smith and Ramdas, Journal of
/// the Royal Statistical Society B 86, 2024). If there is no difference, the chance that the wealth
/// ever reaches [`WEALTH_DECIDES`] is at most 5%.
pub fn wealth(pairs: &[PairCounts]) -> f64 {
    let [fewer, more] = bets(pairs);
    (fewer + more) / 2.0
}

/// Returns the direction of the [`wealth`]: `Greater` if the candidate has more events.
pub fn wealth_direction(pairs: &[PairCounts]) -> Ordering {
    let [fewer, more] = bets(pairs);
    side(more, fewer)
}

/// Returns the wealth of bets that the candidate has fewer events, and that it has more.
fn bets(pairs: &[PairCounts]) -> [f64; 2] {
    const STAKES: u32 = 19;
    let outcomes = || {
        let with_events = pairs.iter().filter(|(a, b)| a + b > 0);
        with_events.map(|(a, b)| (*b as f64 - *a as f64) / (a + b) as f64)
    };
    let of_stake = |stake: f64| -> f64 { outcomes().map(|s| 1.0 + stake * s).product() };
    [-1.0, 1.0].map(|side| {
        let stakes = (1..=STAKES).map(|nth| side * f64::from(nth) / f64::from(STAKES + 1));
        stakes.map(of_stake).sum::<f64>() / f64::from(STAKES)
    })
}

/// The ratio of two rates, candidate to baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The observed ratio.
    pub found: f64,
    /// Lower end of its confidence interval.
    pub low: f64,
    /// Upper end of its confidence interval.
    pub high: f64,
    /// Ratio of the variance of the counts to that of independent events, at least 1.
    pub dispersion: f64,
}

/// Returns the ratio of the rates with its two-sided interval at this `confidence` (0 to 1). The
/// interval is normal in the logarithm, widened by the dispersion of the pairs, with the t
/// distribution. If a few blocks contain most of the events, the interval is widened to include all
/// ratios that the sign-flip test does not reject. `None` if there are fewer than two pairs, or if
/// a side has no events.
pub fn ratio(pairs: &[PairCounts], confidence: f64) -> Option<Ratio> {
    let sum = |of: fn(&PairCounts) -> u64| pairs.iter().map(of).sum::<u64>() as f64;
    let (a, b) = (sum(|pair| pair.0), sum(|pair| pair.1));
    let freedom = pairs.len() as f64 - 1.0;
    if a == 0.0 || b == 0.0 || freedom < 1.0 {
        return None;
    }
    let found = b / a;
    let square: f64 = (pairs.iter())
        .filter(|(a, b)| a + b > 0)
        .map(|(a, b)| {
            let (a, b) = (*a as f64, *b as f64);
            (b - found * a).powi(2) / (found * (a + b))
        })
        .sum();
    let dispersion = (square / freedom).max(1.0);
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let wide = t.inverse_cdf(0.5 + confidence / 2.0) * (dispersion * (1.0 / a + 1.0 / b)).sqrt();
    let limit = |outwards: f64| {
        let by_t = found * (outwards * wide).exp();
        widened(pairs, by_t, outwards, 1.0 - confidence)
    };
    Some(Ratio {
        found,
        low: limit(-1.0),
        high: limit(1.0),
        dispersion,
    })
}

/// Moves a limit of the ratio `outwards` (-1 or 1) to the value at which the sign-flip test rejects
/// it. Leaves it unchanged if the test already rejects it, or if there are too few pairs to reject
/// any ratio.
fn widened(pairs: &[PairCounts], limit: f64, outwards: f64, chance: f64) -> f64 {
    const STEPS: u32 = 12;
    let accepts = |times: f64| is_accepted(pairs, times, chance);
    if pairs.len() < LEAST_PAIRS || !accepts(limit) {
        return limit;
    }
    let step = (outwards * 0.4).exp();
    let (mut inside, mut outside) = (limit, limit * step);
    for _ in 0..STEPS {
        if !accepts(outside) {
            break;
        }
        (inside, outside) = (outside, outside * step);
    }
    for _ in 0..6 {
        let middle = (inside * outside).sqrt();
        if accepts(middle) {
            inside = middle
        } else {
            outside = middle
        }
    }
    outside
}

/// Returns whether the sign-flip test on (b - times a)/sqrt(a + b) accepts a ratio. Up to 11 pairs,
/// all combinations of signs are used; with more pairs, 2,000 random ones from a fixed seed.
fn is_accepted(pairs: &[PairCounts], times: f64, chance: f64) -> bool {
    const ALL: usize = 11;
    const SOME: u64 = 2_000;
    let with_events = pairs.iter().filter(|(a, b)| a + b > 0);
    let scores: Vec<f64> = with_events
        .map(|(a, b)| (*b as f64 - times * *a as f64) / ((a + b) as f64).sqrt())
        .collect();
    let found = scores.iter().sum::<f64>().abs() * (1.0 - 1e-12);
    let mut random = fastrand::Rng::with_seed(1);
    let ways = match scores.len() {
        few @ 0..=ALL => 1 << few,
        _ => SOME,
    };
    let mut as_far = 0u64;
    for way in 0..ways {
        let sum: f64 = if scores.len() <= ALL {
            (scores.iter().enumerate())
                .map(|(place, score)| {
                    if way >> place & 1 == 0 {
                        *score
                    } else {
                        -score
                    }
                })
                .sum()
        } else {
            (scores.iter())
                .map(|score| if random.bool() { *score } else { -score })
                .sum()
        };
        as_far += u64::from(sum.abs() >= found);
    }
    as_far as f64 / ways as f64 >= chance
}

/// Returns whether the rates are proven to be equal within 0.8 to 1.25 (two one-sided tests of 5%:
/// Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15, 1987).
pub fn equivalent(pairs: &[PairCounts]) -> bool {
    pairs.len() >= LEAST_PAIRS
        && ratio(pairs, 0.9).is_some_and(|ratio| ratio.low >= 0.8 && ratio.high <= 1.25)
}

/// Returns the total number of events on both sides with which a rate `times` as high is detected
/// in 80% of the experiments, at 5%: 77 for 2, 210 for 1.5, 35 for 3. This is the exact number from
/// the binomial distribution above which the power stays above 80%, times the dispersion. `None` if
/// more than 100,000 are needed, or `times` is 1 or not above 0.
pub fn events_needed(times: f64, dispersion: f64) -> Option<u64> {
    const MOST: u64 = 100_000;
    if times <= 0.0 || !times.is_finite() || (times.ln()).abs() < 0.02 {
        return None;
    }
    let share = times / (1.0 + times);
    // The search starts at a number well above the normal approximation, beyond the last dip in
    // power.
    let normal = 7.849 * (1.0 + times).powi(2) / times / times.ln().powi(2);
    let from = ((1.5 * normal) as u64 + 20).min(MOST);
    let enough = |events: &u64| power(*events, share) >= 0.8;
    let mut needed = None;
    for events in (5..=from).rev() {
        if enough(&events) {
            needed = Some(events)
        } else {
            break;
        }
    }
    Some((needed? as f64 * dispersion.max(1.0)).ceil() as u64)
}

/// Returns the probability that a count is as far from its expectation as `count` of `all` is, if
/// each of them counts with the probability `share`: twice the smaller tail of the binomial
/// distribution. Returns 1 if `all` is 0.
pub fn binomial_p(count: u64, all: u64, share: f64) -> f64 {
    let Ok(law) = Binomial::new(share, all) else {
        return 1.0;
    };
    if all == 0 {
        return 1.0;
    }
    let above = count.checked_sub(1).map_or(1.0, |below| law.sf(below));
    (2.0 * law.cdf(count).min(above)).min(1.0)
}

/// Returns the power of a binomial test at 5% to detect that the candidate has `share` of `events`
/// instead of half.
fn power(events: u64, share: f64) -> f64 {
    let (Ok(even), Ok(uneven)) = (Binomial::new(0.5, events), Binomial::new(share, events)) else {
        return 0.0;
    };
    // Finds the largest count below half that is still rare.
    let rare = |count: &u64| even.cdf(*count) <= 0.025;
    let (mut low, mut high) = (0, events / 2);
    if !rare(&0) {
        return 0.0;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if rare(&middle) {
            low = middle
        } else {
            high = middle
        }
    }
    uneven.cdf(low) + 1.0 - uneven.cdf(events - low - 1)
}

#[cfg(test)]
mod tests;
