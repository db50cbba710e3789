//! The generalised Pareto distribution, fitted to excesses over a threshold by maximum likelihood
//! (Grimshaw, Technometrics 35, 1993, which reduces the search to one parameter).

/// A generalised Pareto distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpd {
    /// Scale, in the unit of the excesses.
    pub scale: f64,
    /// Shape: negative for a tail with an upper end, positive for a heavy tail.
    pub shape: f64,
    /// The logarithm of the likelihood.
    pub log_likelihood: f64,
}

/// If the absolute value of the shape is below this, the distribution counts as exponential.
const FLAT: f64 = 1e-6;

/// The smallest shape that is searched. For smaller shapes, the likelihood has no maximum.
const LEAST_SHAPE: f64 = -0.5;

/// Fits a distribution to excesses, which must all be above 0. `None` if there are fewer than ten.
pub fn fit(excesses: &[f64]) -> Option<Gpd> {
    let largest = excesses.iter().copied().fold(0.0, f64::max);
    let usable = excesses.len() >= 10 && excesses.iter().all(|x| *x > 0.0 && x.is_finite());
    if !usable {
        return None;
    }
    // theta = shape / scale, above -1 / largest. `s` is unbounded.
    let theta = |s: f64| (s.exp() - 1.0) / largest;
    let value = |s: f64| at(excesses, theta(s)).map_or(f64::NEG_INFINITY, |one| one.log_likelihood);
    let (low, high, steps) = (-6.0, 7.0, 52u32);
    let place = |step: u32| low + (high - low) * f64::from(step) / f64::from(steps);
    let best = (0..=steps).max_by(|a, b| value(place(*a)).total_cmp(&value(place(*b))))?;
    let (mut left, mut right) = (place(best.saturating_sub(1)), place((best + 1).min(steps)));
    // Golden section.
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    for _ in 0..48 {
        let (a, b) = (
            right - golden * (right - left),
            left + golden * (right - left),
        );
        if value(a) < value(b) {
            left = a
        } else {
            right = b
        }
    }
    at(excesses, theta((left + right) / 2.0))
}

/// Returns the best distribution with this ratio of shape to scale.
fn at(excesses: &[f64], theta: f64) -> Option<Gpd> {
    let number = excesses.len() as f64;
    let mean = excesses.iter().sum::<f64>() / number;
    let shape = excesses.iter().map(|x| (theta * x).ln_1p()).sum::<f64>() / number;
    if !shape.is_finite() || shape < LEAST_SHAPE {
        return None;
    }
    let scale = if shape.abs() < FLAT {
        mean
    } else {
        shape / theta
    };
    Some(Gpd {
        scale,
        shape,
        log_likelihood: -number * (scale.ln() + shape + 1.0),
    })
}

impl Gpd {
    /// Returns the probability that an excess is at most `x`.
    pub fn cdf(&self, x: f64) -> f64 {
        1.0 - self.survival(x)
    }

    fn survival(&self, x: f64) -> f64 {
        if self.shape.abs() < FLAT {
            (-x / self.scale).exp()
        } else {
            (1.0 + self.shape * x / self.scale)
                .max(0.0)
                .powf(-1.0 / self.shape)
        }
    }

    /// Returns the excess that is exceeded once in `number` on average.
    pub fn level(&self, number: f64) -> f64 {
        if self.shape.abs() < FLAT {
            self.scale * number.ln()
        } else {
            self.scale / self.shape * (number.powf(self.shape) - 1.0)
        }
    }

    /// Draws a random excess.
    pub(super) fn draw(&self, random: &mut fastrand::Rng) -> f64 {
        self.level(1.0 / (1.0 - random.f64()).max(1e-300))
            .max(f64::MIN_POSITIVE)
    }

