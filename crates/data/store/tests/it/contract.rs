//! Guarantees of the store, tested on a real file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::common::{at_start, batch, insert, lease, recording, samples, store_path};
use proptest::prelude::*;
use punctual_model::{
    Completion, Fact, Histogram, IntervalRow, Nanos, Outcome, RecordingId, SignedNanos,
};
use punctual_store::{Batch, Filter, Lease, Store, StoreError, Writer};
use serde_json::json;
use uuid::Uuid;

#[test]
fn it_moves_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Store>();
    is_send::<Writer>();
    is_send::<StoreError>();
}

#[test]
fn finished_recording_reads_back_unchanged() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let recording = recording(3, 5);
    insert(&store, &recording);
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

#[test]
fn finish_keeps_rows_only_in_store() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let recording = recording(2, 4);
    let mut writer = store.begin(&at_start(&recording), &lease()).unwrap();
    for second in 0..3 {
        writer.commit(&batch(&recording, second)).unwrap();
    }
    // Seconds 1 and 2 are committed; the final recording only adds second 4.
    let mut last = recording.clone();
    last.series
        .rows
        .retain(|row| row.start_ns == Nanos::from_secs(4));
    writer.finish(&last).unwrap();
    let mut rows = recording.series.rows.clone();
    rows.retain(|row| row.start_ns != Nanos::from_secs(3));
    assert_eq!(store.load(recording.id).unwrap().series.rows, rows);
}

#[test]
fn a_running_recording_shows_what_was_committed() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let recording = recording(2, 6);
    let mut writer = store.begin(&at_start(&recording), &lease()).unwrap();
    let begun = store.load(recording.id).unwrap();
    assert_eq!(begun.completion, Completion::Running);
    assert_eq!(begun.verdict.outcome, Outcome::NotDecidable);
    assert_eq!(begun.threads.len(), 2);

    let mut first = batch(&recording, 1);
    first.warnings = vec!["a load died".to_owned()];
    first.dropped = 3;
    writer.commit(&first).unwrap();
    let mut second = batch(&recording, 2);
    second.warnings = vec!["a load died".to_owned(), "a page fault".to_owned()];
    second.dropped = 7;
    writer.commit(&second).unwrap();

    let seen = Store::open_read_only(&path)
        .unwrap()
        .load(recording.id)
        .unwrap();
    assert_eq!(seen.completion, Completion::Running);
    assert_eq!(seen.duration_ns, Nanos::from_secs(3));
    assert_eq!(seen.series.dropped, 7);
    assert_eq!(seen.top_samples, recording.top_samples);
    assert_eq!(seen.series.rows, recording.series.rows[..4]);
    assert_eq!(&seen.warnings[..2], ["a load died", "a page fault"]);
    assert!(seen.warnings[2].starts_with("still running"));
    assert_eq!(seen.warnings.len(), 3);
    let line = &store.list().unwrap()[0];
    assert_eq!(line.completion, Completion::Running);
    assert_eq!(line.recorded, 4_000);
    assert_eq!(line.lease, Some(lease()));
    assert_eq!(line.duration_ns, Nanos::from_secs(3));
    assert!(matches!(
        store.delete(recording.id),
        Err(StoreError::StillRunning { pid: 4242, .. })
    ));
    writer.finish(&recording).unwrap();
    assert_eq!(store.load(recording.id).unwrap(), recording);
}

