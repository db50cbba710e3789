//! Retention, and copies of stores.

use crate::common::{
    at_start, batch, insert, lease, outlier, recording, samples, store_path, window,
};
use jiff::Timestamp;
use punctual_model::{
    FindingState, Note, Recording, RecordingId, SeriesEpoch, Severity, Slot, SlotCause, SlotState,
    StoredAudit, StoredFinding,
};
use punctual_store::{Aged, RetentionLimits, SlotFilter, Store, StoreError, WINDOW};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn epoch(store: &Store, machine: &str, definition: &str) -> SeriesEpoch {
    store
        .put_series(machine, None, "osadl", definition, at(0))
        .unwrap()
}

/// Stores a run with samples, a trace window and rows.
fn whole(store: &Store, epoch: Option<&SeriesEpoch>, second: i64) -> Recording {
    let mut recording = recording(2, 3);
    recording.started = at(second);
    let mut writer = store.begin(&at_start(&recording), &lease()).unwrap();
    writer.commit(&batch(&recording, 1)).unwrap();
    writer.samples(0, &samples(3_000)).unwrap();
    writer.keep_window(&outlier(1), &window(40)).unwrap();
    recording.samples = Some(writer.seal().unwrap());
    writer.finish(&recording).unwrap();
    if let Some(epoch) = epoch {
        store.join_series(recording.id, epoch).unwrap();
    }
    recording
}

fn parts(store: &Store, id: RecordingId) -> (bool, bool, bool) {
    let recording = store.load(id).unwrap();
    let attached = store.attachments(id).unwrap();
    (
        recording.samples.is_some(),
        attached.iter().any(|one| one.kind == WINDOW),
        !recording.series.rows.is_empty(),
    )
}

#[test]
fn run_parts_age_out_histograms_stay() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let epoch = epoch(&store, "machine", "{}");
    let old = whole(&store, Some(&epoch), 0);
    let new = whole(&store, Some(&epoch), 1_000);
    let by_hand = whole(&store, None, 0);
    let limits = RetentionLimits {
        samples: Some(at(2_000)),
        traces: Some(at(500)),
        rows: Some(at(500)),
        ..RetentionLimits::default()
    };
    let aged = store.age(&limits).unwrap();
    let expected = Aged {
        samples: 2,
        traces: 1,
        rows: 1,
        too_large: false,
    };
    assert_eq!(aged, expected);
    assert_eq!(parts(&store, old.id), (false, false, false));
    assert_eq!(parts(&store, new.id), (false, true, true));
    assert_eq!(parts(&store, by_hand.id), (true, true, true));
    let loaded = store.load(old.id).unwrap();
    assert_eq!(loaded.threads, old.threads);
    assert_eq!(
        (&loaded.host, &loaded.top_samples),
        (&old.host, &old.top_samples)
    );
    let told = loaded
        .warnings
        .iter()
        .filter(|text| text.contains("have aged out"));
    assert_eq!(told.count(), 3);
    assert!(store.check().unwrap().is_empty());
    // No remaining data is too old.
    assert_eq!(store.age(&limits).unwrap(), Aged::default());
}

/// A run measured with a wrong clock counts as no older than earlier runs, and does not protect
/// older ones from removal.
#[test]
fn a_wrong_clock_makes_no_run_older() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let epoch = epoch(&store, "machine", "{}");
    let run = |second| whole(&store, Some(&epoch), second).id;
    // The clock was right, then in the past, in the future, and right again.
    let [old, first, past, future, last] = [0, 5_000, 1, 900_000, 6_000].map(run);
    let rows = |id| parts(&store, id).2;
    let age = |before, now| {
        let limits = RetentionLimits {
            rows: Some(at(before)),
            now: Some(at(now)),
            ..RetentionLimits::default()
        };
        store.age(&limits).unwrap().rows
    };
    assert_eq!(age(4_000, 7_000), 1);
    assert!(!rows(old) && [first, past, future, last].into_iter().all(rows));
    // They are removed once the runs before them are too old.
    assert_eq!(age(5_500, 8_000), 2);
    assert!(!rows(first) && !rows(past) && rows(future) && rows(last));
    assert_eq!(age(6_500, 9_000), 1);
    assert!(rows(future) && !rows(last));
}

#[test]
fn recording_added_after_marking_stays() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let epoch = epoch(&store, "machine", "{}");
    assert_eq!(store.last_entered().unwrap(), None);
    let marked = whole(&store, Some(&epoch), 10).id;
    let (last, began) = store.last_entered().unwrap().unwrap();
    assert_eq!(began, at(10));
    let merged = whole(&store, Some(&epoch), 5).id;
    let limits = RetentionLimits {
        rows: Some(at(1_000)),
        last: Some(last),
        ..RetentionLimits::default()
    };
    assert_eq!(store.age(&limits).unwrap().rows, 1);
    assert!(!parts(&store, marked).2 && parts(&store, merged).2);
}

