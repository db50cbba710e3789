//! Analyses the blocks of an experiment. The results depend only on these blocks.
//!
//! Two tests share an error probability of 5%. The betting test, which may end the experiment after
//! any round, has 1%, and the randomisation test of the planned rounds has 4%. The false alarm rate
//! is therefore at most 5%, no matter how often the results are inspected.

mod carried;

use std::cmp::Ordering;

use punctual_model::{ArmResult, Effect, Experiment, ExperimentBlock, Guard, grouped};
use punctual_stats::carry_over::CarryOver;
use punctual_stats::holm;
use punctual_stats::pairs::{
    LEAST_PAIRS, PairCounts, Ratio, direction, equivalent, events_needed, ratio, sign_flip, wealth,
    wealth_direction,
};

use self::carried::{carry_over, lasting, unlike_pilot, unsure};
use crate::lengths::{BY_SIGNS, least_rounds};

/// False alarm rate of the betting test.
const BY_BET: f64 = 0.01;

/// Significance level for a difference between the halves of blocks, and for deciding that a guard
/// got worse.
const CHANCE: f64 = 0.05;

/// Returns the result of each arm except the first. `ended` means that no more blocks follow, so
/// the test of the planned rounds may decide.
pub(crate) fn results(experiment: &Experiment, ended: bool) -> Vec<ArmResult> {
    if experiment.plan.ranks_only {
        return Vec::new();
    }
    let arms = experiment.plan.arms.len() as u32;
    let tests = f64::from(arms.saturating_sub(1).max(1));
    let pairs = |arm| experiment.pairs_of(arm, |block| block.late);
    let raw: Vec<Option<f64>> = (1..arms)
        .map(|arm| Some(sign_flip(&pairs(arm), experiment.plan.seed)))
        .collect();
    let adjusted = holm::adjust(&raw);
    // Carry-over is tested only if a claim is possible.
    let claimed = |arm: u32| wealth(&pairs(arm)) * BY_BET >= tests;
    let carried = if ended || (1..arms).any(claimed) {
        carry_over(experiment)
    } else {
        Vec::new()
    };
    (1..arms)
        .zip(adjusted)
        .map(|(arm, p)| {
            let carried = carried.get(arm as usize - 1).copied();
            let p = p.unwrap_or(1.0);
            let pairs = pairs(arm);
            let by_signs = ended && p < BY_SIGNS && pairs.len() >= LEAST_PAIRS;
            let by_bet = wealth(&pairs) * BY_BET >= tests;
            let shown = match (by_bet, by_signs) {
                (true, _) => wealth_direction(&pairs),
                (false, true) => direction(&pairs),
                (false, false) => Ordering::Equal,
            };
            result(experiment, arm, &pairs, p, (shown, carried), ended)
        })
        .collect()
}

/// Analyses one arm. The tuple contains the direction of a significant difference in late slots,
/// and the carry-over.
fn result(
    experiment: &Experiment,
    arm: u32,
    pairs: &[PairCounts],
    p: f64,
    (shown, carried): (Ordering, Option<CarryOver>),
    ended: bool,
) -> ArmResult {
    let sum = |of: fn(&PairCounts) -> u64| pairs.iter().map(of).sum::<u64>();
    let late = [sum(|pair| pair.0), sum(|pair| pair.1)];
    let ratio = ratio(pairs, 0.95);
    let mut refused = refused(experiment, arm);
    if let Some(carried) = carried.filter(|carried| carried.is_shown()) {
        refused.push(lasting(experiment, arm, carried));
    }
    if shown != Ordering::Equal && late[1].cmp(&late[0]) != shown {
        refused.push(format!(
            "most pairs have {} late slots with this condition, but a few blocks with many late \
             slots make it {}",
            if shown == Ordering::Less {
                "fewer"
            } else {
                "more"
            },
            if shown == Ordering::Less {
                "more in all"
            } else {
                "no more in all"
            },
        ));
    }
    // The decision and the printed interval must agree.
    if let Some(ratio) = ratio.filter(|one| one.low <= 1.0 && 1.0 <= one.high)
        && shown != Ordering::Equal
    {
        let ends = [ratio.low, ratio.high].map(times);
        refused.push(format!(
            "the blocks vary so much that the interval of the rate, {} to {}, contains ×1",
            ends[0], ends[1]
        ));
    }
    let is_equivalent = shown == Ordering::Equal && ended && equivalent(pairs);
    if is_equivalent {
        refused.extend(unlike_pilot(experiment));
    }
    if let Some(carried) = carried.filter(|one| is_equivalent && !one.is_shown())
        && !carried.is_excluded()
    {
        refused.push(unsure(experiment, arm, carried));
    }
    if let Some(carried) = carried.filter(|one| shown != Ordering::Equal && !one.is_shown())
        && carried.may_contradict(shown)
    {
        refused.push(unsure(experiment, arm, carried));
    }
    let effect = match shown {
        _ if !refused.is_empty() => Effect::NotProven,
        Ordering::Less => Effect::Fewer,
        Ordering::Greater => Effect::More,
        Ordering::Equal if is_equivalent => Effect::Equivalent,
        Ordering::Equal => Effect::NotProven,
    };
    // The interval is valid only if blocks do not affect each other.
    let interval = ratio.filter(|_| !carried.is_some_and(CarryOver::is_shown));
    let mut result = ArmResult {
        arm,
        effect,
        pairs: pairs.len() as u32,
        late,
        ratio: ratio.map(|ratio| ratio.found),
        low: interval.map(|ratio| ratio.low),
        high: interval.map(|ratio| ratio.high),
        p,
        wealth: wealth(pairs).min(f64::MAX),
        guards: guards(experiment, arm),
        power: guard(experiment, arm, &POWER),
        refused,
        sentence: String::new(),
    };
    result.sentence = sentence(experiment, &result);
    result
}