#[test]
fn what_a_dead_writer_left_is_interrupted() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let recording = recording(2, 6);
    let mut writer = store.begin(&at_start(&recording), &lease()).unwrap();
    for second in 0..=4 {
        writer.commit(&batch(&recording, second)).unwrap();
    }
    drop(writer);

    assert_eq!(store.sweep(&|lease: &Lease| lease.pid == 4242).unwrap(), 0);
    assert_eq!(store.list().unwrap()[0].completion, Completion::Running);
    // A read-only store shows it as interrupted without writing.
    let read_only = Store::open_read_only(&path).unwrap();
    assert_eq!(read_only.sweep(&|_| false).unwrap(), 1);
    assert_eq!(read_only.sweep(&|_| false).unwrap(), 0);
    let presumed = (
        read_only.list().unwrap(),
        read_only.load(recording.id).unwrap(),
    );
    assert_eq!(store.list().unwrap()[0].completion, Completion::Running);

    assert_eq!(store.sweep(&|_| false).unwrap(), 1);
    assert_eq!(store.sweep(&|_| false).unwrap(), 0);
    let loaded = store.load(recording.id).unwrap();
    assert_eq!(presumed, (store.list().unwrap(), loaded.clone()));
    assert_eq!(loaded.completion, Completion::Interrupted);
    assert_eq!(loaded.duration_ns, Nanos::from_secs(5));
    assert_eq!(loaded.series.rows, recording.series.rows[..8]);
    for (number, thread) in (0..).zip(&loaded.threads) {
        let mut sum = Histogram::new();
        for row in loaded.series.rows.iter().filter(|r| r.thread == number) {
            sum.add_interval(row);
        }
        assert_eq!(thread.histogram, sum);
        assert_eq!(thread.accounting.recorded, 4_000);
        assert_eq!(thread.accounting.warm_up, 1_000);
        assert!(thread.accounting.balances());
    }
    assert_eq!(loaded.verdict, loaded.judge());
    let warning = loaded.warnings.last().unwrap();
    assert!(warning.starts_with("interrupted: "), "{warning}");
    assert!(warning.contains("5.00 s"), "{warning}");
    let line = &store.list().unwrap()[0];
    assert_eq!(line.p99_ns, loaded.all_latencies().quantile(0.99));
    assert_eq!(line.outcome, loaded.verdict.outcome);
    assert_eq!((line.recorded, &line.lease), (8_000, &None));
    store.delete(recording.id).unwrap();
    assert_eq!(store.list().unwrap(), []);
}

#[test]
fn presumed_dead_writer_continues_or_learns_deletion() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let recording = recording(1, 3);
    let mut writer = store.begin(&at_start(&recording), &lease()).unwrap();
    // The lease is more reliable than the process ID.
    assert_eq!(store.sweep(&|_| false).unwrap(), 0);
    std::fs::remove_dir_all(path.with_extension("db.leases")).unwrap();
    assert_eq!(store.sweep(&|_| true).unwrap(), 0);
    assert_eq!(store.sweep(&|_| false).unwrap(), 1);
    writer.commit(&batch(&recording, 1)).unwrap();
    assert_eq!(store.list().unwrap()[0].completion, Completion::Running);
    assert_eq!(store.sweep(&|_| false).unwrap(), 1);
    store.delete(recording.id).unwrap();
    assert!(matches!(
        writer.commit(&batch(&recording, 2)),
        Err(StoreError::NoSuch { .. })
    ));
    assert!(matches!(
        writer.finish(&recording),
        Err(StoreError::NoSuch { .. })
    ));
}

#[test]
fn what_does_not_fit_is_refused() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let recording = recording(2, 3);
    let mut writer = store.begin(&at_start(&recording), &lease()).unwrap();
    assert!(matches!(
        store.begin(&at_start(&recording), &lease()),
        Err(StoreError::Exists { .. })
    ));
    let mut foreign = batch(&recording, 1);
    foreign.rows[0].thread = 2;
    assert!(matches!(
        writer.commit(&foreign),
        Err(StoreError::NoSuchThread { thread: 2, .. })
    ));
    let mut short = batch(&recording, 1);
    short.accounting.pop();
    assert!(matches!(
        writer.commit(&short),
        Err(StoreError::OtherThreads {
            begun: 2,
            now: 1,
            ..
        })
    ));
    assert!(matches!(
        writer.samples(2, &[]),
        Err(StoreError::NoSuchThread { .. })
    ));
    // None of these is stored.
    assert_eq!(store.load(recording.id).unwrap().series.rows, []);
    assert!(matches!(
        writer.finish(&at_start(&recording)),
        Err(StoreError::NotFinal { .. })
    ));
    let unknown = RecordingId::new();
    assert!(matches!(
        store.load(unknown),
        Err(StoreError::NoSuch { .. })
    ));
    assert!(matches!(
        store.delete(unknown),
        Err(StoreError::NoSuch { .. })
    ));
    assert!(matches!(
        store.samples(recording.id, 2, &mut |_| Ok::<_, StoreError>(())),
        Err(StoreError::NoSuchThread { threads: 2, .. })
    ));
    let read_only = Store::open_read_only(&path).unwrap();
    assert!(matches!(
        read_only.begin(&recording, &lease()),
        Err(StoreError::ReadOnly { .. })
    ));
    assert!(matches!(
        read_only.delete(recording.id),
        Err(StoreError::ReadOnly { .. })
    ));
}