#[test]
fn size_limit_removes_oldest_parts_first() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let epoch = epoch(&store, "machine", "{}");
    let first = whole(&store, Some(&epoch), 0);
    let second = whole(&store, Some(&epoch), 10);
    let used = store.stats().unwrap().used_bytes;
    let size = |size| RetentionLimits {
        size: Some(size),
        ..RetentionLimits::default()
    };
    assert_eq!(store.age(&size(used)).unwrap(), Aged::default());
    let aged = store.age(&size(used - 1)).unwrap();
    assert_eq!((aged.samples, aged.traces, aged.rows), (1, 0, 0));
    assert_eq!(parts(&store, first.id), (false, true, true));
    assert_eq!(parts(&store, second.id), (true, true, true));
    // The limit is smaller than the histograms alone. Everything that may be removed is removed,
    // and the result reports that this was not enough.
    let aged = store.age(&size(1)).unwrap();
    assert_eq!((aged.samples, aged.traces, aged.rows), (1, 2, 2));
    assert!(aged.too_large);
    assert_eq!(store.load(first.id).unwrap().threads, first.threads);
}

/// A killed backup leaves no file under the final name, and does not block the next one.
#[test]
fn killed_backup_is_continued() {
    use rustix::fs::{FlockOperation, flock};
    let (folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    insert(&store, &recording(1, 2));
    let copy = folder.path().join("copy.db");
    let partial = folder.path().join(".copy.db.partial");
    std::fs::write(&partial, "the first half").unwrap();
    let other = std::fs::File::open(&partial).unwrap();
    flock(&other, FlockOperation::LockExclusive).unwrap();
    let said = store.backup(&copy).unwrap_err().to_string();
    assert!(
        said.contains("another backup to this file is running"),
        "{said}"
    );
    assert!(!copy.exists());
    // The other program is killed.
    drop(other);
    store.backup(&copy).unwrap();
    assert!(!partial.exists());
    let copied = Store::open_read_only(&copy).unwrap();
    assert_eq!(copied.list().unwrap(), store.list().unwrap());
    // A link is not followed.
    std::os::unix::fs::symlink(&path, folder.path().join(".other.db.partial")).unwrap();
    assert!(store.backup(&folder.path().join("other.db")).is_err());
    assert_eq!(store.list().unwrap().len(), 1);
}

#[test]
fn backup_during_run_is_whole() {
    let (folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let done = whole(&store, None, 0);
    let running = recording(2, 6);
    let mut writer = store.begin(&at_start(&running), &lease()).unwrap();
    writer.commit(&batch(&running, 1)).unwrap();
    let copy = folder.path().join("copy.db");
    store.backup(&copy).unwrap();
    writer.commit(&batch(&running, 2)).unwrap();
    writer.finish(&running).unwrap();

    use std::os::unix::fs::MetadataExt;
    assert_eq!(std::fs::metadata(&copy).unwrap().mode() & 0o777, 0o600);
    let copied = Store::open(&copy).unwrap();
    assert_eq!(copied.load(done.id).unwrap(), store.load(done.id).unwrap());
    assert_eq!(copied.sweep(&|_| false).unwrap(), 1);
    assert_eq!(copied.list().unwrap().len(), 2);
    assert!(copied.check().unwrap().is_empty());
    // An existing file is never overwritten.
    assert!(matches!(
        store.backup(&copy),
        Err(StoreError::Backup { .. })
    ));
    assert!(copied.load(done.id).is_ok());
}

#[test]
fn a_merge_takes_all_in_once() {
    let (_here, path) = store_path();
    let (_there, other_path) = store_path();
    let store = Store::open(&path).unwrap();
    let other = Store::open(&other_path).unwrap();
    let own = epoch(&store, "machine", "{}");
    let theirs = epoch(&other, "other", "{}");
    let mine = whole(&store, Some(&own), 0);
    let taken = whole(&other, Some(&theirs), 10);
    let apart = recording(1, 2);
    insert(&other, &apart);
    let slot = Slot {
        machine: "other".to_owned(),
        series: "osadl".to_owned(),
        epoch: 1,
        due: at(20),
        cause: SlotCause::At,
        state: SlotState::Missed,
        reason: Some("the service was not running".to_owned()),
        recording: None,
    };
    other.add_slot(&theirs, &slot).unwrap();
    let note = Note {
        id: RecordingId::new(),
        recording: Some(taken.id),
        series: None,
        machine: None,
        at: at(20),
        text: "new fan".to_owned(),
        author: "ada".to_owned(),
        written: at(30),
    };
    other.put_note(&note).unwrap();

    let merged = store.merge(&other, &lease()).unwrap();
    assert_eq!(
        (merged.recordings, merged.slots, merged.annotations),
        (2, 1, 1)
    );
    for id in [taken.id, apart.id] {
        assert_eq!(store.load(id).unwrap(), other.load(id).unwrap());
    }
    assert_eq!(parts(&store, taken.id), (true, true, true));
    assert_eq!(store.slots(&SlotFilter::default()).unwrap(), [slot]);
    assert_eq!(store.notes().unwrap(), [note]);
    assert_eq!(store.series().unwrap().len(), 2);
    let mut hosts = 0;
    let runs = store.runs_of::<StoreError>("osadl", None, None, &mut |_| {
        hosts += 1;
        Ok(())
    });
    assert_eq!((runs.unwrap(), hosts), (2, 2));
    let of_nobody = store.runs_of::<StoreError>("osadl", Some("nobody"), None, &mut |_| Ok(()));
    assert_eq!(of_nobody.unwrap(), 0);
    // A second merge does not duplicate anything.
    let again = store.merge(&other, &lease()).unwrap();
    assert_eq!(
        (
            again.recordings,
            again.known,
            again.slots,
            again.annotations
        ),
        (0, 2, 0, 0)
    );
    assert_eq!(store.list().unwrap().len(), 3);
    assert_eq!(store.load(mine.id).unwrap(), mine_as_kept(&store, mine.id));
    assert!(store.check().unwrap().is_empty());
}

fn mine_as_kept(store: &Store, id: RecordingId) -> Recording {
    Store::open_read_only(store.path())
        .unwrap()
        .load(id)
        .unwrap()
}

#[test]
fn conflicting_epoch_definitions_are_not_merged() {
    let (_here, path) = store_path();
    let (_there, other_path) = store_path();
    let store = Store::open(&path).unwrap();
    let other = Store::open(&other_path).unwrap();
    epoch(&store, "machine", "{\"probe\":\"timer\"}");
    let theirs = epoch(&other, "machine", "{\"probe\":\"signal\"}");
    whole(&other, Some(&theirs), 0);
    let error = store.merge(&other, &lease()).unwrap_err();
    assert!(matches!(error, StoreError::SeriesDiffers { .. }), "{error}");
    assert!(store.list().unwrap().is_empty());
}

fn audit(title: &str) -> StoredAudit {
    StoredAudit {
        role: "control".to_owned(),
        cpus: "0-1".parse().unwrap(),
        findings: vec![StoredFinding {
            id: "governor".to_owned(),
            state: FindingState::Warn,
            severity: Severity::High,
            title: title.to_owned(),
            reason: None,
        }],
        ok: 3,
        not_applicable: 1,
    }
}

#[test]
fn shared_audit_is_kept_until_unused() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let [one, two, other] = ["powersave", "powersave", "ondemand"].map(|governor| {
        let mut one = recording(1, 1);
        one.audit = Some(audit(governor));
        insert(&store, &one);
        one
    });
    let raw = rusqlite::Connection::open(&path).unwrap();
    let count = |sql: &str| raw.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    // One row of facts, two of audits.
    assert_eq!(count("SELECT count(*) FROM facts"), 3);
    assert_eq!(store.stats().unwrap().facts, 1);
    let audit_of = |of: &Recording| store.load(of.id).unwrap().audit;
    assert_eq!(audit_of(&one), one.audit);
    assert_eq!(audit_of(&other), other.audit);
    for of in [&one, &other] {
        store.delete(of.id).unwrap();
    }
    store.compact().unwrap();
    assert_eq!(count("SELECT count(*) FROM facts"), 2);
    assert_eq!(audit_of(&two), two.audit);
    // Merging into another store includes the audit.
    let (_there, other_path) = store_path();
    let other = Store::open(&other_path).unwrap();
    other.merge(&store, &lease()).unwrap();
    assert_eq!(other.load(two.id).unwrap().audit, two.audit);
    // A swapped or missing audit is detected.
    let of_audit = "hash IN (SELECT audit FROM recording)";
    for (change, wrong) in [
        (
            format!("UPDATE facts SET crc = crc + 1 WHERE {of_audit}"),
            "were changed",
        ),
        (format!("DELETE FROM facts WHERE {of_audit}"), "are missing"),
    ] {
        raw.execute(&change, []).unwrap();
        let error = store.load(two.id).unwrap_err();
        assert!(error.to_string().contains(wrong), "{error}");
        assert_eq!(store.check().unwrap().len(), 1);
    }
}

#[test]
fn check_names_damage_compact_removes_unused() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let epoch = epoch(&store, "machine", "{}");
    let first = whole(&store, Some(&epoch), 0);
    let mut second = recording(1, 1);
    second.host.kernel.release = punctual_model::Fact::known("other".to_owned(), "uname");
    insert(&store, &second);
    assert_eq!(store.stats().unwrap().facts, 2);
    store.delete(second.id).unwrap();
    store.compact().unwrap();
    let stats = store.stats().unwrap();
    assert_eq!((stats.facts, stats.recordings, stats.runs), (1, 1, 1));
    assert!(stats.sample_bytes > 0 && stats.attachment_bytes > 0 && stats.rows > 0);
    assert!(stats.packed_bytes > 0 && stats.window_bytes == 0);
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute("UPDATE run SET crc = crc + 1", []).unwrap();
    raw.execute("UPDATE pack SET length = length + 1", [])
        .unwrap();
    let wrong = store.check().unwrap();
    assert_eq!(wrong.len(), 2, "{wrong:#?}");
    assert!(
        wrong
            .iter()
            .all(|line| line.contains(&first.id.to_string())),
        "{wrong:#?}"
    );
}
