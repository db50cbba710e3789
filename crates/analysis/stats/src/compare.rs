//! Comparison of recordings.

use punctual_model::Recording;

use crate::permute::{ByRun, CHANCE};
use crate::thread_pair::{ByFigure, Work, has_samples_above, pairs};
use crate::{
    COMPARISON_SCHEMA, Change, Channel, CompareError, Comparison, Estimate, Options, Quantile,
    Rate, RateOfSide, Side, Unit, alike, holm, identity, permute, sentence, shortfalls,
};

/// Compares `candidate` with `baseline`, based on blocks of these two runs.
///
/// # Errors
/// [`CompareError`]: the recordings are of different probes, have no latencies, or have no channel
/// in common.
pub fn compare(
    baseline: &Recording,
    candidate: &Recording,
    options: &Options,
) -> Result<Comparison, CompareError> {
    compare_runs(&[baseline], &[candidate], options)
}

/// Compares the runs of one side with those of the other. If a side has several runs, the unit of
/// comparison is the run, and the time series are ignored.
///
/// # Errors
/// Fails like [`compare`], and also if a side has no run.
pub fn compare_runs(
    baseline: &[&Recording],
    candidate: &[&Recording],
    options: &Options,
) -> Result<Comparison, CompareError> {
    let sides = [baseline, candidate];
    let [Some(first), Some(second)] = sides.map(Side::from_runs) else {
        return Err(CompareError::NoRun);
    };
    let all = || sides.into_iter().flatten();
    let probe = |one: &Recording| one.probe.name.clone();
    if let Some(other) = all().find(|one| probe(one) != probe(baseline[0])) {
        return Err(CompareError::Probes {
            baseline: probe(baseline[0]),
            candidate: probe(other),
        });
    }
    if let Some(empty) = all().find(|one| one.all_latencies().recorded() == 0) {
        return Err(CompareError::Nothing {
            id: empty.id.short(),
        });
    }
    let mut options = options.clone();
    // The share of late jobs is compared, because the number of jobs depends on the load.
    options.threshold = options.threshold.or_else(|| identity::budget(sides));
    let options = &options;
    let worked = pairs(sides)?.into_iter();
    let (mut channels, by_run): (Vec<Channel>, Vec<ByFigure>) = worked
        .map(|pair| Work::new(sides, pair, options).channel())
        .unzip();
    let unit = match all().count() {
        2 => Unit::Block,
        _ => Unit::Run,
    };
    let replicates = match unit {
        Unit::Block => {
            judge_together(&mut channels);
            options.replicates as u64
        }
        Unit::Run => {
            let runs = sides.map(<[&Recording]>::len);
            judge_runs(&mut channels, &by_run.concat(), runs, options.seed)
        }
    };
    let known = alike::known(sides);
    let mut cautions = alike::cautions(sides);
    cautions.extend(known.mixed);
    cautions.extend(identity::changes(sides));
    cautions.extend(identity::lost(sides));
    let mut comparison = Comparison {
        schema: COMPARISON_SCHEMA,
        summary: String::new(),
        change: overall(&channels),
        unit,
        shortfalls: shortfalls::find_shortfalls(&channels, unit, sides.map(<[&Recording]>::len)),
        baseline: first,
        candidate: second,
        measured_differently: known.measured,
        machine: known.machine,
        not_known: known.not_known,
        cautions,
        channels,
        replicates,
        seed: options.seed,
    };
    let handled = identity::handled(sides).into_iter();
    let sentence = sentence::comparison_sentence(&comparison);
    comparison.summary = handled.chain([sentence]).collect::<Vec<_>>().join("; ");
    Ok(comparison)
}

