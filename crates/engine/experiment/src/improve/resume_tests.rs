//! Tests searches that are continued from a store.

use punctual_model::{Effect, Nanos, RecordingId};
use punctual_store::Store;

use super::stages::stages;
use super::tests::{Silent, result, tried};
use super::*;
use crate::analysis::tests::experiment;

/// A finished stage is taken from the store. In this test, the stage raises an alarm, which ends
/// the search before anything is measured.
#[test]
fn measured_stage_is_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let (store, own, mut first) = begun(folder.path());
    first.state = ExperimentState::Finished;
    let mut alarm = result(Effect::Fewer, Some(0.6));
    alarm.sentence = "seemed better".to_owned();
    first.results = vec![alarm];
    store.put_experiment(&first).unwrap();

    own.enter(&first).unwrap();
    let state = unfinished(&store, &own, "last").unwrap();
    let mut improvement = state.improvement;
    go_on(&mut improvement, &state.plan, Some(&own), &store).unwrap();
    assert!(
        improvement
            .sentence
            .contains("equal conditions seemed to differ (seemed better)"),
        "{}",
        improvement.sentence
    );
    assert_eq!(store.experiments().unwrap().len(), 1);
    // The store records that the search is finished.
    let error = unfinished(&store, &own, "last").unwrap_err().to_string();
    assert!(error.contains("no unfinished search"), "{error}");
    assert!(!own.has(&first), "the entry of what has ended");
}

/// Continues a search that must not measure anything.
fn go_on(
    improvement: &mut Improvement,
    plan: &ExperimentPlan,
    own: Option<&OwnExperiments>,
    store: &Store,
) -> Result<(), TrialError> {
    let host = punctual_host::Host::new("/nowhere");
    let mut bench = Bench {
        host: &host,
        store: Some(store),
        journal: None,
        partner: None,
        isolate: &|load| load,
        view: &mut Silent,
        stop: &Default::default(),
        shared: false,
        say: &mut |said| panic!("measured: {said:?}"),
    };
    improve(improvement, plan, own, &mut bench)
}

/// Creates a search that this user started on this machine, in a separate store.
fn begun(folder: &std::path::Path) -> (Store, OwnExperiments, Experiment) {
    let store = Store::open(&folder.join("store.db")).unwrap();
    let own = OwnExperiments::next_to(&folder.join("tune.journal"));
    let mut plan = experiment(0, 3).plan;
    plan.time_ns = Nanos::from_secs(7_200);
    let mut improvement = intended(vec![tried("governor=performance")], Vec::new());
    improvement.stages = stages(&plan, 1, 0).unwrap();
    let mut first = experiment(0, 3);
    first.plan = ExperimentPlan {
        arms: vec![unchanged("current"), unchanged("current again")],
        rounds: Some(improvement.stages[0].rounds),
        ends_early: false,
        ..plan.clone()
    };
    first.state = ExperimentState::Running;
    improvement.stages[0].experiment = Some(first.id);
    first.improvement = Some(Box::new(ImprovementState {
        plan,
        improvement,
        ended: false,
    }));
    (store, own, first)
}

fn state_of(experiment: &mut Experiment) -> &mut ImprovementState {
    experiment.improvement.as_deref_mut().unwrap()
}

/// A search from another machine, or one that has been changed in the store since it started, is
/// not continued.
#[test]
fn only_own_unchanged_search_continues() {
    let folder = tempfile::tempdir().unwrap();
    let (store, own, first) = begun(folder.path());
    store.put_experiment(&first).unwrap();
    let refused = || {
        for selector in ["last", &first.id.to_string()] {
            let error = unfinished(&store, &own, selector).unwrap_err();
            assert!(matches!(error, TrialError::Foreign { .. }), "{error}");
        }
    };
    refused();
    own.enter(&first).unwrap();
    assert!(unfinished(&store, &own, "last").is_ok());
    // With a different setting, load or plan, it is treated as another user's search.
    type Change = fn(&mut Experiment);
    let changes: [Change; 4] = [
        |one| state_of(one).improvement.tried[0].assignment = "sched-rt-runtime-us=-1".to_owned(),
        |one| state_of(one).plan.loads.push("command".to_owned()),
        |one| one.plan.loads.push("command".to_owned()),
        |one| {
            one.plan.arms[0].action = ArmAction::Command {
                command: "id".to_owned(),
            }
        },
    ];
    for change in changes {
        let mut changed = first.clone();
        change(&mut changed);
        store.put_experiment(&changed).unwrap();
        refused();
    }
    // A newer search from elsewhere does not hide the user's own search.
    store.put_experiment(&first).unwrap();
    let (_, _, mut foreign) = begun(folder.path());
    foreign.started = first.started + std::time::Duration::from_secs(60);
    store.put_experiment(&foreign).unwrap();
    assert_eq!(store.experiments().unwrap()[0].id, foreign.id);
    let found = unfinished(&store, &own, "last").unwrap();
    assert_eq!(found.improvement.stages[0].experiment, Some(first.id));
}

/// A stage that someone else measured has no influence, and is not continued.
#[test]
fn a_stage_from_elsewhere_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (store, own, mut first) = begun(folder.path());
    // The stage has the same plan, and all its blocks.
    let foreign = Experiment {
        id: RecordingId::new(),
        state: ExperimentState::Finished,
        improvement: None,
        ..first.clone()
    };
    own.enter(&first).unwrap();
    state_of(&mut first).improvement.stages[0].experiment = Some(foreign.id);
    store.put_experiment(&first).unwrap();
    store.put_experiment(&foreign).unwrap();
    let state = unfinished(&store, &own, "last").unwrap();
    let mut improvement = state.improvement;
    for own in [Some(&own), None] {
        let ran = go_on(&mut improvement, &state.plan, own, &store);
        assert!(matches!(ran, Err(TrialError::Foreign { .. })), "{ran:?}");
    }
    let kept = store.experiments().unwrap();
    assert_eq!(kept.iter().find(|one| one.id == foreign.id), Some(&foreign));
}
