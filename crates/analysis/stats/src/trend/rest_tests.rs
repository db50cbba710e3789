//! Tests what remains of a step after it is acknowledged.

use fastrand::Rng;
use punctual_model::{CpuClass, Nanos};

use super::tests::{PLAIN, facts, question, run};
use super::*;

/// After a step of all figures is acknowledged, nothing is left: no figure also rises slowly.
#[test]
fn acknowledged_step_leaves_no_drift() {
    for seed in 0..6 {
        let mut random = Rng::with_seed(seed);
        let same = facts(PLAIN);
        let runs: Vec<Run> = (0..90)
            .map(|number| {
                let level = if number < 30 + 5 * seed as usize {
                    10
                } else {
                    16
                };
                let one = run(number, 20 * level, &same, &mut random);
                let noise = 900 + random.u64(0..200);
                let [p50, p99] = [400, 500].map(|ns| Some(Nanos(ns * level * noise / 1_000)));
                Run { p50, p99, ..one }
            })
            .collect();
        let before = judge(&runs, question());
        assert_eq!(before.verdict, TrendVerdict::Worse, "{}", before.sentence);
        let known = before.groups[0]
            .changes
            .iter()
            .map(|change| Acknowledgement {
                load: "idle".to_owned(),
                cpus: CpuClass::General,
                followed: change.followed,
                worse: change.worse,
                recording: change.recording,
                at: change.at,
                who: "me".to_owned(),
                why: "a new load".to_owned(),
            });
        let acknowledged = Question {
            acknowledged: known.collect(),
            ..question()
        };
        let after = judge(&runs, acknowledged);
        assert_eq!(
            after.verdict,
            TrendVerdict::NoWorsening,
            "{}",
            after.sentence
        );
        assert!(
            after.groups[0].drifts.is_empty(),
            "{:?}",
            after.groups[0].drifts
        );
    }
}
