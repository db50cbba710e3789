//! Tests whether a sequence of counts is stationary. A tail can be fitted only if counts neither
//! depend on the past nor change their level.

use statrs::distribution::{ChiSquared, ContinuousCDF};

/// The critical value of KPSS for a level, at 5% (Kwiatkowski, Phillips, Schmidt and Shin,
/// Journal of Econometrics 54, 1992, table 1).
const KPSS: f64 = 0.463;

/// Returns the probability that independent counts show correlations as large as these counts do at
/// the first `lags` lags (Ljung and Box, Biometrika 65, 1978). Returns 1 for equal counts.
pub(super) fn ljung_box(counts: &[f64], lags: usize) -> f64 {
    let number = counts.len() as f64;
    let mean = counts.iter().sum::<f64>() / number.max(1.0);
    let apart: Vec<f64> = counts.iter().map(|count| count - mean).collect();
    let square: f64 = apart.iter().map(|one| one * one).sum();
    let lags = lags.min(counts.len().saturating_sub(1));
    if square == 0.0 || lags == 0 {
        return 1.0;
    }
    let each = (1..=lags).map(|lag| {
        let both = apart.iter().zip(&apart[lag..]);
        let correlation = both.map(|(a, b)| a * b).sum::<f64>() / square;
        correlation * correlation / (number - lag as f64)
    });
    let statistic = number * (number + 2.0) * each.sum::<f64>();
    ChiSquared::new(lags as f64).map_or(1.0, |law| law.sf(statistic))
}

/// Returns whether counts keep their level, by the KPSS test at 5%.
pub(super) fn keeps_level(counts: &[f64]) -> bool {
    kpss(counts) < KPSS
}

/// Returns the KPSS statistic, with Bartlett weights over 4 (n/100)^(1/4) lags.
fn kpss(counts: &[f64]) -> f64 {
    let number = counts.len() as f64;
    let mean = counts.iter().sum::<f64>() / number.max(1.0);
    let apart: Vec<f64> = counts.iter().map(|count| count - mean).collect();
    let lags = (4.0 * (number / 100.0).powf(0.25)) as usize;
    let square: f64 = apart.iter().map(|one| one * one).sum();
    let weighted = (1..=lags.min(apart.len().saturating_sub(1))).map(|lag| {
        let weight = 1.0 - lag as f64 / (lags as f64 + 1.0);
        let both = apart.iter().zip(&apart[lag..]);
        2.0 * weight * both.map(|(a, b)| a * b).sum::<f64>()
    });
    let variance = (square + weighted.sum::<f64>()) / number;
    if variance <= 0.0 {
        return 0.0;
    }
    let (mut sum, mut squares) = (0.0, 0.0);
    for one in apart {
        sum += one;
        squares += sum * sum;
    }
    squares / (number * number * variance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_correlations_are_seen() {
        let mut random = fastrand::Rng::with_seed(3);
        let flat: Vec<f64> = (0..200).map(|_| random.f64()).collect();
        assert!(keeps_level(&flat) && ljung_box(&flat, 10) > 0.05);
        let drifting: Vec<f64> = (0..200)
            .map(|n| f64::from(n) / 50.0 + random.f64())
            .collect();
        assert!(!keeps_level(&drifting) && ljung_box(&drifting, 10) < 0.001);
        // 1, 2, 3, 4: autocorrelation 0.25 at lag 1, Q = 4 * 6 * 0.0625 / 3 = 0.5.
        let p = ljung_box(&[1.0, 2.0, 3.0, 4.0], 1);
        assert!((p - 0.4795).abs() < 0.001, "{p}");
        assert_eq!(ljung_box(&[2.0; 9], 3), 1.0);
        assert!(keeps_level(&[2.0; 9]));
        // One lag with the weight 1/2, variance 1.5625, sums -1.5, -2, -1.5 and 0: 8.5/(16 * 1.5625).
        let statistic = kpss(&[1.0, 2.0, 3.0, 4.0]);
        assert!((statistic - 0.34).abs() < 1e-12, "{statistic}");
    }

    /// With two lags, the chi-squared distribution is exp(-Q/2).
    #[test]
    fn correlations_at_all_lags_count() {
        for (counts, statistic) in [
            // Deviations -2, 0, -1, 2, 1: correlations 0 and 0.1.
            ([1.0, 3.0, 2.0, 5.0, 4.0], 35.0 * 0.01 / 3.0),
            // Deviations -2, -1, 0, 2, 1: correlations 0.4 and -0.2.
            ([1.0, 2.0, 3.0, 5.0, 4.0], 35.0 * (0.16 / 4.0 + 0.04 / 3.0)),
        ] {
            let p = ljung_box(&counts, 2);
            assert!((p - f64::exp(-statistic / 2.0)).abs() < 1e-9, "{p}");
            // There are only four lags.
            assert_eq!(ljung_box(&counts, 4), ljung_box(&counts, 9));
        }
        assert_eq!(
            (
                ljung_box(&[], 3),
                ljung_box(&[4.0], 3),
                ljung_box(&[1.0, 2.0], 0)
            ),
            (1.0, 1.0, 1.0)
        );
    }

    #[test]
    fn level_is_tested_with_the_textbook_weights() {
        // Deviations -2, -1, 0, 2, 1 and one lag: (10 + 4)/5, sums -2, -3, -3, -1, 0.
        let statistic = kpss(&[1.0, 2.0, 3.0, 5.0, 4.0]);
        assert!(
            (statistic - 23.0 / (25.0 * 2.8)).abs() < 1e-12,
            "{statistic}"
        );
        // Deviations -3, 0, -2, 4, 1, 3, -3 and two lags with the weights 2/3 and 1/3.
        let variance = (48.0 - 2.0 * 10.0 * 2.0 / 3.0 + 2.0 * 13.0 / 3.0) / 7.0;
        let statistic = kpss(&[1.0, 4.0, 2.0, 8.0, 5.0, 7.0, 1.0]);
        assert!(
            (statistic - 53.0 / (49.0 * variance)).abs() < 1e-12,
            "{statistic}"
        );
        assert_eq!(kpss(&[3.0]), 0.0);
        // Mixed counts keep their level. A late step does not, and neither does an early one.
        let of = |is_high: fn(u32) -> bool| -> Vec<f64> {
            (0..60).map(|n| f64::from(u8::from(is_high(n)))).collect()
        };
        assert!(keeps_level(&of(|n| n * 7 % 11 < 5)));
        assert!(!keeps_level(&of(|n| n >= 40)) && !keeps_level(&of(|n| n >= 20)));
    }
}
