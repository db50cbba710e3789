//! Change points of a series of runs: where the rate of late periods, or a figure of
//! each run, steps to another level.
//!
//! Counts are scanned by the Poisson likelihood ratio with the exposure of each run, and
//! where they vary more than Poisson counts by that of the negative binomial distribution
//! as well; figures by their ranks. All are calibrated by permutations of the runs, so the
//! distributions need not fit: a single run with many late periods is as extreme in each
//! permutation, and makes no change point. Series are split in two again and again
//! (binary segmentation; Vostrikova, Soviet Mathematics Doklady 24, 1981), no segment is
//! shorter than [`LEAST_RUNS`]. Over the series that are judged together the false
//! discovery rate is limited (Benjamini and Hochberg, Journal of the Royal Statistical
//! Society B 57, 1995).

mod confirm;
mod critical;
mod drift;
mod scan;
mod spikes;

use fastrand::Rng;

pub use confirm::{Strongest, strongest};
pub use drift::Drift;
use scan::{By, Pairs};
pub use spikes::spiked_maxima;
pub(crate) use spikes::{median, spiked_counts};

/// No segment has fewer runs.
pub const LEAST_RUNS: usize = 4;

/// The probability of a false split that is accepted.
pub const ALPHA: f64 = 0.001;

/// Permutations that one split by one likelihood needs at [`ALPHA`], one more than that
/// many.
const PERMUTATIONS: u64 = 1_000;

/// So many runs are permuted at most for one split: long series get fewer permutations.
const EFFORT: u64 = 12_000_000;

/// Of trends without a step or drift so many show one, in all of their series together;
/// with fewer than three series a third of it for each.
const WRONG: f64 = 0.03;

/// Limits are compared with a little more than they are.
const NEARLY: f64 = 1.0 + 1e-9;

/// What is scanned: one value a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Events and the periods in which they could occur.
    Counts(Vec<(u64, u64)>),
    /// A figure of each run, of which only the order counts.
    Figures(Vec<f64>),
}

/// A step from one level to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The first run of the new level.
    pub at: usize,
    /// With about 95% confidence the first run of the new level lies from here.
    pub earliest: usize,
    /// To here.
    pub latest: usize,
    /// New level by old level.
    pub ratio: f64,
    /// The interval of that ratio, 95%.
    pub interval: (f64, f64),
    /// The probability of such a split where there is no change: by permutation, or by what
    /// wandering levels do, whichever is larger.
    pub p: f64,
}

impl Values {
    /// How many runs there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Counts(each) => each.len(),
            Self::Figures(each) => each.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there are enough runs for a split.
    pub fn is_enough(&self) -> bool {
        self.len() >= 2 * LEAST_RUNS
    }

    /// Values whose variance hardly depends on their level: logarithms of figures; of counts
    /// by exposure roots, or what comes in their place where counts vary more than Poisson
    /// counts (Anscombe, Biometrika 35, 1948).
    fn levels(&self) -> Vec<f64> {
        match self {
            Self::Counts(each) => {
                let scale = Scale::of(each);
                each.iter().map(|one| scale.level(*one)).collect()
            }
            Self::Figures(each) => each.iter().map(|figure| figure.max(1.0).ln()).collect(),
        }
    }

