//! Events around explained outliers: stored and loaded.

use crate::common::{self, lease, outlier, window};
use punctual_model::{Completion, Explanation, Recording, Window};
use punctual_store::{Store, StoreError, WINDOW};

fn explained() -> Recording {
    Recording {
        explanation: Some(Explanation::default()),
        ..common::recording(1, 1)
    }
}

fn store_path() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("punctual.db");
    (folder, path)
}

#[test]
fn a_window_reads_back_as_it_was() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let recording = explained();
    let mut writer = store.begin(&recording, &lease()).unwrap();
    for number in [1, 2, 300] {
        writer
            .keep_window(&outlier(number), &window(number))
            .unwrap();
    }
    writer.forget_outlier(2).unwrap();
    // Storing the same number again replaces the window.
    writer.keep_window(&outlier(1), &window(4)).unwrap();
    writer.finish(&recording).unwrap();
    let read = |number| store.window(recording.id, number).unwrap();
    assert_eq!(read(300), Some((outlier(300), window(300))));
    assert_eq!(read(1), Some((outlier(1), window(4))));
    assert_eq!((read(2), read(3)), (None, None));
    let attached = store.attachments(recording.id).unwrap();
    let list: Vec<_> = attached
        .iter()
        .map(|a| (a.kind.as_str(), a.number))
        .collect();
    assert_eq!(list, [(WINDOW, 1), (WINDOW, 300)]);
    store.delete(recording.id).unwrap();
    assert!(matches!(
        store.window(recording.id, 1),
        Err(StoreError::NoSuch { .. })
    ));
}

#[test]
fn long_window_loses_its_middle() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let recording = explained();
    let mut writer = store.begin(&recording, &lease()).unwrap();
    let long = window(Window::KEPT_EVENTS as u64 + 11);
    writer.keep_window(&outlier(1), &long).unwrap();
    let (_, kept) = store.window(recording.id, 1).unwrap().unwrap();
    assert_eq!(kept.left_out, 11);
    assert_eq!(kept.events.len(), Window::KEPT_EVENTS);
    assert_eq!(kept.events.first(), long.events.first());
    assert_eq!(kept.events.last(), long.events.last());
}

#[test]
fn an_interrupted_run_has_what_was_explained() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let recording = explained();
    let mut writer = store.begin(&recording, &lease()).unwrap();
    writer.keep_window(&outlier(4), &window(9)).unwrap();
    drop(writer);
    store.sweep(&|_| false).unwrap();
    let read = store.load(recording.id).unwrap();
    assert_eq!(read.completion, Completion::Interrupted);
    let explanation = read.explanation.unwrap();
    assert_eq!(explanation.outliers, [outlier(4)]);
    assert_eq!((explanation.seen, explanation.explained), (4, 1));
    assert!(store.window(recording.id, 4).unwrap().is_some());
}

#[test]
fn changed_window_is_an_error() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let recording = explained();
    let mut writer = store.begin(&recording, &lease()).unwrap();
    writer.keep_window(&outlier(1), &window(50)).unwrap();
    writer.finish(&recording).unwrap();
    let changes = [
        "about = replace(about, '70001', '60001')",
        "length = length + 1",
        "length = -1",
        "body = x'00'",
        "number = 2",
    ];
    for change in changes {
        let file = rusqlite::Connection::open(&path).unwrap();
        file.execute_batch("SAVEPOINT before").unwrap();
        file.execute(&format!("UPDATE attachment SET {change}"), [])
            .unwrap();
        file.execute_batch("RELEASE before").unwrap();
        let number = if change == "number = 2" { 2 } else { 1 };
        let error = store.window(recording.id, number).unwrap_err();
        assert!(
            matches!(error, StoreError::Damaged { .. }),
            "{change}: {error}"
        );
        // Restore the original for the next iteration.
        file.execute("DELETE FROM attachment", []).unwrap();
        drop(file);
        restore(&store, &path, &recording);
    }
}

/// Restores the original window of the recording.
fn restore(store: &Store, path: &std::path::Path, recording: &Recording) {
    store.delete(recording.id).unwrap();
    let mut writer = store.begin(recording, &lease()).unwrap();
    writer.keep_window(&outlier(1), &window(50)).unwrap();
    writer.finish(recording).unwrap();
    assert!(path.exists());
}
