//! What is exported is read by an engine that nobody here wrote.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use punctual_lake::{Exported, export};
use punctual_model::{Fact, Recording, RecordingId};
use punctual_store::{Collection, Delivery, SqliteCollection};
use punctual_testing::skip;

/// A Python with the package `duckdb`.
const PYTHON: &str = "PUNCTUAL_TEST_DUCKDB";

fn recording(number: u64, host: &str) -> Recording {
    let mut one = punctual_model::testing::recording(2, 3);
    one.id = RecordingId::new();
    one.started = "2026-11-03T07:10:00Z".parse::<Timestamp>().unwrap();
    one.started += Duration::from_secs(number * 43_200);
    one.host.hostname = Fact::known(host.to_owned(), "uname");
    one.samples = None;
    one
}

fn lake(folder: &Path) -> (Vec<Recording>, Exported) {
    let all = SqliteCollection::open(&folder.join("all.db")).unwrap();
    let mut sent = Vec::new();
    for (number, machine) in [(0, "a"), (1, "a"), (2, "a"), (0, "b/../c")] {
        let one = recording(number, machine);
        let body = serde_json::to_vec(&one).unwrap();
        let delivery = Delivery {
            machine,
            sha256: "",
            received: one.started,
            series: None,
            recording: &one,
            body: &body,
        };
        all.receive(&delivery).unwrap();
        sent.push(one);
    }
    let lake = folder.join("lake");
    let exported = export(&all, &lake, None).unwrap();
    // A second time replaces what is there.
    assert_eq!(export(&all, &lake, None).unwrap(), exported);
    let since = export(&all, &folder.join("newer"), Some(sent[2].started)).unwrap();
    assert_eq!(since.recordings, 1);
    (sent, exported)
}

#[test]
fn each_day_of_a_machine_is_a_partition() {
    let folder = tempfile::tempdir().unwrap();
    let (_, exported) = lake(folder.path());
    assert_eq!((exported.recordings, exported.partitions), (4, 3));
    for partition in [
        "runs/date=2026-11-03/machine=a",
        "histograms/date=2026-11-04/machine=a",
        "facts/date=2026-11-03/machine=b%2F..%2Fc",
        "changes",
    ] {
        let file = folder
            .path()
            .join("lake")
            .join(partition)
            .join("part.parquet");
        let bytes = std::fs::read(&file).unwrap_or_else(|error| panic!("{error}: {file:?}"));
        assert_eq!(
            (&bytes[..4], &bytes[bytes.len() - 4..]),
            (&b"PAR1"[..], &b"PAR1"[..])
        );
    }
}

#[test]
fn duckdb_counts_what_is_in_the_store() {
    let python = std::env::var(PYTHON).unwrap_or_else(|_| "python3".to_owned());
    let there = Command::new(&python).args(["-c", "import duckdb"]).output();
    if !there.is_ok_and(|done| done.status.success()) {
        return skip!("DuckDB: {python} has no package duckdb ({PYTHON} names another one)");
    }
    let folder = tempfile::tempdir().unwrap();
    let (sent, _) = lake(folder.path());
    let script = "import duckdb, sys\n\
        root = sys.argv[1]\n\
        def ask(sql): return duckdb.sql(sql.replace('@', root + '/')).fetchall()\n\
        files = \"read_parquet('@%s/*/*/*.parquet', hive_partitioning=true)\"\n\
        runs, histograms, facts = (files % name for name in ('runs', 'histograms', 'facts'))\n\
        print(ask(f'select count(*), sum(recorded), max(max_ns) from {runs}')[0])\n\
        print(ask(f'select sum(n) from (select unnest(count) n from {histograms})')[0][0])\n\
        print(ask(f'select count(distinct recording) from {facts}')[0][0])\n";
    let done = Command::new(&python)
        .args(["-c", script])
        .arg(folder.path().join("lake"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let errors = String::from_utf8_lossy(&done.stderr);
    let recorded: u64 = sent.iter().map(|one| one.accounting().recorded).sum();
    let max = sent
        .iter()
        .filter_map(|one| one.all_latencies().max())
        .max()
        .unwrap()
        .0;
    let in_buckets: u64 = (sent.iter().flat_map(|one| &one.threads))
        .flat_map(|thread| thread.histogram.rows().map(|row| row.2))
        .sum();
    let expected = format!(
        "({}, {recorded}, {max})\n{in_buckets}\n{}\n",
        sent.len(),
        sent.len()
    );
    assert_eq!(said, expected, "{errors}");
}
