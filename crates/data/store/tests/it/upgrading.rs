//! Stores of earlier schemas are converted, or stay as they are.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use punctual_model::Recording;
use punctual_store::{Store, StoreError};

/// A store of each earlier schema that can be converted, with the JSON of one of its recordings, as
/// the version of that time exported it.
const KEPT: [(i64, &[u8], &[u8]); 2] = [
    (
        13,
        include_bytes!("../fixtures/schema-13.db.zst"),
        include_bytes!("../fixtures/schema-13.json.zst"),
    ),
    // Schema 14 only added a table, so its recordings are those of schema 13.
    (
        14,
        include_bytes!("../fixtures/schema-14.db.zst"),
        include_bytes!("../fixtures/schema-13.json.zst"),
    ),
];

fn unpacked(packed: &[u8]) -> Vec<u8> {
    zstd::decode_all(packed).unwrap()
}

#[test]
fn store_of_each_schema_is_converted() {
    for (schema, store, exported) in KEPT {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let old = unpacked(store);
        fs::write(&path, &old).unwrap();
        let refused = Store::open(&path).unwrap_err().to_string();
        assert!(refused.contains("punctual store upgrade"), "{refused}");

        let planned = Store::upgrade(&path, true).unwrap().unwrap();
        assert_eq!((planned.from, planned.to > schema), (schema, true));
        assert!(!planned.backup.exists(), "a dry run copies nothing");
        assert!(matches!(Store::open(&path), Err(StoreError::Older { .. })));

        let done = Store::upgrade(&path, false).unwrap().unwrap();
        assert_eq!(done, planned);
        assert_eq!(Store::upgrade(&path, false).unwrap(), None, "it is done");
        let store = Store::open(&path).unwrap();
        assert_eq!(store.check().unwrap(), [""; 0]);
        assert_eq!(store.list().unwrap().len(), 2);
        assert_eq!(store.notes().unwrap().len(), 1);
        let exported = String::from_utf8(unpacked(exported)).unwrap();
        let exported = Recording::from_json(&exported).unwrap();
        let loaded = store.load(exported.id).unwrap();
        assert_eq!(loaded.in_words(), exported);
        assert!(loaded.samples.unwrap().count > 100);

        drop(store);
        // The copy is the old store, and can be converted in turn.
        assert!(matches!(
            Store::open_read_only(&done.backup),
            Err(StoreError::Older { .. })
        ));
        fs::copy(&done.backup, &path).unwrap();
        let again = Store::upgrade(&path, false).unwrap();
        assert_eq!(again, Some(done), "an earlier copy is replaced");
    }
}

/// A store has a write-ahead log, but a restored copy has a rollback journal.
#[test]
fn store_in_use_is_not_converted() {
    for mode in ["wal", "delete"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        fs::write(&path, unpacked(KEPT[0].1)).unwrap();
        // Another program, which reads the store.
        let mut reader = Command::new("sqlite3");
        reader
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let Ok(mut reader) = reader.spawn() else {
            punctual_testing::skip!(Program, "no sqlite3(1)");
            return;
        };
        let work = format!("PRAGMA journal_mode = {mode}; BEGIN; SELECT id FROM recording;\n");
        let input = reader.stdin.as_mut().unwrap();
        input.write_all(work.as_bytes()).unwrap();
        let mut shown = vec![0; mode.len() + 37];
        reader
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut shown)
            .unwrap();
        for dry_run in [true, false] {
            let error = Store::upgrade(&path, dry_run).unwrap_err();
            assert!(matches!(error, StoreError::InUse { .. }), "{mode}: {error}");
        }
        drop(reader.stdin.take());
        reader.wait().unwrap();
        Store::upgrade(&path, false).unwrap().unwrap();
    }
}

#[test]
fn only_stores_are_converted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let refused = |path: &Path| Store::upgrade(path, false).unwrap_err().to_string();
    assert!(
        refused(&path).contains("does not exist"),
        "{}",
        refused(&path)
    );
    fs::write(&path, vec![7; 5_000]).unwrap();
    assert!(refused(&path).contains("is not a punctual store"));
    assert_eq!(fs::read(&path).unwrap(), vec![7; 5_000]);
}

/// A table that an attacker added does not survive, because the whole store is refused.
#[test]
fn store_with_foreign_objects_is_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    fs::write(&path, unpacked(KEPT[0].1)).unwrap();
    let added = Command::new("sqlite3")
        .arg(&path)
        .arg("CREATE TABLE retired (x); PRAGMA wal_checkpoint(TRUNCATE)")
        .output();
    if added.is_err() {
        punctual_testing::skip!(Program, "no sqlite3(1)");
        return;
    }
    let error = Store::upgrade(&path, false).unwrap_err();
    assert!(error.to_string().contains("retired"), "{error}");
    assert!(matches!(Store::open(&path), Err(StoreError::Older { .. })));
}
