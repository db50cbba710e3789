//! Tests the search on simulated machines.

use punctual_model::{Effect, ExperimentBlock, Guard, Nanos};

use super::stages::stages;
use super::*;
use crate::analysis::results;
use crate::analysis::tests::{block, experiment, poisson};
use crate::plots::order;
use punctual_model::ArmResult;
use punctual_stats::screening::ROWS;

pub(super) fn result(effect: Effect, high: Option<f64>) -> ArmResult {
    ArmResult {
        arm: 1,
        effect,
        pairs: 9,
        late: [40, 10],
        ratio: Some(0.25),
        low: Some(0.1),
        high,
        p: 0.01,
        wealth: 1.0,
        power: None,
        guards: Vec::new(),
        refused: Vec::new(),
        sentence: String::new(),
    }
}

pub(super) fn tried(assignment: &str) -> TriedSetting {
    TriedSetting {
        assignment: assignment.to_owned(),
        finding: String::new(),
        ratio: Some(0.25),
        low: Some(0.1),
        high: Some(0.6),
        accepted: true,
        why: String::new(),
    }
}

/// A setting halves the rate in the rows in which it is on. In addition, the counts differ slightly
/// between rows.
#[test]
fn the_setting_that_helps_is_ranked_first() {
    let mut screened = experiment(ROWS, 1);
    for (row, on) in folded_plackett_burman().iter().enumerate() {
        let rate = if on[6] { 20 } else { 40 } + row as u64 % 3;
        screened.blocks.push(block(0, row as u32, rate, rate / 2));
    }
    let ranked = ranking(&screened);
    assert_eq!(ranked[0].0, 6);
    assert!((ranked[0].1.exp() - 0.5).abs() < 0.05, "{ranked:?}");
    assert!(ranked[1].1.abs() < 0.1, "{ranked:?}");
    // Rows without late slots can be ranked as well.
    screened
        .blocks
        .iter_mut()
        .for_each(|block: &mut ExperimentBlock| block.late = 0);
    assert!(
        ranking(&screened)
            .iter()
            .all(|(_, effect)| effect.abs() < 1e-9)
    );
}

#[test]
fn only_proven_harmless_settings_help() {
    assert!(helps(&result(Effect::Fewer, Some(0.6))).is_ok());
    assert!(helps(&result(Effect::Fewer, None)).is_ok());
    for (effect, high, why) in [
        (Effect::Fewer, Some(1.1), "not proven to help"),
        (Effect::NotProven, Some(0.9), "not proven to help"),
        (Effect::More, Some(3.0), "proven to be worse"),
        (Effect::Equivalent, Some(1.1), "makes no difference"),
    ] {
        let not_kept = helps(&result(effect, high)).unwrap_err();
        assert_eq!(not_kept.to_string(), why, "{effect:?}");
    }
    let mut slower = result(Effect::Fewer, Some(0.6));
    slower.guards.push(Guard {
        name: "median".to_owned(),
        baseline: 1.0,
        arm: 2.0,
        p: 0.01,
        worse: true,
    });
    assert_eq!(helps(&slower).unwrap_err().to_string(), "median is worse");
}

pub(super) struct Silent;

impl punctual_session::Watcher for Silent {
    fn begin(&mut self, _: &punctual_model::Recording) {}
    fn progress(&mut self, _: &punctual_session::Snapshot) {}
    fn end(&mut self) {}
}

/// Simulates a machine on which each setting with this prefix reduces the rate to a quarter
/// (several together have no greater effect), and all other settings do nothing.
fn simulated(experiment: &mut Experiment, helpful: &str) {
    let quarters = |on: &[String]| {
        let helps = on.iter().any(|one| one.starts_with(helpful));
        if helps { 3.0 } else { 12.0 }
    };
    simulated_by(experiment, &quarters);
}

/// Simulates a machine. `rate` returns the mean number of late slots per block, given the settings
/// that are on.
fn simulated_by(experiment: &mut Experiment, rate: &dyn Fn(&[String]) -> f64) {
    let random = &mut fastrand::Rng::with_seed(experiment.plan.seed);
    let rounds = experiment.plan.rounds.unwrap_or(10);
    experiment.pilot.get_or_insert_with(|| Pilot {
        recording: None,
        measured_ns: Nanos::from_secs(30),
        late: 30,
        threshold_ns: Nanos(50_000),
        block_ns: Nanos::from_secs(10),
        rounds,
        dispersion: 1.0,
        detects: Some(2.0),
    });
    for round in 0..rounds {
        for arm in order(&experiment.plan, round) {
            let mean = match &experiment.plan.arms[arm as usize].action {
                ArmAction::Settings { assignments } => rate(assignments),
                _ => rate(&[]),
            };
            let late = poisson(mean, random);
            let first = (0..late).filter(|_| random.bool()).count() as u64;
            experiment.blocks.push(ExperimentBlock {
                median_ns: Some(Nanos(5_000)),
                very_late: 0,
                ..block(round, arm, late, first)
            });
        }
    }
    experiment.results = results(experiment, true);
    experiment.state = ExperimentState::Finished;
}