/// Returns a recording with this ID and start time.
fn numbered(id: u128, minute: i64) -> punctual_model::Recording {
    let mut recording = recording(1, 1);
    recording.id = RecordingId(Uuid::from_u128(id));
    recording.started += jiff::SignedDuration::from_mins(minute);
    recording
}

#[test]
fn recordings_are_found_by_what_people_type() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    assert!(matches!(store.find("last"), Err(StoreError::NoSuch { .. })));
    let mut first = numbered(0x019a4d1c_7b3a_7000_8000_000011112222, 0);
    let mut second = numbered(0x019a4d1c_7b3b_7000_8000_0000aaaa2222, 1);
    // Began before the others, but was stored after them.
    let mut old = numbered(0x01900000_0000_7000_8000_0000019a4d1c, -5);
    // Digits are first of all those of an ID, and a number after `~` can belong to the label.
    old.label = Some("aaaa2222".to_owned());
    first.label = Some("beef".to_owned());
    second.label = Some("beef~1".to_owned());
    for recording in [&first, &second, &old] {
        insert(&store, recording);
    }
    let find = |text: &str| store.find(text).unwrap();
    assert_eq!(find("last"), second.id);
    assert_eq!(find("last~0"), second.id);
    assert_eq!(find("last~1"), first.id);
    assert_eq!(find("LAST~2"), old.id);
    assert_eq!(find("aaaa2222"), second.id);
    assert_eq!(find("0190"), old.id);
    assert_eq!(find("019A4D1C-7B3A"), first.id);
    assert_eq!(find(&first.id.to_string()), first.id);
    assert_eq!(find(&first.id.short()), first.id);
    assert_eq!(find("beef"), first.id);
    assert_eq!(find("beef~0"), first.id);
    assert_eq!(find("beef~1"), second.id);
    for text in [
        "last~3", "bee5", "aaaa", "", "abc", "latest", "last~x", "%", "beef~2",
    ] {
        let error = store.find(text).unwrap_err();
        assert!(matches!(error, StoreError::NoSuch { .. }), "{error}");
        assert!(error.to_string().contains(&format!("'{text}'")), "{error}");
    }
    // Two match at the beginning of the ID, one at the end.
    let error = store.find("019a4d1c").unwrap_err();
    assert_eq!(
        error.to_string(),
        "'019a4d1c' matches 3 recordings (…aaaa2222, …11112222, …019a4d1c): specify more digits"
    );
    let StoreError::Ambiguous { candidates, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(candidates, [second.id, first.id, old.id]);
    let list: Vec<_> = store.list().unwrap().iter().map(|line| line.id).collect();
    assert_eq!(list, [second.id, first.id, old.id]);
}

