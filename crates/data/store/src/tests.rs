//! Tests that need internals: schema, locks, full disk, sizes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pco::standalone::FileCompressor;
use proptest::prelude::*;
use punctual_model::{Nanos, Origin, Recording, RecordingId, Sample, SignedNanos};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::chunk::{FULL, Packed, Packing, unpack};
use crate::error::Context;
use crate::schema::{APPLICATION_ID, pragma};
use crate::tables::SCHEMA;
use crate::writer::HELD;
use crate::{Batch, Lease, Store, StoreError, unpack_attachment};

pub(crate) fn store_path() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("punctual.db");
    (folder, path)
}

pub(crate) fn lease() -> Lease {
    Lease {
        pid: 1,
        process_start: 2,
        boot_id: "boot".to_owned(),
        namespaces: None,
    }
}

pub(crate) fn recording(seconds: u64) -> Recording {
    let mut recording = punctual_model::testing::recording(1, seconds);
    recording.id = RecordingId::new();
    recording
}

pub(crate) fn context(path: &Path) -> Context {
    Context {
        path: path.to_owned(),
        waited_s: 0,
    }
}

#[test]
fn new_store_has_described_setup() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let read = |name: &str| pragma(&store.link.connection, name).unwrap();
    assert_eq!(read("application_id"), APPLICATION_ID);
    assert_eq!(read("user_version"), SCHEMA);
    assert_eq!(read("auto_vacuum"), 2, "incremental");
    assert_eq!(read("page_size"), 4096);
    assert_eq!(read("foreign_keys"), 1);
    let mode: String = store
        .link
        .connection
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
}

/// Checks the error for a store with another schema, and that the file is unchanged.
fn refused(path: &Path, reason: &str) {
    let bytes = || std::fs::read(path).unwrap();
    let before = bytes();
    for opened in [Store::open(path), Store::open_read_only(path)] {
        let text = opened.unwrap_err().to_string();
        assert!(text.contains(reason), "{text}");
    }
    assert!(bytes() == before, "the store was changed");
}

#[test]
fn other_schema_is_refused_and_unchanged() {
    let (_folder, path) = store_path();
    let recording = recording(2);
    let store = Store::open(&path).unwrap();
    let writer = store.begin(&recording, &lease()).unwrap();
    writer.finish(&recording).unwrap();
    drop(store);
    let becomes = |version: i64| {
        let connection = Connection::open(&path).unwrap();
        let set = connection.pragma_update(None, "user_version", version);
        set.unwrap();
    };
    for (earlier, remedy) in [
        (
            1,
            "export its recordings with the punctual that created it (punctual export ID)",
        ),
        (SCHEMA - 1, "convert it with punctual store upgrade"),
    ] {
        becomes(earlier);
        let reason =
            format!("has schema {earlier}, but this program reads only schema {SCHEMA}: {remedy}");
        refused(&path, &reason);
    }
    becomes(SCHEMA + 1);
    let reason = format!(
        "has schema {}, but this version supports only schemas up to {SCHEMA}",
        SCHEMA + 1
    );
    refused(&path, &reason);
    becomes(SCHEMA);
    let store = Store::open(&path).unwrap();
    assert_eq!(store.load(recording.id).unwrap(), recording);
}

#[test]
fn store_locked_too_long_is_named() {
    let (_folder, path) = store_path();
    let store = Store::open_with_timeout(&path, Duration::from_millis(20)).unwrap();
    let recording = recording(1);
    let mut writer = store.begin(&recording, &lease()).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = writer.commit(&Batch::default()).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("punctual.db is locked"));
    // The lock does not block readers.
    assert_eq!(store.list().unwrap().len(), 1);
    other.execute_batch("ROLLBACK").unwrap();
    writer.commit(&Batch::default()).unwrap();
}