/// One setting helps, and the others do nothing. With three others, all settings go directly to the
/// confirmation, and with ten others, they are screened first. No setting is kept if the A/A stage
/// raises an alarm (4%), or if by chance there seems to be carry-over in the confirmation or in the
/// proof (5% each).
#[test]
fn planted_setting_is_kept_others_undone() {
    // These are the shortest times that are accepted.
    for (number, seconds) in [(4, 1_610), (11, 2_210)] {
        let (mut found, mut others) = (0, 0);
        for seed in 0..20 {
            let improvement = searched(number, seconds, 1_000 + 10 * seed, "setting2=on");
            let kept = improvement.tried.iter().filter(|one| one.accepted);
            let kept: Vec<&str> = kept.map(|one| one.assignment.as_str()).collect();
            found += u32::from(kept.contains(&"setting2=on"));
            others += u32::from(kept.iter().any(|one| *one != "setting2=on"));
            let profile = profile(&improvement, "2026-11-03").unwrap_or_default();
            assert_eq!(
                profile.contains("\"setting2\" = \"on\""),
                kept.contains(&"setting2=on")
            );
        }
        // 17.3 are expected, and 12 is three standard deviations below this number.
        assert!(found >= 13, "{found} of 20 with {number} settings");
        assert!(others <= 3, "{others} of 20 with {number} settings");
    }
}

/// Runs a search among this number of settings on a simulated machine.
fn searched(number: usize, seconds: u64, seed: u64, helpful: &str) -> Improvement {
    let names: Vec<String> = (0..number).map(|nth| format!("setting{nth}=on")).collect();
    searched_by(&names, seconds, seed, &mut |one| simulated(one, helpful))
}

/// Runs a search among these settings. The experiments are carried out by `carry_out`.
fn searched_by(
    names: &[String],
    seconds: u64,
    seed: u64,
    carry_out: &mut dyn FnMut(&mut Experiment),
) -> Improvement {
    let settings = names.iter().map(|name| TriedSetting {
        accepted: false,
        ..tried(name)
    });
    let mut improvement = intended(settings.collect(), Vec::new());
    let mut plan = experiment(0, seed).plan;
    plan.time_ns = Nanos::from_secs(seconds);
    plan_stages(&mut improvement, &plan).unwrap();
    let host = punctual_host::Host::new("/nowhere");
    let mut bench = Bench {
        host: &host,
        store: None,
        journal: None,
        partner: None,
        isolate: &|load| load,
        view: &mut Silent,
        stop: &Default::default(),
        shared: false,
        say: &mut |_| {},
    };
    improve_by(
        &mut improvement,
        (&plan, None),
        &mut bench,
        &mut |one, _| {
            carry_out(one);
            Ok(())
        },
    )
    .unwrap();
    improvement
}

/// Time is planned for leaving out two settings, but if time remains, four settings that each help
/// are all left out once. Otherwise, they are kept as a group, and the result says that this was
/// not tried.
#[test]
fn remaining_time_serves_the_last_stages() {
    let kept = |found: &Improvement| found.tried.iter().filter(|one| one.accepted).count();
    // A search in which the group is proven to help.
    let long = (1..20)
        .map(|seed| searched(4, 7_200, 10 * seed, "setting"))
        .find(|found| kept(found) > 1)
        .unwrap();
    let without = long.stages.iter().find(|one| one.name == "leave one out");
    assert_eq!(without.unwrap().arms, 5, "{:?}", long.stages);
    let untried = |one: &TriedSetting| one.why.contains("no time was left");
    assert!(!long.tried.iter().any(untried), "{:?}", long.tried);
    let time: u32 = long.stages.iter().map(|one| one.arms * one.rounds).sum();
    // A block takes 12.5 s, and the time of the pilot is subtracted.
    assert!(time <= (7_200 - 30) * 2 / 25, "{:?}", long.stages);
    let short = (1..20)
        .map(|seed| searched(4, 1_610, 10 * seed, "setting"))
        .find(|found| kept(found) == 4)
        .unwrap();
    assert!(short.tried.iter().all(untried), "{:?}", short.tried);
}

