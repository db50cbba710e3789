//! Damaged files: each kind of damage is reported in one line, nothing panics, no false data is
//! shown, and the file is left unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{at_start, batch, insert, lease, outlier, recording, samples, window};
use crate::sound;
use proptest::prelude::*;
use punctual_model::{Recording, RecordingId, Sample};
use punctual_store::{Store, StoreError, Summary};
use rusqlite::Connection;

/// Everything that can be read from a store.
#[derive(Debug, PartialEq)]
struct Content {
    list: Vec<Summary>,
    recordings: Vec<Recording>,
    samples: Vec<Sample>,
}

/// Creates a store at rest with three recordings: a plain one, one with samples, and an interrupted
/// one.
fn build(path: &Path) -> Vec<RecordingId> {
    let store = Store::open(path).unwrap();
    let (plain, sampled, killed) = (recording(2, 8), recording(1, 3), recording(2, 4));
    insert(&store, &plain);
    let mut writer = store.begin(&at_start(&sampled), &lease()).unwrap();
    writer.samples(0, &samples(5_000)).unwrap();
    writer.finish(&sampled).unwrap();
    let mut writer = store.begin(&at_start(&killed), &lease()).unwrap();
    writer.commit(&batch(&killed, 1)).unwrap();
    drop(writer);
    store.sweep(&|_| false).unwrap();
    vec![plain.id, sampled.id, killed.id]
}

fn content(store: &Store, ids: &[RecordingId]) -> Result<Content, StoreError> {
    let list = store.list()?;
    let mut recordings = Vec::new();
    for id in ids {
        recordings.push(store.load(*id)?);
        assert_eq!(store.find(&id.to_string())?, *id);
    }
    let mut all = Vec::new();
    store.samples(ids[1], 0, &mut |samples| {
        all.extend_from_slice(samples);
        Ok::<_, StoreError>(())
    })?;
    Ok(Content {
        list,
        recordings,
        samples: all,
    })
}

fn is_one_clear_line(error: &StoreError, path: &Path) {
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    assert!(text.contains(&path.display().to_string()), "{text}");
}

struct Bench {
    _folder: tempfile::TempDir,
    path: PathBuf,
    good: Vec<u8>,
    ids: Vec<RecordingId>,
    expected: Content,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("punctual.db");
        let ids = build(&path);
        let expected = content(&Store::open(&path).unwrap(), &ids).unwrap();
        // At rest, the folder of leases and the reserve are the only other files.
        let mut beside: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        beside.sort();
        let named = ["punctual.db", "punctual.db.leases", "punctual.db.reserve"];
        assert_eq!(beside, named);
        let leases = fs::read_dir(path.with_extension("db.leases")).unwrap();
        assert_eq!(leases.count(), 0);
        Self {
            good: fs::read(&path).unwrap(),
            path,
            _folder: folder,
            ids,
            expected,
        }
    }

    /// Replaces the store with `bytes` and reads everything in both modes. Returns whether the
    /// damage was reported.
    fn is_told(&self, bytes: &[u8], what: &str) -> bool {
        let mut told = [false; 2];
        for (read_only, told) in [false, true].into_iter().zip(&mut told) {
            fs::write(&self.path, bytes).unwrap();
            let opened = if read_only {
                Store::open_read_only(&self.path)
            } else {
                Store::open(&self.path)
            };
            match opened.and_then(|store| content(&store, &self.ids)) {
                Ok(found) => {
                    assert_eq!(found.list, self.expected.list, "{what}");
                    assert!(found.recordings == self.expected.recordings, "{what}");
                    assert!(found.samples == self.expected.samples, "{what}");
                }
                Err(error) => {
                    is_one_clear_line(&error, &self.path);
                    *told = true;
                }
            }
            assert!(
                fs::read(&self.path).unwrap() == bytes,
                "{what}: the file was changed"
            );
        }
        told[0]
    }
}

