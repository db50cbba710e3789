//! Tests the analysis with synthetic experiments.

pub(crate) use punctual_model::testing::{experiment, experiment_block as block};
use punctual_model::{ExperimentPlan, Nanos};

use super::*;
use crate::order::round_order;

pub(crate) fn poisson(mean: f64, random: &mut fastrand::Rng) -> u64 {
    let (mut count, mut left) = (0, mean);
    loop {
        left += (1.0 - random.f64()).ln();
        if left < 0.0 {
            return count;
        }
        count += 1;
    }
}

/// Simulates an experiment on a machine that drifts, with the same rules for ending it as in a real
/// one. `rates` contains the late slots per arm.
fn simulated(rates: &[f64], rounds: u32, seed: u64) -> Experiment {
    let mut random = fastrand::Rng::with_seed(seed ^ 0xabcd);
    let mut experiment = experiment(rates.len(), seed);
    let mut level = 0.0f64;
    let mut as_planned = true;
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
            as_planned = false;
            break;
        }
    }
    experiment.results = results(&experiment, as_planned);
    experiment
}

fn effects(rates: &[f64], rounds: u32, experiments: u64) -> Vec<Vec<Effect>> {
    let run = |seed| simulated(rates, rounds, seed).results;
    (0..experiments)
        .map(|seed| run(seed).into_iter().map(|result| result.effect).collect())
        .collect()
}

/// Simulates a condition that doubles the late slots, with an effect that builds up and fades over
/// this many blocks. The pilot has six blocks of the baseline.
fn fading(blocks: f64, events: f64, seed: u64) -> Effect {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut one = experiment(2, seed);
    one.pilot = Some(punctual_model::Pilot {
        recording: None,
        measured_ns: Nanos::from_secs(60),
        late: (0..6).map(|_| poisson(events, &mut random)).sum(),
        threshold_ns: Nanos(100_000),
        block_ns: Nanos::from_secs(10),
        rounds: 20,
        dispersion: 1.0,
        detects: None,
    });
    let kept = (-1.0 / blocks).exp();
    let mut effect = 0.0;
    for round in 0..20 {
        for arm in round_order(seed, round, 2) {
            effect = kept * effect + (1.0 - kept) * f64::from(arm);
            let late = poisson(events * 2.0_f64.powf(effect), &mut random);
            let first = (0..late).filter(|_| random.bool()).count() as u64;
            one.blocks.push(block(round, arm, late, first));
        }
    }
    results(&one, true).remove(0).effect
}

/// An effect that lasts for more than a block hides the difference between the conditions.
#[test]
fn carried_effects_are_not_equivalent() {
    for blocks in [1.5, 3.0, 10.0, 30.0] {
        let wrong = (0..8).filter(|seed| fading(blocks, 400.0, *seed) == Effect::Equivalent);
        assert_eq!(wrong.count(), 0, "{blocks} blocks");
    }
    // With few late slots, the pilot cannot show an effect that lasts for nearly all blocks.
    let wrong = (0..8).filter(|seed| fading(30.0, 40.0, *seed) == Effect::Equivalent);
    assert_eq!(wrong.count(), 0);
}

/// An effect that lasts for many blocks changes both arms alike, but not the pilot before them.
#[test]
fn lasting_effect_is_not_equivalent() {
    let judged = |pilot: u64| {
        let mut one = experiment(2, 5);
        one.pilot = Some(punctual_model::Pilot {
            recording: None,
            measured_ns: Nanos::from_secs(60),
            late: pilot,
            threshold_ns: Nanos(100_000),
            block_ns: Nanos::from_secs(10),
            rounds: 20,
            dispersion: 1.0,
            detects: None,
        });
        for round in 0..20 {
            for arm in round_order(5, round, 2) {
                // The halves of the blocks do not differ.
                let first = 199 + 2 * u64::from(round % 2);
                one.blocks.push(block(round, arm, 400, first));
            }
        }
        results(&one, true).remove(0)
    };
    assert_eq!(judged(2_400).effect, Effect::Equivalent);
    let lasting = judged(1_200);
    assert_eq!(lasting.effect, Effect::NotProven);
    assert!(
        lasting
            .sentence
            .contains("×2.00 as many late slots as the pilot"),
        "{}",
        lasting.sentence
    );
}

/// A decision never stands next to an interval that contains 1.
#[test]
fn decision_agrees_with_its_interval() {
    for (seed, times) in (0..60).zip([1.0, 1.5, 2.0].into_iter().cycle()) {
        for result in simulated(&[4.0, 4.0 * times], 9, seed).results {
            let contains = result.low <= Some(1.0) && result.high >= Some(1.0);
            let decided = matches!(result.effect, Effect::Fewer | Effect::More);
            assert!(!(contains && result.low.is_some() && decided), "{result:?}");
        }
    }
}

