//! How small a p-value must be among many, so that few of the findings are false.

/// Factor for comparisons with limits, which makes them tolerate rounding errors.
const NEARLY: f64 = 1.0 + 1e-9;

/// Returns the largest p-value that counts as a finding. On average, at most this share of the
/// findings is false (Benjamini and Hochberg, Journal of the Royal Statistical Society B 57, 1995).
/// `tests` is the number of all p-values; p-values that are not listed are 1. Returns 0 without a
/// finding. If there is nothing to find, `share` is also the probability of any finding.
pub fn limit(mut listed: Vec<f64>, tests: usize, share: f64) -> f64 {
    listed.sort_by(f64::total_cmp);
    let limits = listed.iter().enumerate().map(|(place, p)| {
        let limit = share * (place + 1) as f64 / tests.max(1) as f64;
        (*p, limit * NEARLY)
    });
    limits
        .filter(|(p, limit)| p <= limit)
        .map(|(_, limit)| limit)
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the paper: 15 p-values at 5% have 4 findings.
    #[test]
    fn findings_are_those_of_the_paper() {
        let paper = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let limit_of = |listed: &[f64]| limit(listed.to_vec(), 15, 0.05);
        let found = |listed: &[f64]| {
            let limit = limit_of(listed);
            listed.iter().filter(|p| **p <= limit).count()
        };
        assert_eq!(found(&paper), 4);
        // The p-values that are not listed only matter by their number.
        assert_eq!(found(&paper[..9]), 4);
        assert_eq!(limit_of(&paper[9..]), 0.0);
        assert_eq!(limit(Vec::new(), 0, 0.05), 0.0);
    }

    /// Limits of 0.05 times 1/4, 2/4 and so on.
    #[test]
    fn limit_is_that_of_the_last_finding() {
        let cases: [(&[f64], f64); 6] = [
            (&[0.01, 0.02, 0.03, 0.9], 0.0375),
            (&[0.9, 0.03, 0.01, 0.02], 0.0375),
            // The third is below its limit, although the second is not below its own.
            (&[0.01, 0.03, 0.035, 0.9], 0.0375),
            (&[0.0125], 0.0125),
            (&[0.0126], 0.0),
            (&[0.05, 0.05, 0.05, 0.05], 0.05),
        ];
        for (listed, expected) in cases {
            let found = limit(listed.to_vec(), 4, 0.05);
            assert!((found - expected).abs() < 1e-9, "{listed:?}: {found}");
        }
        // Rounding does not lose a finding: 0.3 * 1/3 is a little less than 0.1.
        assert!(limit(vec![0.1], 3, 0.3) >= 0.1);
        assert!((limit(vec![0.2], 0, 0.25) - 0.25).abs() < 1e-9);
    }
}
