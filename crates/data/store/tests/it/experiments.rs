//! Experiments in the store, and recordings that are their blocks.

use crate::common::{insert, lease, recording, store_path};
use punctual_model::{
    Arm, ArmAction, EXPERIMENT_SCHEMA, Experiment, ExperimentPlan, ExperimentState, JudgedBy,
    Judgement, Nanos, Outcome, RecordingId,
};
use punctual_store::{Filter, Store, StoreError};

fn experiment() -> Experiment {
    Experiment {
        schema: EXPERIMENT_SCHEMA,
        id: RecordingId::new(),
        label: Some("thp".to_owned()),
        program: "punctual".to_owned(),
        command_line: vec!["punctual".to_owned()],
        host: None,
        started: jiff::Timestamp::now(),
        measured_on: None,
        state: ExperimentState::Running,
        plan: ExperimentPlan {
            arms: vec![Arm {
                name: "thp=never".to_owned(),
                action: ArmAction::Settings {
                    assignments: vec!["thp=never".to_owned()],
                },
            }],
            probe: "timer".to_owned(),
            parameters: [("interval".to_owned(), "1ms".to_owned())].into(),
            cpus: None,
            policy: None,
            priority: Some(80),
            loads: Vec::new(),
            threshold_ns: Some(Nanos(50_000)),
            time_ns: Nanos::from_secs(60),
            rounds: None,
            block_ns: None,
            wash_out_ns: Nanos::from_secs(2),
            deadline_ns: None,
            seed: u64::MAX,
            ends_early: true,
            ranks_only: false,
        },
        pilot: None,
        blocks: Vec::new(),
        results: Vec::new(),
        sentence: "not proven".to_owned(),
        warnings: Vec::new(),
        numbers: None,
        boots: None,
        improvement: None,
    }
}

#[test]
fn later_state_replaces_stored_experiment() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let mut one = experiment();
    let held = store.lease_experiment(one.id, &lease()).unwrap();
    assert!(store.lease_experiment(one.id, &lease()).is_none());
    store.put_experiment(&one).unwrap();
    assert_eq!(store.experiments().unwrap(), [one.clone()]);
    // Its program has ended.
    drop(held);
    let found = store.find_experiment("last").unwrap();
    assert_eq!(found.state, ExperimentState::Interrupted);
    one.state = ExperimentState::Finished;
    store.put_experiment(&one).unwrap();
    let other = experiment();
    store.put_experiment(&other).unwrap();
    let read_only = Store::open_read_only(&path).unwrap();
    assert_eq!(read_only.find_experiment(&one.id.short()).unwrap(), one);
    assert_eq!(read_only.find_experiment("last~1").unwrap(), one);
    for text in ["abcdabcd", "xyz", ""] {
        let error = read_only.find_experiment(text).unwrap_err();
        assert!(
            matches!(error, StoreError::NoSuchExperiment { .. }),
            "{error}"
        );
    }
    let mut labelled = experiment();
    labelled.label = Some("kernel 6.12".to_owned());
    store.put_experiment(&labelled).unwrap();
    let found = read_only.find_experiment("kernel 6.12").unwrap();
    assert_eq!(found.id, labelled.id);
}

#[test]
fn blocks_are_unlisted_and_deleted_with_experiment() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let one = experiment();
    store.put_experiment(&one).unwrap();
    let (block, other) = (recording(1, 2), recording(1, 2));
    insert(&store, &other);
    insert(&store, &block);
    store.mark_block(block.id, one.id).unwrap();
    let ids = |without_blocks| {
        let filter = Filter {
            without_blocks,
            ..Filter::default()
        };
        let mut ids: Vec<RecordingId> = (store.list_by(&filter).unwrap().iter())
            .map(|summary| summary.id)
            .collect();
        ids.sort();
        ids
    };
    let mut both = vec![block.id, other.id];
    both.sort();
    assert_eq!((ids(true), ids(false)), (vec![other.id], both));
    assert_eq!(store.find("last").unwrap(), other.id);
    assert_eq!(store.find(&block.id.to_string()).unwrap(), block.id);
    store.delete_experiment(one.id).unwrap();
    assert!(store.experiments().unwrap().is_empty());
    assert_eq!(ids(false), [other.id]);
}

#[test]
fn a_changed_experiment_is_damage() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    store.put_experiment(&experiment()).unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute(
            "UPDATE experiment SET json = replace(json, 'thp', 'thq')",
            [],
        )
        .unwrap();
    let error = store.experiments().unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

/// The verdict of the experiment is stored in the recording and its list entry; nothing else
/// changes.
#[test]
fn recording_keeps_verdict_of_its_whole() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let one = recording(2, 3);
    insert(&store, &one);
    let before = store.load(one.id).unwrap();
    let judgement = Judgement {
        by: JudgedBy::Check,
        experiment: None,
        outcome: Outcome::NotProven,
        sentence: "not proven: 3 episodes".to_owned(),
        asked: None,
        claims: Vec::new(),
    };
    store.put_judgement(one.id, &judgement).unwrap();
    let mut expected = before;
    expected.be_judged(judgement.clone());
    let read = Store::open_read_only(&path).unwrap();
    assert_eq!(read.load(one.id).unwrap(), expected);
    let listed = read.list().unwrap();
    assert_eq!(listed[0].outcome, Outcome::NotProven);
    assert!(matches!(
        store.put_judgement(RecordingId::new(), &judgement),
        Err(StoreError::NoSuch { .. })
    ));
}

/// The verdict of another store is not proven by the recording. Wherever the recording is copied
/// to, it is judged by its own data.
#[test]
fn merged_recording_is_judged_by_its_data() {
    let (_folder, path) = store_path();
    let other = Store::open(&path).unwrap();
    let mut one = recording(2, 3);
    let own = one.judge();
    let judgement = Judgement {
        by: JudgedBy::Check,
        experiment: None,
        outcome: Outcome::Held,
        sentence: "held: at most 3".to_owned(),
        asked: None,
        claims: Vec::new(),
    };
    one.be_judged(judgement.clone());
    insert(&other, &one);
    assert_eq!(other.list().unwrap()[0].outcome, Outcome::Held);
    let (_second, path) = store_path();
    let store = Store::open(&path).unwrap();
    store.merge(&other, &lease()).unwrap();
    let merged = store.load(one.id).unwrap();
    assert_eq!(merged.verdict, own);
    assert_eq!(merged.judgement, None);
    assert_eq!(merged.sender_judgement, Some(judgement));
    assert_eq!(store.list().unwrap()[0].outcome, own.outcome);
}