/// Returns the reasons why no claim about this arm is allowed.
fn refused(experiment: &Experiment, arm: u32) -> Vec<String> {
    let mut reasons = Vec::new();
    let tests = experiment.plan.arms.len() as f64;
    for side in [0, arm] {
        let own = || (experiment.blocks.iter()).filter(|block| block.arm == side);
        let halves: Vec<PairCounts> = own().map(|block| block.halves.into()).collect();
        if halves.len() >= LEAST_PAIRS && sign_flip(&halves, experiment.plan.seed) * tests < CHANCE
        {
            let sum = |of: fn(&PairCounts) -> u64| halves.iter().map(of).sum::<u64>();
            reasons.push(format!(
                "carry-over: {} late slots are in the first halves of the blocks of {}, but {} are \
                 in the second halves; a longer --wash-out may help",
                sum(|half| half.0),
                experiment.arm_name(side),
                sum(|half| half.1)
            ));
        }
        let flawed = own().filter(|block| block.flawed).count();
        if flawed > 0 {
            reasons.push(format!(
                "{flawed} blocks of {} lost samples, had a load that failed or ended early, or \
                 were suspended",
                experiment.arm_name(side)
            ));
        }
    }
    reasons
}

/// The smallest change of a guard that counts as worse. It is needed because, for example, a busy
/// processor may be slightly warmer.
#[derive(Clone, Copy)]
enum Margin {
    None,
    Absolute(f64),
    /// As a fraction of the baseline.
    Share(f64),
}

impl Margin {
    fn absolute(self, baseline: f64) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Absolute(least) => least,
            Self::Share(share) => share * baseline,
        }
    }
}

/// A figure of a block, consisting of its name, whether less is better, the smallest change that
/// counts as worse, and the figure itself.
type Figure = (
    &'static str,
    bool,
    Margin,
    fn(&ExperimentBlock) -> Option<u64>,
);

/// Lower latencies usually cost power, so more power does not spoil a result.
const POWER: Figure = ("power", true, Margin::Share(0.02), |block| block.milliwatts);

/// Evaluates the guards, which are figures that must not get worse.
fn guards(experiment: &Experiment, arm: u32) -> Vec<Guard> {
    const FIGURES: [Figure; 5] = [
        ("median", true, Margin::None, |block| {
            block.median_ns.map(|median| median.0)
        }),
        ("over twice the threshold", true, Margin::None, |block| {
            Some(block.very_late)
        }),
        ("work of the load", false, Margin::None, |block| block.work),
        ("temperature", true, Margin::Absolute(5_000.0), |block| {
            block
                .milli_celsius
                .and_then(|milli| u64::try_from(milli).ok())
        }),
        ("frequency", false, Margin::Share(0.05), |block| block.khz),
    ];
    let each = FIGURES.iter();
    each.filter_map(|figure| guard(experiment, arm, figure))
        .collect()
}

/// Compares a figure of the arm with that of the baseline. Returns `None` if a block lacks it.
fn guard(experiment: &Experiment, arm: u32, figure: &Figure) -> Option<Guard> {
    let (name, less_is_better, margin, figure) = *figure;
    let pairs: Option<Vec<PairCounts>> = (experiment.pairs_of(arm, figure).into_iter())
        .map(|(a, b)| Some((a?, b?)))
        .collect();
    let pairs = pairs.filter(|pairs| !pairs.is_empty())?;
    let mean = |of: fn(&PairCounts) -> u64| {
        pairs.iter().map(of).map(|one| one as f64).sum::<f64>() / pairs.len() as f64
    };
    let (baseline, of_arm) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let p = sign_flip(&pairs, experiment.plan.seed);
    Some(Guard {
        name: name.to_owned(),
        baseline,
        arm: of_arm,
        p,
        worse: p < CHANCE
            && (of_arm > baseline) == less_is_better
            && (direction(&pairs) == Ordering::Greater) == less_is_better
            && (of_arm - baseline).abs() >= margin.absolute(baseline),
    })
}

