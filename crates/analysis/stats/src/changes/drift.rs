//! Levels that move slowly in one direction.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::confirm::{mean, of_residuals, power, rest_of};
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
}

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
    // A curve in the levels would look like correlation, so it is removed before the estimate.
    let powers = [0, 1, 2, 3].map(|by| (0..levels.len()).map(power(levels.len(), by)).collect());
    let phi = of_residuals(&rest_of(levels, &powers), powers.len(), levels.len());
    let independent = runs * (1.0 - phi) / (1.0 + phi);
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
    (p <= level).then(|| Drift {
        from,
        before: at(slope, -1.0),
        after: at(slope, 1.0),
        ratio: ratio(slope),
        interval: (ratio(slope - wide), ratio(slope + wide)),
        p,
    })
}
