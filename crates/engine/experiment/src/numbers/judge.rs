//! Judges the numbers of an experiment by the random order of its runs.

use super::meter::JOBS;
use punctual_model::{NumberEffect, NumberResult, NumbersExperiment};
use punctual_stats::shift::{Shift, shift};

/// Probability that any result of an experiment is wrong.
pub(crate) const CHANCE: f64 = 0.05;

/// Returns the results of all numbers in all conditions. Their intervals are valid together, so the
/// error probability is divided by their number.
pub(crate) fn results(experiment: &NumbersExperiment) -> Vec<NumberResult> {
    let arms = 1..experiment.arms.len() as u32;
    let names: Vec<&String> = experiment.units.keys().collect();
    let tests = (arms.len() * names.len()).max(1) as f64;
    let each = arms.flat_map(|arm| names.iter().map(move |name| (arm, name.as_str())));
    each.filter_map(|(arm, name)| result(experiment, arm, name, tests))
        .collect()
}

fn result(
    experiment: &NumbersExperiment,
    arm: u32,
    name: &str,
    tests: f64,
) -> Option<NumberResult> {
    let pairs = experiment.pairs_of(arm, name);
    let relative = pairs.iter().flatten().all(|value| *value > 0.0);
    let difference = |[a, b]: &[f64; 2]| if relative { (b / a).ln() } else { b - a };
    let differences: Vec<f64> = pairs.iter().map(difference).collect();
    let found = shift(&differences, CHANCE / tests, experiment.seed)?;
    let within = shift(&differences, 2.0 * CHANCE / tests, experiment.seed)?;
    let shown = |value: f64| if relative { value.exp_m1() } else { value };
    let end = |value: f64| value.is_finite().then(|| shown(value));
    let mut result = NumberResult {
        arm,
        name: name.to_owned(),
        effect: effect(experiment, relative, found, within),
        pairs: pairs.len() as u32,
        medians: [0, 1].map(|side| median(pairs.iter().map(|pair| pair[side]).collect())),
        relative,
        difference: shown(found.found),
        low: end(found.low),
        high: end(found.high),
        p: (found.p * tests).min(1.0),
        sentence: String::new(),
    };
    result.sentence = sentence(experiment, &result);
    Some(result)
}

/// Decides by the interval that is shown, so that both agree. Equivalence takes two one-sided tests.
fn effect(
    experiment: &NumbersExperiment,
    relative: bool,
    found: Shift,
    within: Shift,
) -> NumberEffect {
    let margin = experiment.margin.ln_1p();
    let is_equal = relative && within.low > -margin && within.high < margin;
    let better_if_low = !experiment.higher_is_better;
    match () {
        // A proven difference within the margin is too small to matter.
        () if is_equal => NumberEffect::Equivalent,
        () if found.high < 0.0 && better_if_low => NumberEffect::Better,
        () if found.low > 0.0 && !better_if_low => NumberEffect::Better,
        () if found.high < 0.0 || found.low > 0.0 => NumberEffect::Worse,
        () => NumberEffect::NotProven,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    let at = |place: usize| values.get(place).copied().unwrap_or_default();
    f64::midpoint(at(low), at(high))
}

/// Returns a sentence such as `thp=never: rps is worse: -3.1% (-4.0% to -2.2%, 12 pairs)`.
fn sentence(experiment: &NumbersExperiment, result: &NumberResult) -> String {
    let name = match result.name.as_str() {
        "" => "the number",
        name => name,
    };
    let interval = match (result.low, result.high) {
        (Some(low), Some(high)) => format!("{} to {}", result.text(low), result.text(high)),
        _ => "too few pairs for an interval".to_owned(),
    };
    let is = match result.effect {
        NumberEffect::Equivalent => {
            format!("is equivalent within {}%", experiment.margin * 100.0)
        }
        NumberEffect::NotProven => "shows no proven difference".to_owned(),
        effect => format!("is {}", effect.words()),
    };
    format!(
        "{}: {name} {is}: {} ({interval}, {} pairs)",
        experiment.arm_name(result.arm),
        result.text(result.difference),
        result.pairs
    )
}

/// Returns all results in one sentence, after the conditions that handled other numbers of jobs.
pub(crate) fn answer(experiment: &NumbersExperiment, results: &[NumberResult]) -> String {
    if results.is_empty() {
        return "not proven: no pair of runs is complete".to_owned();
    }
    let handled = (1..experiment.arms.len() as u32).filter_map(|arm| handled(experiment, arm));
    let each = results.iter().map(|one| one.sentence.clone());
    handled.chain(each).collect::<Vec<_>>().join("; ")
}

/// Least difference of the number of jobs that is stated, as a share.
const APART: f64 = 0.05;

/// Returns a sentence if a condition handled another number of jobs than the baseline. A server with
/// fewer requests is less often late.
fn handled(experiment: &NumbersExperiment, arm: u32) -> Option<String> {
    let pairs = experiment.pairs_of(arm, JOBS);
    let mean = |side: usize| {
        let all: f64 = pairs.iter().map(|pair| pair[side]).sum();
        all / pairs.len() as f64
    };
    let [a, b] = [mean(0), mean(1)];
    let change = b / a - 1.0;
    if !change.is_finite() || change.abs() < APART {
        return None;
    }
    let more = if change > 0.0 { "more" } else { "fewer" };
    Some(format!(
        "{} handled {:.0}% {more} jobs ({a:.1} a second, then {b:.1})",
        experiment.arm_name(arm),
        change.abs() * 100.0
    ))
}