#[test]
fn flipped_byte_is_reported_or_harmless() {
    let bench = Bench::new();
    assert!(!bench.is_told(&bench.good, "undamaged"));
    let size = bench.good.len();
    // The whole file header, then each page header, then a stride that eventually hits every offset
    // in a page.
    let offsets = (0..120)
        .chain(
            (0..size)
                .step_by(4096)
                .flat_map(|page| (page..page + 12).step_by(2)),
        )
        .chain((0..size).step_by(1_531));
    let (mut tried, mut told) = (0, 0);
    for (offset, mask) in offsets.zip([0x01, 0x20, 0xff, 0x80].into_iter().cycle()) {
        let mut bytes = bench.good.clone();
        bytes[offset] ^= mask;
        tried += 1;
        told += u32::from(bench.is_told(&bytes, &format!("byte {offset} ^ {mask:#x}")));
    }
    eprintln!("{told} of {tried} flips in a store of {size} bytes were told");
    assert!(told > tried / 4, "{told} of {tried}");
}

#[test]
fn a_store_cut_short_is_told() {
    let bench = Bench::new();
    let size = bench.good.len();
    for length in (1..size).step_by(1_997).chain((4096..size).step_by(4096)) {
        assert!(
            bench.is_told(&bench.good[..length], &format!("cut to {length}")),
            "cut to {length} bytes of {size} and nothing was told"
        );
    }
}

#[test]
fn zeroed_or_noisy_page_reported_or_harmless() {
    let bench = Bench::new();
    let pages = bench.good.len() / 4096;
    let mut told = 0;
    for page in 0..pages {
        for fill in [0, 0xff, 0x0d] {
            let mut bytes = bench.good.clone();
            bytes[page * 4096..(page + 1) * 4096].fill(fill);
            told += usize::from(bench.is_told(&bytes, &format!("page {page} of {fill:#x}")));
        }
        // Replace the page with another one.
        let mut bytes = bench.good.clone();
        let other = (page + 1) % pages;
        bytes.copy_within(other * 4096..(other + 1) * 4096, page * 4096);
        bench.is_told(&bytes, &format!("page {other} in place of {page}"));
    }
    assert!(told > pages, "{told}");
}

#[test]
fn damage_names_recording_others_stay_readable() {
    let bench = Bench::new();
    let connection = Connection::open(&bench.path).unwrap();
    let changed = connection
        .execute("UPDATE series SET max_ns = max_ns + 1 WHERE key = 3", [])
        .unwrap();
    assert_eq!(changed, 1);
    drop(connection);
    let store = Store::open(&bench.path).unwrap();
    let error = store.load(bench.ids[0]).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    is_one_clear_line(&error, &bench.path);
    let text = error.to_string();
    assert!(text.contains(&bench.ids[0].to_string()), "{text}");
    assert!(text.contains("its intervals were changed"), "{text}");
    assert!(text.contains(".recover"), "{text}");
    assert_eq!(
        store.load(bench.ids[1]).unwrap(),
        bench.expected.recordings[1]
    );
    // The recording can be deleted.
    store.delete(bench.ids[0]).unwrap();
    assert_eq!(store.list().unwrap().len(), 2);
}

#[test]
fn removed_or_changed_rows_are_detected() {
    for sql in [
        "DELETE FROM series WHERE recording = 1 AND thread = 0 AND start_ns = 7000000000",
        "DELETE FROM chunk",
        "DELETE FROM thread WHERE recording = 3 AND thread = 0",
        "DELETE FROM head WHERE recording = 3",
        "DELETE FROM pack WHERE recording = 1",
        "DELETE FROM progress",
        "UPDATE head SET json = replace(json, 'lab', 'bal')",
        "UPDATE thread SET accounting = replace(accounting, '1', '2')",
        "UPDATE pack SET length = length + 1 WHERE recording = 1",
        "UPDATE pack SET body = zeroblob(length(body)) WHERE recording = 1",
        "UPDATE recording SET max_ns = 1",
        "UPDATE recording SET label = NULL",
        "UPDATE recording SET completion = 'none'",
        "UPDATE chunk SET latency = expected",
        "UPDATE series SET recording = 2 WHERE recording = 1 AND thread = 0 AND start_ns = 7000000000",
        "DROP TABLE series",
        "ALTER TABLE recording RENAME COLUMN label TO name",
    ] {
        let bench = Bench::new();
        let connection = Connection::open(&bench.path).unwrap();
        let changed = connection.execute(sql, []).unwrap();
        assert!(changed > 0 || !sql.contains("WHERE"), "no row for {sql}");
        drop(connection);
        let opened = Store::open(&bench.path);
        let Err(error) = opened.and_then(|store| content(&store, &bench.ids)) else {
            panic!("not noticed: {sql}");
        };
        assert!(
            matches!(error, StoreError::Damaged { .. }),
            "{sql}: {error}"
        );
        is_one_clear_line(&error, &bench.path);
    }
}