/// A slow setting that helps is found using whole plots, among quick settings and another slow one
/// that do nothing. Tests of slow settings have the long wash-out, but those of quick settings do
/// not.
#[test]
fn a_slow_setting_that_helps_is_kept() {
    let quick = ["timer-migration=off", "autogroup=off", "stat-interval-s=10"];
    let (mut found, mut others) = (0, 0);
    for seed in 0..4 {
        let names = quick.into_iter().chain(["compaction=0", "swappiness=10"]);
        let names: Vec<String> = names.map(str::to_owned).collect();
        // This is the shortest time that is accepted.
        let improvement = searched_by(&names, 13_000, 77 + 10 * seed, &mut |one| {
            let long = slow_differs(&one.plan.arms) && !one.plan.ranks_only;
            let times = (one.plan.wash_out_ns, one.plan.block_ns);
            if long {
                assert_eq!(times, (Nanos::from_secs(30), Some(Nanos::from_secs(150))))
            } else {
                assert_eq!(times, (Nanos::from_secs(2), None))
            }
            simulated(one, "swappiness=10");
        });
        let kept = |name: &str| {
            let mut all = improvement.tried.iter();
            all.any(|one| one.accepted && one.assignment == name)
        };
        found += u32::from(kept("swappiness=10"));
        others += u32::from(quick.into_iter().chain(["compaction=0"]).any(kept));
    }
    assert!(found >= 3, "{found} of 4");
    assert!(others <= 1, "{others} of 4");
}

/// If the time is too short for slow settings, they are left out, and a sufficient time is
/// suggested. Quick settings are then tried as usual.
#[test]
fn slow_settings_need_time() {
    let names = ["autogroup=off", "compaction=0", "swappiness=10"];
    let mut improvement = intended(names.map(tried).to_vec(), Vec::new());
    let mut plan = experiment(0, 1).plan;
    plan.time_ns = Nanos::from_secs(710);
    plan_stages(&mut improvement, &plan).unwrap();
    assert_eq!(improvement.tried.len(), 1);
    assert_eq!(improvement.left_out.len(), 2);
    for one in &improvement.left_out {
        assert!(
            one.reason.contains("after half a minute: --duration "),
            "{one:?}"
        );
    }
    let mut improvement = intended(names.map(tried).to_vec(), Vec::new());
    plan.time_ns = Nanos::from_secs(20_000);
    plan_stages(&mut improvement, &plan).unwrap();
    let stages: Vec<&str> = improvement
        .stages
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(
        stages,
        [
            "A/A",
            "confirmation",
            "confirmation (slow)",
            "group",
            "leave one out",
            "proof"
        ]
    );
}

#[test]
fn experiments_share_the_false_alarm_chance() {
    let of = |p: f64, wealth: f64| ArmResult {
        p,
        wealth,
        ..result(Effect::Fewer, Some(0.6))
    };
    assert!(judging::survives(&of(0.04, 1.0), 1).is_ok());
    assert_eq!(
        judging::survives(&of(0.04, 1.0), 2)
            .unwrap_err()
            .to_string(),
        "not proven to help in addition to the slow settings"
    );
    assert!(judging::survives(&of(0.02, 1.0), 2).is_ok());
    assert!(judging::survives(&of(0.04, 250.0), 2).is_ok());
}

#[test]
fn what_is_needed_least_goes_first() {
    use Effect::{Equivalent, Fewer, More, NotProven};
    let of = |each: &[(Effect, f64)]| {
        let each = each.iter().map(|(effect, ratio)| ArmResult {
            ratio: Some(*ratio),
            ..result(*effect, Some(1.0))
        });
        judging::least_needed(&each.collect::<Vec<_>>())
    };
    assert_eq!(
        of(&[(More, 2.0), (Equivalent, 1.0), (NotProven, 0.5)]),
        Some(1)
    );
    assert_eq!(of(&[(Equivalent, 0.95), (Fewer, 0.6)]), Some(1));
    assert_eq!(of(&[(Equivalent, 0.95), (Equivalent, 1.05)]), Some(0));
    assert_eq!(of(&[(NotProven, 0.5), (More, 2.0)]), None);
}

#[test]
fn stages_fit_time_or_state_need() {
    let mut plan = experiment(0, 1).plan;
    plan.time_ns = Nanos::from_secs(7_200);
    let names = |settings| {
        let all = stages(&plan, settings, 0).unwrap();
        let time: u32 = all.iter().map(|stage| stage.arms * stage.rounds).sum();
        // A block takes 12.5 s.
        assert!(time <= 7_200 * 2 / 25, "{all:?}");
        all.into_iter().map(|stage| stage.name).collect::<Vec<_>>()
    };
    assert_eq!(names(1), ["A/A", "confirmation", "proof"]);
    let few = ["A/A", "confirmation", "group", "leave one out", "proof"];
    assert_eq!(names(4), few);
    let screened = [
        "A/A",
        "screening",
        "confirmation",
        "group",
        "leave one out",
        "proof",
    ];
    assert_eq!(names(11), screened);
    plan.time_ns = Nanos::from_secs(60);
    let error = stages(&plan, 3, 0).unwrap_err().to_string();
    assert!(
        error.contains("too short to try 3 settings: give "),
        "{error}"
    );
}

