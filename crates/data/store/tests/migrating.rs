//! A store of an earlier schema, migrated and packed by programs that are killed.
//!
//! The store was made by the program of schema 7, with a list of what is in it. A larger
//! one is taken from `PUNCTUAL_OLD_STORE`, with its list beside it (`.hashes`).
#![allow(clippy::unwrap_used, reason = "a panic in a test is the report")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use punctual_model::RecordingId;
use punctual_store::{Store, StoreError};
use serde_json::Value;
use sha2::{Digest, Sha256};

const OLD: &str = "PUNCTUAL_OLD_STORE";
const ROLE: &str = "PUNCTUAL_MIGRATED_STORE";

/// The longest time before one of the first kills.
const SHORT: Duration = Duration::from_millis(12);

/// How often it is killed; the gate has no time for more.
fn kills() -> u32 {
    let given = std::env::var("PUNCTUAL_KILLS").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(8)
}

/// The part that is played in another process, until it is killed.
#[test]
fn child() {
    if let Some(path) = std::env::var_os(ROLE) {
        Store::open(Path::new(&path)).unwrap().compact().unwrap();
    }
}

/// The old store and its list, copied to `folder`.
fn copied(folder: &Path) -> (PathBuf, String) {
    let path = folder.join("old.db");
    if let Some(given) = std::env::var_os(OLD) {
        let given = PathBuf::from(given);
        std::fs::copy(&given, &path).unwrap();
        let list = std::fs::read_to_string(given.with_extension("hashes"));
        return (path, list.unwrap());
    }
    let packed = include_bytes!("fixtures/schema-7.db.zst");
    std::fs::write(&path, zstd::decode_all(&packed[..]).unwrap()).unwrap();
    (path, include_str!("fixtures/schema-7.hashes").to_owned())
}

/// Recordings that are still rows, and the schema.
fn state(path: &Path) -> (i64, i64) {
    let raw = rusqlite::Connection::open(path).unwrap();
    let read = |sql: &str| raw.query_row(sql, [], |row| row.get(0)).unwrap();
    (
        read("SELECT count(*) FROM head"),
        read("PRAGMA user_version"),
    )
}

#[test]
fn an_old_store_is_migrated_by_killed_programs_without_loss() {
    let folder = match std::env::var_os(OLD) {
        // Larger than what a temporary folder may take.
        Some(given) => tempfile::tempdir_in(Path::new(&given).parent().unwrap()),
        None => tempfile::tempdir(),
    };
    let folder = folder.unwrap();
    let (path, list) = copied(folder.path());
    let (before, schema) = state(&path);
    assert_eq!((before, schema), (list.lines().count() as i64, 7));
    let (mut random, mut longest) = (7u64, SHORT);
    let (mut killed, mut within) = (0, 0);
    loop {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child"])
            .env(ROLE, &path)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let after = longest.mul_f64((random >> 40) as f64 / (1 << 24) as f64);
        let begun = Instant::now();
        let mut ended = None;
        while killed < kills() && begun.elapsed() < after && ended.is_none() {
            std::thread::sleep(Duration::from_millis(1));
            ended = child.try_wait().unwrap();
        }
        if killed >= kills() || ended.is_some() {
            assert!(child.wait().unwrap().success());
            break;
        }
        // SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        killed += 1;
        let (left, _) = state(&path);
        within += u32::from(0 < left && left < before);
        // Where nothing was done in that time, the next has more.
        if left == before || before > 1_000 {
            longest = longest.mul_f64(1.5);
        }
    }
    eprintln!("{before} recordings: killed {killed} times, {within} of them between recordings");
    assert_eq!(state(&path), (0, 10));
    let store = Store::open(&path).unwrap();
    assert!(digests(&store) == list, "a recording was lost or changed");
    assert!(store.check().unwrap().is_empty());
}

/// What is kept of a recording, by a hash: itself, its samples and attachments. What a
/// later version adds, empty, changes nothing.
fn digest(store: &Store, id: RecordingId) -> String {
    let recording = store.load(id).unwrap();
    let mut hash = Sha256::new();
    let mut value = serde_json::to_value(&recording).unwrap();
    strip(&mut value);
    hash.update(value.to_string());
    for thread in 0..recording.threads.len() as u32 {
        store
            .samples(id, thread, &mut |part| {
                for sample in part {
                    hash.update(sample.expected.0.to_le_bytes());
                    hash.update(sample.latency.0.to_le_bytes());
                }
                Ok::<_, StoreError>(())
            })
            .unwrap();
    }
    for one in store.attachments(id).unwrap() {
        let (about, body) = store
            .attachment(id, &one.kind, one.number)
            .unwrap()
            .unwrap();
        hash.update(about);
        hash.update(body);
    }
    let bytes = hash.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Why a fact is unknown that a later version records.
const LATER: &str = "recorded by an earlier version";

/// What a later version words or computes anew when it reads or shows a recording: the version
/// of the form, the words of the verdict and its count above a limit, and percentiles, which are
/// left out if the samples do not support them. Measured values are not among them.
fn is_computed(key: &str) -> bool {
    if ["schema", "outcome", "sentence", "above"].contains(&key) {
        return true;
    }
    let digits = key
        .strip_prefix('p')
        .and_then(|rest| rest.strip_suffix("_ns"));
    digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn strip(value: &mut Value) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(all) => all.is_empty(),
        // A fact that it did not record.
        Value::Object(all) => all.is_empty() || all.get("unknown").is_some_and(|why| why == LATER),
        _ => false,
    };
    match value {
        Value::Array(all) => all.iter_mut().for_each(strip),
        Value::Object(all) => {
            all.values_mut().for_each(strip);
            all.retain(|key, value| !is_empty(value) && !is_computed(key));
        }
        _ => {}
    }
}

/// A line for each recording: its ID and its [`digest`], sorted.
fn digests(store: &Store) -> String {
    let listed = store.list().unwrap();
    let line = |id| format!("{id} {}\n", digest(store, id));
    let mut lines: Vec<String> = listed.iter().map(|summary| line(summary.id)).collect();
    lines.sort_unstable();
    lines.concat()
}