#[test]
fn full_disk_loses_no_committed_data() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let recording = recording(400);
    let mut writer = store.begin(&recording, &lease()).unwrap();
    let pages = pragma(&writer.link.connection, "page_count").unwrap() + 20;
    let limit = |writer: &crate::Writer, pages: i64| {
        writer
            .link
            .connection
            .pragma_update(None, "max_page_count", pages)
            .unwrap();
    };
    limit(&writer, pages);
    let batch = |row: &punctual_model::IntervalRow| Batch {
        elapsed: row.start_ns,
        rows: vec![row.clone()],
        ..Batch::default()
    };
    let rows = &recording.series.rows;
    let mut committed = 0;
    let error = loop {
        writer
            .samples(
                0,
                &[Sample {
                    expected: Nanos(committed as u64),
                    latency: SignedNanos(-3),
                }],
            )
            .unwrap();
        match writer.commit(&batch(&rows[committed])) {
            Ok(()) => committed += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    assert!(committed > 3, "{committed}");
    let load = || store.load(recording.id).unwrap();
    assert_eq!(load().series.rows, rows[..committed]);
    assert_eq!(load().samples.unwrap().count, committed as u64);
    // Once there is space, the same batch and the waiting sample are written.
    limit(&writer, 1_000_000);
    writer.commit(&batch(&rows[committed])).unwrap();
    assert_eq!(load().series.rows, rows[..=committed]);
    assert_eq!(load().samples.unwrap().count, committed as u64 + 1);
    writer.finish(&recording).unwrap();
    assert_eq!(load().series.rows, *rows);
}

/// Returns a number between 0 and 1; the sequence is the same in each run.
fn uniform(state: &mut u64) -> f64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

#[test]
fn sample_takes_under_1_6_bytes() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let recording = recording(1);
    let mut writer = store.begin(&recording, &lease()).unwrap();
    // Lognormal around 4.5 µs with a spread of 500 ns; at 1 ns resolution, its entropy alone is
    // 1.38 bytes. Occasionally, a period is missed.
    let mut state = 7;
    let mut expected = 86_400_000_000_000;
    let count = 5 * FULL as u64 + 12_345;
    for number in 0..count {
        expected += if number % 10_007 == 0 {
            2_000_000
        } else {
            1_000_000
        };
        let (a, b) = (uniform(&mut state), uniform(&mut state));
        let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
        let latency = 4_500.0 * (normal * 500.0 / 4_500.0).exp();
        let sample = Sample {
            expected: Nanos(expected),
            latency: SignedNanos(latency as i64),
        };
        writer.samples(0, &[sample]).unwrap();
        // One commit per second.
        if number % 1_000 == 999 {
            writer.commit(&Batch::default()).unwrap();
        }
    }
    let kept = writer.seal().unwrap();
    assert_eq!(kept.count, count);
    let each = kept.bytes as f64 / count as f64;
    eprintln!("{each:.3} bytes per sample compressed");
    assert!(each < 1.6, "{each}");
    let mut streams = writer
        .link
        .connection
        .prepare("SELECT sum(length(expected)) FROM chunk")
        .unwrap();
    let expected: i64 = streams.query_row([], |row| row.get(0)).unwrap();
    assert!(expected < count as i64 / 100, "{expected}");
    drop(streams);
    writer.finish(&recording).unwrap();
    drop(store);
    // The limit also applies to the file, not counting the tables of an empty store.
    let (_folder, empty) = store_path();
    drop(Store::open(&empty).unwrap());
    let size = |path: &Path| std::fs::metadata(path).unwrap().len() as f64;
    let each = (size(&path) - size(&empty)) / count as f64;
    eprintln!("{each:.3} bytes per sample in the file");
    assert!(each < 1.6, "{each}");
}

/// With many threads, the writer does not wait for full chunks.
#[test]
fn many_thread_import_buffers_few_samples() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let mut recording = recording(0);
    recording.origin = Some(Origin {
        format: "cyclictest-samples".to_owned(),
        tool: "cyclictest".to_owned(),
        file: "samples.txt".to_owned(),
        unknown: BTreeSet::new(),
    });
    recording.threads.clear();
    let mut writer = store.begin(&recording, &lease()).unwrap();
    let (threads, rounds) = (100u32, 3 * HELD / 100 / 1_000);
    for round in 0..rounds as u64 {
        for thread in 0..threads {
            let samples: Vec<Sample> = (0..1_000)
                .map(|nth| Sample {
                    expected: Nanos(1_000 * round + nth),
                    latency: SignedNanos(i64::from(thread)),
                })
                .collect();
            writer.grow(thread as usize + 1);
            writer.samples(thread, &samples).unwrap();
            assert!(writer.held() < HELD, "{}", writer.held());
        }
    }
    let kept = writer.seal().unwrap();
    assert_eq!(kept.count, u64::from(threads) * rounds as u64 * 1_000);
    let one = punctual_model::testing::recording(1, 0).threads.remove(0);
    recording.threads = vec![one; threads as usize];
    writer.finish(&recording).unwrap();
    assert_eq!(store.load(recording.id).unwrap().threads.len(), 100);
    let mut next = 0;
    let mut look = |samples: &[Sample]| -> Result<(), StoreError> {
        for sample in samples {
            assert_eq!((sample.expected.0, sample.latency.0), (next, 7));
            next += 1;
        }
        Ok(())
    };
    store.samples(recording.id, 7, &mut look).unwrap();
    assert_eq!(next, rounds as u64 * 1_000);
}

/// Listing thousands of recordings scans one table, without a sorter and without joins.
#[test]
fn a_list_reads_one_table() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let sql = format!(
        "EXPLAIN QUERY PLAN SELECT {} FROM recording ",
        crate::entry::COLUMNS
    );
    let plan: Vec<String> = store
        .link
        .connection
        .prepare(&sql)
        .unwrap()
        .query_map([], |row| row.get(3))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(plan, ["SCAN recording"]);
}

