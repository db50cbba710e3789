//! Tests that independent engines can read an export.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use punctual_lake::{By, Exported, Target, export};
use punctual_model::{Fact, Recording, RecordingId};
use punctual_store::{Collection, Delivery, SqliteCollection};
use punctual_testing::skip;

/// Variables that name the Python interpreters with the packages `duckdb` and `pyspark`.
const DUCKDB: &str = "PUNCTUAL_TEST_DUCKDB";
const SPARK: &str = "PUNCTUAL_TEST_SPARK";

/// A program that prints the numbers of the lake at `root` in the form that [`counted`] expects.
const ASK_DUCKDB: &str = "import duckdb, sys\n\
    root, depth = sys.argv[1:]\n\
    def ask(sql): return duckdb.sql(sql.replace('@', root + '/')).fetchall()\n\
    files = \"read_parquet('@%s/\" + depth + \".parquet', hive_partitioning=true)\"\n\
    runs, histograms, facts = (files % name for name in ('runs', 'histograms', 'facts'))\n\
    print(ask(f'select count(*), sum(recorded), max(max_ns) from {runs}')[0])\n\
    print(ask(f'select sum(n) from (select unnest(count) n from {histograms})')[0][0])\n\
    print(ask(f'select count(distinct recording) from {facts}')[0][0])\n";
const ASK_SPARK: &str = "import sys\n\
    from pyspark.sql import SparkSession\n\
    spark = (SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')\n\
    \x20   .config('spark.driver.host', '127.0.0.1').getOrCreate())\n\
    for name in ('runs', 'histograms', 'top_samples', 'facts'):\n\
    \x20   table = spark.read.parquet(sys.argv[1] + '/' + name)\n\
    \x20   table.foreach(lambda row: None)\n\
    \x20   table.createOrReplaceTempView(name)\n\
    def ask(sql): return tuple(spark.sql(sql).collect()[0])\n\
    print(ask('select count(*), sum(recorded), max(max_ns) from runs'))\n\
    print(ask('select sum(n) from (select explode(count) n from histograms)')[0])\n\
    print(ask('select count(distinct recording) from facts')[0])\n";

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
    let to = |name: &str| Target::folder(&folder.join(name));
    let exported = export(&all, &to("lake"), By::Machine, None).unwrap();
    // A second export replaces the first.
    assert_eq!(
        export(&all, &to("lake"), By::Machine, None).unwrap(),
        exported
    );
    let since = export(&all, &to("newer"), By::Machine, Some(sent[2].started)).unwrap();
    assert_eq!(since.recordings, 1);
    let by_day = export(&all, &to("days"), By::Day, None).unwrap();
    assert_eq!((by_day.recordings, by_day.partitions), (4, 2));
    (sent, exported)
}

#[test]
fn each_machine_day_is_a_partition() {
    let folder = tempfile::tempdir().unwrap();
    let (_, exported) = lake(folder.path());
    assert_eq!((exported.recordings, exported.partitions), (4, 3));
    for partition in [
        "runs/date=2026-11-03/machine=a",
        "histograms/date=2026-11-04/machine=a",
        "facts/date=2026-11-03/machine=b%2F..%2Fc",
        "changes",
        "../days/runs/date=2026-11-03",
        "../days/histograms/date=2026-11-04",
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

/// Returns the Python interpreter named by a variable, if it has the package.
fn python_with(package: &str, variable: &str) -> Option<String> {
    let python = std::env::var(variable).unwrap_or_else(|_| "python3".to_owned());
    let script = format!("import {package}");
    let there = Command::new(&python).args(["-c", &script]).output();
    if there.is_ok_and(|done| done.status.success()) {
        return Some(python);
    }
    skip!(
        Program,
        "{python} has no package {package} ({variable} names another one)"
    );
    None
}

#[test]
fn duckdb_counts_what_is_in_the_store() {
    let Some(python) = python_with("duckdb", DUCKDB) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (sent, _) = lake(folder.path());
    for (name, depth) in [("lake", "*/*/*"), ("days", "*/*")] {
        counted(&python, ASK_DUCKDB, &folder.path().join(name), depth, &sent);
    }
}

/// This engine also needs a Java runtime.
#[test]
fn spark_counts_what_is_in_the_store() {
    let Some(python) = python_with("pyspark", SPARK) else {
        return;
    };
    if Command::new("java").arg("-version").output().is_err() {
        return skip!(Program, "Spark: there is no Java runtime");
    }
    let folder = tempfile::tempdir().unwrap();
    let (sent, _) = lake(folder.path());
    for name in ["lake", "days"] {
        counted(&python, ASK_SPARK, &folder.path().join(name), "", &sent);
    }
}

/// Queries the numbers of a lake with an engine, and compares them with the recordings sent.
fn counted(python: &str, script: &str, lake: &Path, depth: &str, sent: &[Recording]) {
    let done = Command::new(python)
        .args(["-c", script])
        .arg(lake)
        .arg(depth)
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

/// An S3-compatible service receives each file once, signed, under the key of its partition.
#[test]
fn a_bucket_gets_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    lake(folder.path());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let service = std::thread::spawn(move || {
        let mut objects = BTreeMap::new();
        // The first request fails with a temporary error.
        for (number, stream) in listener.incoming().enumerate() {
            let (path, signed, body) = request(&stream.unwrap(), number == 0);
            if path.ends_with("/end") {
                return objects;
            }
            assert!(signed, "{path}");
            if number > 0 {
                assert!(objects.insert(path, body).is_none(), "twice");
            }
        }
        objects
    });
    let variable = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("key".to_owned()),
        "AWS_ENDPOINT_URL" => Some(format!("http://{address}")),
        _ => None,
    };
    let all = SqliteCollection::open(&folder.path().join("all.db")).unwrap();
    let to = Target::from_url("s3://bucket/a", &variable).unwrap();
    let exported = export(&all, &to, By::Day, None).unwrap();
    let mut end = TcpStream::connect(address).unwrap();
    write!(end, "PUT /end HTTP/1.1\r\nContent-Length: 0\r\n\r\n").unwrap();
    let objects = service.join().unwrap();
    let bytes: usize = objects.values().map(Vec::len).sum();
    assert_eq!(bytes as u64, exported.bytes);
    let runs = &objects["/bucket/a/runs/date%3D2026-11-03/part.parquet"];
    let same = folder.path().join("days/runs/date=2026-11-03/part.parquet");
    assert_eq!(*runs, std::fs::read(same).unwrap());
}

/// Reads a request and answers it. Returns its path, whether it is signed, and its body.
fn request(stream: &TcpStream, fail: bool) -> (String, bool, Vec<u8>) {
    let mut read = BufReader::new(stream);
    let (mut head, mut line) = (String::new(), String::new());
    while read.read_line(&mut line).unwrap() > 2 {
        head.push_str(&line.to_lowercase());
        line.clear();
    }
    let value = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    let mut body = vec![0; value("content-length: ").unwrap().parse().unwrap()];
    read.read_exact(&mut body).unwrap();
    let status = if fail { "503 Slow Down" } else { "200 OK" };
    let mut to = stream;
    write!(
        to,
        "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let path = head.split(' ').nth(1).unwrap().replace("%3d", "%3D");
    let signed = value("authorization: aws4-hmac-sha256 credential=key/").is_some();
    (path, signed, body)
}
