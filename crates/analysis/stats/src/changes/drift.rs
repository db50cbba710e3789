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
