//! Comparing two recordings.

use punctual_model::Recording;

use crate::lanes::{Work, has_samples_above, pairs};
use crate::{
    COMPARISON_SCHEMA, Change, CompareError, Comparison, Estimate, Lane, Options, Quantile, Rate,
    RateOfSide, Side, alike, holm, sentence,
};

/// The chance of a false alarm that is taken, over all figures together.
const CHANCE: f64 = 0.05;

/// Compares `candidate` with `baseline`.
///
/// # Errors
/// [`CompareError`]: recordings of different probes, without latencies, or without
/// a lane in common.
pub fn compare(
    baseline: &Recording,
    candidate: &Recording,
    options: &Options,
) -> Result<Comparison, CompareError> {
    if baseline.probe.name != candidate.probe.name {
        return Err(CompareError::Probes {
            baseline: baseline.probe.name.clone(),
            candidate: candidate.probe.name.clone(),
        });
    }
    let both = [baseline, candidate];
    if let Some(empty) = (both.iter()).find(|one| one.all_latencies().recorded() == 0) {
        return Err(CompareError::Nothing {
            id: empty.id.short(),
        });
    }
    let mut lanes: Vec<Lane> = pairs(both)?
        .into_iter()
        .map(|pair| Work::new(both, pair, options).lane())
        .collect();
    judge_together(&mut lanes);
    let known = alike::known(both);
    let mut comparison = Comparison {
        schema: COMPARISON_SCHEMA,
        summary: String::new(),
        change: overall(&lanes),
        baseline: Side::of(baseline),
        candidate: Side::of(candidate),
        measured_differently: known.measured,
        machine: known.machine,
        not_known: known.not_known,
        cautions: alike::cautions(both),
        lanes,
        replicates: options.replicates as u64,
        seed: options.seed,
    };
    comparison.summary = sentence::of(&comparison);
    Ok(comparison)
}

/// Says of each figure what became of it: all of them are one question.
fn judge_together(lanes: &mut [Lane]) {
    let values: Vec<Option<f64>> = (lanes.iter())
        .flat_map(|lane| {
            let quantiles = lane.quantiles.iter().map(|one| one.estimate);
            quantiles.chain(lane.rates.iter().map(|one| one.estimate))
        })
        .map(|estimate| estimate.map(|estimate| estimate.p))
        .collect();
    let mut adjusted = holm::adjust(&values).into_iter().flatten();
    for lane in lanes {
        for one in &mut lane.quantiles {
            let difference = one.difference_ns.map_or(0, |ns| ns.0);
            judge(
                &mut one.estimate,
                &mut one.change,
                &mut adjusted,
                difference > 0,
            );
        }
        for one in &mut lane.rates {
            let rate = |side: Option<RateOfSide>| side.map_or(0.0, |side| side.per_million);
            let more = rate(one.candidate) > rate(one.baseline);
            judge(&mut one.estimate, &mut one.change, &mut adjusted, more);
        }
    }
}

/// Judges one figure by the next of the adjusted values, if it has an estimate.
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
    *change = match (estimate.p_adjusted < CHANCE, more) {
        (false, _) => Change::NoneFound,
        (true, true) => Change::Worse,
        (true, false) => Change::Better,
    };
}

fn overall(lanes: &[Lane]) -> Change {
    let changes = || {
        lanes.iter().flat_map(|lane| {
            let quantiles = lane.quantiles.iter().map(|one| one.change);
            quantiles.chain(lane.rates.iter().map(|one| one.change))
        })
    };
    // In the order of their weight.
    match changes().min().unwrap_or(Change::Unknown) {
        Change::NoneFound if lanes.iter().any(is_open) => Change::Unknown,
        change => change,
    }
}

/// Whether a lane has a figure that could have been judged by its samples, and was not
/// because of how they came.
fn is_open(lane: &Lane) -> bool {
    let quantile = |one: &Quantile| {
        one.change == Change::Unknown
            && one.difference_ns.is_some()
            && (lane.recorded.iter()).all(|all| has_samples_above(*all, one.quantile))
    };
    let rate = |one: &Rate| {
        let both = one.baseline.zip(one.candidate);
        one.change == Change::Unknown && both.is_some_and(|(a, b)| a.count + b.count > 0)
    };
    lane.quantiles.iter().any(quantile) || lane.rates.iter().any(rate)
}
