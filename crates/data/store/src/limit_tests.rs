//! Rejected input: texts that are too long.

use punctual_model::{LONGEST_NOTE, MOST_NOTES, Note, RecordingId};

use crate::tests::{lease, place, recording};
use crate::{Store, StoreError};

#[test]
fn texts_that_are_too_long_are_not_kept() {
    let (_folder, path) = place();
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
