//! Confirms steps: decides whether a step is still significant when the correlation of neighbouring
//! runs is taken into account.
//!
//! The level of a machine wanders, so runs are not exchangeable, and permutations find steps in
//! series that have none. A step must therefore also be larger than such wandering can explain. The
//! statistic is the difference of the mean levels on both sides, divided by its standard error for
//! independent runs. It is compared with its distribution in series without a step that have the
//! same correlation: a first-order autoregression (AR(1)) with the lag-1 autocorrelation of the
//! residuals ([`super::critical`]).
//!
//! A step is also compared with a smooth curve over the runs on both sides, a line or a cubic,
//! because drift and seasons contain no steps. The model with the lower Bayesian information
//! criterion is chosen.

use super::{LEAST_RUNS, critical, spikes::median};

/// The strongest step of a series of levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strongest {
    /// The first run of the new level.
    pub at: usize,
    /// Difference of the two means, divided by its standard error for independent runs.
    pub statistic: f64,
    /// The lag-1 autocorrelation of the residuals, corrected for the removal of two means.
    pub phi: f64,
}

/// Returns the split into two levels with the largest statistic. `None` if all runs are equal or
/// there are too few.
pub fn strongest(levels: &[f64]) -> Option<Strongest> {
    let at = best(levels)?;
    let statistic = statistic(&levels[..at], &levels[at..]);
    let phi = autocorrelation(&[&levels[..at], &levels[at..]]);
    Some(Strongest { at, statistic, phi })
}

/// Returns the split at which two means explain the largest part of the variance.
fn best(levels: &[f64]) -> Option<usize> {
    let runs = levels.len();
    let middle = mean(levels);
    let mut sum = 0.0;
    let mut best = (0, 0.0);
    for (place, level) in levels.iter().enumerate() {
        let at = place + 1;
        sum += level - middle;
        if at < LEAST_RUNS || runs - at < LEAST_RUNS {
            continue;
        }
        let between = sum * sum * runs as f64 / (at as f64 * (runs - at) as f64);
        if between > best.1 {
            best = (at, between);
        }
    }
    (best.0 > 0).then_some(best.0)
}

/// Returns the difference of two means, divided by its standard error.
fn statistic(before: &[f64], after: &[f64]) -> f64 {
    let apart = (mean(after) - mean(before)).abs();
    let free = (before.len() + after.len()) as f64 - 2.0;
    let variance = (squares(before) + squares(after)) / free;
    let error = (variance * (1.0 / before.len() as f64 + 1.0 / after.len() as f64)).sqrt();
    match error > 0.0 {
        true => apart / error,
        false if apart > 0.0 => f64::INFINITY,
        false => 0.0,
    }
}

/// Returns the lag-1 autocorrelation within segments. Removing a mean reduces it by (1 + 4 phi) / n
/// (Marriott and Pope, Biometrika 41, 1954), which is added back.
pub(super) fn autocorrelation(segments: &[&[f64]]) -> f64 {
    let runs: usize = segments.iter().map(|segment| segment.len()).sum();
    let residuals = segments.iter().flat_map(|segment| {
        let middle = mean(segment);
        segment.iter().map(move |level| level - middle)
    });
    let residuals: Vec<f64> = residuals.collect();
    of_residuals(&residuals, segments.len(), runs)
}

/// Returns the autocorrelation of residuals after this many means, slopes or similar parameters
/// have been removed.
pub(super) fn of_residuals(residuals: &[f64], removed: usize, runs: usize) -> f64 {
    let squares: f64 = residuals.iter().map(|one| one * one).sum();
    let products: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    if squares <= 0.0 {
        return 0.0;
    }
    let seen = products / squares;
    let corrected = seen + removed as f64 * (1.0 + 4.0 * seen) / runs as f64;
    corrected.clamp(0.0, 1.0)
}

