//! The variation of a figure over the whole length of a run.
//!
//! The noise of single blocks hides slow wandering. For example, the first half of a run may have
//! been a little later than the second, or a single burst may have caused all late samples. The
//! spread of each figure is therefore also measured in the slowest waves that fit into the run.
//! Their mean square is the long-run variance, with as many degrees of freedom as there are waves
//! (equal-weighted cosines: Müller, Journal of Econometrics 141, 2007; Lazarus, Lewis, Stock and
//! Watson, Journal of Business & Economic Statistics 36, 2018). Fewer waves give wider and more
//! honest intervals.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::blocks::{Blocks, LEAST_BLOCKS, inflation, memory_of};
use crate::counts::{Counts, Scale, Segment};
use crate::figure::Figure;

/// Number of waves that are used if there are at least twice as many blocks.
const WAVES: usize = 8;

/// The smallest number of waves that is used if there are enough blocks.
const FEWEST_WAVES: usize = 3;

/// The slowest two waves may exceed the mean of all waves. The variance of the run's mean is taken
/// to exceed it by this multiple of that excess. The multiple is derived for a level that wanders
/// with a correlation time of half of the run (Ornstein and Uhlenbeck): the mean has 0.567 of the
/// variance, and these two waves have 0.190 each. With a multiple of four, clear differences would
/// be missed.
const DRIFT: f64 = 3.0;

/// If the slowest two waves exceed this multiple of the mean of all waves, only these two count,
/// with two degrees of freedom. If they are smaller, chance can also explain them (calibrated:
/// `cargo xtask simulate`).
const PLAIN_DRIFT: f64 = 2.5;

/// The 97.5% points of the t distribution with 2 to 8 degrees of freedom.
const T: [f64; WAVES - 1] = [4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306];

/// A figure is not judged if the [`inflation`] of its blocks is larger than this.
const INFLATION_MOST: f64 = 3.0;

/// The variation of one figure over the whole run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LongRun {
    /// Ratio of the figure's variance over the whole run to its variance in resampled blocks.
    pub(crate) wider: f64,
    /// Degrees of freedom of that ratio.
    pub(crate) freedom: f64,
    /// Whether the figure varies too slowly for the length of the run.
    pub(crate) too_slow: bool,
    /// Number of intervals that would be enough in that case. `None` if unknown.
    pub(crate) intervals_needed: Option<usize>,
    /// The share of samples that is the figure itself, or on which the figure depends.
    share: f64,
    /// The variance of that share.
    variance: f64,
}

/// Returns the variation of each figure. The last entry is the variation of the probability that
/// the candidate is later.
pub(crate) fn of_all(scale: &Scale, figures: &[Figure], runs: [&Blocks; 2]) -> Vec<[LongRun; 2]> {
    let counts = runs.map(|run| counted(scale, run.each.iter()));
    let mut all: Vec<[LongRun; 2]> = (figures.iter())
        .map(|figure| [0, 1].map(|side| of_figure(*figure, runs[side], &counts[side])))
        .collect();
    all.push([0, 1].map(|side| {
        let later = later_than(&counts[1 - side]);
        let each = |block: &Segment| Part {
            weight: weigh(block, &later.1) + block.early as f64 * later.0,
            of: block.total() as f64 + block.early as f64,
        };
        of_parts(runs[side], each)
    }));
    all
}

/// The contribution of a block to a figure that is a share.
struct Part {
    weight: f64,
    of: f64,
}

fn of_figure(figure: Figure, run: &Blocks, counts: &Counts) -> LongRun {
    match figure {
        // A quantile varies in the same way as the share of samples beyond it. If many samples are
        // equal to it, the shares on both sides are considered.
        Figure::Quantile(quantile) => match counts.place_of(quantile) {
            Some(place) => {
                let sides = [place, place + 1].map(|place| of_parts(run, above(place)));
                LongRun {
                    wider: sides[0].wider.max(sides[1].wider),
                    too_slow: sides[0].too_slow || sides[1].too_slow,
                    intervals_needed: sides.iter().filter_map(|side| side.intervals_needed).max(),
                    ..sides[0]
                }
            }
            None => of_parts(run, above(0)),
        },
        Figure::Missed => of_parts(run, |block| Part {
            weight: block.missed as f64,
            of: block.total() as f64 + block.early as f64 + block.missed as f64,
        }),
        Figure::From(place) => of_parts(run, |block| Part {
            weight: block.from(place) as f64,
            of: block.total() as f64 + block.early as f64,
        }),
    }
}

