//! Series, slots, windows, notes, and the data of a trend.

use crate::common::{at_start, batch, insert, lease, recording, store_path};
use jiff::Timestamp;
use punctual_model::{
    ChangeAnnotation, ChangeDecision, Nanos, Note, Recording, RecordingId, SeriesEpoch, SeriesRun,
    Slot, SlotCause, SlotState, WaitHistogram, WakeWindow, run_groups,
};
use punctual_store::{Filter, SlotFilter, Store, StoreError};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn series(store: &Store, definition: &str, second: i64) -> SeriesEpoch {
    store
        .put_series("machine", Some("lab"), "osadl", definition, at(second))
        .unwrap()
}

fn slot(second: i64, state: SlotState) -> Slot {
    Slot {
        machine: "machine".to_owned(),
        series: "osadl".to_owned(),
        epoch: 1,
        due: at(second),
        cause: SlotCause::At,
        state,
        reason: None,
        recording: None,
    }
}

fn runs(store: &Store, since: Option<Timestamp>) -> Vec<SeriesRun> {
    let mut runs = Vec::new();
    let count = store
        .runs_of::<StoreError>("osadl", None, since, &mut |run| {
            runs.push(run);
            Ok(())
        })
        .unwrap();
    assert_eq!(count, runs.len());
    runs
}

/// Measures in the same way as a service: stores the slot first, and adds the recording to the
/// series while it runs.
fn measured(store: &Store, epoch: &SeriesEpoch, second: i64) -> Recording {
    let mut recording = recording(2, 2);
    recording.started = at(second);
    let running = Slot {
        recording: Some(recording.id),
        ..slot(second, SlotState::Running)
    };
    assert!(store.add_slot(epoch, &running).unwrap());
    let writer = store.begin(&at_start(&recording), &lease()).unwrap();
    store.set_slot(epoch, &running).unwrap();
    writer.finish(&recording).unwrap();
    let state = SlotState::Recorded;
    store.set_slot(epoch, &Slot { state, ..running }).unwrap();
    recording
}

#[test]
fn changed_series_starts_new_epoch() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let first = series(&store, "{\"probe\":\"timer\"}", 0);
    assert_eq!((first.epoch, first.begun), (1, at(0)));
    assert_eq!(series(&store, "{\"probe\":\"timer\"}", 9), first);
    let second = series(&store, "{\"probe\":\"signal\"}", 20);
    assert_eq!((second.epoch, second.begun), (2, at(20)));
    // A series with the same name on another machine is a different one.
    let other = store
        .put_series("other", None, "osadl", "{}", at(30))
        .unwrap();
    assert_eq!(other.epoch, 1);
    assert_eq!(store.series().unwrap(), [first, second, other]);
}

#[test]
fn series_runs_match_measurements() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let epoch = series(&store, "{}", 0);
    let first = measured(&store, &epoch, 100);
    let second = measured(&store, &epoch, 200);
    // An imported recording is added when it is complete.
    let mut third = recording(2, 3);
    third.started = at(300);
    insert(&store, &third);
    store.join_series(third.id, &epoch).unwrap();
    let mut apart = recording(1, 1);
    apart.started = at(150);
    insert(&store, &apart);

    let found = runs(&store, None);
    let ids: Vec<_> = found.iter().map(|run| run.recording).collect();
    assert_eq!(ids, [first.id, second.id, third.id]);
    assert_eq!(runs(&store, Some(at(200))).len(), 2);
    for (run, recording) in found.iter().zip([&first, &second, &third]) {
        assert_eq!(run.groups, run_groups(recording));
        assert_eq!(run.started, recording.started);
        assert_eq!(run.program, recording.probe.program);
        let facts = store.facts(run.facts.as_ref().unwrap()).unwrap();
        assert_eq!(facts.as_ref(), Some(&recording.host));
        assert_eq!(&store.load(recording.id).unwrap(), recording);
    }
    assert_eq!(store.series_of(first.id).unwrap().as_deref(), Some("osadl"));
    assert_eq!(store.series_of(apart.id).unwrap(), None);
    let filter = Filter {
        series: Some("osadl".to_owned()),
        ..Filter::default()
    };
    assert_eq!(store.list_by(&filter).unwrap().len(), 3);
    // A deleted run is no longer in any trend, but its slot still refers to it.
    store.delete(second.id).unwrap();
    assert_eq!(runs(&store, None).len(), 2);
    let slots = store.slots(&SlotFilter::default()).unwrap();
    assert_eq!(slots[0].recording, Some(second.id));
}

#[test]
fn equal_facts_are_kept_once() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let mut ids = Vec::new();
    for kernel in ["6.12", "6.12", "6.13"] {
        let mut recording = recording(1, 1);
        recording.host.kernel.release = punctual_model::Fact::known(kernel.to_owned(), "uname");
        insert(&store, &recording);
        assert_eq!(store.load(recording.id).unwrap(), recording);
        ids.push(recording.id);
    }
    let raw = rusqlite::Connection::open(&path).unwrap();
    let count = |sql: &str| raw.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM facts"), 2);
    assert_eq!(count("SELECT count(*) FROM head"), 0);
    // Changed facts are not accepted.
    raw.execute("UPDATE facts SET length = length + 1", [])
        .unwrap();
    let error = store.load(ids[0]).unwrap_err().to_string();
    assert!(error.contains("facts"), "{error}");
    raw.execute("DELETE FROM facts", []).unwrap();
    let error = store.load(ids[0]).unwrap_err().to_string();
    assert!(error.contains("are missing"), "{error}");
}