/// Returns the candidate steps that are significant at this error level, in order, each with its
/// p-value. The candidates must be in ascending order.
pub(super) fn confirmed(levels: &[f64], candidates: &[usize], level: f64) -> Vec<(usize, f64)> {
    let mut places = candidates.to_vec();
    let mut held = reduced(levels, &mut places, level);
    // Insignificant steps may have hidden a step between them.
    loop {
        let more = (0..=places.len()).find_map(|index| {
            let (from, to) = between(&places, index, levels.len());
            let mut with = places.clone();
            with.insert(index, from + best(&levels[from..to])?);
            let found = reduced(levels, &mut with, level);
            (found.len() > held.len()).then_some((with, found))
        });
        match more {
            Some((with, found)) if !candidates.is_empty() => (places, held) = (with, found),
            _ => return held,
        }
    }
}

/// Returns the range from the previous step to the one at this index.
fn between(places: &[usize], index: usize, runs: usize) -> (usize, usize) {
    let from = index.checked_sub(1).map_or(0, |before| places[before]);
    (from, places.get(index).copied().unwrap_or(runs))
}

/// Removes steps that are not significant.
fn reduced(levels: &[f64], places: &mut Vec<usize>, level: f64) -> Vec<(usize, f64)> {
    loop {
        let levels = clipped(levels, places);
        reposition(&levels, places);
        let phi = autocorrelation(&segments(&levels, places));
        // At each single step, a wave looks smooth. After a neighbouring step has been removed, it
        // hardly looks smooth.
        let alone = smooth(&levels, places, phi, 1);
        if alone.contains(&true) {
            let mut alone = alone.into_iter();
            places.retain(|_| !alone.next().unwrap_or(false));
            continue;
        }
        let judged = judged(&levels, places, phi);
        let weakest = judged
            .iter()
            .enumerate()
            .max_by(|(_, a), (_, b)| a.total_cmp(b));
        match weakest {
            Some((index, p)) if *p > level => drop(places.remove(index)),
            _ => return places.iter().copied().zip(judged).collect(),
        }
    }
}

/// Returns the p-value of each step. For a step that a smooth curve explains, it is above 1.
fn judged(levels: &[f64], places: &[usize], phi: f64) -> Vec<f64> {
    let runs = levels.len() as f64;
    let smooth = smooth(levels, places, phi, TOGETHER);
    let each = places.iter().enumerate().map(|(index, at)| {
        let (from, to) = super::ends(places, index, levels.len());
        let statistic = statistic(&levels[from..*at], &levels[*at..to]);
        if smooth[index] {
            // Among the steps that a smooth curve explains, the least pronounced one gets the
            // largest value, so that it is removed first.
            return 1.0 + 1.0 / (1.0 + statistic);
        }
        let here = (to - from) as f64;
        // Corrects for the number of segments of this length that could contain such a step.
        (critical::p_of(statistic, to - from, phi) * runs / here).min(1.0)
    });
    each.collect()
}

fn segments<'a>(levels: &'a [f64], places: &[usize]) -> Vec<&'a [f64]> {
    let starts = std::iter::once(0).chain(places.iter().copied());
    let ends = places.iter().copied().chain([levels.len()]);
    starts
        .zip(ends)
        .map(|(from, to)| &levels[from..to])
        .collect()
}

/// Moves each step to the best place between its neighbours.
fn reposition(levels: &[f64], places: &mut [usize]) {
    for index in 0..places.len() {
        let (from, to) = super::ends(places, index, levels.len());
        if let Some(at) = best(&levels[from..to]) {
            places[index] = from + at;
        }
    }
}

/// Levels are clipped at this number of standard deviations from the median of their segment, so
/// that a single extreme run cannot hide a step.
const FAR: f64 = 4.0;
/// Ratio of the standard deviation to the median absolute deviation of a normal distribution.
const BY_MEDIAN: f64 = 1.4826;

fn clipped(levels: &[f64], places: &[usize]) -> Vec<f64> {
    let each = segments(levels, places).into_iter().flat_map(|segment| {
        let middle = median(segment);
        let apart: Vec<f64> = segment.iter().map(|level| (level - middle).abs()).collect();
        let far = FAR * BY_MEDIAN * median(&apart);
        // If most levels are equal, there is no scale for clipping.
        let far = if far > 0.0 { far } else { f64::INFINITY };
        segment
            .iter()
            .map(move |level| level.clamp(middle - far, middle + far))
    });
    each.collect()
}

/// Minimum advantage of steps in the information criterion. It prevents that a slow drift is often
/// taken for a step (calibrated: `cargo xtask simulate --only wandering`).
const SURE: f64 = 3.0;

