//! The noise of a series: a level that wanders under the noise of single runs.
//!
//! The wandering level is a first-order autoregression. Together with independent noise it is an
//! ARMA(1,1) series (Granger and Morris, Journal of the Royal Statistical Society A 139, 1976). The
//! autocorrelation of neighbouring runs alone does not show such a level, because the noise hides it.

use super::fit::{dot, rest_of};

/// Autocorrelations of the level that are tried.
const PHIS: [f64; 12] = [
    0.0, 0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.87, 0.92, 0.95, 0.975, 0.99,
];

/// Shares of independent noise in the variance that are tried.
const SHARES: [f64; 7] = [0.0, 0.2, 0.4, 0.6, 0.75, 0.85, 0.92];

/// The correlation of the runs of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Noise {
    /// Factor of the previous value.
    phi: f64,
    /// Factor of the previous prediction error, from 0 to `phi`. Without independent noise it is 0.
    theta: f64,
}

impl Noise {
    /// Independent runs.
    pub(super) const NONE: Self = Self {
        phi: 0.0,
        theta: 0.0,
    };

    /// Returns a level with this autocorrelation, under noise with this share of the variance.
    fn new(phi: f64, share: f64) -> Self {
        // The moving average of the ARMA series has these autocovariances.
        let own = (1.0 - share) * (1.0 - phi * phi) + share * (1.0 + phi * phi);
        let ratio = phi * share / own;
        let theta = if ratio > 0.0 {
            (1.0 - (1.0 - 4.0 * ratio * ratio).max(0.0).sqrt()) / (2.0 * ratio)
        } else {
            0.0
        };
        Self { phi, theta }
    }

    /// Returns the most likely noise of these levels after a fit of these columns (restricted
    /// maximum likelihood: Patterson and Thompson, Biometrika 58, 1971).
    pub(super) fn of(levels: &[f64], columns: &[Vec<f64>]) -> Self {
        let free = levels.len() as f64 - columns.len() as f64;
        let each = PHIS.iter().flat_map(|phi| {
            let shares: &[f64] = if *phi > 0.0 { &SHARES } else { &SHARES[..1] };
            shares.iter().map(|share| Self::new(*phi, *share))
        });
        let unlikely = each.map(|noise| {
            let whitened = columns.iter().map(|column| noise.whitened(column));
            let (rest, lengths) = rest_of(&noise.whitened(levels), &whitened.collect::<Vec<_>>());
            let logs: f64 = lengths.iter().map(|length| 2.0 * length.ln()).sum();
            let left = dot(&rest, &rest).max(f64::MIN_POSITIVE);
            (free * left.ln() + noise.variance().ln() + logs, noise)
        });
        let best = unlikely.min_by(|a, b| a.0.total_cmp(&b.0));
        best.map_or(Self::NONE, |(_, noise)| noise)
    }

    /// Returns the variance, in units of the variance of a prediction error.
    fn variance(self) -> f64 {
        let Self { phi, theta } = self;
        (1.0 + theta * theta - 2.0 * phi * theta) / (1.0 - phi * phi)
    }

    /// Returns the prediction errors, which are independent and have equal variances.
    pub(super) fn whitened(self, values: &[f64]) -> Vec<f64> {
        let mut before: Option<(f64, f64)> = None;
        let each = values.iter().map(|value| {
            let (error, scale) = match before {
                None => (value / self.variance(), self.variance().sqrt()),
                Some((value_before, error)) => {
                    let error = value - self.phi * value_before + self.theta * error;
                    (error, 1.0)
                }
            };
            before = Some((*value, error));
            error * scale
        });
        each.collect()
    }

    /// Returns the correlation that lasts: 0 for independent runs, 1 for a random walk. Without
    /// independent noise it is the autocorrelation.
    pub(super) fn persistence(self) -> f64 {
        (self.phi - self.theta) / (1.0 - self.theta)
    }

    /// Returns the number of independent runs whose mean is as precise as that of this many runs.
    pub(super) fn independent(self, runs: f64) -> f64 {
        runs * self.variance() * (1.0 - self.persistence()).powi(2)
    }