#[test]
fn slot_is_unique_and_states_outcome() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let epoch = series(&store, "{}", 0);
    assert_eq!(store.last_due(&epoch).unwrap(), None);
    assert!(
        store
            .add_slot(&epoch, &slot(10, SlotState::Missed))
            .unwrap()
    );
    assert!(
        !store
            .add_slot(&epoch, &slot(10, SlotState::Running))
            .unwrap()
    );
    let once = Slot {
        cause: SlotCause::Once,
        ..slot(50, SlotState::Failed)
    };
    let some = [
        slot(10, SlotState::Missed),
        slot(20, SlotState::Missed),
        once,
    ];
    assert_eq!(store.add_slots(&epoch, &some).unwrap(), 2);
    assert_eq!(store.last_due(&epoch).unwrap(), Some(at(20)));
    let refused = Slot {
        reason: Some("CPU 1 is in use".to_owned()),
        ..slot(20, SlotState::Refused)
    };
    store.set_slot(&epoch, &refused).unwrap();
    let all = store.slots(&SlotFilter::default()).unwrap();
    assert_eq!(all.len(), 3);
    assert_eq!(all[1], refused);
    let filter = |state, since: i64, limit| SlotFilter {
        state,
        since: Some(at(since)),
        limit,
        series: Some("osadl".to_owned()),
        host: None,
    };
    let count = |filter: SlotFilter| store.slots(&filter).unwrap().len();
    assert_eq!(count(filter(Some(SlotState::Missed), 0, None)), 1);
    assert_eq!(count(filter(None, 20, None)), 2);
    assert_eq!(count(filter(None, 0, Some(1))), 1);
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute("UPDATE slot SET state = 'recorded'", [])
        .unwrap();
    assert!(matches!(
        store.slots(&SlotFilter::default()),
        Err(StoreError::Damaged { .. })
    ));
}

#[test]
fn killed_programs_slots_end_like_recordings() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let epoch = series(&store, "{}", 0);
    // Programs that were killed before, during and after the recording.
    store
        .add_slot(&epoch, &slot(1, SlotState::Running))
        .unwrap();
    let half = recording(2, 3);
    let half_slot = Slot {
        recording: Some(half.id),
        ..slot(2, SlotState::Running)
    };
    store.add_slot(&epoch, &half_slot).unwrap();
    let mut writer = store.begin(&at_start(&half), &lease()).unwrap();
    writer.commit(&batch(&half, 1)).unwrap();
    drop(writer);
    let whole = recording(2, 1);
    let whole_slot = Slot {
        recording: Some(whole.id),
        ..slot(3, SlotState::Running)
    };
    store.add_slot(&epoch, &whole_slot).unwrap();
    insert(&store, &whole);

    store.sweep(&|_| false).unwrap();
    assert_eq!(store.recover_slots("another machine").unwrap().len(), 0);
    let recovered = store.recover_slots("machine").unwrap();
    assert_eq!(recovered.len(), 3);
    let slots = store.slots(&SlotFilter::default()).unwrap();
    let states: Vec<_> = slots
        .iter()
        .map(|slot| (slot.state, slot.recording))
        .collect();
    assert_eq!(
        states,
        [
            (SlotState::Recorded, Some(whole.id)),
            (SlotState::Interrupted, Some(half.id)),
            (SlotState::Interrupted, None),
        ]
    );
    assert!(slots[1].reason.as_ref().unwrap().contains("killed"));
    // Both recordings are now runs of the series.
    assert_eq!(runs(&store, None).len(), 2);
    assert!(store.recover_slots("machine").unwrap().is_empty());
}

#[test]
fn windows_notes_and_decisions_read_back() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let window = |start: i64| WakeWindow {
        machine: "machine".to_owned(),
        start: at(start),
        length_ns: Nanos::from_secs(300),
        real_time: WaitHistogram {
            count: 3,
            sum_ns: 9,
            max_ns: Nanos(4),
            buckets: vec![(2, 1), (4, 2)],
        },
        ordinary: WaitHistogram::new(),
        longest: Vec::new(),
        lost: 0,
    };
    assert!(store.add_wake_window(&window(0)).unwrap());
    assert!(store.add_wake_window(&window(300)).unwrap());
    assert!(!store.add_wake_window(&window(300)).unwrap());
    let mut seen = Vec::new();
    let mut take = |one| -> Result<(), StoreError> {
        seen.push(one);
        Ok(())
    };
    assert_eq!(store.wake_windows(Some(at(1)), &mut take).unwrap(), 1);
    assert_eq!(seen, [window(300)]);

    let note = |second: i64| Note {
        id: RecordingId::new(),
        recording: None,
        series: Some("osadl".to_owned()),
        machine: None,
        at: at(second),
        text: "new fan".to_owned(),
        author: "ada".to_owned(),
        written: at(900),
    };
    let (later, earlier) = (note(20), note(10));
    store.put_note(&later).unwrap();
    store.put_note(&earlier).unwrap();
    assert_eq!(store.notes().unwrap(), [earlier.clone(), later.clone()]);
    assert!(store.delete_note(later.id).unwrap());
    assert!(!store.delete_note(later.id).unwrap());
    assert_eq!(store.notes().unwrap(), [earlier]);

    let mark = |decision, second: i64| ChangeAnnotation {
        id: RecordingId::new(),
        series: "osadl".to_owned(),
        figure: "idle, general, p99".to_owned(),
        recording: RecordingId::new(),
        decision,
        who: "ada".to_owned(),
        why: "new kernel".to_owned(),
        at: at(second),
    };
    let (second, first) = (
        mark(ChangeDecision::Reopened, 5),
        mark(ChangeDecision::Acknowledged, 4),
    );
    store.put_change_mark(&second).unwrap();
    store.put_change_mark(&first).unwrap();
    assert_eq!(store.change_marks(Some("osadl")).unwrap(), [first, second]);
    assert!(store.change_marks(Some("other")).unwrap().is_empty());
}
