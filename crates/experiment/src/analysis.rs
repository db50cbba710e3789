//! What the blocks of an experiment show: a pure function of them.
//!
//! Two tests share the 5%: a bet may end the experiment at any round with a chance of
//! 1%, the randomisation test judges what was planned with 4%. So a false alarm is at
//! most as rare as 5%, however often one looks.

use punctual_model::{ArmResult, Effect, Experiment, ExperimentBlock, Guard, grouped};
use punctual_stats::holm;
use punctual_stats::pairs::{
    LEAST_PAIRS, PairCounts, Ratio, equivalent, events_needed, ratio, sign_flip, wealth,
};

/// The chance of a false alarm by the bet.
const BY_BET: f64 = 0.01;

/// The chance of a false alarm by the randomisation test.
const BY_SIGNS: f64 = 0.04;

/// Below this chance the halves of blocks differ, or a guard is worse.
const CHANCE: f64 = 0.05;

/// With several arms at least so many rounds, as Holm needs over 10 of them.
const LEAST_WITH_HOLM: u32 = 9;

/// The fewest rounds that can show a difference with so many arms.
pub fn least_rounds(arms: usize) -> u32 {
    match arms {
        0..=2 => LEAST_PAIRS as u32,
        _ => {
            let tests = arms.saturating_sub(1) as f64;
            // 2 of 2^n arrangements are as far, times the number of tests.
            let needed = (2.0 * tests / BY_SIGNS).log2().ceil() as u32;
            needed.max(LEAST_WITH_HOLM)
        }
    }
}

/// What is known of each arm but the first. `ended`: whether no block follows, so that
/// the tests of what was planned may judge.
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
    (1..arms)
        .zip(adjusted)
        .map(|(arm, p)| {
            let p = p.unwrap_or(1.0);
            let pairs = pairs(arm);
            let by_signs = ended && p < BY_SIGNS && pairs.len() >= LEAST_PAIRS;
            let by_bet = wealth(&pairs) * BY_BET >= tests;
            result(experiment, arm, &pairs, p, by_signs || by_bet, ended)
        })
        .collect()
}

fn result(
    experiment: &Experiment,
    arm: u32,
    pairs: &[PairCounts],
    p: f64,
    differs: bool,
    ended: bool,
) -> ArmResult {
    let sum = |of: fn(&PairCounts) -> u64| pairs.iter().map(of).sum::<u64>();
    let late = [sum(|pair| pair.0), sum(|pair| pair.1)];
    let ratio = ratio(pairs, 0.95);
    let refused = refused(experiment, arm);
    let effect = match () {
        () if !refused.is_empty() => Effect::NotProven,
        () if differs && late[1] < late[0] => Effect::Fewer,
        () if differs && late[1] > late[0] => Effect::More,
        () if ended && equivalent(pairs) => Effect::Equivalent,
        () => Effect::NotProven,
    };
    let mut result = ArmResult {
        arm,
        effect,
        pairs: pairs.len() as u32,
        late,
        ratio: ratio.map(|ratio| ratio.found),
        low: ratio.map(|ratio| ratio.low),
        high: ratio.map(|ratio| ratio.high),
        p,
        wealth: wealth(pairs).min(f64::MAX),
        guards: guards(experiment, arm),
        refused,
        sentence: String::new(),
    };
    result.sentence = sentence(experiment, &result);
    result
}

/// Why nothing may be claimed of an arm.
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
                "carry-over: {} late slots in the first halves of the blocks of {}, {} in the \
                 second halves: a longer --wash-out may help",
                sum(|half| half.0),
                experiment.arm_name(side),
                sum(|half| half.1)
            ));
        }
        let flawed = own().filter(|block| block.flawed).count();
        if flawed > 0 {
            reasons.push(format!(
                "{flawed} blocks of {} lost samples or their load",
                experiment.arm_name(side)
            ));
        }
    }
    reasons
}

/// Figures that must not become worse.
fn guards(experiment: &Experiment, arm: u32) -> Vec<Guard> {
    type Figure = (&'static str, bool, fn(&ExperimentBlock) -> Option<u64>);
    const FIGURES: [Figure; 3] = [
        ("median", true, |block| {
            block.median_ns.map(|median| median.0)
        }),
        ("over twice the threshold", true, |block| {
            Some(block.very_late)
        }),
        ("work of the load", false, |block| block.work),
    ];
    (FIGURES.iter())
        .filter_map(|(name, less_is_better, figure)| {
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
                name: (*name).to_owned(),
                baseline,
                arm: of_arm,
                p,
                worse: p < CHANCE && (of_arm > baseline) == *less_is_better,
            })
        })
        .collect()
}

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
                format!("; at least {LEAST_PAIRS} pairs needed")
            }
            _ => String::new(),
        },
        Effect::NotProven => format!("; {}", result.refused.join("; ")),
        _ => String::new(),
    };
    format!("{arm}: {}: {counts}{rate}{why}", result.effect.words())
}

/// `x1.31`, `x0.042`.
pub fn times(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 100.0 => format!("x{ratio:.0}"),
        ratio if ratio >= 0.1 => format!("x{ratio:.2}"),
        ratio => format!("x{ratio:.3}"),
    }
}