#[test]
fn a_list_is_filtered_by_the_store() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let mut recordings: Vec<_> = (0..4).map(|n| numbered(0x1000 + n, n as i64)).collect();
    recordings[1].host.hostname = Fact::known("board-2".to_owned(), "");
    recordings[2].host.hostname = Fact::unknown("x.txt", "it does not say");
    recordings[2].probe.name = "signal".to_owned();
    recordings[3].label = Some("Under MAKE 100%_".to_owned());
    for recording in &recordings {
        insert(&store, recording);
    }
    let ids = |filter: &Filter| -> Vec<u128> {
        let found = store.list_by(filter).unwrap();
        found
            .iter()
            .map(|line| line.id.0.as_u128() - 0x1000)
            .collect()
    };
    let all = Filter::default;
    let text = |value: &str| Some(value.to_owned());
    assert_eq!(ids(&all()), [3, 2, 1, 0]);
    assert_eq!(
        ids(&Filter {
            probe: text("signal"),
            ..all()
        }),
        [2]
    );
    assert_eq!(
        ids(&Filter {
            host: text("board-2"),
            ..all()
        }),
        [1]
    );
    assert_eq!(
        ids(&Filter {
            host: text("bench-7"),
            ..all()
        }),
        [3, 0]
    );
    assert_eq!(
        ids(&Filter {
            label: text("make"),
            ..all()
        }),
        [3]
    );
    // Not a pattern: the text is searched literally.
    assert_eq!(
        ids(&Filter {
            label: text("%_"),
            ..all()
        }),
        [3]
    );
    assert_eq!(
        ids(&Filter {
            label: text("m%e"),
            ..all()
        }),
        [0u128; 0]
    );
    let since = Some(recordings[1].started);
    assert_eq!(ids(&Filter { since, ..all() }), [3, 2, 1]);
    assert_eq!(
        ids(&Filter {
            limit: Some(2),
            ..all()
        }),
        [3, 2]
    );
    // Lists the newest of the matching recordings, not the matching ones among the newest.
    let one = Filter {
        host: text("bench-7"),
        since,
        limit: Some(5),
        ..all()
    };
    assert_eq!(ids(&one), [3]);
    let one = Filter {
        limit: Some(1),
        label: text("lab"),
        ..all()
    };
    assert_eq!(ids(&one), [2]);
    let hosts: Vec<_> = (store.list().unwrap().into_iter())
        .map(|line| line.host)
        .collect();
    assert_eq!(
        hosts,
        [text("bench-7"), None, text("board-2"), text("bench-7")]
    );
}

#[test]
fn deletion_frees_space_and_spares_others() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let kept = recording(1, 3);
    insert(&store, &kept);
    let size = || std::fs::metadata(&path).unwrap().len();
    let large = recording(4, 60);
    {
        let mut writer = store.begin(&at_start(&large), &lease()).unwrap();
        writer.samples(1, &samples(400_000)).unwrap();
        writer.commit(&batch(&large, 1)).unwrap();
        writer.finish(&large).unwrap();
    }
    // Closing the last connection transfers the content of the -wal file.
    drop(store);
    let with_both = size();
    let store = Store::open(&path).unwrap();
    store.delete(large.id).unwrap();
    let after = size();
    assert!(after * 3 < with_both, "{with_both} bytes, then {after}");
    assert_eq!(store.load(kept.id).unwrap(), kept);
    assert_eq!(store.list().unwrap().len(), 1);
    assert!(matches!(
        store.load(large.id),
        Err(StoreError::NoSuch { .. })
    ));
}

#[test]
fn hours_long_run_fits_five_megabytes() {
    let (_folder, path) = store_path();
    let mut recording = recording(4, 1);
    let store = Store::open(&path).unwrap();
    // 20,000 s in rows of 30 s, 4 threads with a period of 200 µs: 400 million wake-ups, with about
    // 300 buckets per row.
    recording.series.rows.clear();
    for start in (0..20_000).step_by(30) {
        for thread in 0..4 {
            recording.series.rows.push(wide_row(thread, start));
        }
    }
    for (number, thread) in (0..).zip(&mut recording.threads) {
        thread.histogram = Histogram::new();
        for row in recording.series.rows.iter().filter(|r| r.thread == number) {
            thread.histogram.add_interval(row);
        }
        thread.accounting.recorded = thread.histogram.recorded();
    }
    let recorded = recording.accounting().recorded;
    assert!(recorded > 390_000_000, "{recorded}");
    let mut writer = store.begin(&at_start(&recording), &lease()).unwrap();
    for rows in recording.series.rows.chunks(4) {
        let batch = Batch {
            elapsed: rows[0].start_ns,
            rows: rows.to_vec(),
            ..Batch::default()
        };
        writer.commit(&batch).unwrap();
    }
    writer.finish(&recording).unwrap();
    assert_eq!(store.load(recording.id).unwrap(), recording);
    drop(store);
    let size = std::fs::metadata(&path).unwrap().len();
    eprintln!("{} rows in {size} bytes", recording.series.rows.len());
    assert!(size < 5_000_000, "{size} bytes");
}