/// Returns the share of the samples of `other` that are earlier than a given one: for an early
/// sample, and for each value by its index. Equal latencies count half.
fn later_than(other: &Counts) -> (f64, Vec<f64>) {
    let all = other.total().saturating_add(other.early).max(1) as f64;
    let mut before = other.early as f64;
    let each = other.each.iter().map(|count| {
        let here = *count as f64;
        let share = (before + 0.5 * here) / all;
        before += here;
        share
    });
    (0.5 * other.early as f64 / all, each.collect())
}

fn weigh(block: &Segment, weights: &[f64]) -> f64 {
    let each = block.filled.iter();
    each.map(|(place, count)| *count as f64 * weights[*place as usize])
        .sum()
}

/// Returns the probability that two equal runs differ this much in their shares of samples later
/// than a common quantile. `None` for figures that are not quantiles. If a run has a single burst,
/// almost all draws contain that burst, so high quantiles seem to be precise. This test detects
/// that there was only one burst.
pub(crate) fn quantile_p(
    scale: &Scale,
    figures: &[Figure],
    runs: [&Blocks; 2],
) -> Vec<Option<f64>> {
    let both = counted(scale, runs.iter().flat_map(|run| &run.each));
    let p_at = |place: usize| {
        let sides = runs.map(|run| of_parts(run, above(place)));
        let variances = sides.map(|side| side.variance);
        let apart = sides[1].share - sides[0].share;
        let error = (variances[0] + variances[1]).sqrt();
        let freedom = welch(variances, sides.map(|side| side.freedom));
        match (StudentsT::new(0.0, 1.0, freedom), error > 0.0) {
            (Ok(t), true) => 2.0 * t.cdf(-(apart / error).abs()),
            _ if apart == 0.0 => 1.0,
            _ => 0.0,
        }
    };
    let of_figure = |figure: &Figure| match figure {
        // Two shares are tested: that of samples later than the quantile, and that of samples later
        // or equal. If many samples are equal to it, one of the two may be uninformative.
        Figure::Quantile(quantile) => {
            let place = both.place_of(*quantile)?;
            Some(p_at(place).min(p_at(place + 1)))
        }
        Figure::Missed | Figure::From(_) => None,
    };
    figures.iter().map(of_figure).collect()
}

/// Returns the degrees of freedom of a sum of `variances` (Welch, Biometrika 34, 1947).
pub(crate) fn welch(variances: [f64; 2], freedom: [f64; 2]) -> f64 {
    let sum = variances[0] + variances[1];
    let each = [0, 1].map(|side| variances[side].powi(2) / freedom[side]);
    let together = sum * sum / (each[0] + each[1]);
    // NaN if neither varies.
    together.max(freedom[0].min(freedom[1]))
}

fn counted<'a>(scale: &Scale, blocks: impl Iterator<Item = &'a Segment>) -> Counts {
    let mut counts = Counts {
        each: vec![0; scale.len()],
        ..Counts::default()
    };
    blocks.for_each(|block| counts.add(block));
    counts
}

/// Counts the samples at `place` and above.
fn above(place: usize) -> impl Fn(&Segment) -> Part {
    move |block| Part {
        weight: block.from(place) as f64,
        of: block.total() as f64,
    }
}