/// Judges the figures of several runs per side by all permutations of the runs. Returns the number
/// of permutations.
fn judge_runs(
    channels: &mut [Channel],
    by_run: &[Option<ByRun>],
    runs: [usize; 2],
    seed: u64,
) -> u64 {
    if permute::smallest_p(runs) >= CHANCE {
        too_few_runs(channels);
        return permute::ways((runs[0] + runs[1]) as u64, runs[0] as u64);
    }
    let permuted = permute::test(by_run, runs, seed);
    let mut each = by_run.iter().zip(permuted.p.iter().zip(&permuted.adjusted));
    let mut next = |found: Option<f64>, unit: f64| {
        let (figure, (p, adjusted)) = each.next()?;
        let (figure, p, adjusted) = (figure.as_ref()?, (*p)?, (*adjusted)?);
        let (low, high) = permute::interval(figure, |a, b| b - a)?;
        // The test concerns the difference of medians, so the interval must contain that
        // difference.
        let found = found.unwrap_or(low * unit);
        let positive = figure[0].iter().all(|value| *value > 0.0);
        let ratio = positive
            .then(|| permute::interval(figure, |a, b| b / a))
            .flatten();
        Some(Estimate {
            difference_low: (low * unit).min(found),
            difference_high: (high * unit).max(found),
            ratio_low: ratio.map(|(low, _)| low),
            ratio_high: ratio.map(|(_, high)| high),
            p,
            p_adjusted: adjusted,
        })
    };
    for channel in channels {
        for one in &mut channel.quantiles {
            let found = one.difference_ns.map(|ns| ns.0 as f64);
            if let Some(estimate) = next(found, 1.0) {
                one.change = change(estimate, one.difference_ns.is_some_and(|ns| ns.0 > 0));
                (one.estimate, one.not_known) = (Some(estimate), None);
            }
        }
        for one in &mut channel.rates {
            // If neither side has any events, there is nothing to test.
            if let Some(estimate) = next(None, 1e6)
                && one.change != Change::NoneFound
            {
                one.change = change(estimate, more(one));
                (one.estimate, one.not_known) = (Some(estimate), None);
            }
        }
    }
    permuted.arrangements
}

/// Sets the reason "too few runs" for each figure that is unknown and has no reason yet.
fn too_few_runs(channels: &mut [Channel]) {
    for channel in channels {
        let quantiles = channel.quantiles.iter_mut().map(|one| &mut one.not_known);
        let rates = channel.rates.iter_mut().map(|one| &mut one.not_known);
        for why in quantiles.chain(rates).flatten() {
            if why.is_empty() {
                "too few runs".clone_into(why);
            }
        }
    }
}

/// Judges all figures together, and sets the result of each.
fn judge_together(channels: &mut [Channel]) {
    let values: Vec<Option<f64>> = (channels.iter())
        .flat_map(|channel| {
            let quantiles = channel.quantiles.iter().map(|one| one.estimate);
            quantiles.chain(channel.rates.iter().map(|one| one.estimate))
        })
        .map(|estimate| estimate.map(|estimate| estimate.p))
        .collect();
    let mut adjusted = holm::adjust(&values).into_iter().flatten();
    for channel in channels {
        for one in &mut channel.quantiles {
            let difference = one.difference_ns.map_or(0, |ns| ns.0);
            judge(
                &mut one.estimate,
                &mut one.change,
                &mut adjusted,
                difference > 0,
            );
        }
        for one in &mut channel.rates {
            let more = more(one);
            judge(&mut one.estimate, &mut one.change, &mut adjusted, more);
        }
    }
}

/// Judges one figure by the next adjusted p-value, if it has an estimate.
fn judge(
    estimate: &mut Option<Estimate>,
    change: &mut Change,
    adjusted: &mut impl Iterator<Item = f64>,
    more: bool,
) {
    let Some(estimate) = estimate else {
        return;
    };
    estimate.p_adjusted = adjusted.next().unwrap_or(1.0);
    *change = self::change(*estimate, more);
}

/// Returns the change in the direction that the test proves. If the medians of several runs differ
/// in the opposite direction, the result is inconclusive.
fn change(estimate: Estimate, more: bool) -> Change {
    let [fewest, most] = [estimate.difference_low, estimate.difference_high];
    match (estimate.p_adjusted < CHANCE, more) {
        (true, true) if most > 0.0 => Change::Worse,
        (true, false) if fewest < 0.0 => Change::Better,
        _ => Change::NoneFound,
    }
}

fn more(one: &Rate) -> bool {
    let rate = |side: Option<RateOfSide>| side.map_or(0.0, |side| side.per_million);
    rate(one.candidate) > rate(one.baseline)
}