    /// Returns the statistic of Cramér and von Mises. `sorted` must be in ascending order.
    pub(super) fn distance(&self, sorted: &[f64]) -> f64 {
        let number = sorted.len() as f64;
        let each = sorted
            .iter()
            .enumerate()
            .map(|(place, x)| (self.cdf(*x) - (2.0 * place as f64 + 1.0) / (2.0 * number)).powi(2));
        each.sum::<f64>() + 1.0 / (12.0 * number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Daily rainfall above 30 mm from Coles, "An Introduction to Statistical Modeling of Extreme
    /// Values" (2001), section 4.4.1 (data set `rain` of the R package ismev).
    const RAIN: [f64; 152] = [
        31.8, 32.5, 31.8, 44.5, 30.5, 43.2, 35.6, 38.1, 32.0, 31.8, 33.0, 39.1, 30.5, 31.8, 32.3,
        33.0, 30.5, 32.5, 48.5, 35.3, 40.6, 30.5, 34.3, 32.8, 30.5, 45.7, 31.8, 33.5, 33.5, 31.8,
        34.8, 35.3, 37.8, 76.7, 32.3, 34.0, 33.8, 36.6, 30.5, 45.7, 86.6, 35.6, 47.8, 47.5, 34.3,
        48.5, 30.7, 43.4, 59.4, 35.1, 53.3, 33.5, 30.5, 30.2, 40.9, 42.7, 83.3, 54.9, 59.2, 31.8,
        37.3, 32.5, 34.0, 67.3, 31.2, 30.2, 36.1, 36.8, 38.4, 31.0, 33.3, 47.0, 32.0, 33.0, 38.1,
        30.5, 72.4, 34.3, 37.1, 33.0, 40.9, 39.9, 47.0, 36.3, 30.5, 30.5, 55.9, 31.8, 51.3, 85.3,
        41.9, 30.5, 33.0, 35.6, 55.9, 44.2, 38.1, 34.3, 31.8, 32.0, 31.8, 35.6, 45.2, 30.5, 39.4,
        30.2, 44.5, 31.8, 33.8, 51.6, 35.3, 59.4, 33.5, 35.3, 30.5, 36.8, 47.8, 42.9, 37.6, 55.4,
        35.3, 42.4, 33.0, 33.0, 40.1, 34.8, 38.1, 39.4, 34.0, 35.6, 34.3, 33.5, 31.0, 36.6, 36.3,
        38.4, 38.1, 47.0, 31.0, 30.5, 31.2, 35.6, 48.8, 41.9, 31.7, 31.2, 51.3, 33.5, 37.6, 39.4,
        39.4, 45.7,
    ];

    fn near(found: f64, expected: f64) {
        assert!(
            (found / expected - 1.0).abs() < 0.01,
            "{found} against {expected}"
        );
    }

    /// `gpd.fit(rain, 30)` of ismev: scale 7.44, shape 0.184, negative logarithm of the
    /// likelihood 485.1.
    #[test]
    fn the_rain_is_fitted_as_by_ismev() {
        let excesses: Vec<f64> = RAIN.iter().map(|rain| rain - 30.0).collect();
        let found = fit(&excesses).unwrap();
        near(found.scale, 7.440);
        near(found.shape, 0.1845);
        near(-found.log_likelihood, 485.09);
    }

    /// `scipy.stats.genpareto` 1.17.1: the quantiles (i - 1/2)/200 of a distribution, fitted
    /// with `floc=0` and its optimum refined; `cramervonmises(x, genpareto(0.1, scale=scale))`.
    #[test]
    fn fits_and_quantiles_are_those_of_scipy() {
        for ([shape, scale], [fit_shape, fit_scale, likelihood], level, distance) in [
            (
                [0.3, 2.0],
                [0.291_695, 2.012_104, 398.175_16],
                79.155_55,
                0.159_778,
            ),
            (
                [-0.2, 5.0],
                [-0.212_546, 5.055_552, 481.588_20],
                20.448_59,
                0.462_479,
            ),
            (
                [0.0, 1.0],
                [-0.010_468, 1.008_722, 199.643_23],
                8.517_193,
                0.047_101,
            ),
        ] {
            let law = |shape| Gpd {
                scale,
                shape,
                log_likelihood: 0.0,
            };
            let quantile = |i: u32| law(shape).level(200.0 / (200.5 - f64::from(i)));
            let excesses: Vec<f64> = (1..=200).map(quantile).collect();
            let found = fit(&excesses).unwrap();
            // All digits of the reference.
            let near = |found: f64, known: f64| {
                assert!(
                    (found / known - 1.0).abs() < 1e-4,
                    "{found} against {known}"
                );
            };
            near(found.shape, fit_shape);
            near(found.scale, fit_scale);
            near(-found.log_likelihood, likelihood);
            near(law(shape).level(5_000.0), level);
            near(law(0.1).distance(&excesses), distance);
        }
    }

    /// With a shape of -0.5, 0 and 1, the distribution is elementary: (1 - x/4)^2 with a scale of 2,
    /// exp(-x/2), and 1/(1 + x/2).
    #[test]
    fn levels_are_exceeded_with_their_probability() {
        let close = |found: f64, known: f64| assert!((found - known).abs() < 1e-12, "{found}");
        let law = |shape| Gpd {
            scale: 2.0,
            shape,
            log_likelihood: 0.0,
        };
        for (shape, survival) in [
            (-0.5, [0.5625, 0.0, 1.0]),
            (0.0, [f64::exp(-0.5), f64::exp(-2.5), 1.0]),
            (1.0, [2.0 / 3.0, 2.0 / 7.0, 1.0]),
        ] {
            for (x, known) in [1.0, 5.0, 0.0].into_iter().zip(survival) {
                close(law(shape).cdf(x), 1.0 - known);
            }
            for number in [1.0, 2.0, 9.0, 1_000.0] {
                let level = law(shape).level(number);
                close(law(shape).cdf(level), 1.0 - 1.0 / number);
            }
        }
        close(law(1.0).level(9.0), 16.0);
        close(law(-0.5).level(16.0), 3.0);
        // The distances from 1/4 and 3/4 are squared, and 1/24 is added.
        let sorted = [law(1.0).level(2.0), law(1.0).level(5.0)];
        close(law(1.0).distance(&sorted), 0.0625 + 0.0025 + 1.0 / 24.0);
    }

    /// Draws are levels of uniform shares: a tenth is beyond each tenth of the distribution.
    #[test]
    fn draws_are_spread_evenly() {
        let law = Gpd {
            scale: 3.0,
            shape: 0.2,
            log_likelihood: 0.0,
        };
        let random = &mut fastrand::Rng::with_seed(2);
        let mut tenths = [0; 10];
        for _ in 0..20_000 {
            let drawn = law.draw(random);
            assert!(drawn > 0.0);
            tenths[(law.cdf(drawn) * 10.0) as usize] += 1;
        }
        assert!(
            tenths.iter().all(|count| (1_800..2_200).contains(count)),
            "{tenths:?}"
        );
    }

    #[test]
    fn a_known_distribution_is_found_again() {
        for shape in [-0.2, 0.0, 0.4] {
            let truth = Gpd {
                scale: 3.0,
                shape,
                log_likelihood: 0.0,
            };
            let random = &mut fastrand::Rng::with_seed(1);
            let drawn: Vec<f64> = (0..20_000).map(|_| truth.draw(random)).collect();
            let found = fit(&drawn).unwrap();
            assert!((found.shape - shape).abs() < 0.03, "{found:?} of {shape}");
            assert!((found.scale - 3.0).abs() < 0.12, "{found:?}");
            assert!((truth.cdf(truth.level(50.0)) - 0.98).abs() < 1e-9);
        }
        assert_eq!(fit(&[1.0; 9]), None);
        assert_eq!(fit(&[f64::NAN; 20]), None);
        // A set of equal excesses has no tail, and must not cause an error.
        assert!(fit(&[1.0; 20]).is_none_or(|one| one.scale > 0.0));
    }
}