/// A stream of a few hundred bytes that contains billions of numbers.
#[test]
fn oversized_chunk_is_not_decompressed() {
    use pco::PagingSpec::Exact;
    let (many, file) = (vec![0u64; 1 << 24], FileCompressor::default());
    let config = pco::ChunkConfig::default().with_paging_spec(Exact(vec![1 << 24]));
    let mut chunk = Vec::new();
    let mut compressor = file.chunk_compressor(&many, &config).unwrap();
    compressor.write(&mut chunk).unwrap();
    drop((many, compressor));
    let stream = |chunks: usize| {
        let mut stream = file.write_header(Vec::new()).unwrap();
        stream.extend(chunk.repeat(chunks));
        file.write_footer(stream).unwrap()
    };
    let (one, bomb) = (stream(1), stream(48));
    assert!(bomb.len() < 1_000, "{} bytes", bomb.len());
    for count in [
        0,
        1,
        1_000,
        FULL as u64,
        FULL as u64 + 1,
        48 << 24,
        u64::MAX,
    ] {
        assert_eq!(unpack(count, &bomb, &bomb), None, "{count}");
        assert_eq!(unpack(count, &one, &one), None, "{count}");
    }
}

#[test]
fn oversized_attachment_is_not_decompressed() {
    let body = vec![b' '; 17 << 20];
    let packed = zstd::bulk::compress(&body, 3).unwrap();
    let length = body.len() as u64;
    assert!(packed.len() < 5_000);
    assert_eq!(unpack_attachment("window", length, &packed), None);
    assert_eq!(unpack_attachment("pages", length - 1, &packed), None);
    assert_eq!(unpack_attachment("pages", u64::MAX, &packed), None);
    assert_eq!(unpack_attachment("pages", length, &packed), Some(body));
    // Data that could not be read back is not written.
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    let mut writer = store.begin(&recording(1), &lease()).unwrap();
    let error = writer
        .attach("pages", 1, "null", &vec![0; (64 << 20) + 1])
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("has 67108865 bytes, but at most 67108864"),
        "{text}"
    );
}

/// SQLite reports an I/O error and a full disk in the same way when it extends a WAL index.
#[test]
fn io_error_is_not_full_disk() {
    let (_folder, path) = store_path();
    for code in [
        rusqlite::ffi::SQLITE_IOERR_SHMSIZE,
        rusqlite::ffi::SQLITE_IOERR_FSYNC,
    ] {
        let failure = rusqlite::ffi::Error::new(code);
        let error = context(&path).on(rusqlite::Error::SqliteFailure(failure, None));
        let text = error.to_string();
        assert!(matches!(error, StoreError::Io { .. }), "{text}");
        assert!(text.contains("punctual.db: I/O error"), "{text}");
        assert!(!text.contains("space"), "{text}");
    }
}

/// Simulates pages that form a cycle with a query that never ends.
#[test]
fn endless_query_is_given_up() {
    let (_folder, path) = store_path();
    let store = Store::open(&path).unwrap();
    for _ in 0..2 {
        let endless = store.read(|connection, context| {
            let sql = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
                SELECT sum(x) FROM n";
            let sum = connection.query_row(sql, [], |row| row.get::<_, i64>(0));
            sum.map_err(|error| context.on(error))
        });
        let text = endless.unwrap_err().to_string();
        assert!(
            text.contains("more SQLite steps than are plausible"),
            "{text}"
        );
    }
    assert_eq!(store.list().unwrap(), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_panic(
        count in 0..3_000u64,
        streams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 2),
    ) {
        let _ = unpack(count, &streams[0], &streams[1]);
        let _ = unpack_attachment("window", count, &streams[0]);
    }

    #[test]
    fn a_damaged_chunk_is_refused_or_read(
        length in 1..600usize,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let samples: Vec<Sample> = (0..length as u64)
            .map(|nth| Sample { expected: Nanos(nth * 1_000), latency: SignedNanos((nth * nth) as i64 % 977) })
            .collect();
        let packed = Packed::new(&samples, Packing::Small).unwrap();
        let [mut expected, mut latency] = packed.streams().map(<[u8]>::to_vec);
        for (place, byte) in flips {
            *place.get_mut(&mut expected) ^= byte;
            *place.get_mut(&mut latency) ^= byte;
        }
        let read = unpack(length as u64, &expected, &latency);
        prop_assert!(read.is_none_or(|samples| samples.len() == length));
    }

    #[test]
    fn chunks_read_back(values in prop::collection::vec((any::<u64>(), any::<i64>()), 1..2_000)) {
        let samples: Vec<Sample> = values
            .into_iter()
            .map(|(expected, latency)| Sample {
                expected: Nanos(expected),
                latency: SignedNanos(latency),
            })
            .collect();
        for packing in [Packing::Small, Packing::Quick] {
            let packed = Packed::new(&samples, packing).unwrap();
            let unpacked = packed.unpack();
            prop_assert_eq!(unpacked.as_ref(), Some(&samples));
        }
    }
}
