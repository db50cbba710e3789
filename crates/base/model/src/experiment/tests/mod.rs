//! Tests of experiments and of the runs of a series.

mod conditions;
mod series_runs;

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::*;
use crate::testing::{experiment, experiment_block};

fn result(effect: Effect) -> ArmResult {
    ArmResult {
        arm: 1,
        effect,
        pairs: 4,
        late: [9, 1],
        ratio: None,
        low: None,
        high: None,
        p: 0.01,
        wealth: 1.0,
        guards: Vec::new(),
        power: None,
        refused: Vec::new(),
        sentence: String::new(),
    }
}

fn number(arm: u32, name: &str, effect: NumberEffect) -> NumberResult {
    NumberResult {
        arm,
        name: name.to_owned(),
        effect,
        pairs: 4,
        medians: [1.0, 2.0],
        relative: true,
        difference: 0.5,
        low: None,
        high: None,
        p: 0.01,
        sentence: String::new(),
    }
}

/// An experiment on numbers. Each block is a round, an arm and the value of `speed`, if printed.
fn numbers(blocks: &[(u32, u32, Option<f64>)]) -> NumbersExperiment {
    let plan = experiment(2, 1).plan;
    let block = |(round, arm, value): &(u32, u32, Option<f64>)| NumbersBlock {
        round: *round,
        arm: *arm,
        took_ns: Nanos(1),
        values: value
            .map(|value| ("speed".to_owned(), value))
            .into_iter()
            .collect(),
        recording: None,
        notes: Vec::new(),
    };
    NumbersExperiment {
        schema: NUMBERS_SCHEMA,
        program: String::new(),
        command_line: Vec::new(),
        host: None,
        started: Timestamp::UNIX_EPOCH,
        command: "bench".to_owned(),
        higher_is_better: true,
        arms: plan.arms,
        seed: 1,
        rounds: 3,
        margin: 0.05,
        confidence: 0.95,
        units: BTreeMap::new(),
        blocks: blocks.iter().map(block).collect(),
        results: Vec::new(),
        sentence: String::new(),
        stopped: false,
    }
}

#[test]
fn words_of_states_and_effects_are_those_of_json() {
    let states = [
        ExperimentState::Running,
        ExperimentState::AwaitsBoot,
        ExperimentState::Interrupted,
        ExperimentState::Finished,
        ExperimentState::Stopped,
        ExperimentState::Failed,
    ];
    for state in states {
        let json = serde_json::to_string(&state).unwrap();
        assert_eq!(json.replace('_', " "), format!("\"{state}\""));
        assert_eq!(state.to_string(), state.name());
    }
    for effect in [
        Effect::Fewer,
        Effect::More,
        Effect::Equivalent,
        Effect::NotProven,
    ] {
        let json = serde_json::to_string(&effect).unwrap();
        assert_eq!(json.replace('_', " "), format!("\"{}\"", effect.words()));
    }
    for effect in [
        NumberEffect::Better,
        NumberEffect::Worse,
        NumberEffect::Equivalent,
        NumberEffect::NotProven,
    ] {
        let json = serde_json::to_string(&effect).unwrap();
        assert_eq!(json.replace('_', " "), format!("\"{}\"", effect.words()));
    }
}

#[test]
fn pairs_are_rounds_that_measured_the_baseline_and_the_arm() {
    let mut run = experiment(3, 1);
    assert_eq!(
        (run.complete_rounds(), run.pairs_of(1, |block| block.late)),
        (0, vec![])
    );
    run.blocks = [
        (0, 2, 7),
        (0, 0, 5),
        (0, 1, 6),
        (1, 1, 8),
        (1, 0, 9),
        (3, 0, 1),
        (3, 2, 2),
    ]
    .map(|(round, arm, late)| experiment_block(round, arm, late, 1))
    .to_vec();
    assert_eq!(run.pairs_of(1, |block| block.late), [(5, 6), (9, 8)]);
    assert_eq!(run.pairs_of(2, |block| block.late), [(5, 7), (1, 2)]);
    // Seven blocks are two rounds of three arms, and a third one has begun.
    assert_eq!(run.complete_rounds(), 2);
    let names = [0, 2, 3].map(|arm| run.arm_name(arm));
    assert_eq!(names, ["arm 0", "arm 2", ""]);
}

