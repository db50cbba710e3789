//! Tests of rejected input: texts that are too long.

use punctual_model::{LONGEST_NOTE, MOST_NOTES, Note, RecordingId};

use crate::bits::Crc;
use crate::entry::id_text;
use crate::tests::{lease, recording, store_path};
use crate::{Store, StoreError};

#[test]
fn overlong_texts_are_not_kept() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let mut recording = recording(5);
    recording.label = Some("x".repeat(60_000));
    let begun = store.begin(&recording, &lease()).map(drop);
    assert!(
        matches!(begun, Err(StoreError::LongText { .. })),
        "{begun:?}"
    );
    assert!(store.list().unwrap().is_empty());
    let note = |text: String| Note {
        id: RecordingId::new(),
        recording: None,
        series: None,
        machine: None,
        at: recording.started,
        text,
        author: "somebody".to_owned(),
        written: recording.started,
    };
    let kept = store.put_note(&note("x".repeat(LONGEST_NOTE + 1)));
    assert!(matches!(kept, Err(StoreError::LongText { .. })), "{kept:?}");
    for number in 0..MOST_NOTES {
        store.put_note(&note(number.to_string())).unwrap();
    }
    let kept = store.put_note(&note("one more".to_owned()));
    assert!(
        matches!(kept, Err(StoreError::ManyNotes { .. })),
        "{kept:?}"
    );
    let mut changed = store.notes().unwrap().remove(0);
    changed.text = "changed".to_owned();
    store.put_note(&changed).unwrap();
}

/// Entries with a text that is too long stay in the other store. All others are merged.
#[test]
fn merge_omits_and_counts_overlong_entries() {
    let (_folder, path) = store_path();
    let (_other_folder, other_path) = store_path();
    let (store, other) = (
        Store::open(&path).unwrap(),
        Store::open(&other_path).unwrap(),
    );
    let mut kept = 0;
    for number in 0..3 {
        let mut one = recording(5);
        let writer = other.begin(&one, &lease()).unwrap();
        match number {
            1 => one.label = Some("x".repeat(60_000)),
            _ => kept += 1,
        }
        writer.finish(&one).unwrap();
    }
    let put = |id: RecordingId, text: &str| {
        let note = Note {
            id,
            recording: None,
            series: None,
            machine: None,
            at: recording(1).started,
            text: text.to_owned(),
            author: "somebody".to_owned(),
            written: recording(1).started,
        };
        let (id, json) = (id_text(id), serde_json::to_string(&note).unwrap());
        let crc = Crc::new("note", 0).text(&id).text(&json).end();
        let sql = "INSERT INTO note (id, json, crc) VALUES (?1, ?2, ?3)";
        let values = rusqlite::params![id, json, crc];
        other.link.connection.execute(sql, values).unwrap();
    };
    put(RecordingId::new(), &"n".repeat(LONGEST_NOTE + 1));
    put(RecordingId::new(), "short");
    let machine = "m".repeat(300);
    let sql = "INSERT INTO plan_series (machine, host, name, epoch, definition, begun_ns, crc)
               VALUES (?1, NULL, 'night', 1, '{}', 0, ?2)";
    let crc = Crc::new("plan_series", 0)
        .text(&machine)
        .maybe_blob(None)
        .text("night")
        .number(1)
        .text("{}")
        .number(0)
        .end();
    let values = rusqlite::params![machine, crc];
    other.link.connection.execute(sql, values).unwrap();
    assert_eq!(other.series().unwrap().len(), 1);
    for known in [0, kept] {
        let merged = store.merge(&other, &lease()).unwrap();
        assert_eq!((merged.recordings, merged.known), (kept - known, known));
        assert_eq!(merged.refused.left_out, 3, "{merged:?}");
        let why = merged.refused.left_out_why.unwrap();
        assert!(why.contains("the label has 60000 characters"), "{why}");
    }
    assert_eq!(store.notes().unwrap().len(), 1);
    assert!(store.series().unwrap().is_empty());
    assert_eq!(other.list().unwrap().len(), 3);
}
