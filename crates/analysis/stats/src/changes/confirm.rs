//! Confirms steps: decides whether a step is still significant when the correlation of neighbouring
//! runs is taken into account.
//!
//! The level of a machine wanders, so runs are not exchangeable, and permutations find steps in
//! series that have none. A step must therefore also be larger than such wandering can explain. The
//! statistic is the difference of the levels on both sides, divided by its standard error in noise
//! that persists as much as that of the series ([`super::noise`]; generalised least squares). It is
//! compared with its distribution in series without a step ([`super::critical`]).
//!
//! A step is also compared with a smooth curve over the runs on both sides, a line or a cubic,
//! because drift and seasons contain no steps. The model with the lower Bayesian information
//! criterion is chosen.

use super::fit::{left, power, step_column};
use super::noise::Noise;
use super::{LEAST_RUNS, critical, spikes::median};

/// The strongest step of a series of levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strongest {
    /// The first run of the new level.
    pub at: usize,
    /// Difference of the two levels, divided by its standard error.
    pub statistic: f64,
    /// How much the noise persists from run to run: 0 for independent runs, 1 for a random walk.
    pub persistence: f64,
}

/// Returns the split into two levels with the largest statistic. `None` if all runs are equal or
/// there are too few.
pub fn strongest(levels: &[f64]) -> Option<Strongest> {
    let (at, _) = Noise::NONE.best(levels, LEAST_RUNS)?;
    let mut places = [at];
    let noise = settle(levels, &mut places);
    let (at, statistic) = noise.best(levels, LEAST_RUNS)?;
    Some(Strongest {
        at,
        statistic,
        persistence: noise.persistence(),
    })
}

/// Number of times that the noise is estimated from the places of the steps, and the places from the
/// noise.
const ROUNDS: usize = 2;

/// Moves each step to the best place between its neighbours, and returns the noise of the levels
/// between the steps.
fn settle(levels: &[f64], places: &mut [usize]) -> Noise {
    reposition(levels, places, Noise::NONE);
    for _ in 0..ROUNDS {
        let noise = noise_between(levels, places);
        reposition(levels, places, noise);
    }
    noise_between(levels, places)
}