/// For equal arms, the betting test and the sign test together raise at most 5% false alarms, no
/// matter which round ends the experiment. 5% of 2,000 is 100, and three standard deviations more
/// is 130.
#[test]
fn equal_arms_seldom_alarm() {
    let differs = |effect: &Effect| matches!(effect, Effect::Fewer | Effect::More);
    let all = effects(&[5.0, 5.0], 7, 2_000);
    let alarms = all.iter().filter(|one| one.iter().any(differs)).count();
    assert!(alarms <= 130, "{alarms} of 2,000");
    let all = effects(&[5.0, 5.0, 5.0], 9, 200);
    let alarms = all.iter().filter(|one| one.iter().any(differs)).count();
    // 10 alarms are expected. The limit is three standard deviations higher.
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

/// The betting test, which may end the experiment after any round, has 1% of the total of 5%.
#[test]
fn a_difference_that_is_shown_ends_early() {
    let mut experiment = experiment(2, 1);
    let mut ended = None;
    for round in 0..13 {
        for arm in round_order(1, round, 2) {
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
fn hopeless_experiment_ends_early() {
    let mut experiment = experiment(2, 1);
    for round in 0..8 {
        for arm in 0..2 {
            // The arms are equal, and have so few events that the remaining rounds cannot show an
            // effect.
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
    // Creates an experiment in which a guard is worse in every pair.
    let guard = &results(&flawed, true)[0].guards[0];
    assert!(guard.worse && guard.name == "median", "{guard:?}");
}

#[test]
fn hotter_or_slower_processor_is_worse() {
    let guards = |milli: i64, khz: u64| {
        let mut one = experiment(2, 1);
        for round in 0..8 {
            for arm in 0..2 {
                one.blocks.push(ExperimentBlock {
                    milli_celsius: Some(50_000 + i64::from(arm) * milli),
                    khz: Some(3_000_000 - u64::from(arm) * khz),
                    ..block(round, arm, 5, 2)
                });
            }
        }
        let guards = results(&one, true)[0].guards.clone();
        let worse = guards
            .into_iter()
            .filter(|guard| guard.worse && guard.name != "median");
        worse.map(|guard| guard.name).collect::<Vec<_>>()
    };
    assert_eq!(guards(6_000, 300_000), ["temperature", "frequency"]);
    assert!(guards(2_000, 30_000).is_empty());
    assert!(guards(-9_000, 0).is_empty());
}

/// More power is the price of lower latencies, and not a result that is worse.
#[test]
fn power_is_compared_but_is_no_guard() {
    let of = |milliwatts: [Option<u64>; 2]| {
        let mut one = experiment(2, 1);
        for round in 0..10 {
            for arm in 0..2 {
                let late = 40 - u64::from(arm) * 30;
                one.blocks.push(ExperimentBlock {
                    milliwatts: milliwatts[arm as usize].map(|of| of + u64::from(round)),
                    median_ns: None,
                    ..block(round, arm, late, late / 2)
                });
            }
        }
        results(&one, true).remove(0)
    };
    let result = of([Some(12_300), Some(14_400)]);
    let power = result.power.unwrap();
    assert!(power.worse, "{power:?}");
    assert_eq!((power.arm - power.baseline).round(), 2_100.0);
    assert_eq!(result.effect, Effect::Fewer);
    assert!(result.guards.iter().all(|guard| !guard.worse));
    // Less than 2% may be due to the load.
    assert!(!of([Some(12_300), Some(12_400)]).power.unwrap().worse);
    assert!(!of([Some(14_400), Some(12_300)]).power.unwrap().worse);
    assert_eq!(of([Some(12_300), None]).power, None);
}

#[test]
fn power_and_rounds_match_the_tables() {
    assert_eq!(
        (least_rounds(2), least_rounds(3), least_rounds(11)),
        (6, 9, 9)
    );
    assert_eq!(least_rounds(25), 11);
    // Detecting a doubled rate takes 77 events. Each pair has 3 + 6 events.
    assert_eq!(detects(3.0, 9, 1.0), Some(2.0));
    assert_eq!(detects(3.0, 8, 1.0), Some(2.5));
    assert_eq!(detects(0.1, 6, 1.0), None);
}

/// How the state of the simulated machine follows the current arm.
#[derive(Clone, Copy)]
enum Follows {
    /// Immediately.
    AtOnce,
    /// In each block, the state moves by this fraction of the remaining difference.
    Slowly(f64),
    /// One block later.
    OneBlockLater,
}

/// Simulates experiments on a machine that drifts. `times` is the true ratio of rates once the arm
/// has taken full effect. Returns how often each effect was claimed, and in how many experiments
/// the interval contained `times`.
fn claimed(follows: Follows, times: f64, mean: f64, rounds: u32, number: u64) -> [u64; 5] {
    let mut said = [0; 5];
    for seed in 0..number {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x77);
        let mut one = experiment(2, seed);
        let (mut level, mut state, mut last) = (0.0f64, 0.0f64, 0.0f64);
        for round in 0..rounds {
            for arm in round_order(seed, round, 2) {
                level = 0.9 * level + 0.4 * (random.f64() - 0.5);
                let on = f64::from(arm);
                state = match follows {
                    Follows::AtOnce => on,
                    Follows::Slowly(by) => state + by * (on - state),
                    Follows::OneBlockLater => std::mem::replace(&mut last, on),
                };
                let late = poisson(mean * (level + state * times.ln()).exp(), &mut random);
                let first = (0..late).filter(|_| random.bool()).count() as u64;
                one.blocks.push(block(round, arm, late, first));
            }
        }
        let result = results(&one, true).remove(0);
        let place = match result.effect {
            Effect::Fewer => 0,
            Effect::More => 1,
            Effect::Equivalent => 2,
            Effect::NotProven => 3,
        };
        said[place] += 1;
        let interval = result.low.zip(result.high);
        said[4] += u64::from(interval.is_some_and(|(low, high)| low <= times && times <= high));
    }
    said
}

/// An effect that lasts longer than a block is never reported as equivalence or with the wrong
/// sign. An immediate effect is still found, and so is the absence of an effect.
#[test]
fn lasting_effect_is_neither_equivalent_nor_reversed() {
    for (follows, mean, rounds) in [
        (Follows::OneBlockLater, 20.0, 12),
        (Follows::OneBlockLater, 100.0, 20),
        (Follows::Slowly(0.33), 100.0, 20),
    ] {
        let [fewer, _, equivalent, ..] = claimed(follows, 2.0, mean, rounds, 30);
        assert!(
            fewer + equivalent <= 3,
            "{fewer} {equivalent} of 30 at {mean}"
        );
    }
    let [fewer, more, .., holds] = claimed(Follows::AtOnce, 2.0, 20.0, 12, 30);
    assert!(more >= 24 && fewer == 0, "{more} of 30");
    assert!(holds >= 24, "{holds} of 30");
    let [fewer, more, equivalent, ..] = claimed(Follows::AtOnce, 1.0, 200.0, 20, 30);
    assert!(equivalent >= 15, "{equivalent} of 30 are equivalent");
    assert!(fewer + more <= 4, "{fewer} {more}");
}

/// 19 pairs are (0, 1) and one is (20, 0), so there are more late slots in most pairs, but fewer in
/// total. Neither direction is claimed.
#[test]
fn effect_contradicted_by_blocks_is_unclaimed() {
    let mut one = experiment(2, 3);
    for round in 0..20 {
        let [a, b] = if round == 7 { [20, 0] } else { [0, 1] };
        for arm in round_order(3, round, 2) {
            let late = if arm == 0 { a } else { b };
            one.blocks.push(block(round, arm, late, late / 2));
        }
    }
    let result = &results(&one, true)[0];
    assert!(result.p < 0.04, "{result:?}");
    assert_eq!(result.effect, Effect::NotProven, "{result:?}");
    assert!(
        result.sentence.contains("a few blocks"),
        "{}",
        result.sentence
    );
}

/// If carry-over is significant, no interval is given, and longer blocks are suggested, together
/// with a sufficient time.
#[test]
fn carry_over_suggests_longer_blocks_with_time() {
    let mut one = experiment(2, 5);
    one.pilot = Some(punctual_model::Pilot {
        recording: None,
        measured_ns: Nanos::from_secs(60),
        late: 300,
        threshold_ns: Nanos(50_000),
        block_ns: Nanos::from_secs(30),
        rounds: 20,
        dispersion: 1.0,
        detects: None,
    });
    let mut before = 0;
    for round in 0..20 {
        for arm in round_order(5, round, 2) {
            let late = 40 + 60 * u64::from(std::mem::replace(&mut before, arm));
            one.blocks.push(block(round, arm, late, late / 2));
        }
    }
    let result = &results(&one, true)[0];
    assert_eq!(result.effect, Effect::NotProven);
    assert_eq!((result.low, result.high), (None, None));
    let offered = result.refused.iter().find(|why| why.contains("carry-over"));
    let (_, offered) = offered
        .unwrap()
        .split_once("try --block 90s --duration ")
        .unwrap();
    let plan = ExperimentPlan {
        block_ns: Some(Nanos::from_secs(90)),
        time_ns: offered.parse().unwrap(),
        ..one.plan.clone()
    };
    crate::pilot::length(&plan).unwrap();
}