    /// Returns the place of the step that explains most, at least `margin` runs from both ends, and
    /// its size divided by its standard error. `None` if there is none.
    pub(super) fn best(self, levels: &[f64], margin: usize) -> Option<(usize, f64)> {
        let runs = levels.len();
        let seen = self.whitened(levels);
        let ones = self.whitened(&vec![1.0; runs]);
        let [own, with, all] =
            [(&ones, &ones), (&ones, &seen), (&seen, &seen)].map(|(left, right)| dot(left, right));
        let around_mean = (all - with * with / own).max(0.0);
        // A step of 1 at run t gives the prediction errors `lasting + fading * theta^(run - t)`.
        let lasting = 1.0 - self.persistence();
        let fading = self.persistence();
        let (mut of_ones, mut of_seen) = (Sums::default(), Sums::default());
        let (mut squares, mut power) = (0.0, 1.0);
        let mut best = (0, 0.0);
        for at in (1..runs).rev() {
            of_ones.add(ones[at], self.theta);
            of_seen.add(seen[at], self.theta);
            squares += (lasting + fading * power).powi(2);
            power *= self.theta;
            if at < margin || runs - at < margin {
                continue;
            }
            let [with_ones, with_seen] =
                [of_ones, of_seen].map(|sums| lasting * sums.plain + fading * sums.faded);
            let width = squares - with_ones * with_ones / own;
            let size = with_seen - with_ones * with / own;
            let gain = size * size / width;
            if width > 1e-9 && gain > best.1 {
                best = (at, gain);
            }
        }
        let (at, gain) = best;
        let left = around_mean - gain;
        // The rest of levels that a step explains completely is a rounding error.
        let error = if left > 1e-12 * around_mean {
            left / (runs as f64 - 2.0)
        } else {
            0.0
        };
        (at > 0).then(|| (at, (gain / error).sqrt()))
    }
}

/// Sums over the runs from one run on.
#[derive(Clone, Copy, Default)]
struct Sums {
    plain: f64,
    /// Each run counts less than the one before it.
    faded: f64,
}

