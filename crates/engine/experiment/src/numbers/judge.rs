//! Judges the numbers of an experiment by the random order of its runs.

use std::collections::BTreeMap;

use super::meter::{JOBS, UNKNOWN};
use punctual_model::{ChangeKind, NumberEffect, NumberResult, NumbersExperiment};
use punctual_stats::shift::{Shift, shift};
use punctual_stats::throughput_change;

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
    let unknown = unknown_share(experiment, &result, &pairs);
    if unknown.is_some() {
        result.effect = NumberEffect::NotProven;
    }
    result.sentence = sentence(experiment, &result, unknown);
    Some(result)
}

/// Returns the share of jobs of unknown response time, in ppm, if it is large enough to explain what
/// the result claims: these jobs may all have been late on one side.
fn unknown_share(
    experiment: &NumbersExperiment,
    result: &NumberResult,
    late: &[[f64; 2]],
) -> Option<f64> {
    let [a, b] = means(late);
    let claimed = match result.effect {
        NumberEffect::NotProven => return None,
        NumberEffect::Equivalent => experiment.margin * a,
        NumberEffect::Better | NumberEffect::Worse => (b - a).abs(),
    };
    let [before, after] = means(&experiment.pairs_of(result.arm, UNKNOWN));
    let most = before.max(after);
    (most > 0.0 && most >= claimed).then_some(most)
}

/// Returns the means of both sides; NaN without pairs.
fn means(pairs: &[[f64; 2]]) -> [f64; 2] {
    [0, 1].map(|side: usize| {
        let sum: f64 = pairs.iter().map(|pair| pair[side]).sum();
        sum / pairs.len() as f64
    })
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
fn sentence(experiment: &NumbersExperiment, result: &NumberResult, unknown: Option<f64>) -> String {
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
    let unknown = unknown.map_or_else(String::new, |share| {
        format!(
            "; it can be due to the jobs of unknown response time, which are up to {share:.0} ppm of \
             all jobs"
        )
    });
    format!(
        "{}: {name} {is}: {} ({interval}, {} pairs){unknown}",
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
    let all = changed(experiment).into_iter().chain(handled).chain(each);
    all.collect::<Vec<_>>().join("; ")
}

/// Returns what changed in the application within blocks, with the number of blocks.
fn changed(experiment: &NumbersExperiment) -> Vec<String> {
    let blocks = &experiment.blocks;
    let mut first: BTreeMap<ChangeKind, (u32, &str)> = BTreeMap::new();
    for note in blocks.iter().flat_map(|block| &block.notes) {
        first.entry(note.kind).or_insert((0, &note.text)).0 += 1;
    }
    let text = |(number, note): (u32, &str)| {
        format!(
            "in {number} of {} blocks, which went on, {note}",
            blocks.len()
        )
    };
    first.into_values().map(text).collect()
}

/// Returns a sentence if a condition handled another number of jobs than the baseline.
fn handled(experiment: &NumbersExperiment, arm: u32) -> Option<String> {
    let per_second = means(&experiment.pairs_of(arm, JOBS));
    throughput_change(experiment.arm_name(arm), "jobs", per_second)
}

#[cfg(test)]
pub(crate) mod tests {
    use punctual_model::{Arm, ArmAction, NUMBERS_SCHEMA, Nanos, NumbersBlock};

    use super::*;

    /// Returns an experiment on late jobs, in ppm in each condition, with jobs of unknown time in the
    /// second one.
    pub(crate) fn of_jobs(late: &[f64], unknown: f64) -> NumbersExperiment {
        let arm = |name: &str| Arm {
            name: name.to_owned(),
            action: ArmAction::Unchanged,
        };
        let block = |round: u32, arm: u32| NumbersBlock {
            round,
            arm,
            took_ns: Nanos::from_secs(20),
            values: BTreeMap::from([
                (
                    "late jobs".to_owned(),
                    late[arm as usize] + f64::from(round * 37 % 8),
                ),
                (UNKNOWN.to_owned(), unknown * f64::from(arm.min(1))),
            ]),
            recording: None,
            notes: Vec::new(),
        };
        NumbersExperiment {
            schema: NUMBERS_SCHEMA,
            program: String::new(),
            command_line: Vec::new(),
            host: None,
            started: jiff::Timestamp::UNIX_EPOCH,
            command: String::new(),
            higher_is_better: false,
            arms: late.iter().map(|_| arm("a")).collect(),
            seed: 1,
            rounds: 8,
            margin: 0.01,
            confidence: 0.95,
            units: BTreeMap::from([("late jobs".to_owned(), "ppm".to_owned())]),
            blocks: (0..8)
                .flat_map(|round| (0..late.len() as u32).map(move |arm| (round, arm)))
                .map(|(round, arm)| block(round, arm))
                .collect(),
            results: Vec::new(),
            sentence: String::new(),
            stopped: false,
        }
    }

    /// A condition that hides its late jobs, instead of having fewer, is not better.
    #[test]
    fn unknown_jobs_prove_nothing() {
        let effect = |late: &[f64], unknown| results(&of_jobs(late, unknown)).remove(0);
        assert_eq!(
            effect(&[5_000.0, 2_000.0], 0.0).effect,
            NumberEffect::Better
        );
        assert_eq!(
            effect(&[5_000.0, 2_000.0], 900.0).effect,
            NumberEffect::Better
        );
        let hidden = effect(&[5_000.0, 2_000.0], 3_000.0);
        assert_eq!(hidden.effect, NumberEffect::NotProven);
        assert!(
            hidden.sentence.contains("up to 3000 ppm"),
            "{}",
            hidden.sentence
        );
        let same = effect(&[5_000.0, 5_000.0], 0.0);
        assert_eq!(same.effect, NumberEffect::Equivalent);
        assert_eq!(
            effect(&[5_000.0, 5_000.0], 60.0).effect,
            NumberEffect::NotProven
        );
    }
}
