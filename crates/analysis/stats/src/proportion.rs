//! Confidence intervals of counts.

use statrs::function::beta::checked_beta_reg;

/// Up to this count, the interval is calculated from the beta distribution. If both the count and
/// its complement are larger, Wilson's interval is the same to three digits.
const EXACT: u64 = 1_000;

/// Returns the 95% confidence interval of a share, given that `count` of `all` were observed
/// (Clopper and Pearson, Biometrika 26, 1934; for large counts Wilson, Journal of the American
/// Statistical Association 22, 1927). It is exact for independent events. `None` if `all` is zero
/// or less than `count`.
pub(crate) fn exact_interval(count: u64, all: u64) -> Option<(f64, f64)> {
    let others = all.checked_sub(count).filter(|_| all > 0)?;
    if others < count {
        let (low, high) = exact_interval(others, all)?;
        return Some((1.0 - high, 1.0 - low));
    }
    if count > EXACT {
        return Some(wilson(count as f64, all as f64));
    }
    let (seen, others) = (count as f64, others as f64);
    let low = match count {
        0 => 0.0,
        _ => beta_quantile(0.025, seen, others + 1.0)?,
    };
    let high = match count {
        // If there are no events, the bound has a closed form.
        0 => -f64::exp_m1(f64::ln(0.025) / others),
        _ => beta_quantile(0.975, seen + 1.0, others)?,
    };
    Some((low, high))
}

/// Returns the `share` quantile of the beta distribution by bisection to the last digit. The
/// function of statrs does not terminate for a large `b`.
fn beta_quantile(share: f64, a: f64, b: f64) -> Option<f64> {
    let (mut low, mut high) = (0.0, 1.0);
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return Some(middle);
        }
        if checked_beta_reg(a, b, middle).ok()? < share {
            low = middle
        } else {
            high = middle
        }
    }
}

fn wilson(seen: f64, all: f64) -> (f64, f64) {
    // The 97.5% quantile of the normal distribution, squared.
    const Z2: f64 = 1.959_963_984_540_054 * 1.959_963_984_540_054;
    let middle = (seen + Z2 / 2.0) / (all + Z2);
    let spread = seen * (all - seen) / all + Z2 / 4.0;
    let half = (Z2 * spread).sqrt() / (all + Z2);
    (middle - half, middle + half)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: Option<(f64, f64)>, low: f64, high: f64) {
        let (found_low, found_high) = found.unwrap();
        let close = |a: f64, b: f64| (a - b).abs() <= 2e-4 * b.abs();
        assert!(close(found_low, low), "{found_low} is not {low}");
        assert!(close(found_high, high), "{found_high} is not {high}");
    }

    #[test]
    fn it_is_what_tables_say() {
        // R: binom.test(5, 100)$conf.int, binom.test(1, 10)$conf.int.
        near(exact_interval(5, 100), 0.016_431_88, 0.112_834_9);
        near(exact_interval(1, 10), 0.002_528_579, 0.445_016_1);
        // None of 30: 1 - 0.025^(1/30); all of 30 is its mirror image.
        near(exact_interval(0, 30), 0.0, 0.115_703_3);
        let (low, high) = exact_interval(30, 30).unwrap();
        assert!((low - (1.0 - 0.115_703_3)).abs() < 1e-6 && high == 1.0);
        assert_eq!(exact_interval(0, 0), None);
        assert_eq!(exact_interval(2, 1), None);
    }

    /// The two methods agree at the transition.
    #[test]
    fn small_and_large_count_methods_agree() {
        for all in [2_500, 1_000_000, 1_000_000_000] {
            let (low, high) = exact_interval(EXACT, all).unwrap();
            let (wilson_low, wilson_high) = wilson(EXACT as f64, all as f64);
            let close = |a: f64, b: f64| (a - b).abs() < 2e-3 * b;
            assert!(close(low, wilson_low), "{all}: {low} {wilson_low}");
            assert!(close(high, wilson_high), "{all}: {high} {wilson_high}");
        }
    }

    /// Rare events of many are practically Poisson: for 10 observed, 4.795 to 18.39 could be
    /// expected (any table of the Poisson distribution).
    #[test]
    fn rare_proportions_keep_their_precision() {
        let all = 100_000_000;
        let (low, high) = exact_interval(10, all).unwrap();
        let expected = |share: f64| share * all as f64;
        assert!((expected(low) - 4.795).abs() < 0.01, "{}", expected(low));
        assert!((expected(high) - 18.39).abs() < 0.01, "{}", expected(high));
        let (_, high) = exact_interval(0, all).unwrap();
        assert!((expected(high) - 3.689).abs() < 0.01, "{}", expected(high));
    }

    /// The score interval of 5,000 of 20,000 by hand: the middle is (5000 + z^2/2)/(20000 + z^2), and
    /// half of the width is z sqrt(5000 * 0.75 + z^2/4)/(20000 + z^2), with z^2 = 3.841459.
    #[test]
    fn large_counts_have_the_score_interval() {
        let [low, high] = [0.244_047_254, 0.256_048_766];
        let found = wilson(5_000.0, 20_000.0);
        assert!(
            (found.0 - low).abs() < 1e-8 && (found.1 - high).abs() < 1e-8,
            "{found:?}"
        );
        assert_eq!(exact_interval(5_000, 20_000), Some(found));
        let mirrored = exact_interval(15_000, 20_000).unwrap();
        assert!(
            (mirrored.0 - (1.0 - high)).abs() < 1e-8 && (mirrored.1 - (1.0 - low)).abs() < 1e-8
        );
        // Three of five: far from the normal approximation.
        let (low, high) = wilson(3.0, 5.0);
        assert!(
            (low - 0.230_7).abs() < 1e-4 && (high - 0.882_4).abs() < 1e-4,
            "{low} {high}"
        );
    }

    /// At the lower end, at least this count has a probability of 2.5%, and at the upper end, at most
    /// this count.
    #[test]
    fn ends_are_where_the_count_becomes_rare() {
        let at_most = |count: u64, all: u64, share: f64| {
            let mut each = (1.0 - share).powi(all as i32);
            let mut sum = 0.0;
            for smaller in 0..=count {
                sum += each;
                each *= share / (1.0 - share) * (all - smaller) as f64 / (smaller + 1) as f64;
            }
            sum
        };
        for (count, all) in [
            (1, 7),
            (3, 6),
            (2, 90),
            (17, 40),
            (30, 40),
            (39, 40),
            (0, 12),
        ] {
            let (low, high) = exact_interval(count, all).unwrap();
            let at_least = count
                .checked_sub(1)
                .map_or(1.0, |below| 1.0 - at_most(below, all, low));
            assert!(
                (at_most(count, all, high) - 0.025).abs() < 1e-9,
                "{count} {all}"
            );
            assert!(
                count == 0 || (at_least - 0.025).abs() < 1e-9,
                "{count} {all}: {at_least}"
            );
            assert!(low < count as f64 / all as f64 || count == 0);
        }
        assert_eq!(exact_interval(0, 12).unwrap().0, 0.0);
        assert_eq!(exact_interval(12, 12).unwrap().1, 1.0);
    }
}