/// 150,000 samples in about 300 buckets between 2 and 8 µs, with a tail.
fn wide_row(thread: u32, start_s: u64) -> IntervalRow {
    let mut state = start_s * 4 + u64::from(thread) + 1;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 33
    };
    let mut pairs = BTreeMap::new();
    for bucket in 0..270u64 {
        pairs.insert(3_000 + bucket * 10, 525 + random() % 64);
    }
    for _ in 0..30 {
        let bucket = 10_000 + random() % 60_000 / 100 * 100;
        *pairs.entry(bucket).or_insert(0) += 1;
    }
    let count = pairs.values().sum();
    IntervalRow {
        thread,
        start_ns: Nanos::from_secs(start_s),
        count,
        early: 0,
        missed: 0,
        min_ns: pairs.keys().next().copied().map(Nanos),
        max_ns: pairs.keys().last().copied().map(Nanos),
        sum_ns: Nanos(pairs.iter().map(|(ns, times)| ns * times).sum()),
        histogram: serde_json::from_value(json!(Vec::from_iter(pairs))).unwrap(),
    }
}

#[test]
fn the_default_place_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().as_os_str().to_owned();
    let env = |name: &str| (name == "XDG_DATA_HOME").then(|| home.clone());
    let path: PathBuf = punctual_store::default_path(true, &env).unwrap();
    assert!(matches!(
        Store::open_read_only(&path),
        Err(StoreError::NotThere { .. })
    ));
    assert!(!path.exists(), "looking makes no file");
    let store = Store::open(&path).unwrap();
    assert_eq!(store.path(), folder.path().join("punctual/punctual.db"));
    assert!(!store.is_read_only());
    assert_eq!(store.list().unwrap(), []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// For any commits, in any order and with any number of updates of an interval: the loaded
    /// result is the sum of the last version of each interval.
    #[test]
    fn loaded_data_is_sum_of_commits(
        batches in prop::collection::vec(
            prop::collection::vec(
                (0u32..3, 0u64..6, prop::collection::vec(-50i64..2_000_000_000_000, 0..30), 0u64..9),
                0..5,
            ),
            0..6,
        ),
    ) {
        let (_folder, path) = store_path();
        let store = Store::open(&path).unwrap();
        let recording = recording(3, 1);
        let mut writer = store.begin(&at_start(&recording), &lease()).unwrap();
        let mut expected = BTreeMap::new();
        for batch in batches {
            let rows: Vec<IntervalRow> = batch
                .into_iter()
                .map(|(thread, second, latencies, missed)| {
                    let mut histogram = Histogram::new();
                    latencies.iter().for_each(|ns| histogram.record(SignedNanos(*ns)));
                    IntervalRow {
                        thread,
                        start_ns: Nanos::from_secs(second),
                        count: histogram.recorded(),
                        early: histogram.early(),
                        missed,
                        min_ns: histogram.min(),
                        max_ns: histogram.max(),
                        sum_ns: histogram.sum(),
                        histogram: histogram.buckets(),
                    }
                })
                .collect();
            for row in &rows {
                expected.insert((row.start_ns, row.thread), row.clone());
            }
            writer.commit(&Batch { rows, ..Batch::default() }).unwrap();
        }
        drop(writer);
        store.sweep(&|_| false).unwrap();
        let loaded = store.load(recording.id).unwrap();
        prop_assert_eq!(&loaded.series.rows, &expected.values().cloned().collect::<Vec<_>>());
        for (number, thread) in (0..).zip(&loaded.threads) {
            let mut sum = Histogram::new();
            let mut missed = 0;
            for row in expected.values().filter(|row| row.thread == number) {
                sum.add_interval(row);
                missed += row.missed;
            }
            prop_assert_eq!(&thread.histogram, &sum);
            prop_assert_eq!(thread.accounting.recorded, sum.recorded());
            prop_assert_eq!(thread.accounting.missed, missed);
            prop_assert!(thread.accounting.balances());
        }
    }
}