#[test]
fn pairs_of_numbers_need_the_number_in_both_runs() {
    let mut run = numbers(&[
        (0, 1, Some(4.0)),
        (0, 0, Some(2.0)),
        (1, 0, Some(3.0)),
        (1, 1, None),
        (2, 0, Some(5.0)),
        (2, 1, Some(6.0)),
        (3, 0, Some(8.0)),
        (3, 1, Some(9.0)),
    ]);
    assert_eq!(
        run.pairs_of(1, "speed"),
        [[2.0, 4.0], [5.0, 6.0]],
        "only planned rounds"
    );
    assert_eq!(run.pairs_of(1, "other"), [[0.0; 2]; 0]);
    assert_eq!(run.complete_rounds(), 4);
    run.blocks.pop();
    assert_eq!(run.complete_rounds(), 3);
    assert_eq!(["arm 1", ""], [1, 2].map(|arm| run.arm_name(arm)));
}

#[test]
fn experiment_is_proven_only_if_each_result_is() {
    let id = |run: &Experiment| run.id.short().to_string();
    let mut run = experiment(3, 1);
    run.sentence = "arm 1 has fewer late slots".to_owned();
    let empty = run.judgement();
    assert_eq!(
        (empty.by, empty.experiment),
        (JudgedBy::Experiment, Some(run.id))
    );
    assert_eq!(empty.outcome, Outcome::NotProven);
    let text = format!("experiment {}: not proven: nothing was compared", id(&run));
    assert_eq!(empty.sentence, text);

    run.results = vec![result(Effect::Fewer), result(Effect::Equivalent)];
    let proven = run.judgement();
    assert_eq!(proven.outcome, Outcome::NoRequirement);
    let text = format!("experiment {}: arm 1 has fewer late slots", id(&run));
    assert_eq!(proven.sentence, text);
    run.results.push(result(Effect::NotProven));
    assert_eq!(run.judgement().outcome, Outcome::NotProven);
    // A screening ranks settings and tests none.
    run.plan.ranks_only = true;
    assert_eq!(run.judgement().outcome, Outcome::NoRequirement);
}

#[test]
fn numbers_are_proven_only_if_each_one_is() {
    let mut run = experiment(2, 1);
    run.results = vec![result(Effect::Fewer)];
    run.sentence = "speed is better".to_owned();
    for (results, outcome, is_proven) in [
        (vec![], Outcome::NotProven, false),
        (vec![NumberEffect::Better], Outcome::NoRequirement, true),
        (
            vec![NumberEffect::Worse, NumberEffect::Equivalent],
            Outcome::NoRequirement,
            true,
        ),
        (
            vec![NumberEffect::Better, NumberEffect::NotProven],
            Outcome::NotProven,
            false,
        ),
    ] {
        let mut of = numbers(&[]);
        of.results = results
            .iter()
            .map(|effect| number(1, "speed", *effect))
            .collect();
        assert_eq!(of.is_proven(), is_proven, "{results:?}");
        run.numbers = Some(Box::new(of));
        let judgement = run.judgement();
        assert_eq!(judgement.outcome, outcome, "{results:?}");
        assert_eq!(
            judgement.sentence.ends_with("nothing was compared"),
            results.is_empty()
        );
    }
}

#[test]
fn difference_has_a_sign_and_its_unit() {
    let mut one = number(1, "speed", NumberEffect::Better);
    assert_eq!(
        [0.031, -0.5].map(|value| one.text(value)),
        ["+3.1%", "-50.0%"]
    );
    one.relative = false;
    assert_eq!(
        [0.031, -2.5].map(|value| one.text(value)),
        ["+0.0310", "-2.5000"]
    );
}

#[test]
fn recordings_begin_with_the_pilot_and_include_those_of_numbers() {
    let ids: Vec<RecordingId> = (0..4).map(|_| RecordingId::new()).collect();
    let mut run = experiment(2, 1);
    run.pilot = Some(Pilot {
        recording: Some(ids[0]),
        measured_ns: Nanos(1),
        late: 1,
        threshold_ns: Nanos(1),
        block_ns: Nanos(1),
        rounds: 2,
        dispersion: 1.0,
        detects: None,
    });
    run.blocks = vec![
        experiment_block(0, 1, 1, 0),
        experiment_block(0, 0, 1, 0),
        experiment_block(1, 0, 1, 0),
    ];
    run.blocks[0].recording = Some(ids[1]);
    run.blocks[2].recording = Some(ids[2]);
    let mut of = numbers(&[(0, 1, None), (0, 0, None)]);
    of.blocks[0].recording = Some(ids[3]);
    run.numbers = Some(Box::new(of));
    assert_eq!(run.recordings(), ids);
    let by_arm: Vec<(u32, RecordingId)> = run.recordings_by_arm().collect();
    assert_eq!(by_arm, [(1, ids[1]), (0, ids[2]), (1, ids[3])]);
}