/// Why an experiment ends before its plan; `None`: it goes on.
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
    results
        .iter()
        .all(hopeless)
        .then(|| "no difference and no equivalence can be shown in the time left".to_owned())
}

/// Whether neither the largest effect that the data allow, nor equivalence, can be shown
/// by the end. `share`: how much of the plan is done.
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
    // How wide the interval is at the end, to one side.
    let width = (high / found).ln() * share.sqrt();
    !shows(low) && !shows(high) && width > 1.25f64.ln()
}

/// The smallest ratio of rates that so many rounds find in 80% of the cases; `None`:
/// none up to 10.
pub(crate) fn detects(late_per_block: f64, rounds: u32, dispersion: f64) -> Option<f64> {
    const RATIOS: [f64; 12] = [1.1, 1.2, 1.3, 1.4, 1.5, 1.7, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0];
    RATIOS.into_iter().find(|times| {
        let expected = late_per_block * f64::from(rounds) * (1.0 + times);
        events_needed(*times, dispersion).is_some_and(|needed| needed as f64 <= expected)
    })
}

/// The answer in one sentence, for the whole experiment.
pub(crate) fn answer(results: &[ArmResult]) -> String {
    match results {
        // Of a screening, or before the first round.
        [] => "nothing was tested".to_owned(),
        results => {
            let each: Vec<&str> = results.iter().map(|one| one.sentence.as_str()).collect();
            each.join(". ")
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use punctual_model::{
        Arm, ArmAction, EXPERIMENT_SCHEMA, ExperimentPlan, ExperimentState, Nanos, RecordingId,
    };

    use super::*;
    use crate::order::round_order;

    pub(crate) fn experiment(arms: usize, seed: u64) -> Experiment {
        let arm = |number| Arm {
            name: format!("arm {number}"),
            action: ArmAction::Unchanged,
        };
        Experiment {
            schema: EXPERIMENT_SCHEMA,
            id: RecordingId::new(),
            label: None,
            program: String::new(),
            command_line: Vec::new(),
            host: None,
            started: jiff::Timestamp::UNIX_EPOCH,
            state: ExperimentState::Running,
            plan: ExperimentPlan {
                arms: (0..arms).map(arm).collect(),
                probe: "timer".to_owned(),
                parameters: Default::default(),
                cpus: None,
                policy: None,
                priority: None,
                loads: Vec::new(),
                threshold_ns: None,
                time_ns: Nanos::from_secs(1_200),
                rounds: None,
                block_ns: None,
                wash_out_ns: Nanos::from_secs(2),
                seed,
                ends_early: true,
                ranks_only: false,
            },
            pilot: None,
            blocks: Vec::new(),
            results: Vec::new(),
            sentence: String::new(),
            warnings: Vec::new(),
            boots: None,
        }
    }

    pub(crate) fn block(round: u32, arm: u32, late: u64, first: u64) -> ExperimentBlock {
        ExperimentBlock {
            round,
            arm,
            recording: None,
            measured_ns: Nanos::from_secs(10),
            late,
            halves: [first, late - first],
            very_late: late / 2,
            median_ns: Some(Nanos(5_000 + u64::from(arm) * 1_000)),
            max_ns: None,
            work: None,
            flawed: false,
            output: None,
        }
    }

    fn poisson(mean: f64, random: &mut fastrand::Rng) -> u64 {
        let (mut count, mut left) = (0, mean);
        loop {
            left += (1.0 - random.f64()).ln();
            if left < 0.0 {
                return count;
            }
            count += 1;
        }
    }

    /// An experiment on a made-up machine that drifts, ended as a real one is; `rates`
    /// are those of the arms.
    fn simulated(rates: &[f64], rounds: u32, seed: u64) -> Experiment {
        let mut random = fastrand::Rng::with_seed(seed ^ 0xabcd);
        let mut experiment = experiment(rates.len(), seed);
        let mut level = 0.0f64;
        for round in 0..rounds {
            for arm in round_order(seed, round, rates.len()) {
                level = 0.9 * level + 0.8 * (random.f64() - 0.5);
                let mean = rates[arm as usize] * level.exp();
                let late = poisson(mean, &mut random);
                let first = (0..late).filter(|_| random.bool()).count() as u64;
                experiment.blocks.push(block(round, arm, late, first));
            }
            experiment.results = results(&experiment, false);
            if early_end(&experiment, &experiment.results, rounds).is_some() {
                break;
            }
        }
        experiment.results = results(&experiment, true);
        experiment
    }

    fn effects(rates: &[f64], rounds: u32, experiments: u64) -> Vec<Vec<Effect>> {
        let run = |seed| simulated(rates, rounds, seed).results;
        (0..experiments)
            .map(|seed| run(seed).into_iter().map(|result| result.effect).collect())
            .collect()
    }

    /// A difference of equal arms is claimed in at most 5%, by bet and signs together and
    /// whichever round ends it; 5% of 2,000 are 100, three standard deviations more 130.
    #[test]
    fn equal_arms_seldom_alarm() {
        let differs = |effect: &Effect| matches!(effect, Effect::Fewer | Effect::More);
        let all = effects(&[5.0, 5.0], 7, 2_000);
        let alarms = all.iter().filter(|one| one.iter().any(differs)).count();
        assert!(alarms <= 130, "{alarms} of 2,000");
        let all = effects(&[5.0, 5.0, 5.0], 9, 200);
        let alarms = all.iter().filter(|one| one.iter().any(differs)).count();
        // 10, and three standard deviations more.
        assert!(alarms <= 20, "{alarms} of 200");
    }

    #[test]
    fn a_rate_of_five_times_is_found() {
        let all: Vec<Experiment> = (0..40)
            .map(|seed| simulated(&[5.0, 25.0], 12, seed))
            .collect();
        let found = |one: &&Experiment| one.results[0].effect == Effect::More;
        assert!(all.iter().filter(found).count() >= 36);
        let one = all.iter().find(found).unwrap();
        assert!(one.results[0].sentence.contains("more: "), "{one:?}");
        assert_eq!(effects(&[25.0, 5.0], 12, 1), [[Effect::Fewer]]);
    }

    /// The bet may end it at any round: its share of the 5% is 1%.
    #[test]
    fn a_difference_that_is_shown_ends_early() {
        let mut experiment = experiment(2, 1);
        let mut ended = None;
        for round in 0..13 {
            for arm in 0..2 {
                experiment
                    .blocks
                    .push(block(round, arm, 20 * u64::from(arm), 10 * u64::from(arm)));
            }
            let results = results(&experiment, false);
            ended = early_end(&experiment, &results, 40).map(|why| (round, why));
            assert_eq!(ended.is_some(), results[0].wealth >= 100.0, "{results:?}");
        }
        assert!(ended.unwrap().1.contains("is shown"));
    }

    #[test]
    fn before_the_end_the_bet_alone_judges() {
        let mut stopped = experiment(2, 1);
        for round in 0..8 {
            stopped.blocks.push(block(round, 0, 10, 5));
            stopped.blocks.push(block(round, 1, 2, 1));
        }
        assert_eq!(results(&stopped, true)[0].effect, Effect::Fewer);
        assert_eq!(results(&stopped, false)[0].effect, Effect::NotProven);
    }

    #[test]
    fn equivalence_needs_many_events_and_the_end() {
        let mut many = experiment(2, 1);
        for round in 0..8 {
            for arm in 0..2 {
                let late = 300 + u64::from((round * 7 + arm * 5) % 11);
                many.blocks.push(block(round, arm, late, late / 2));
            }
        }
        many.results = results(&many, true);
        assert_eq!(
            many.results[0].effect,
            Effect::Equivalent,
            "{:?}",
            many.results
        );
        let few = simulated(&[5.0, 5.0], 8, 1);
        assert_eq!(few.results[0].effect, Effect::NotProven);
        let open = results(&many, false);
        assert_eq!(open[0].effect, Effect::NotProven);
    }

    #[test]
    fn what_cannot_be_shown_any_more_ends_early() {
        let mut experiment = experiment(2, 1);
        for round in 0..8 {
            for arm in 0..2 {
                // Equal, so few that nothing in sight can be shown by the end.
                experiment
                    .blocks
                    .push(block(round, arm, 3 + u64::from(round + arm) % 2, 2));
            }
        }
        let results = results(&experiment, false);
        assert!(
            early_end(&experiment, &results, 9)
                .unwrap()
                .contains("can be shown")
        );
        assert_eq!(early_end(&experiment, &results, 10_000), None);
    }

    #[test]
    fn carry_over_and_flawed_blocks_are_refused() {
        let mut carried = experiment(2, 1);
        let mut flawed = experiment(2, 1);
        for round in 0..10 {
            for arm in 0..2 {
                let late = 5 + u64::from(arm) * 20;
                carried.blocks.push(block(round, arm, late, late));
                flawed.blocks.push(ExperimentBlock {
                    flawed: round == 3,
                    ..block(round, arm, late, late / 2)
                });
            }
        }
        for (experiment, why) in [(&carried, "carry-over"), (&flawed, "lost samples")] {
            let result = &results(experiment, true)[0];
            assert_eq!(result.effect, Effect::NotProven, "{why}");
            assert!(result.sentence.contains(why), "{}", result.sentence);
        }
        // A guard that is worse in each pair.
        let guard = &results(&flawed, true)[0].guards[0];
        assert!(guard.worse && guard.name == "median", "{guard:?}");
    }

    #[test]
    fn power_and_rounds_are_those_of_the_tables() {
        assert_eq!(
            (least_rounds(2), least_rounds(3), least_rounds(11)),
            (6, 9, 9)
        );
        assert_eq!(least_rounds(25), 11);
        // 77 events for a doubled rate: 3 and 6 in each pair.
        assert_eq!(detects(3.0, 9, 1.0), Some(2.0));
        assert_eq!(detects(3.0, 8, 1.0), Some(2.5));
        assert_eq!(detects(0.1, 6, 1.0), None);
    }
}
