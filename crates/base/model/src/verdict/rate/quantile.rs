//! Bounds of counts: quantiles of the gamma distribution.

use statrs::function::gamma::checked_gamma_lr;

/// Up to this shape, the quantile is found by a search. Above it, an approximation is accurate to
/// 1e-4.
const SEARCHED: f64 = 1e5;

/// Returns the upper bound of the expected number of events if `count` were observed: chi2(1 -
/// error; 2k + 2)/2 for independent events (Garwood, Biometrika 1936). k and the bound are in units
/// of `dispersion`. `error` is the probability that the bound is wrong.
pub(super) fn upper(count: u64, dispersion: f64, error: f64) -> f64 {
    dispersion * gamma_quantile(1.0 - error, count as f64 / dispersion + 1.0)
}

/// Returns the lower bound of the expected number, chi2(error; 2k)/2 in the same units. 0 without
/// events.
pub(super) fn lower(count: u64, dispersion: f64, error: f64) -> f64 {
    match count {
        0 => 0.0,
        count => dispersion * gamma_quantile(error, count as f64 / dispersion),
    }
}

/// Returns the probability of at most `count` events if `expected` are expected.
pub(super) fn at_most(count: u64, expected: f64, dispersion: f64) -> f64 {
    let shape = count as f64 / dispersion + 1.0;
    if expected <= 0.0 {
        return 1.0;
    }
    1.0 - checked_gamma_lr(shape, expected / dispersion).unwrap_or(1.0)
}

/// Returns the `share` quantile of chi-squared with `freedom` degrees of freedom.
pub(super) fn chi_squared(share: f64, freedom: f64) -> f64 {
    2.0 * gamma_quantile(share, freedom / 2.0)
}

/// Returns the `share` quantile of a gamma distribution with this shape and scale 1.
fn gamma_quantile(share: f64, shape: f64) -> f64 {
    let normal = normal_quantile(share);
    // Wilson and Hilferty, PNAS 1931.
    let near = 1.0 - 1.0 / (9.0 * shape) + normal / (3.0 * shape.sqrt());
    let near = shape * near.max(0.0).powi(3);
    if shape > SEARCHED {
        return near;
    }
    let below = |value: f64| checked_gamma_lr(shape, value).unwrap_or(1.0) < share;
    let (mut low, mut high) = (0.0, 2.0 * near + 1.0);
    while below(high) {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if high - low <= 1e-12 * high {
            break;
        }
        if below(middle) {
            low = middle
        } else {
            high = middle
        }
    }
    high
}

fn normal_quantile(share: f64) -> f64 {
    -std::f64::consts::SQRT_2 * statrs::function::erf::erfc_inv(2.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, known: f64) {
        assert!((found / known - 1.0).abs() < 1e-5, "{found} is not {known}");
    }

    /// scipy.stats.chi2.ppf(0.95, 2*k + 2)/2 and scipy.stats.chi2.ppf(0.05, 2*k)/2
    #[test]
    fn bounds_are_those_of_the_tables() {
        for (count, known) in [(0, 2.995_732), (1, 4.743_865), (4, 9.153_519)] {
            near(upper(count, 1.0, 0.05), known);
        }
        assert!((upper(20, 1.0, 0.05) - 29.062).abs() < 1e-3);
        assert!((upper(10_000, 1.0, 0.05) / 10_166.18 - 1.0).abs() < 1e-4);
        for (count, known) in [(1, 0.051_293_3), (2, 0.355_361_5), (100, 84.139_277)] {
            near(lower(count, 1.0, 0.05), known);
        }
        assert_eq!(lower(0, 3.0, 0.05), 0.0);
        // scipy.stats.chi2.ppf(0.10, [7, 14, 29])
        near(chi_squared(0.10, 7.0), 2.833_107);
        near(chi_squared(0.10, 14.0), 7.789_534);
        near(chi_squared(0.10, 29.0), 19.767_744);
    }

    #[test]
    fn quantile_methods_join_without_step() {
        let both = [SEARCHED as u64 - 1, SEARCHED as u64 + 1];
        for of in [upper, lower] {
            let [below, above] = both.map(|count| of(count, 1.0, 0.05));
            assert!((above - below - 2.0).abs() < 0.1, "{below} {above}");
        }
        assert!(upper(u64::MAX, 1.0, 0.05).is_finite());
        // Clustered events count as fewer events, reduced by the dispersion.
        near(upper(30, 3.0, 0.05), 3.0 * upper(10, 1.0, 0.05));
    }

    /// The cumulative Poisson distribution.
    #[test]
    fn chance_of_at_most_so_many_events() {
        for (count, expected, known) in [
            (0, 1.0, 0.367_879_4),
            (2, 3.0, 0.423_190_1),
            (5, 1.0, 0.999_405_8),
        ] {
            near(at_most(count, expected, 1.0), known);
        }
        // Half as many independent events: exp(-3) * (1 + 3).
        near(at_most(2, 6.0, 2.0), 0.199_148_3);
        assert_eq!((at_most(0, 0.0, 1.0), at_most(3, -1.0, 1.0)), (1.0, 1.0));
        near(normal_quantile(0.975), 1.959_964);
        near(normal_quantile(0.05), -1.644_854);
    }
}