/// Returns the noise of levels with these steps.
fn noise_between(levels: &[f64], places: &[usize]) -> Noise {
    let starts = std::iter::once(0).chain(places.iter().copied());
    let columns = starts.map(|at| step_column(levels.len(), at));
    Noise::of(levels, &columns.collect::<Vec<_>>())
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
            with.insert(
                index,
                from + Noise::NONE.best(&levels[from..to], LEAST_RUNS)?.0,
            );
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
        let noise = settle(&levels, places);
        // At each single step, a wave looks smooth. After a neighbouring step has been removed, it
        // hardly looks smooth.
        let alone = smooth(&levels, places, noise, 1);
        if alone.contains(&true) {
            let mut alone = alone.into_iter();
            places.retain(|_| !alone.next().unwrap_or(false));
            continue;
        }
        let judged = judged(&levels, places, noise);
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
fn judged(levels: &[f64], places: &[usize], noise: Noise) -> Vec<f64> {
    let runs = levels.len() as f64;
    let smooth = smooth(levels, places, noise, TOGETHER);
    let each = (0..places.len()).map(|index| {
        let (from, to) = super::ends(places, index, levels.len());
        let strongest = noise.best(&levels[from..to], LEAST_RUNS);
        let statistic = strongest.map_or(0.0, |(_, statistic)| statistic);
        if smooth[index] {
            // Among the steps that a smooth curve explains, the least pronounced one gets the
            // largest value, so that it is removed first.
            return 1.0 + 1.0 / (1.0 + statistic);
        }
        let here = (to - from) as f64;
        // Corrects for the number of segments of this length that could contain such a step.
        (critical::p_of(statistic, to - from, noise.persistence()) * runs / here).min(1.0)
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
fn reposition(levels: &[f64], places: &mut [usize], noise: Noise) {
    for index in 0..places.len() {
        let (from, to) = super::ends(places, index, levels.len());
        if let Some((at, _)) = noise.best(&levels[from..to], LEAST_RUNS) {
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
fn smooth(levels: &[f64], places: &[usize], noise: Noise, together: usize) -> Vec<bool> {
    let mut smooth = vec![false; places.len()];
    for first in 0..places.len() {
        let last = places.len().min(first + together);
        for end in first + 1..=last {
            let (from, _) = super::ends(places, first, levels.len());
            let (_, to) = super::ends(places, end - 1, levels.len());
            let steps: Vec<usize> = places[first..end].iter().map(|at| at - from).collect();
            if is_smooth(&levels[from..to], &steps, noise) {
                smooth[first..end].fill(true);
            }
        }
    }
    smooth
}

/// Returns whether a line, a parabola or a cubic explains a range as well as these steps, by the
/// Bayesian information criterion.
fn is_smooth(levels: &[f64], steps: &[usize], noise: Noise) -> bool {
    let runs = levels.len() as f64;
    let column =
        |of: &dyn Fn(usize) -> f64| noise.whitened(&(0..levels.len()).map(of).collect::<Vec<_>>());
    let powers = [0, 1, 2, 3].map(|by| column(&power(levels.len(), by)));
    let each = (steps.iter()).map(|at| noise.whitened(&step_column(levels.len(), *at)));
    let each: Vec<Vec<f64>> = std::iter::once(powers[0].clone()).chain(each).collect();
    let seen = noise.whitened(levels);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise without persistence, of up to 1.
    fn noise(run: usize) -> f64 {
        (run * 7 % 11) as f64 / 5.0 - 1.0
    }

    /// Levels with noise of up to `size`.
    fn levels(runs: usize, size: f64, level: impl Fn(usize) -> f64) -> Vec<f64> {
        let each = (0..runs).map(|run| level(run) + size * noise(run));
        each.collect()
    }

    fn from(run: usize, first: usize) -> f64 {
        f64::from(u8::from(run >= first))
    }

    fn places(levels: &[f64], candidates: &[usize]) -> Vec<usize> {
        let found = confirmed(levels, candidates, 0.01);
        assert!(found.iter().all(|(_, p)| *p <= 0.01), "{found:?}");
        found.into_iter().map(|(at, _)| at).collect()
    }

    #[test]
    fn steps_divide_a_series() {
        let all: Vec<f64> = (0..10).map(f64::from).collect();
        let parts: Vec<(f64, usize)> = (segments(&all, &[3, 7]).iter())
            .map(|part| (part[0], part.len()))
            .collect();
        assert_eq!(parts, [(0.0, 3), (3.0, 4), (7.0, 3)]);
        assert_eq!(segments(&all, &[]), [&all[..]]);
        let ranges = [0, 1, 2].map(|index| between(&[10, 20], index, 30));
        assert_eq!(ranges, [(0, 10), (10, 20), (20, 30)]);
    }

    /// The median of each segment, and four times 1.4826 times the median distance from it.
    #[test]
    fn extreme_runs_are_clipped_in_their_segment() {
        let all = [1.0, 2.0, 3.0, 4.0, 100.0, 11.0, 12.0, 13.0, -9.0, 15.0];
        let found = clipped(&all, &[5]);
        assert_eq!(found[..4], all[..4]);
        assert!((found[4] - (3.0 + 4.0 * 1.4826)).abs() < 1e-9, "{found:?}");
        assert_eq!((&found[5..8], found[9]), (&all[5..8], 15.0));
        assert!((found[8] - (12.0 - 4.0 * 1.4826)).abs() < 1e-9, "{found:?}");
        // Nothing is clipped without variation.
        let flat = [7.0, 7.0, 7.0, 50.0, 7.0];
        assert_eq!(clipped(&flat, &[]), flat);
    }

    #[test]
    fn smooth_curve_explains_drift_but_no_step() {
        let of = |level: &dyn Fn(usize) -> f64, steps: &[usize]| {
            is_smooth(&levels(60, 0.05, level), steps, Noise::NONE)
        };
        let share = |run: usize| run as f64 / 60.0 - 0.5;
        assert!(of(&|run| 3.0 * share(run), &[30]));
        assert!(of(&|run| 9.0 * share(run).powi(2), &[20]));
        assert!(of(&|run| 30.0 * share(run).powi(3), &[20, 40]));
        assert!(!of(&|run| from(run, 30), &[30]));
        assert!(!of(&|run| from(run, 20) - from(run, 40), &[20, 40]));
        // A step that explains everything is better than a curve.
        assert!(!is_smooth(
            &levels(60, 0.0, |run| from(run, 30)),
            &[30],
            Noise::NONE
        ));
    }

    #[test]
    fn steps_that_a_curve_explains_together_are_smooth() {
        let line = levels(80, 0.05, |run| run as f64 / 20.0);
        assert_eq!(
            smooth(&line, &[20, 40, 60], Noise::NONE, TOGETHER),
            [true; 3]
        );
        let stairs = levels(80, 0.05, |run| from(run, 30) - from(run, 50));
        assert_eq!(
            smooth(&stairs, &[30, 50], Noise::NONE, TOGETHER),
            [false; 2]
        );
        // Only the second half drifts.
        let both = levels(120, 0.05, |run| {
            let rise = (run.max(60) - 60) as f64 / 20.0;
            9.0 * from(run, 30) + rise
        });
        let found = smooth(&both, &[30, 80, 100], Noise::NONE, 1);
        assert!(!found[0] && found[2], "{found:?}");
        assert_eq!(smooth(&line, &[], Noise::NONE, TOGETHER), [false; 0]);
    }

    #[test]
    fn candidates_move_to_the_steps() {
        let one = levels(60, 0.1, |run| from(run, 30));
        for candidates in [&[30][..], &[12], &[10, 30, 50]] {
            assert_eq!(places(&one, candidates), [30], "{candidates:?}");
        }
        assert!(places(&one, &[]).is_empty());
        assert!(places(&levels(60, 0.1, |_| 2.0), &[20, 40]).is_empty());
        let two = levels(90, 0.1, |run| from(run, 30) - 0.8 * from(run, 60));
        assert_eq!(places(&two, &[30, 60]), [30, 60]);
        // A single extreme run neither is a step nor hides one.
        let mut spiked = two.clone();
        spiked[45] = 40.0;
        assert_eq!(places(&spiked, &[30, 60]), [30, 60]);
        assert_eq!(places(&spiked, &[30, 45, 60]), [30, 60]);
    }

    /// Steps up and down again hide each other from a search for one step.
    #[test]
    fn steps_hidden_by_others_are_found() {
        let hidden = levels(120, 0.1, |run| {
            from(run, 50) - from(run, 70) + 0.9 * from(run, 100)
        });
        assert_eq!(places(&hidden, &[50, 100]), [50, 70, 100]);
    }

    /// The p-value of a step counts all segments of its length that the series has.
    #[test]
    fn long_series_have_more_places_for_a_step() {
        let p = |runs: usize, weak: f64| {
            let all = levels(runs, 1.0, |run| weak * from(run, 20) + 90.0 * from(run, 40));
            let places = if runs > 40 { vec![20, 40] } else { vec![20] };
            judged(&all, &places, Noise::NONE)[0]
        };
        let [alone, of_more] = [40, 160].map(|runs| p(runs, 2.0));
        assert!(alone > 0.0 && of_more < 1.0, "{alone} {of_more}");
        assert!((of_more / alone - 4.0).abs() < 0.2, "{alone} {of_more}");
        // Above 1 are the steps that a curve explains.
        let line = levels(80, 0.05, |run| run as f64 / 20.0);
        let smooth = judged(&line, &[20, 60], Noise::NONE);
        assert!(
            smooth.iter().all(|p| (1.0..=2.0).contains(p) && *p > 1.0),
            "{smooth:?}"
        );
    }

    #[test]
    fn strongest_step_has_its_statistic() {
        // The statistic is that of the t test of two means: 1/sqrt(s^2 (1/22 + 1/22)), where s^2 is
        // from the squares of the noise over 42 degrees of freedom.
        let one = levels(44, 1.0, |run| 3.0 * from(run, 22));
        let found = strongest(&one).unwrap();
        let squares: f64 = (0..44).map(|run| noise(run).powi(2)).sum();
        let error = (squares / 42.0 * (2.0 / 22.0)).sqrt();
        assert_eq!(found.at, 22);
        assert!((found.statistic - 3.0 / error).abs() < 1e-6, "{found:?}");
        assert_eq!(found.persistence, 0.0);
        assert_eq!(strongest(&[3.0; 20]), None);
        assert_eq!(strongest(&one[..7]), None);
        let mut random = fastrand::Rng::with_seed(8);
        let mut level = 0.0;
        let wandering: Vec<f64> = (0..200)
            .map(|_| {
                level += random.f64() - 0.5;
                level
            })
            .collect();
        assert!(strongest(&wandering).unwrap().persistence > 0.6);
    }
}