impl Sums {
    fn add(&mut self, value: f64, theta: f64) {
        self.plain += value;
        self.faded = value + theta * self.faded;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(runs: usize, at: usize) -> Vec<f64> {
        (0..runs)
            .map(|run| f64::from(u8::from(run >= at)))
            .collect()
    }

    /// The statistic of each place, by a fit of two columns.
    #[test]
    fn fast_statistic_is_that_of_a_fit() {
        let levels: Vec<f64> = (0..40)
            .map(|run| f64::from(run * run % 17) + if run >= 23 { 9.0 } else { 0.0 })
            .collect();
        for noise in [Noise::NONE, Noise::new(0.8, 0.0), Noise::new(0.9, 0.5)] {
            let seen = noise.whitened(&levels);
            let ones = noise.whitened(&[1.0; 40]);
            let left = |at: usize| {
                let columns = [ones.clone(), noise.whitened(&step(40, at))];
                let (rest, _) = rest_of(&seen, &columns);
                dot(&rest, &rest)
            };
            let at = (4..=36)
                .min_by(|a, b| left(*a).total_cmp(&left(*b)))
                .unwrap();
            let (mean, _) = rest_of(&seen, std::slice::from_ref(&ones));
            let gain = dot(&mean, &mean) - left(at);
            let statistic = (gain / (left(at) / 38.0)).sqrt();
            let found = noise.best(&levels, 4).unwrap();
            assert_eq!(found.0, at, "{noise:?}");
            assert!((found.1 - statistic).abs() < 1e-6, "{noise:?}: {found:?}");
        }
    }

    #[test]
    fn noise_does_not_hide_a_level() {
        // A level that changes each 40 runs, under alternating noise of the same size.
        let sign = |is: bool| if is { 1.0 } else { -1.0 };
        let level = |run: usize| sign((run / 40).is_multiple_of(2));
        let mut random = fastrand::Rng::with_seed(1);
        let single: Vec<f64> = (0..240).map(|_| sign(random.bool())).collect();
        let both: Vec<f64> = (0..240).map(|run| level(run) + single[run]).collect();
        let ones = [vec![1.0; 240]];
        assert!(Noise::of(&both, &ones).persistence() > 0.6);
        assert!(Noise::of(&single, &ones).persistence() < 0.2);
        let independent = Noise::of(&single, &ones).independent(240.0);
        assert!((150.0..=241.0).contains(&independent), "{independent}");
    }

    #[test]
    fn without_noise_it_is_an_autoregression() {
        let noise = Noise::new(0.8, 0.0);
        assert!((noise.persistence() - 0.8).abs() < 1e-9);
        assert!((noise.independent(90.0) - 10.0).abs() < 1e-9);
        // A level that hardly shows under the noise persists less.
        assert!(Noise::new(0.8, 0.9).persistence() < 0.5);
    }

    fn near(found: f64, expected: f64) {
        let apart = (found - expected).abs();
        assert!(apart < 1e-9, "{found} is not {expected}");
    }

    /// The noises of these tests, each with its autocorrelation and share of independent noise.
    fn each() -> impl Iterator<Item = (f64, f64, Noise)> {
        let phis = [0.3, 0.8, 0.95];
        let both = phis
            .into_iter()
            .flat_map(|phi| [0.0, 0.4, 0.85].map(|share| (phi, share)));
        both.map(|(phi, share)| (phi, share, Noise::new(phi, share)))
    }

    /// Independent noise lowers all correlations by the same factor, and the level decays by `phi`.
    /// An ARMA(1,1) series has the correlation (1 - phi theta)(phi - theta)/(1 + theta^2 - 2 phi theta)
    /// at distance 1.
    #[test]
    fn correlations_are_those_of_a_level_under_noise() {
        for (phi, share, noise) in each() {
            let Noise { phi: same, theta } = noise;
            assert!(same == phi && (0.0..=phi).contains(&theta), "{noise:?}");
            let next =
                (1.0 - phi * theta) * (phi - theta) / (1.0 + theta * theta - 2.0 * phi * theta);
            near(next, (1.0 - share) * phi);
        }
        assert_eq!(Noise::new(0.0, 0.0), Noise::NONE);
    }

    /// Each value is a sum of the prediction errors so far, with the weights 1, phi - theta,
    /// (phi - theta) phi and so on. The prediction from earlier values has the weights phi - theta,
    /// (phi - theta) theta and so on.
    #[test]
    fn variance_and_persistence_are_sums_of_weights() {
        for (phi, share, noise) in each() {
            let weights = |by: f64| {
                let first = phi - noise.theta;
                (0..2_000).map(move |lag| first * by.powi(lag))
            };
            near(
                noise.variance(),
                1.0 + weights(phi).map(|one| one * one).sum::<f64>(),
            );
            near(noise.persistence(), weights(noise.theta).sum());
            // The variance of a mean is increased by all correlations, before and after a run.
            let lasting: f64 = (0..2_000)
                .map(|lag| (1.0 - share) * phi * phi.powi(lag))
                .sum();
            near(noise.independent(50.0), 50.0 / (1.0 + 2.0 * lasting));
        }
        near(Noise::NONE.independent(50.0), 50.0);
    }

    /// The covariances of the prediction errors, from those of the values.
    #[test]
    fn whitened_values_are_not_correlated() {
        const RUNS: usize = 60;
        for (phi, share, noise) in each() {
            let covariance = |a: usize, b: usize| match a.abs_diff(b) as i32 {
                0 => noise.variance(),
                lag => noise.variance() * (1.0 - share) * phi.powi(lag),
            };
            let unit = |run: usize| -> Vec<f64> {
                (0..RUNS).map(|at| f64::from(u8::from(at == run))).collect()
            };
            let columns: Vec<Vec<f64>> = (0..RUNS).map(|run| noise.whitened(&unit(run))).collect();
            let of_errors = |a: usize, b: usize| -> f64 {
                let each = (0..RUNS).flat_map(|i| (0..RUNS).map(move |j| (i, j)));
                each.map(|(i, j)| columns[i][a] * covariance(i, j) * columns[j][b])
                    .sum()
            };
            near(of_errors(0, 0), 1.0);
            for (a, b) in [(0, 1), (0, 7), (40, 41), (40, 59), (3, 40)] {
                assert!(of_errors(a, b).abs() < 0.01, "{noise:?} {a} {b}");
            }
            if share == 0.0 {
                near(of_errors(5, 5), 1.0);
                near(of_errors(5, 6), 0.0);
            }
            let late = of_errors(59, 59);
            assert!((late - 1.0).abs() < 0.02, "{noise:?} {late}");
        }
        assert_eq!(Noise::NONE.whitened(&[3.0, 1.0, 2.0]), [3.0, 1.0, 2.0]);
        assert!(Noise::NONE.whitened(&[]).is_empty());
    }

    #[test]
    fn step_is_found_up_to_the_margin() {
        for noise in [Noise::NONE, Noise::new(0.6, 0.4)] {
            for at in [4, 5, 15, 25, 26] {
                let found = noise.best(&step(30, at), 4).unwrap();
                // Nothing is left, so the error is zero.
                assert_eq!(found, (at, f64::INFINITY), "{noise:?}");
                let down: Vec<f64> = step(30, at).iter().map(|one| 8.0 - one).collect();
                assert_eq!(noise.best(&down, 4).unwrap().0, at, "{noise:?}");
            }
            // Steps closer to an end are not searched.
            for (at, nearest) in [(3, 4), (27, 26)] {
                let found = noise.best(&step(30, at), 4).unwrap();
                assert!(found.0 == nearest && found.1.is_finite(), "{found:?}");
            }
            assert_eq!(noise.best(&step(7, 3), 4), None);
            assert_eq!(noise.best(&step(8, 4), 4).unwrap().0, 4);
        }
        assert_eq!(Noise::NONE.best(&[2.0; 30], 4), None);
    }

    /// An autoregression with known innovations, and a mean that is fitted with it.
    #[test]
    fn most_likely_noise_is_that_of_the_series() {
        for phi in [0.0, 0.6, 0.95] {
            let mut random = fastrand::Rng::with_seed(5);
            let mut level = 0.0;
            let levels: Vec<f64> = (0..800)
                .map(|_| {
                    level = phi * level + random.f64() - 0.5;
                    100.0 + level
                })
                .collect();
            let found = Noise::of(&levels, &[vec![1.0; 800]]);
            let apart = (found.persistence() - phi).abs();
            assert!(apart < 0.1, "{found:?} for {phi}");
        }
    }

    #[test]
    fn sums_fade_with_their_distance() {
        let mut sums = Sums::default();
        for value in [2.0, 3.0, 5.0] {
            sums.add(value, 0.5);
        }
        assert_eq!((sums.plain, sums.faded), (10.0, 5.0 + 1.5 + 0.5));
    }
}
