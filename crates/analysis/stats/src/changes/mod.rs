//! Change points of a series of runs: steps at which the rate of late periods, or a figure of each
//! run, changes to another level.
//!
//! Counts are scanned by the Poisson likelihood ratio, with the exposure of each run. If they vary
//! more than Poisson counts, the negative binomial likelihood is also used. Figures are scanned by
//! their ranks. All of these statistics are calibrated with permutations of the runs, so the
//! distributions need not fit. For example, a single run with many late periods is equally extreme
//! in each permutation, and causes no change point. Series are split in two repeatedly (binary
//! segmentation; Vostrikova, Soviet Mathematics Doklady 24, 1981), into segments of at least
//! [`LEAST_RUNS`]. The false discovery rate is limited over all series that are judged together
//! (Benjamini and Hochberg, Journal of the Royal Statistical Society B 57, 1995).

mod confirm;
mod critical;
mod drift;
mod fit;
mod noise;
mod scan;
mod spikes;

use fastrand::Rng;

use crate::discoveries;

pub use confirm::{Strongest, strongest};
pub use drift::Drift;
use scan::{By, Pairs};
pub use spikes::spiked_maxima;
pub(crate) use spikes::{median, spiked_counts};

/// The smallest number of runs in a segment.
pub const LEAST_RUNS: usize = 4;

/// The accepted probability of a false split.
pub const ALPHA: f64 = 0.001;

/// Number of permutations, plus one, that [`ALPHA`] requires for a split by one likelihood.
const PERMUTATIONS: u64 = 1_000;

/// Maximum number of permuted runs for one split. Long series therefore get fewer permutations.
const EFFORT: u64 = 12_000_000;

/// Accepted probability that a step or drift is reported in a trend that has none, for all of its
/// series together. With fewer than three series, each series gets a third of this probability.
const WRONG: f64 = 0.03;

/// The scanned values, one for each run.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// The number of events, and of periods that could have one.
    Counts(Vec<(u64, u64)>),
    /// A figure of each run. Only its rank matters.
    Figures(Vec<f64>),
}

/// A step from one level to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The first run of the new level.
    pub at: usize,
    /// The earliest first run of the new level, with about 95% confidence.
    pub earliest: usize,
    /// The latest first run of the new level.
    pub latest: usize,
    /// Ratio of the new level to the old one.
    pub ratio: f64,
    /// The 95% confidence interval of that ratio.
    pub interval: (f64, f64),
    /// The probability of such a split if there is no change. This is the larger of two values: one
    /// from permutations, and one for levels that wander.
    pub p: f64,
    /// The probability of such a step in a level that only wanders. Permutations, which have no
    /// part in it, cannot show a very small probability.
    pub p_wandering: f64,
}

impl Values {
    /// Returns the number of runs.
    pub fn len(&self) -> usize {
        match self {
            Self::Counts(each) => each.len(),
            Self::Figures(each) => each.len(),
        }
    }

    /// Returns whether there are no runs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether there are enough runs for a split.
    pub fn is_enough(&self) -> bool {
        self.len() >= 2 * LEAST_RUNS
    }

    /// Returns values whose variance hardly depends on their level: logarithms of figures, and
    /// square roots of counts by exposure. For counts that vary more than Poisson counts, the
    /// corresponding transform is used (Anscombe, Biometrika 35, 1948).
    fn levels(&self) -> Vec<f64> {
        match self {
            Self::Counts(each) => {
                let scale = Scale::new(each);
                each.iter().map(|one| scale.level(*one)).collect()
            }
            Self::Figures(each) => each.iter().map(|figure| figure.max(1.0).ln()).collect(),
        }
    }

    /// Converts a level back to a count per million periods, or a figure.
    fn at_level(&self, level: f64) -> f64 {
        match self {
            Self::Counts(each) => Scale::new(each).rate(level),
            Self::Figures(_) => level.exp(),
        }
    }

    fn part(&self, from: usize, to: usize) -> Pairs {
        match self {
            Self::Counts(each) => Pairs::of_counts(&each[from..to]),
            Self::Figures(each) => Pairs::of_ranks(&each[from..to]),
        }
    }
}

/// Amount that is added to a count before its square root is taken.
const ANSCOMBE: f64 = 0.375;