#[test]
fn kept_settings_form_tune_profile() {
    let mut improvement = intended(
        vec![tried("governor=performance"), tried("irq-x=1")],
        Vec::new(),
    );
    improvement.tried.push(tried("watchdog@soft=off"));
    improvement.tried[1].accepted = false;
    improvement.proof = Some(Proof {
        settings: Vec::new(),
        ratio: Some(0.25),
        low: Some(0.1),
        high: Some(0.6),
        pairs: 12,
        power: None,
    });
    let text = profile(&improvement, "2026-11-03").unwrap();
    let read = punctual_tune::Profile::parse("improve.toml", &text).unwrap();
    assert_eq!(read.len(), 2);
    assert!(
        text.contains("rate of late slots is ×0.25 (95%: ×0.10 to ×0.60), 2026-11-03"),
        "{text}"
    );
    improvement
        .tried
        .iter_mut()
        .for_each(|one| one.accepted = false);
    assert_eq!(profile(&improvement, "2026-11-03"), None);
}

/// Returns the names of the settings that are kept.
fn kept_of(improvement: &Improvement) -> Vec<&str> {
    let kept = improvement.tried.iter().filter(|one| one.accepted);
    kept.map(|one| one.assignment.as_str()).collect()
}

/// Either of two settings has the full effect (each ×0.4, together also ×0.4), and the effect of a
/// third is independent of them. The group that is reported was measured against the baseline in
/// exactly this form, and only one of the two is kept.
#[test]
fn of_two_redundant_settings_one_stays() {
    let names = ["setting0=on", "setting1=on", "setting2=on"].map(str::to_owned);
    let rate = |on: &[String]| {
        let has = |name: &str| on.iter().any(|one| one.starts_with(name));
        let either = [1.0, 0.4][usize::from(has("setting0") || has("setting1"))];
        300.0 * either * if has("setting2") { 0.6 } else { 1.0 }
    };
    let mut one_stays = 0;
    for seed in 0..10 {
        let mut measured: Vec<Vec<String>> = Vec::new();
        let found = searched_by(&names, 7_200, 500 + 10 * seed, &mut |one| {
            for arm in &one.plan.arms[1..] {
                if let ArmAction::Settings { assignments } = &arm.action
                    && one.plan.arms[0].action == ArmAction::Unchanged
                {
                    measured.push(assignments.clone());
                }
            }
            simulated_by(one, &rate);
        });
        let kept = kept_of(&found);
        if kept.is_empty() {
            continue;
        }
        let written: Vec<String> = kept.iter().map(|one| (*one).to_owned()).collect();
        assert!(
            measured.contains(&written),
            "{written:?} was never measured"
        );
        assert_eq!(found.proof.as_ref().unwrap().settings, written);
        let of_two = kept.iter().filter(|one| **one != "setting2=on").count();
        let gone = (found.tried[..2].iter()).filter(|one| one.why.contains("not needed"));
        assert!(gone.count() < 2, "{:?}", found.tried);
        one_stays += u32::from(of_two == 1 && kept.contains(&"setting2=on"));
    }
    assert!(one_stays >= 5, "{one_stays} of 10");
}

/// A setting with a small effect is selected because its effect looks larger by chance. The
/// reported effect comes from fresh data, so it is right on average, and its interval contains the
/// true effect.
#[test]
fn reported_effect_comes_from_fresh_data() {
    let names: Vec<String> = (0..4).map(|nth| format!("setting{nth}=on")).collect();
    let rate = |on: &[String]| {
        let helps = on.iter().any(|one| one == "setting2=on");
        if helps { 30.0 } else { 40.0 }
    };
    let (mut logs, mut holds) = (Vec::new(), 0);
    for seed in 0..20 {
        let found = searched_by(&names, 3_600, 900 + 10 * seed, &mut |one| {
            simulated_by(one, &rate);
        });
        let alone = found
            .proof
            .filter(|proof| proof.settings == ["setting2=on"]);
        let Some((ratio, low, high)) =
            alone.and_then(|one| Some((one.ratio?, one.low?, one.high?)))
        else {
            continue;
        };
        logs.push(ratio.ln());
        holds += usize::from(low <= 0.75 && 0.75 <= high);
    }
    let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
    assert!(logs.len() >= 10, "{}", logs.len());
    assert!((0.72..0.78).contains(&mean), "×{mean}");
    assert!(holds * 10 >= logs.len() * 8, "{holds} of {}", logs.len());
}