    /// The count of a million periods, or the figure, at such a level.
    fn at_level(&self, level: f64) -> f64 {
        match self {
            Self::Counts(each) => Scale::of(each).rate(level),
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

/// What is added to a count before its root is taken.
const ANSCOMBE: f64 = 0.375;

/// How counts become levels.
struct Scale {
    /// The mean exposure.
    exposure: f64,
    /// The shape of the gamma distribution of their rates; infinite for Poisson counts.
    shape: f64,
}

impl Scale {
    fn of(each: &[(u64, u64)]) -> Self {
        let sum: f64 = each.iter().map(|(_, exposure)| *exposure as f64).sum();
        Self {
            exposure: (sum / each.len().max(1) as f64).max(1.0),
            shape: Pairs::of_counts(each).shape().unwrap_or(f64::INFINITY),
        }
    }

    fn level(&self, (events, exposure): (u64, u64)) -> f64 {
        let events = (events as f64 + ANSCOMBE) * self.exposure / exposure.max(1) as f64;
        match self.shape.is_finite() {
            true => (events / self.shape).sqrt().asinh(),
            false => events.sqrt(),
        }
    }

    /// Of a million periods.
    fn rate(&self, level: f64) -> f64 {
        let events = match self.shape.is_finite() {
            true => self.shape * level.max(0.0).sinh().powi(2),
            false => level.max(0.0).powi(2),
        };
        1e6 * (events - ANSCOMBE).max(0.0) / self.exposure
    }
}

/// What a series does over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// Steps that hold, in order.
    pub steps: Vec<Step>,
    /// How the level moves slowly since the last step, if it surely does.
    pub drift: Option<Drift>,
}

/// The courses of families of series, all judged together. A family follows one thing in
/// several ways, such as late periods above several thresholds: each of its series is
/// judged as strictly as if the others were the only chance to be wrong (Holm).
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
                let drift = drift::since(values, &levels[index], from, level / family.len() as f64);
                Course { steps, drift }
            });
            each.collect()
        })
        .collect()
}

/// What the permutations say is no chance, of each series in order of place. A family is as
/// probable as the least probable of its series: [`confirm`] makes up for their number.
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
    let mut all: Vec<f64> = whole.iter().filter_map(least).collect();
    all.sort_by(f64::total_cmp);
    let accepted = (all.iter().enumerate())
        .map(|(place, p)| (p, ALPHA * (place + 1) as f64 / judged as f64))
        .filter(|(p, limit)| **p <= limit * NEARLY)
        .map(|(_, limit)| limit)
        .fold(0.0, f64::max);
    let of = |(values, first): (&Values, Option<Split>)| match first {
        Some(first) if first.p <= accepted * NEARLY => {
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

/// The confirmed steps of one series, placed where the scan sees them between their
/// neighbours.
fn steps(values: &Values, found: &[Split], confirmed: Vec<(usize, f64)>) -> Vec<Step> {
    let (mut places, chances): (Vec<usize>, Vec<f64>) = confirmed.into_iter().unzip();
    let nearest = |at: usize| found.iter().min_by_key(|split| split.at.abs_diff(at));
    let splits: Vec<Split> = places
        .iter()
        .filter_map(|at| nearest(*at))
        .copied()
        .collect();
    // A first split of several periods lies where it is best for all of them: each is
    // placed again between its neighbours.
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
        step(values, (from, places[index], to), split.p.max(p))
    })
    .collect()
}

/// From the change point before to the one after.
fn ends(places: &[usize], index: usize, runs: usize) -> (usize, usize) {
    let from = index.checked_sub(1).map_or(0, |before| places[before]);
    (from, places.get(index + 1).copied().unwrap_or(runs))
}

fn step(values: &Values, (from, at, to): (usize, usize, usize), p: f64) -> Step {
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
        p,
    }
}

#[derive(Clone, Copy, Debug)]
struct Split {
    at: usize,
    p: f64,
    by: By,
}

/// Splits further, as long as a split is accepted.
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
    if one.p > accepted * NEARLY {
        return;
    }
    found.push(one);
    for part in [(from, one.at), (one.at, to)] {
        divide(values, part, accepted, (judged, seed), found);
    }
}

/// The best split of a stretch, with its probability where nothing changes.
fn split(values: &Values, from: usize, to: usize, judged: u64, seed: u64) -> Option<Split> {
    if to - from < 2 * LEAST_RUNS {
        return None;
    }
    let mut pairs = values.part(from, to);
    pairs.best(By::Plain)?;
    let runs = (to - from) as u64;
    // Two likelihoods share the error: each needs twice as many.
    let one = PERMUTATIONS * if pairs.is_spread() { 2 } else { 1 };
    let most = (one * judged.max(1)).min((EFFORT / runs).max(one)) - 1;
    let mut random = Rng::with_seed(seed ^ (from as u64) << 32 ^ to as u64);
    let (p, by) = pairs.p_of(most, &mut random);
    // The permutations left no run in its place.
    let at = from + values.part(from, to).best(by)?;
    Some(Split { at, p, by })
}

#[cfg(test)]
mod tests;