fn of_parts(run: &Blocks, part: impl Fn(&Segment) -> Part) -> LongRun {
    let shares: Vec<f64> = (run.intervals.iter().map(&part))
        .filter(|part| part.of > 0.0)
        .map(|part| part.weight / part.of)
        .collect();
    let memory = memory_of(&shares);
    let left = inflation(memory, run.length);
    // With few intervals, the estimate of the correlation is uncertain. Therefore, the upper bound
    // of the correlation determines whether the figure is judged.
    let error = ((1.0 - memory * memory) / shares.len().max(1) as f64).sqrt();
    let at_most = if memory > 0.0 {
        (memory + error).min(0.99)
    } else {
        0.0
    };
    let too_slow = inflation(at_most, run.length) > INFLATION_MOST;
    let drifts = halves_differ(&shares, memory);
    let parts: Vec<Part> = run.each.iter().map(part).collect();
    let weight: f64 = parts.iter().map(|part| part.weight).sum();
    let of: f64 = parts.iter().map(|part| part.of).sum();
    let mean = if of > 0.0 { weight / of } else { 0.0 };
    let apart: Vec<f64> = (parts.iter())
        .map(|part| part.weight - mean * part.of)
        .collect();
    let (slow, waves) = long_run(&apart);
    let blocks = apart.len() as f64;
    // The variance of draws is too small by the factor (n - 1) / n, because draws use the mean of
    // the n values.
    let known = blocks / (blocks - 1.0).max(1.0);
    let wider = known * left.max(slow);
    let square: f64 = apart.iter().map(|value| value * value).sum();
    LongRun {
        wider,
        share: mean,
        variance: wider * square / (of * of).max(1.0),
        freedom: waves as f64,
        too_slow: too_slow || drifts,
        intervals_needed: (too_slow && !drifts)
            .then(|| intervals_needed(memory))
            .flatten(),
    }
}

/// Returns whether the halves of a run differ more than the correlation of neighbouring values
/// explains. Such a run drifted, and the drift probably continues.
fn halves_differ(values: &[f64], memory: f64) -> bool {
    let half = values.len() / 2;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let middle = mean(values);
    let square: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    let variance = square / (values.len() as f64 - 1.0).max(1.0);
    let apart = (mean(&values[..half]) - mean(&values[values.len() - half..])).abs();
    let error = (2.0 * variance / half.max(1) as f64).sqrt();
    apart > 2.0 * error * ((1.0 + memory) / (1.0 - memory)).sqrt()
}

/// Returns the number of intervals with which blocks are long enough for this correlation. `None`
/// if the correlation is so strong that a drift looks like a wave.
fn intervals_needed(memory: f64) -> Option<usize> {
    const DRIFT: f64 = 0.98;
    let length = (1..10_000).find(|length| inflation(memory, *length) <= INFLATION_MOST)?;
    (memory < DRIFT).then_some((length + 2) * LEAST_BLOCKS)
}

/// Returns the ratio of the variance in the slowest waves to the variance of all `values`, whose
/// mean is zero, and the number of these waves. The ratio is 1 without correlation.
fn long_run(values: &[f64]) -> (f64, usize) {
    let number = values.len() as f64;
    let all: f64 = values.iter().map(|value| value * value).sum();
    let wave = |nth: usize| {
        let step = std::f64::consts::PI * nth as f64 / number;
        let each = values.iter().zip(0u32..);
        let sum: f64 = each
            .map(|(value, place)| value * (step * (f64::from(place) + 0.5)).cos())
            .sum();
        sum * sum * 2.0 / number
    };
    let waves: Vec<f64> = (1..=(values.len() / 2).clamp(1, WAVES)).map(wave).collect();
    let of_first = |few: usize| waves[..few].iter().sum::<f64>() / few as f64;
    let per_wave = all / (number - 1.0).max(1.0);
    // Selects the number of waves that results in the widest interval. A smaller number covers only
    // slower variation, and the estimate is less certain.
    let plain = (FEWEST_WAVES..=waves.len()).map(|few| (of_first(few), few));
    let drift = (waves.len() >= 2).then(|| {
        let slowest = of_first(2);
        let excess = (slowest - per_wave).max(0.0);
        let plainly = slowest > PLAIN_DRIFT * per_wave;
        let freedom = if plainly { 2 } else { FEWEST_WAVES };
        (slowest + (DRIFT - 1.0) * excess, freedom)
    });
    let width = |(variance, freedom): (f64, usize)| variance.sqrt() * T[freedom - 2];
    let widest = plain
        .chain(drift)
        .max_by(|a, b| width(*a).total_cmp(&width(*b)));
    match widest {
        Some((variance, few)) if per_wave > 0.0 => (variance / per_wave, few),
        _ => (1.0, waves.len()),
    }
}

#[cfg(test)]
#[path = "longrun_tests.rs"]
mod tests;
