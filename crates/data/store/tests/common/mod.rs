//! Shared helpers: a recording split into batches, as a session writes it.
#![allow(dead_code, reason = "each test binary uses another part of it")]
#![allow(clippy::unwrap_used, reason = "a panic in a test is the report")]

use std::path::PathBuf;

use punctual_model::{
    Accounting, Blame, Comm, Completion, EventKind, Histogram, Nanos, Outlier, Recording,
    RecordingId, Sample, SignedNanos, ThreadUsage, TraceEvent, Victim, Window, testing,
};
use punctual_store::{Batch, Lease, Store};
use tempfile::TempDir;

/// Returns the lease of an arbitrary writer.
pub(crate) fn lease() -> Lease {
    Lease {
        pid: 4242,
        process_start: 1_234_567,
        boot_id: "0e0a3c1c-5a2b-4b0e-9c1d-2f6d7f0a1b2c".to_owned(),
        namespaces: None,
    }
}

/// Returns a finished recording with a new ID.
pub(crate) fn recording(cpus: u32, seconds: u64) -> Recording {
    let mut recording = punctual_model::testing::recording(cpus, seconds);
    recording.id = RecordingId::new();
    recording
}

/// Returns the state of `recording` at its start.
pub(crate) fn at_start(recording: &Recording) -> Recording {
    let mut start = recording.clone();
    start.completion = Completion::Running;
    start.duration_ns = Nanos::ZERO;
    start.series.rows.clear();
    start.top_samples.clear();
    for thread in &mut start.threads {
        thread.histogram = Histogram::new();
        thread.accounting = Accounting::default();
        thread.usage = ThreadUsage::default();
    }
    start.verdict = start.judge();
    start
}

/// Returns the batch with the intervals that begin in `second`, and the accounts up to then.
pub(crate) fn batch(recording: &Recording, second: u64) -> Batch {
    let end = Nanos::from_secs(second + 1);
    let accounting = (0..recording.threads.len() as u32)
        .map(|thread| {
            let rows = recording.series.rows.iter();
            let mut account = Accounting {
                warm_up: 1_000,
                ..Accounting::default()
            };
            for row in rows.filter(|row| row.thread == thread && row.start_ns < end) {
                account.recorded += row.count;
                account.missed += row.missed;
            }
            account.expected = account.recorded + account.missed + account.warm_up;
            account
        })
        .collect();
    Batch {
        elapsed: end,
        rows: recording
            .series
            .rows
            .iter()
            .filter(|row| row.start_ns == Nanos::from_secs(second))
            .cloned()
            .collect(),
        accounting,
        top_samples: recording.top_samples.clone(),
        ..Batch::default()
    }
}

/// Returns a path in a temporary folder; its parent folders do not exist yet.
pub(crate) fn store_path() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept/here/punctual.db");
    (folder, path)
}

/// Stores a finished recording in the same way as a session.
pub(crate) fn insert(store: &Store, recording: &Recording) {
    let mut writer = store.begin(&at_start(recording), &lease()).unwrap();
    let seconds = recording.duration_ns.0 / 1_000_000_000;
    for second in 0..=seconds {
        writer.commit(&batch(recording, second)).unwrap();
    }
    writer.finish(recording).unwrap();
}

/// Returns samples at 1 kHz with latencies around 4.5 µs.
pub(crate) fn samples(count: u64) -> Vec<Sample> {
    let mut state = 1u64;
    (0..count)
        .map(|number| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            Sample {
                expected: Nanos(86_400_000_000_000 + number * 1_000_000),
                latency: SignedNanos(4_000 + (state >> 54) as i64),
            }
        })
        .collect()
}

/// Returns an explained outlier.
pub(crate) fn outlier(number: u64) -> Outlier {
    Outlier {
        light_stage: false,
        number,
        time: jiff::Timestamp::UNIX_EPOCH,
        monotonic_ns: Nanos(5_000),
        cpu: Some(1),
        thread: 0,
        latency_ns: Nanos(70_000 + number),
        blame: Blame {
            culprit_end_ns: Some(Nanos(70_000)),
            ..testing::blame(Vec::new())
        },
    }
}

/// Returns its window, with this many events.
pub(crate) fn window(events: u64) -> Window {
    Window {
        victim: Victim {
            tid: 7,
            comm: Comm::new(b"victim"),
            scheduling: None,
            cpu: 1,
        },
        delay: Default::default(),
        expected: Nanos(5_000),
        actual: Nanos(75_000),
        events: (0..events)
            .map(|n| TraceEvent {
                time: Nanos(n),
                cpu: 1,
                pid: 12,
                flags: 1,
                preempt_count: 0x10,
                kind: EventKind::IrqEntry {
                    irq: n as u32,
                    name: "eth0".into(),
                },
            })
            .collect(),
        lost: 3,
        left_out: 0,
        missing_events: vec!["nmi:nmi_handler".to_owned()],
        light_stage: None,
        clock_error: Nanos(40),
        symbols: [(u64::MAX, "last".to_owned())].into(),
        calls: [(-1, "none".to_owned())].into(),
        evidence: Default::default(),
        host: Vec::new(),
        segments: Vec::new(),
        activity: Vec::new(),
    }
}