/// A view that never ends, instead of a table.
const ENDLESS_VIEW: &str = "ALTER TABLE series RENAME TO hidden;
    CREATE VIEW series AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
        SELECT x AS key, 1 AS recording, 0 AS thread, x AS start_ns, 1 AS count, 0 AS early,
            0 AS missed, 1 AS min_ns, 1 AS max_ns, 1 AS sum_ns, x'01' AS buckets, 0 AS crc FROM n";

#[test]
fn foreign_schema_objects_are_refused_before_running() {
    for (sql, text) in [
        (ENDLESS_VIEW, "the table or index"),
        (
            "CREATE TRIGGER t AFTER UPDATE ON recording BEGIN
                INSERT INTO head SELECT 1, 2, x FROM (WITH RECURSIVE n(x) AS
                    (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n); END",
            "its trigger t was not created by punctual",
        ),
        (
            "CREATE INDEX i ON recording(abs(max_ns))",
            "its index i was not created by punctual",
        ),
        (
            "CREATE VIEW lost_and_found AS SELECT 1",
            "its view lost_and_found was not created by punctual",
        ),
        (
            "CREATE TABLE lost_and_found(c0, c1 REFERENCES recording ON DELETE CASCADE)",
            "its table lost_and_found was not created by punctual",
        ),
        (
            "CREATE TABLE \"a\u{1b}[2J\"(x)",
            "its table a\\u{1b}[2J was not created by punctual",
        ),
    ] {
        let bench = Bench::new();
        let connection = Connection::open(&bench.path).unwrap();
        connection.execute_batch(sql).unwrap();
        drop(connection);
        refused(&bench.path, text);
    }
}

#[test]
fn leftovers_of_sqlite3_are_harmless() {
    let bench = Bench::new();
    let connection = Connection::open(&bench.path).unwrap();
    connection
        .execute_batch(
            "ANALYZE; CREATE TABLE lost_and_found(rootpgno INTEGER, pgno INTEGER, nfield INTEGER,
                id INTEGER, c0, c1)",
        )
        .unwrap();
    drop(connection);
    for store in [
        Store::open(&bench.path).unwrap(),
        Store::open_read_only(&bench.path).unwrap(),
    ] {
        assert!(content(&store, &bench.ids).unwrap() == bench.expected);
    }
}

/// Opens the file in both modes; each must fail with this text and leave the file unchanged.
fn refused(path: &Path, text: &str) {
    let before = fs::read(path).ok();
    for opened in [Store::open(path), Store::open_read_only(path)] {
        let error = opened.unwrap_err();
        is_one_clear_line(&error, path);
        assert!(error.to_string().contains(text), "{error}");
    }
    assert_eq!(fs::read(path).ok(), before);
}

#[test]
fn files_of_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("letter"), "Dear store,\n").unwrap();
    refused(
        &path("letter"),
        "is not a punctual store: it is not a database; specify another --store PATH",
    );
    fs::write(path("short"), "SQLite format 3\0").unwrap();
    refused(&path("short"), "is not a punctual store");
    fs::write(path("head"), {
        let mut bytes = b"SQLite format 3\0".to_vec();
        bytes.extend([0xaa; 5_000]);
        bytes
    })
    .unwrap();
    refused(&path("head"), "is not a punctual store");

    let foreign = Connection::open(path("foreign")).unwrap();
    foreign.execute_batch("CREATE TABLE song (title)").unwrap();
    drop(foreign);
    refused(&path("foreign"), "an SQLite database of another program");
    let marked = Connection::open(path("marked")).unwrap();
    marked
        .execute_batch("PRAGMA application_id = 77; CREATE TABLE recording (id)")
        .unwrap();
    drop(marked);
    refused(&path("marked"), "another program (application ID 77)");

    refused(folder.path(), "it is a folder");
    refused(Path::new("/dev/null"), "it is not a regular file");
}

#[test]
fn empty_file_is_an_empty_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("punctual.db");
    fs::write(&path, "").unwrap();
    let error = Store::open_read_only(&path).unwrap_err();
    assert!(matches!(error, StoreError::NotThere { .. }), "{error}");
    assert!(error.to_string().starts_with("no recordings yet"));
    assert_eq!(Store::open(&path).unwrap().list().unwrap(), []);
    assert_eq!(Store::open_read_only(&path).unwrap().list().unwrap(), []);
}

