//! Exact bounds of the Poisson distribution, for events that were counted.

/// The confidence of all bounds, one-sided.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// Up to this many events the terms are summed.
const EXACT: u64 = 1_000_000;

/// With 95% confidence no more than this many events are expected in a time in
/// which `count` were seen: the mean at which so few have a chance of 5%
/// (chi2(0.95; 2k + 2)/2; Garwood, Biometrika 1936). 3.00 for none.
pub fn poisson_upper(count: u64) -> f64 {
    if count > EXACT {
        // Wilson and Hilferty, PNAS 1931; 1.645: the normal quantile of 95%.
        let k = count as f64 + 1.0;
        return k * (1.0 - 1.0 / (9.0 * k) + 1.644_854 / (3.0 * k.sqrt())).powi(3);
    }
    let k = count as f64;
    let (mut low, mut high) = (k, k + 4.0 * (k + 1.0).sqrt() + 4.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        match at_most(k, middle) > 1.0 - CONFIDENCE {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// With 95% confidence at least so many events are expected in a time in which `count`
/// were seen: the mean at which so many have a chance of 5% (chi2(0.05; 2k)/2). 0 for
/// none.
pub fn poisson_lower(count: u64) -> f64 {
    if count == 0 {
        return 0.0;
    }
    if count > EXACT {
        let k = count as f64;
        return k * (1.0 - 1.0 / (9.0 * k) - 1.644_854 / (3.0 * k.sqrt())).powi(3);
    }
    let (mut low, mut high) = (0.0, count as f64);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        match poisson_at_least(count, middle) < 1.0 - CONFIDENCE {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

/// The chance of `count` events or more where `mean` are expected. Of more than
/// a million it is the chance of a million or more, which is not less.
pub fn poisson_at_least(count: u64, mean: f64) -> f64 {
    match count.min(EXACT) {
        0 => 1.0,
        count => 1.0 - at_most(count as f64 - 1.0, mean),
    }
}

/// The chance of `count` events or fewer.
fn at_most(count: f64, mean: f64) -> f64 {
    if mean <= 0.0 {
        return 1.0;
    }
    // From the largest term down, so that nothing underflows that counts.
    let (mut term, mut sum, mut k) = (1.0, 1.0, count);
    while k > 0.0 && (term > sum * 1e-17 || k > mean) {
        term *= k / mean;
        sum += term;
        k -= 1.0;
    }
    let log = count * mean.ln() - mean - ln_factorial(count) + f64::ln(sum);
    log.exp().min(1.0)
}

/// ln(k!), by Stirling's series from 20 on.
fn ln_factorial(k: f64) -> f64 {
    if k < 20.0 {
        return (2..=k as u64).map(|n| (n as f64).ln()).sum();
    }
    let square = k * k;
    k * k.ln() - k
        + 0.5 * (2.0 * std::f64::consts::PI * k).ln()
        + 1.0 / (12.0 * k) * (1.0 - 1.0 / (30.0 * square) * (1.0 - 2.0 / (7.0 * square)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_bounds_are_those_of_the_tables() {
        // chi2(0.95; 2k + 2)/2.
        let table = [2.995_73, 4.743_86, 6.295_79, 7.753_66, 9.153_52];
        for (count, known) in (0..).zip(table) {
            let bound = poisson_upper(count);
            assert!((bound - known).abs() < 1e-4, "{count}: {bound}");
        }
        // scipy.stats.chi2.ppf(0.95, 2k + 2)/2
        for (count, known) in [(20, 29.062), (100, 118.079), (10_000, 10_166.18)] {
            let bound = poisson_upper(count);
            assert!((bound / known - 1.0).abs() < 1e-3, "{count}: {bound}");
        }
        let both_ways = [EXACT, EXACT + 1].map(poisson_upper);
        assert!(
            (both_ways[1] - both_ways[0] - 1.0).abs() < 0.1,
            "{both_ways:?}"
        );
        assert!(poisson_upper(u64::MAX).is_finite());
    }

    /// scipy.stats.chi2.ppf(0.05, 2*k)/2
    #[test]
    fn the_lower_bounds_are_those_of_the_tables() {
        for (count, known) in [
            (0, 0.0),
            (1, 0.051_293_3),
            (2, 0.355_361_5),
            (5, 1.970_149_6),
            (100, 84.139_277),
        ] {
            let bound = poisson_lower(count);
            assert!((bound - known).abs() <= 1e-6 * known, "{count}: {bound}");
        }
        let both_ways = [EXACT, EXACT + 1].map(poisson_lower);
        assert!((both_ways[1] - both_ways[0] - 1.0).abs() < 0.1);
    }

    #[test]
    fn chances_are_those_of_the_tables() {
        for (count, mean, known) in [
            (1, 0.0027, 0.002_696),
            (4, 1.0, 0.018_988),
            (3, 1.0, 0.080_301),
            (0, 5.0, 1.0),
            (30, 20.0, 0.021_818),
        ] {
            let chance = poisson_at_least(count, mean);
            assert!((chance - known).abs() < 1e-5, "{count} of {mean}: {chance}");
        }
    }
}
