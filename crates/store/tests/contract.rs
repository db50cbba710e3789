//! What the store promises, on a real file.

mod common;

use std::path::PathBuf;

use common::{at_start, batch, lease, recording};
use punctual_model::{
    Completion, Histogram, Nanos, Outcome, Recording, RecordingId, Sample, SamplesKept, SignedNanos,
};
use punctual_store::{Batch, Store, StoreError};
use tempfile::TempDir;
use uuid::Uuid;

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept/here/punctual.db");
    (folder, path)
}

/// Keeps a finished recording the way a session does.
fn keep(store: &Store, recording: &Recording) {
    let mut writer = store.begin(&at_start(recording), &lease()).unwrap();
    for second in 0..=recording.series.rows.len() as u64 {
        writer.commit(&batch(recording, second)).unwrap();
    }
    writer.finish(recording).unwrap();
}

#[test]
fn a_finished_recording_reads_back_as_it_was() {
    let (_folder, path) = place();
    let store = Store::open(&path).unwrap();
    let recording = recording(3, 5);
    keep(&store, &recording);
    assert_eq!(store.load(recording.id).unwrap(), recording);
    let read_only = Store::open_read_only(&path).unwrap();
    assert_eq!(read_only.load(recording.id).unwrap(), recording);
    let list = read_only.list().unwrap();
    assert_eq!(list.len(), 1);
    let line = &list[0];
    let all = recording.all_latencies();
    assert_eq!(line.id, recording.id);
    assert_eq!(line.label, recording.label);
    assert_eq!(line.probe, "timer");
    assert_eq!(line.headline, recording.headline());
    assert_eq!(line.started, recording.started);
    assert_eq!(line.duration_ns, recording.duration_ns);
    assert_eq!(line.completion, Completion::Finished);
    assert_eq!(line.outcome, recording.verdict.outcome);
    assert_eq!(line.recorded, 15_000);
    assert_eq!(line.missed, 3);
    assert_eq!(line.max_ns, all.max());
    assert_eq!(line.p99_ns, all.quantile(0.99));
    assert_eq!(line.fingerprint, recording.host.fingerprint);
    assert_eq!((line.samples, &line.lease), (false, &None));
}
