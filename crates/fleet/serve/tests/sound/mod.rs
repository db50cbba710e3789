//! Properties that must hold for any delivery, however hostile. Shared by the tests and the fuzz
//! targets (`fuzz/`).

#![allow(unreachable_pub)]
#![allow(clippy::expect_used, reason = "a panic is the report")]

use std::cell::OnceCell;
use std::path::PathBuf;

use jiff::Timestamp;
use punctual_model::{Recording, WakeWindow};
use punctual_report::html::{HtmlOptions, documents};
use punctual_serve::incoming;
use punctual_store::{Collection, Delivery, Received, SqliteCollection, Store};

/// Maximum size of a decompressed body, small enough to test decompression bombs.
const MOST: usize = 1 << 20;

/// A collector for this thread.
struct Collector {
    _folder: tempfile::TempDir,
    file: PathBuf,
    all: SqliteCollection,
}

impl Collector {
    fn new() -> Self {
        // In memory if the machine has such a folder, because each case would otherwise wait for
        // the disk.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let folder = folder.expect("a folder");
        let file = folder.path().join("all.db");
        let all = SqliteCollection::open(&file).expect("a store");
        Self {
            _folder: folder,
            file,
            all,
        }
    }
}

thread_local! {
    static COLLECTOR: OnceCell<Collector> = const { OnceCell::new() };
}

/// Returns a complete recording, as JSON.
fn whole() -> Recording {
    let mut one = punctual_model::testing::recording(2, 3);
    one.samples = None;
    one
}

/// Returns the JSON of a recording or window with a value replaced by another text.
fn changed(json: &[u8], bytes: &[u8]) -> Vec<u8> {
    let Some((place, value)) = bytes.split_first_chunk::<2>() else {
        return json.to_vec();
    };
    let colons: Vec<usize> = (1..json.len())
        .filter(|at| json[at - 1..=*at] == *b"\":")
        .collect();
    let at = colons[usize::from(u16::from_le_bytes(*place)) % colons.len()] + 1;
    let is_end = |byte: &u8| b",}]".contains(byte);
    let rest = &json[at..];
    let end = rest.iter().position(is_end).unwrap_or(rest.len());
    [&json[..at], value, &rest[end..]].concat()
}

/// Delivers a body. The first byte selects whether the rest is the body itself, its JSON, or a
/// change to the JSON of a recording.
///
/// # Panics
/// Panics if an accepted delivery cannot be stored, read, summed and shown.
pub fn delivery(bytes: &[u8]) -> Option<Recording> {
    let (how, rest) = bytes.split_first()?;
    let whole = whole();
    let json = || serde_json::to_vec(&whole).expect("JSON");
    let packed = match how % 3 {
        0 => rest.to_vec(),
        1 => zstd::bulk::compress(rest, 1).ok()?,
        _ => zstd::bulk::compress(&changed(&json(), rest), 1).ok()?,
    };
    let (body, recording) = incoming::recording(whole.id, &packed, MOST).ok()?;
    COLLECTOR.with(|collector| keep(collector.get_or_init(Collector::new), &body, &recording));
    let shown = documents(std::slice::from_ref(&recording), &HtmlOptions::default());
    // A report that cannot be drawn returns an error.
    let _ = shown.map(|(_, documents)| assert!(!documents.is_empty()));
    Some(recording)
}

fn keep(collector: &Collector, body: &[u8], recording: &Recording) {
    let delivery = Delivery {
        machine: "machine",
        sha256: "hash",
        received: Timestamp::UNIX_EPOCH,
        series: None,
        recording,
        body,
    };
    let receive = || collector.all.receive(&delivery).expect("kept");
    assert_eq!(receive(), Received::New);
    assert_eq!(receive(), Received::Known);
    let (_, kept) = collector.all.load(recording.id).expect("read back");
    if kept != *recording {
        let text = |one: &Recording| serde_json::to_string_pretty(one).expect("JSON");
        let (kept, sent) = (text(&kept), text(recording));
        let other = kept.lines().zip(sent.lines()).find(|(a, b)| a != b);
        panic!("another recording is read back: {other:?}");
    }
    assert_eq!(collector.all.totals().expect("sums").len(), 1);
    assert_eq!(collector.all.machines().expect("machines").len(), 1);
    let store = Store::open(&collector.file).expect("a store");
    store.delete(recording.id).expect("deleted");
}

/// Delivers windows of wake-ups in the same way.
///
/// # Panics
/// Panics if an accepted delivery cannot be read back.
pub fn windows(bytes: &[u8]) -> Option<Vec<WakeWindow>> {
    let (how, rest) = bytes.split_first()?;
    let json = serde_json::json!({"machine": "m", "windows": [{
        "machine": "m", "start": "2026-11-03T07:10:00Z", "length_ns": 10_000_000_000_u64,
        "real_time": {"count": 1, "sum_ns": 5, "max_ns": 5, "buckets": [[5, 1]]},
        "ordinary": {"count": 0, "sum_ns": 0, "max_ns": 0, "buckets": []},
        "longest": [], "lost": 0
    }]});
    let packed = match how % 3 {
        0 => rest.to_vec(),
        1 => zstd::bulk::compress(rest, 1).ok()?,
        _ => zstd::bulk::compress(&changed(json.to_string().as_bytes(), rest), 1).ok()?,
    };
    let mut windows = incoming::windows(&packed, MOST).ok()?;
    for window in &mut windows {
        "m".clone_into(&mut window.machine);
    }
    COLLECTOR.with(|collector| {
        let all = &collector.get_or_init(Collector::new).all;
        all.add_windows(&windows).expect("kept");
        for window in &windows {
            let kept = all.windows("m", window.start, 1).expect("read back");
            assert_eq!(kept.len(), 1, "{window:?}");
        }
    });
    Some(windows)
}

/// Parses the header of a series.
pub fn series(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(incoming::is_series)
}
