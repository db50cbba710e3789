//! Levels that move slowly in one direction.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::fit::{left, mean, power, step_column};
use super::noise::Noise;
use super::{LEAST_RUNS, Values};

/// Minimum number of independent runs from which a slope is calculated.
const LEAST_INDEPENDENT: f64 = 4.0;

/// A slow movement since the last step, as a straight line through the levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// The first run of the line. It ends at the last run.
    pub from: usize,
    /// Value at the start of the line: events per million periods, or the figure.
    pub before: f64,
    /// The same value at the end of the line.
    pub after: f64,
    /// Ratio of the end to the start.
    pub ratio: f64,
    /// The 95% confidence interval of that ratio. Its upper end may be infinite.
    pub interval: (f64, f64),
    /// The probability of such a slope if there is no drift.
    pub p: f64,
    /// Whether a single step explains the levels about as well as the line.
    pub may_be_step: bool,
}

/// Share of the error probability that the p-value may use, because it does not include the error of
/// the estimated noise (calibrated: `cargo xtask simulate --only noise`).
const SHARE: f64 = 0.25;

/// Minimum advantage of a line over a step in the logarithm of the likelihood, times two.
const SURE: f64 = 3.0;

/// Returns the drift from this run on, or `None` if there is none at this error level. The error of
/// the slope takes the autocorrelation of the residuals into account.
pub(super) fn since(values: &Values, levels: &[f64], from: usize, level: f64) -> Option<Drift> {
    let levels = &levels[from..];
    let runs = levels.len() as f64;
    if levels.len() < 2 * LEAST_RUNS {
        return None;
    }
    let (middle, half) = (mean(levels), (runs - 1.0) / 2.0);
    let place = |index: usize| index as f64 - half;
    let width: f64 = (0..levels.len()).map(|index| place(index).powi(2)).sum();
    let each = || levels.iter().enumerate();
    let slope = each().map(|(at, level)| place(at) * level).sum::<f64>() / width;
    let residuals: Vec<f64> = each()
        .map(|(at, level)| level - middle - slope * place(at))
        .collect();
    // A curve in the levels would look like persistent noise, so it is removed before the estimate.
    let powers = [0, 1, 2, 3].map(|by| (0..levels.len()).map(power(levels.len(), by)).collect());
    let noise = Noise::of(levels, &powers);
    let independent = noise.independent(runs);
    if independent < LEAST_INDEPENDENT {
        return None;
    }
    let squares: f64 = residuals.iter().map(|one| one * one).sum();
    let error = (squares / (runs - 2.0) / width * runs / independent).sqrt();
    let t = StudentsT::new(0.0, 1.0, independent - 2.0).ok()?;
    let p = match error > 0.0 {
        true => 2.0 * t.cdf(-(slope / error).abs()),
        false if slope != 0.0 => 0.0,
        false => 1.0,
    };
    let at = |slope: f64, end: f64| values.at_level(middle + slope * end * half);
    let ratio = |slope: f64| {
        if at(slope, -1.0) > 0.0 {
            at(slope, 1.0) / at(slope, -1.0)
        } else {
            f64::INFINITY
        }
    };
    let wide = error * t.inverse_cdf(0.975);
    let may_be_step = step_fits(levels, noise);
    // After a step, this is the same step at a slightly wrong place.
    let is_rest = from > 0 && may_be_step;
    (p <= level * SHARE && !is_rest).then(|| Drift {
        from,
        before: at(slope, -1.0),
        after: at(slope, 1.0),
        ratio: ratio(slope),
        interval: (ratio(slope - wide), ratio(slope + wide)),
        p,
        may_be_step,
    })
}

