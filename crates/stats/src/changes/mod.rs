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

mod scan;
mod spikes;

use fastrand::Rng;

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
    /// The probability of such a split where there is no change, by permutation.
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

    fn part(&self, from: usize, to: usize) -> Pairs {
        match self {
            Self::Counts(each) => Pairs::of_counts(&each[from..to]),
            Self::Figures(each) => Pairs::of_ranks(&each[from..to]),
        }
    }
}

/// The change points of each series, all judged together.
pub fn steps_of(series: &[Values], seed: u64) -> Vec<Vec<Step>> {
    let judged = series.iter().filter(|values| values.is_enough()).count() as u64;
    let whole: Vec<Option<Split>> = (series.iter())
        .map(|values| split(values, 0, values.len(), judged, seed))
        .collect();
    let mut all: Vec<f64> = whole.iter().flatten().map(|split| split.p).collect();
    all.sort_by(f64::total_cmp);
    let accepted = (all.iter().enumerate())
        .map(|(place, p)| (p, ALPHA * (place + 1) as f64 / judged as f64))
        .filter(|(p, limit)| **p <= limit * (1.0 + 1e-9))
        .map(|(_, limit)| limit)
        .fold(0.0, f64::max);
    (series.iter().zip(whole))
        .map(|(values, first)| match first {
            Some(first) if first.p <= accepted * (1.0 + 1e-9) => {
                let mut found = vec![first];
                let ends = [(0, first.at), (first.at, values.len())];
                for (from, to) in ends {
                    divide(values, (from, to), accepted, (judged, seed), &mut found);
                }
                found.sort_by_key(|split| split.at);
                steps(values, &found)
            }
            _ => Vec::new(),
        })
        .collect()
}

/// The change points of one series.
fn steps(values: &Values, found: &[Split]) -> Vec<Step> {
    let mut places: Vec<usize> = found.iter().map(|split| split.at).collect();
    // A first split of several periods lies where it is best for all of them: each is
    // placed again between its neighbours.
    for _ in 0..2 {
        for (index, split) in found.iter().enumerate() {
            let (from, to) = ends(&places, index, values.len());
            if let Some(at) = values.part(from, to).best(split.by) {
                places[index] = from + at;
            }
        }
    }
    (found.iter().enumerate())
        .map(|(index, split)| {
            let (from, to) = ends(&places, index, values.len());
            step(values, (from, places[index], to), split.p)
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

#[derive(Clone, Copy)]
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
    if one.p > accepted * (1.0 + 1e-9) {
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