#[test]
fn a_place_that_cannot_be_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    for path in [
        folder.path().join("file/below/punctual.db"),
        PathBuf::from("/proc/punctual/punctual.db"),
    ] {
        let error = Store::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::Folder { .. }), "{error}");
        is_one_clear_line(&error, &path);
        assert!(error.to_string().contains("--store PATH"), "{error}");
    }
    let error = Store::open(Path::new("/proc/punctual.db")).unwrap_err();
    assert!(matches!(error, StoreError::CannotOpen { .. }), "{error}");
    assert!(Store::open(Path::new("")).is_err());
}

/// Returns blobs of a store that the functions in `sound` read: the name and the bytes.
fn blobs() -> Vec<(String, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("punctual.db");
    let store = Store::open(&path).unwrap();
    let recording = recording(1, 1);
    let mut writer = store.begin(&at_start(&recording), &lease()).unwrap();
    writer.samples(0, &samples(300)).unwrap();
    writer.keep_window(&outlier(1), &window(5)).unwrap();
    let pages: Vec<u8> = (0..400_u32).flat_map(u32::to_le_bytes).collect();
    writer.attach("pages", 1, "null", &pages).unwrap();
    writer.finish(&recording).unwrap();
    drop(store);
    let connection = Connection::open(&path).unwrap();
    let rows = |sql: &str| -> Vec<(String, i64, Vec<Vec<u8>>)> {
        let mut statement = connection.prepare(sql).unwrap();
        let columns = statement.column_count();
        let read = |row: &rusqlite::Row<'_>| {
            let blobs = (2..columns).map(|column| row.get(column));
            Ok((row.get(0)?, row.get(1)?, blobs.collect::<Result<_, _>>()?))
        };
        let rows = statement.query_map([], read).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let mut blobs = Vec::new();
    for (name, count, streams) in rows("SELECT 'chunk', count, expected, latency FROM chunk") {
        let first = u32::try_from(streams[0].len()).unwrap().to_le_bytes();
        let head = [&count.to_le_bytes()[..], &first].concat();
        blobs.push((
            format!("store-{name}/whole"),
            [head, streams.concat()].concat(),
        ));
    }
    for (kind, length, body) in rows("SELECT kind, length, body FROM attachment ORDER BY kind") {
        let bytes = [length.to_le_bytes().to_vec(), body.concat()].concat();
        blobs.push((format!("store-attachment/{kind}"), bytes));
    }
    blobs
}

/// Reads a blob with the function for its name. Returns whether it had content.
fn read_blob(name: &str, bytes: &[u8]) -> bool {
    match name.split('/').next() {
        Some("store-chunk") => sound::chunk(bytes).is_some(),
        Some("store-attachment") => sound::attachment(bytes).is_some(),
        _ => panic!("{name}"),
    }
}

/// `PUNCTUAL_UPDATE_SEEDS=1` rewrites the seeds.
#[test]
fn fuzz_seeds_are_store_blobs() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds");
    let blobs = blobs();
    let names: Vec<&str> = blobs.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "store-chunk/whole",
        "store-attachment/pages",
        "store-attachment/window",
    ];
    assert_eq!(names, expected);
    for (name, bytes) in &blobs {
        assert!(read_blob(name, bytes), "{name}");
        let path = seeds.join(name);
        if std::env::var_os("PUNCTUAL_UPDATE_SEEDS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, bytes).unwrap();
        }
        // Another version of the compressor may produce other bytes.
        let seed = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(read_blob(name, &seed), "{}", path.display());
    }
}

#[test]
fn damaged_blob_gives_sound_results() {
    let blobs = blobs();
    let change = (any::<prop::sample::Index>(), any::<u8>());
    let cases = (
        0..blobs.len(),
        prop::collection::vec(change, 0..6),
        any::<prop::sample::Index>(),
    );
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(300));
    let result = runner.run(&cases, |(nth, changes, end)| {
        let (name, mut bytes) = blobs[nth].clone();
        for (place, byte) in changes {
            *place.get_mut(&mut bytes) ^= byte;
        }
        read_blob(&name, &bytes);
        bytes.truncate(end.index(bytes.len()));
        read_blob(&name, &bytes);
        Ok(())
    });
    result.unwrap();
}