/// Returns whether the best step explains the levels about as well as a line.
fn step_fits(levels: &[f64], noise: Noise) -> bool {
    let Some((at, _)) = noise.best(levels, LEAST_RUNS) else {
        return false;
    };
    let seen = noise.whitened(levels);
    let left = |column: Vec<f64>| {
        let columns = [vec![1.0; levels.len()], column].map(|one| noise.whitened(&one));
        left(&seen, &columns).max(f64::MIN_POSITIVE)
    };
    let by_line = left((0..levels.len()).map(power(levels.len(), 1)).collect());
    let by_step = left(step_column(levels.len(), at));
    levels.len() as f64 * (by_step / by_line).ln() < SURE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise of up to this size that is not persistent.
    fn noise(run: usize, size: f64) -> f64 {
        size * ((run * 7 % 11) as f64 / 5.0 - 1.0)
    }

    /// The slope of the textbook line through the noise of 33 runs, and its standard error.
    fn line_through_noise(size: f64) -> (f64, f64) {
        let each = || (0..33).map(|run| (run as f64, noise(run, size)));
        let middle = each().map(|one| one.1).sum::<f64>() / 33.0;
        let width: f64 = each().map(|one| (one.0 - 16.0).powi(2)).sum();
        let slope = each().map(|one| (one.0 - 16.0) * one.1).sum::<f64>() / width;
        let rest = each().map(|one| (one.1 - middle - slope * (one.0 - 16.0)).powi(2));
        (slope, (rest.sum::<f64>() / 31.0 / width).sqrt())
    }

    /// Figures whose logarithm rises by `slope` a run.
    fn figures(runs: usize, slope: f64, size: f64) -> Values {
        let level = |run: usize| 9.0 + slope * run as f64 + noise(run, size);
        Values::Figures((0..runs).map(|run| level(run).exp()).collect())
    }

    fn drift(values: &Values, from: usize, level: f64) -> Option<Drift> {
        since(values, &values.levels(), from, level)
    }

    fn near(found: f64, expected: f64) {
        let apart = (found / expected - 1.0).abs();
        assert!(apart < 1e-6, "{found} is not {expected}");
    }

    /// The 97.5% point of the t distribution with 31 degrees of freedom is 2.039513.
    #[test]
    fn line_is_that_of_least_squares() {
        let (own, error) = line_through_noise(0.05);
        for rise in [0.004, 0.02, -0.006] {
            let found = drift(&figures(33, rise, 0.05), 0, 0.05).unwrap();
            let slope = rise + own;
            // The line passes through the mean, which is that of the rise.
            let middle = 9.0 + 16.0 * rise;
            assert_eq!(found.from, 0);
            near(found.before, (middle - 16.0 * slope).exp());
            near(found.after, (middle + 16.0 * slope).exp());
            near(found.ratio, (32.0 * slope).exp());
            let at = |end: f64| (32.0 * (slope + end * 2.039_513 * error)).exp();
            near(found.interval.0, at(-1.0));
            near(found.interval.1, at(1.0));
        }
    }

    /// Points of the t distribution with 31 degrees of freedom: 1% beyond 2.744, and 0.1% beyond
    /// 3.633. A quarter of 5% is beyond 2.652.
    #[test]
    fn slope_is_reported_if_it_is_significant() {
        let (own, error) = line_through_noise(0.05);
        let of = |t: f64| drift(&figures(33, t * error - own, 0.05), 0, 0.05);
        for (t, p) in [(2.744, 0.01), (3.633, 0.001), (-2.744, 0.01)] {
            let found = of(t).unwrap().p;
            assert!((found / p - 1.0).abs() < 0.01, "{t}: {found}");
        }
        assert_eq!([of(2.6), of(-2.6), of(0.0)], [None; 3]);
        // A flat line, and a line that hardly has noise.
        assert_eq!(drift(&Values::Figures(vec![1.0; 32]), 0, 0.05), None);
        let clear = drift(&figures(33, 0.25, 1e-6), 0, 0.05).unwrap();
        assert!(clear.p < 1e-12, "{clear:?}");
    }

    #[test]
    fn line_needs_enough_independent_runs() {
        let of = |runs: usize, from: usize| drift(&figures(runs, 0.5, 1e-9), from, 0.05);
        assert!(of(16, 0).is_some() && of(7, 0).is_none() && of(20, 13).is_none());
        let later = of(40, 8).unwrap();
        assert_eq!(later.from, 8);
        near(later.before, 13f64.exp());
        near(later.after, 28.5f64.exp());
        // Two levels that last for long are not four independent runs.
        let waves: Vec<f64> = (0..32)
            .map(|run| 1_000.0 * if run / 8 % 2 == 0 { 1.0 } else { 1.5 })
            .collect();
        assert_eq!(drift(&Values::Figures(waves), 0, 0.05), None);
    }

    #[test]
    fn clean_step_may_be_a_step_and_clean_line_may_not() {
        let step: Vec<f64> = (0..80)
            .map(|run| (9.0 + noise(run, 0.1) + if run < 40 { 0.0 } else { 0.26 }).exp())
            .collect();
        let values = Values::Figures(step);
        let found = drift(&values, 0, 1.0).unwrap();
        assert!(found.may_be_step, "{found:?}");
        // A line that goes on after a step must not be the rest of that step.
        assert_eq!(drift(&values, 4, 1.0), None);
        let found = drift(&figures(40, 0.01, 0.02), 0, 1.0).unwrap();
        assert!(!found.may_be_step, "{found:?}");
        assert!(drift(&figures(40, 0.01, 0.02), 4, 1.0).is_some());
    }

    /// Each sequence of two levels of noise on a line. Two segments of four runs are the least.
    #[test]
    fn seven_runs_have_no_drift() {
        let of = |runs: usize, pattern: u32| {
            let noise = |run: usize| 0.01 * f64::from(pattern >> run & 1);
            let level = |run: usize| (9.0 + 0.5 * run as f64 + noise(run)).exp();
            drift(&Values::Figures((0..runs).map(level).collect()), 0, 0.05).is_some()
        };
        assert!((0..1 << 7).all(|pattern| !of(6, pattern) && !of(7, pattern)));
        assert!((0..1 << 8).any(|pattern| of(8, pattern)));
    }

    /// The square root of the count at the start is 0, and that at the end is 3.9.
    #[test]
    fn rise_from_nothing_has_no_finite_ratio() {
        let values = Values::Counts(vec![(4, 1_000); 40]);
        let levels: Vec<f64> = (0..40)
            .map(|run| 0.1 * run as f64 + noise(run, 0.001))
            .collect();
        let found = since(&values, &levels, 0, 0.05).unwrap();
        assert_eq!((found.before, found.ratio), (0.0, f64::INFINITY));
        assert_eq!(found.interval, (f64::INFINITY, f64::INFINITY));
        assert!((found.after / 14_835.0 - 1.0).abs() < 1e-3, "{found:?}");
    }
}