fn overall(channels: &[Channel]) -> Change {
    let changes = || {
        channels.iter().flat_map(|channel| {
            let quantiles = channel.quantiles.iter().map(|one| one.change);
            quantiles.chain(channel.rates.iter().map(|one| one.change))
        })
    };
    // Lists the changes in order of importance.
    match changes().min().unwrap_or(Change::Unknown) {
        Change::NoneFound if channels.iter().any(is_open) => Change::Unknown,
        change => change,
    }
}

/// Returns whether a channel has a figure with enough samples that could not be judged because of
/// the distribution of the samples over time.
fn is_open(channel: &Channel) -> bool {
    let quantile = |one: &Quantile| {
        one.change == Change::Unknown
            && one.difference_ns.is_some()
            && (channel.recorded.iter()).all(|all| has_samples_above(*all, one.quantile))
    };
    let rate = |one: &Rate| {
        let both = one.baseline.zip(one.candidate);
        one.change == Change::Unknown && both.is_some_and(|(a, b)| a.count + b.count > 0)
    };
    channel.quantiles.iter().any(quantile) || channel.rates.iter().any(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direction_and_proof_are_of_one_test() {
        let of = |low: f64, high: f64, more| {
            let estimate = Estimate {
                difference_low: low,
                difference_high: high,
                ratio_low: None,
                ratio_high: None,
                p: 0.01,
                p_adjusted: 0.01,
            };
            change(estimate, more)
        };
        assert_eq!(of(1.0, 9.0, true), Change::Worse);
        assert_eq!(of(-9.0, -1.0, false), Change::Better);
        // The test finds that most runs are higher, but the median is not higher.
        assert_eq!(of(1.0, 9.0, false), Change::NoneFound);
        assert_eq!(of(-9.0, -1.0, true), Change::NoneFound);
    }

    fn estimate(low: f64, high: f64, p_adjusted: f64) -> Estimate {
        Estimate {
            difference_low: low,
            difference_high: high,
            ratio_low: None,
            ratio_high: None,
            p: p_adjusted,
            p_adjusted,
        }
    }

    #[test]
    fn change_needs_significance_and_a_direction() {
        for (low, high, p, more, expected) in [
            (-1.0, 9.0, 0.049, true, Change::Worse),
            (-9.0, 1.0, 0.049, false, Change::Better),
            (1.0, 9.0, 0.05, true, Change::NoneFound),
            (-9.0, -1.0, 0.05, false, Change::NoneFound),
            (-9.0, 0.0, 0.01, true, Change::NoneFound),
            (0.0, 9.0, 0.01, false, Change::NoneFound),
        ] {
            assert_eq!(
                change(estimate(low, high, p), more),
                expected,
                "{low} {high} {p}"
            );
        }
    }

    /// A channel whose figures have these changes and rates.
    fn channel(quantiles: &[(f64, Change, Option<i64>)], rates: &[(Change, [u64; 2])]) -> Channel {
        let recording = punctual_model::testing::recording(1, 2);
        let found = compare(&recording, &recording, &Options::default()).unwrap();
        let mut channel = found.channels[0].clone();
        let one = channel.quantiles[0].clone();
        channel.quantiles = (quantiles.iter())
            .map(|(quantile, change, difference)| Quantile {
                quantile: *quantile,
                change: *change,
                difference_ns: difference.map(punctual_model::SignedNanos),
                estimate: None,
                not_known: None,
                ..one.clone()
            })
            .collect();
        let side = |count: u64| RateOfSide {
            count,
            of: 1_000,
            per_million: count as f64 * 1e3,
            low: 0.0,
            high: 0.0,
        };
        let rate = |(change, [a, b]): &(Change, [u64; 2])| Rate {
            what: "missed".to_owned(),
            from_ns: None,
            baseline: Some(side(*a)),
            candidate: Some(side(*b)),
            estimate: None,
            not_known: None,
            measure_ns: None,
            change: *change,
        };
        channel.rates = rates.iter().map(rate).collect();
        channel.recorded = [2_000, 2_000];
        channel
    }

    /// Worse comes before better, and an open question only if nothing was found.
    #[test]
    fn most_important_change_is_that_of_the_comparison() {
        use Change::{Better, NoneFound, Unknown, Worse};
        let of = |quantiles: &[(f64, Change, Option<i64>)], rates: &[(Change, [u64; 2])]| {
            overall(&[
                channel(&[(0.5, NoneFound, Some(0))], &[]),
                channel(quantiles, rates),
            ])
        };
        assert_eq!(
            of(&[(0.5, Better, Some(-1)), (0.9, Worse, Some(1))], &[]),
            Worse
        );
        assert_eq!(of(&[(0.5, Better, Some(-1))], &[(Unknown, [1, 1])]), Better);
        assert_eq!(of(&[], &[(Worse, [1, 9])]), Worse);
        assert_eq!(of(&[], &[]), NoneFound);
        // A figure with enough samples could not be judged.
        assert_eq!(of(&[(0.99, Unknown, Some(3))], &[]), Unknown);
        assert_eq!(of(&[], &[(Unknown, [0, 2])]), Unknown);
        assert_eq!(of(&[], &[(Unknown, [2, 0])]), Unknown);
        // Too few samples above the quantile, no value, and a count that never happened.
        assert_eq!(of(&[(0.999, Unknown, Some(3))], &[]), NoneFound);
        assert_eq!(of(&[(0.99, Unknown, None)], &[]), NoneFound);
        assert_eq!(of(&[], &[(Unknown, [0, 0])]), NoneFound);
        assert_eq!(overall(&[]), Unknown);
        assert_eq!(
            overall(&[channel(&[(0.5, Unknown, Some(1))], &[])]),
            Unknown
        );
    }

    /// Holm: 0.01, 0.02 and 0.03 times 3, 2 and 1. All are significant together.
    #[test]
    fn figures_of_all_channels_are_adjusted_together() {
        let with = |mut channel: Channel, values: [Option<f64>; 2]| {
            channel.quantiles[0].estimate = values[0].map(|p| estimate(1.0, 2.0, p));
            channel.rates[0].estimate = values[1].map(|p| estimate(-2.0, -1.0, p));
            channel
        };
        let one = || {
            channel(
                &[(0.5, Change::Unknown, Some(1))],
                &[(Change::Unknown, [4, 1])],
            )
        };
        let mut channels = [
            with(one(), [Some(0.03), Some(0.01)]),
            with(one(), [None, Some(0.02)]),
        ];
        judge_together(&mut channels);
        let adjusted = |channel: &Channel| {
            let each = [channel.quantiles[0].estimate, channel.rates[0].estimate];
            each.map(|one| one.map(|one| one.p_adjusted))
        };
        assert_eq!(
            channels.each_ref().map(adjusted),
            [[Some(0.04), Some(0.03)], [None, Some(0.04)]]
        );
        let changes = |channel: &Channel| (channel.quantiles[0].change, channel.rates[0].change);
        let expected = [
            (Change::Worse, Change::Better),
            (Change::Unknown, Change::Better),
        ];
        assert_eq!(channels.each_ref().map(changes), expected);
        // A fourth test makes all of them insignificant.
        let mut channels = [
            with(one(), [Some(0.03), Some(0.013)]),
            with(one(), [Some(0.9), Some(0.02)]),
        ];
        judge_together(&mut channels);
        let expected = [(Change::NoneFound, Change::NoneFound); 2];
        assert_eq!(channels.each_ref().map(changes), expected);
    }

    #[test]
    fn unsuitable_recordings_are_refused_by_name() {
        let a = punctual_model::testing::recording(1, 2);
        let mut other = a.clone();
        other.probe.name = "signal".to_owned();
        let options = Options::default();
        let error = compare(&a, &other, &options).unwrap_err();
        assert!(
            matches!(error, CompareError::Probes { ref candidate, .. } if candidate == "signal")
        );
        let mut empty = a.clone();
        empty.threads[0].histogram = punctual_model::Histogram::new();
        let nothing = CompareError::Nothing {
            id: empty.id.short(),
        };
        for (one, two) in [(&a, &empty), (&empty, &a)] {
            assert_eq!(compare(one, two, &options), Err(nothing.clone()));
        }
        assert_eq!(compare_runs(&[&a], &[], &options), Err(CompareError::NoRun));
        let found = compare(&a, &a, &options).unwrap();
        assert_eq!(
            (found.unit, found.replicates, found.seed),
            (Unit::Block, 2_000, 1)
        );
        assert_eq!(
            compare_runs(&[&a, &a], &[&a], &options).unwrap().unit,
            Unit::Run
        );
    }
}