/// Number of consecutive steps that are compared with a smooth curve together, because drift looks
/// like several steps.
const TOGETHER: usize = 4;

/// Returns, for each step, whether it is in a range of up to `together` steps that a smooth curve
/// explains equally well.
fn smooth(levels: &[f64], places: &[usize], phi: f64, together: usize) -> Vec<bool> {
    let mut smooth = vec![false; places.len()];
    for first in 0..places.len() {
        let last = places.len().min(first + together);
        for end in first + 1..=last {
            let (from, _) = super::ends(places, first, levels.len());
            let (_, to) = super::ends(places, end - 1, levels.len());
            let steps: Vec<usize> = places[first..end].iter().map(|at| at - from).collect();
            if is_smooth(&levels[from..to], &steps, phi) {
                smooth[first..end].fill(true);
            }
        }
    }
    smooth
}

/// Returns whether a line, a parabola or a cubic explains a range as well as these steps, by the
/// Bayesian information criterion. The residuals have the autocorrelation `phi`.
fn is_smooth(levels: &[f64], steps: &[usize], phi: f64) -> bool {
    let runs = levels.len() as f64;
    let phi = phi.min(MOST_PHI);
    let column = |of: &dyn Fn(usize) -> f64| whitened((0..levels.len()).map(of), phi);
    let powers = [0, 1, 2, 3].map(|by| column(&power(levels.len(), by)));
    let each = steps
        .iter()
        .map(|at| column(&|run| f64::from(u8::from(run >= *at))));
    let each: Vec<Vec<f64>> = std::iter::once(powers[0].clone()).chain(each).collect();
    let seen = whitened(levels.iter().copied(), phi);
    let by_steps = left(&seen, &each);
    if by_steps <= 0.0 {
        return false;
    }
    // Number of parameters of the steps: levels and places.
    let of_steps = 2.0 * steps.len() as f64 + 1.0;
    let is_better = |columns: &[Vec<f64>]| {
        let gain = runs
            * (left(&seen, columns) / by_steps)
                .max(f64::MIN_POSITIVE)
                .ln();
        gain < (of_steps - columns.len() as f64) * runs.ln() + SURE
    };
    (2..=powers.len()).any(|columns| is_better(&powers[..columns]))
}

/// The largest autocorrelation of residuals in the comparison with a smooth curve.
const MOST_PHI: f64 = 0.95;

/// Returns values minus their prediction from the previous value (Prais and Winsten 1954).
fn whitened(values: impl Iterator<Item = f64>, phi: f64) -> Vec<f64> {
    let mut before = None;
    let each = values.map(|value| match before.replace(value) {
        None => value * (1.0 - phi * phi).sqrt(),
        Some(before) => value - phi * before,
    });
    each.collect()
}

/// Returns the residual sum of squares after a least-squares fit of the columns.
fn left(values: &[f64], columns: &[Vec<f64>]) -> f64 {
    let rest = rest_of(values, columns);
    dot(&rest, &rest)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns the residuals after a least-squares fit of the columns (Gram and Schmidt).
pub(super) fn rest_of(values: &[f64], columns: &[Vec<f64>]) -> Vec<f64> {
    let mut rest = values.to_vec();
    let mut known: Vec<Vec<f64>> = Vec::new();
    let take = |from: &mut [f64], what: &[f64]| {
        let share = dot(from, what);
        from.iter_mut()
            .zip(what)
            .for_each(|(from, what)| *from -= share * what);
    };
    for column in columns {
        let mut own = column.clone();
        known.iter().for_each(|other| take(&mut own, other));
        let length = dot(&own, &own).sqrt();
        if length <= 1e-9 {
            continue;
        }
        own.iter_mut().for_each(|one| *one /= length);
        take(&mut rest, &own);
        known.push(own);
    }
    rest
}

/// Returns a power of the position of a run, which ranges from -0.5 to 0.5.
pub(super) fn power(runs: usize, power: i32) -> impl Fn(usize) -> f64 {
    move |run| (run as f64 / runs as f64 - 0.5).powi(power)
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn squares(values: &[f64]) -> f64 {
    let middle = mean(values);
    values.iter().map(|value| (value - middle).powi(2)).sum()
}