/// The transform from counts to levels.
struct Scale {
    /// The mean exposure.
    exposure: f64,
    /// The shape of the gamma distribution of the rates. Infinite for Poisson counts.
    shape: f64,
}

impl Scale {
    fn new(each: &[(u64, u64)]) -> Self {
        let sum: f64 = each.iter().map(|(_, exposure)| *exposure as f64).sum();
        Self {
            exposure: (sum / each.len().max(1) as f64).max(1.0),
            shape: Pairs::of_counts(each).shape().unwrap_or(f64::INFINITY),
        }
    }

    fn level(&self, (events, exposure): (u64, u64)) -> f64 {
        let events = (events as f64 + ANSCOMBE) * self.exposure / exposure.max(1) as f64;
        if self.shape.is_finite() {
            (events / self.shape).sqrt().asinh()
        } else {
            events.sqrt()
        }
    }

    /// Returns the rate per million periods.
    fn rate(&self, level: f64) -> f64 {
        let events = if self.shape.is_finite() {
            self.shape * level.max(0.0).sinh().powi(2)
        } else {
            level.max(0.0).powi(2)
        };
        1e6 * (events - ANSCOMBE).max(0.0) / self.exposure
    }
}

/// The behaviour of a series over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// The significant steps, in order.
    pub steps: Vec<Step>,
    /// A slow movement of the level since the last step, if it is significant.
    pub drift: Option<Drift>,
    /// The error level of the drift.
    level: f64,
}

impl Course {
    /// Returns the slow movement since a later run, at which another series of the same runs has a
    /// step. A step in the middle of a line looks like a slow movement.
    pub fn drift_since(&self, values: &Values, from: usize) -> Option<Drift> {
        match self.drift {
            Some(drift) if drift.from < from && from < values.len() => {
                drift::since(values, &values.levels(), from, self.level)
            }
            drift => drift.filter(|drift| drift.from >= from),
        }
    }
}

/// Returns the courses of families of series, which are all judged together. The series of a family
/// describe one quantity in several ways, such as late periods above several thresholds. They share
/// the error probability of one series (Holm).
pub fn courses_of(families: &[Vec<Values>], seed: u64) -> Vec<Vec<Course>> {
    let judged = (families.iter())
        .filter(|family| family.iter().any(Values::is_enough))
        .count();
    let level = WRONG / judged.max(3) as f64;
    let candidates = candidates_of(families, judged, seed);
    (families.iter().zip(candidates))
        .map(|(family, candidates)| {
            let levels: Vec<Vec<f64>> = family.iter().map(Values::levels).collect();
            let confirmed = |index: usize, level: f64| {
                let places: Vec<usize> = candidates[index].iter().map(|one| one.at).collect();
                confirm::confirmed(&levels[index], &places, level)
            };
            let least = (0..family.len()).map(|index| {
                let all = confirmed(index, level);
                all.iter().map(|(_, p)| *p).min_by(f64::total_cmp)
            });
            let least: Vec<Option<f64>> = least.collect();
            let adjusted = crate::holm::adjust(&least);
            let each = family.iter().enumerate().map(|(index, values)| {
                let times = adjusted[index].zip(least[index]);
                let times = times.map_or(1.0, |(adjusted, p)| adjusted / p.max(f64::MIN_POSITIVE));
                let steps = steps(values, &candidates[index], confirmed(index, level / times));
                let from = steps.last().map_or(0, |step| step.at);
                let level = level / family.len() as f64;
                Course {
                    drift: drift::since(values, &levels[index], from, level),
                    steps,
                    level,
                }
            });
            each.collect()
        })
        .collect()
}

/// Returns the splits that permutations accept in each series, in order of place. The p-value of a
/// family is the smallest of its series. [`confirm`] corrects for the number of series.
fn candidates_of(families: &[Vec<Values>], judged: usize, seed: u64) -> Vec<Vec<Vec<Split>>> {
    let tests = judged as u64;
    let whole: Vec<Vec<Option<Split>>> = (families.iter())
        .map(|family| {
            let of = |values: &Values| split(values, 0, values.len(), tests, seed);
            family.iter().map(of).collect()
        })
        .collect();
    let least = |family: &Vec<Option<Split>>| {
        let each = family.iter().flatten().map(|split| split.p);
        each.min_by(f64::total_cmp)
    };
    let accepted = discoveries::limit(whole.iter().filter_map(least).collect(), judged, ALPHA);
    let of = |(values, first): (&Values, Option<Split>)| match first {
        Some(first) if first.p <= accepted => {
            let mut found = vec![first];
            for (from, to) in [(0, first.at), (first.at, values.len())] {
                divide(values, (from, to), accepted, (tests, seed), &mut found);
            }
            found.sort_by_key(|split| split.at);
            found
        }
        _ => Vec::new(),
    };
    (families.iter().zip(whole))
        .map(|(family, whole)| family.iter().zip(whole).map(of).collect())
        .collect()
}