/// The interval is valid only for effects that start and end within a block.
const CONDITION: &str = ", for effects within a block";

fn sentence(experiment: &Experiment, result: &ArmResult) -> String {
    let [a, b] = result.late.map(grouped);
    let (arm, baseline) = (experiment.arm_name(result.arm), experiment.arm_name(0));
    let pairs = match result.pairs {
        1 => "1 pair".to_owned(),
        number => format!("{number} pairs"),
    };
    let counts = format!("{b} late slots against {a} with {baseline} in {pairs}");
    let rate = match (result.ratio, result.low, result.high) {
        (Some(ratio), Some(low), Some(high)) => {
            let [ratio, low, high] = [ratio, low, high].map(times);
            format!(", rate {ratio} (95%: {low} to {high})")
        }
        _ => String::new(),
    };
    let why = match result.effect {
        Effect::NotProven if result.refused.is_empty() => match result.pairs {
            pairs if (pairs as usize) < LEAST_PAIRS => {
                format!("; at least {LEAST_PAIRS} pairs are needed")
            }
            _ => String::new(),
        },
        Effect::NotProven => format!("; {}", result.refused.join("; ")),
        Effect::Equivalent => CONDITION.to_owned(),
        Effect::Fewer | Effect::More => String::new(),
    };
    format!("{arm}: {}: {counts}{rate}{why}", result.effect.words())
}

/// Formats a ratio, such as `×1.31` or `×0.042`.
pub fn times(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 100.0 => format!("×{ratio:.0}"),
        ratio if ratio >= 0.1 => format!("×{ratio:.2}"),
        ratio => format!("×{ratio:.3}"),
    }
}

/// Returns the reason why an experiment ends early, or `None` if it continues.
pub(crate) fn early_end(
    experiment: &Experiment,
    results: &[ArmResult],
    rounds: u32,
) -> Option<String> {
    let done = experiment.complete_rounds();
    if experiment.plan.ranks_only
        || done < least_rounds(experiment.plan.arms.len())
        || done >= rounds
    {
        return None;
    }
    let shown = |one: &ArmResult| matches!(one.effect, Effect::Fewer | Effect::More);
    if results.iter().all(shown) {
        return Some("the difference is shown".to_owned());
    }
    let share = f64::from(done) / f64::from(rounds.max(1));
    let hopeless = |one: &ArmResult| shown(one) || is_futile(experiment, one, share);
    results.iter().all(hopeless).then(|| {
        "neither a difference nor equivalence can be shown in the remaining time".to_owned()
    })
}

/// Returns whether the rest of the plan can neither show the largest effect that is compatible with
/// the data nor prove equivalence. `share` is the completed fraction of the plan.
fn is_futile(experiment: &Experiment, result: &ArmResult, share: f64) -> bool {
    let pairs = experiment.pairs_of(result.arm, |block| block.late);
    let Some(Ratio {
        low,
        high,
        found,
        dispersion,
    }) = ratio(&pairs, 0.95)
    else {
        return false;
    };
    let planned = result.late.iter().sum::<u64>() as f64 / share;
    let shows = |times: f64| {
        events_needed(times, dispersion).is_some_and(|needed| needed as f64 <= planned)
    };
    // Expected width of the interval on one side, at the end of the plan.
    let width = (high / found).ln() * share.sqrt();
    !shows(low) && !shows(high) && width > 1.25f64.ln()
}

/// Returns the smallest ratio of rates that is detected with 80% power in this number of rounds, or
/// `None` if it exceeds 10.
pub(crate) fn detects(late_per_block: f64, rounds: u32, dispersion: f64) -> Option<f64> {
    const RATIOS: [f64; 12] = [1.1, 1.2, 1.3, 1.4, 1.5, 1.7, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0];
    RATIOS.into_iter().find(|times| {
        let expected = late_per_block * f64::from(rounds) * (1.0 + times);
        events_needed(*times, dispersion).is_some_and(|needed| needed as f64 <= expected)
    })
}

/// Summarizes the whole experiment in one sentence.
pub(crate) fn answer(results: &[ArmResult]) -> String {
    match results {
        // The experiment is a screening, or it has no complete round yet.
        [] => "nothing was tested".to_owned(),
        results => {
            let each: Vec<&str> = results.iter().map(|one| one.sentence.as_str()).collect();
            each.join(". ")
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