/// Returns the confirmed steps of one series, at the best place that the scan finds between their
/// neighbours.
fn steps(values: &Values, found: &[Split], confirmed: Vec<(usize, f64)>) -> Vec<Step> {
    let (mut places, chances): (Vec<usize>, Vec<f64>) = confirmed.into_iter().unzip();
    let nearest = |at: usize| found.iter().min_by_key(|split| split.at.abs_diff(at));
    let splits: Vec<Split> = places
        .iter()
        .filter_map(|at| nearest(*at))
        .copied()
        .collect();
    // The first split of a series with several steps is a compromise between all of them, so each
    // one is placed again between its neighbours.
    for _ in 0..2 {
        for (index, split) in splits.iter().enumerate() {
            let (from, to) = ends(&places, index, values.len());
            if let Some(at) = values.part(from, to).best(split.by) {
                places[index] = from + at;
            }
        }
    }
    let each = splits.iter().zip(chances).enumerate();
    each.map(|(index, (split, p))| {
        let (from, to) = ends(&places, index, values.len());
        step(values, (from, places[index], to), [split.p, p])
    })
    .collect()
}

/// Returns the range from the previous change point to the next one.
fn ends(places: &[usize], index: usize, runs: usize) -> (usize, usize) {
    let from = index.checked_sub(1).map_or(0, |before| places[before]);
    (from, places.get(index + 1).copied().unwrap_or(runs))
}

fn step(
    values: &Values,
    (from, at, to): (usize, usize, usize),
    [by_permutations, p_wandering]: [f64; 2],
) -> Step {
    let pairs = values.part(from, to);
    let (earliest, latest) = pairs.where_about(at - from);
    let (ratio, interval) = match values {
        Values::Counts(each) => scan::ratio_of_rates(&each[from..at], &each[at..to]),
        Values::Figures(each) => scan::ratio_of_figures(&each[from..at], &each[at..to]),
    };
    Step {
        at,
        earliest: from + earliest,
        latest: from + latest,
        ratio,
        interval,
        p: by_permutations.max(p_wandering),
        p_wandering,
    }
}

#[derive(Clone, Copy, Debug)]
struct Split {
    at: usize,
    p: f64,
    by: By,
}

/// Continues to split as long as splits are accepted.
fn divide(
    values: &Values,
    (from, to): (usize, usize),
    accepted: f64,
    (judged, seed): (u64, u64),
    found: &mut Vec<Split>,
) {
    let Some(one) = split(values, from, to, judged, seed) else {
        return;
    };
    if one.p > accepted {
        return;
    }
    found.push(one);
    for part in [(from, one.at), (one.at, to)] {
        divide(values, part, accepted, (judged, seed), found);
    }
}

/// Returns the best split of a range, with its probability if there is no change.
fn split(values: &Values, from: usize, to: usize, judged: u64, seed: u64) -> Option<Split> {
    if to - from < 2 * LEAST_RUNS {
        return None;
    }
    let mut pairs = values.part(from, to);
    pairs.best(By::Plain)?;
    let runs = (to - from) as u64;
    // The two likelihoods share the error probability, so each of them needs twice as many
    // permutations.
    let one = PERMUTATIONS * if pairs.is_spread() { 2 } else { 1 };
    let most = (one * judged.max(1)).min((EFFORT / runs).max(one)) - 1;
    let mut random = Rng::with_seed(seed ^ (from as u64) << 32 ^ to as u64);
    let (p, by) = pairs.p_of(most, &mut random);
    // The permutations changed the order of the runs, so the original order is scanned again.
    let at = from + values.part(from, to).best(by)?;
    Some(Split { at, p, by })
}

#[cfg(test)]
mod tests;
