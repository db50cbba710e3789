//! A stored run of 100 million wake-ups: how much disk space it needs, and how long it takes to
//! show and plot.
//!
//! `cargo bench -p punctual --bench large_run`
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use punctual_model::{Completion, Histogram, Nanos, Recording, RecordingId, testing};
use punctual_store::{Batch, Lease, Store};

/// A run of five and a half hours at 200 µs on four CPUs, in rows of five minutes, as
/// `measure timer -i 200us -D 5h33m` writes it on such a machine.
const CPUS: u32 = 4;
const ROWS: u64 = 67;
const PER_ROW: u64 = 100_000_000 / (ROWS * CPUS as u64) + 1;
const RUNS: usize = 11;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let recording = recording();
    let wake_ups = recording.accounting().recorded;
    store(&path, recording);
    let bytes = std::fs::metadata(&path).unwrap().len();
    println!(
        "{wake_ups} wake-ups take {:.2} MB on disk",
        bytes as f64 / 1e6
    );
    for line in [
        "--help",
        "list",
        "show last",
        "plot last -o x.svg",
        "plot last --kind percentiles -o x.svg",
        "plot last --kind timeline -o x.png",
        "report last -o x.html",
    ] {
        println!("{:>8.1} ms  punctual {line}", median_ms(&path, line));
    }
}

/// Rows of one minute, scaled to the counts of five minutes at 200 µs.
fn recording() -> Recording {
    let mut recording = testing::recording(CPUS, ROWS);
    for row in &mut recording.series.rows {
        row.start_ns = Nanos(row.start_ns.0 * 300);
        let mut histogram = Histogram::new();
        let rounds = PER_ROW.div_ceil(row.count);
        for _ in 0..rounds {
            histogram.add_interval(row);
        }
        row.count = histogram.recorded();
        row.sum_ns = histogram.sum();
        row.histogram = histogram.buckets();
    }
    for (place, thread) in recording.threads.iter_mut().enumerate() {
        thread.histogram = Histogram::new();
        for row in recording
            .series
            .rows
            .iter()
            .filter(|row| row.thread == place as u32)
        {
            thread.histogram.add_interval(row);
        }
        thread.accounting.recorded = thread.histogram.recorded();
        thread.accounting.expected =
            thread.accounting.recorded + thread.accounting.missed + thread.accounting.warm_up;
    }
    recording.series.interval_ns = Nanos::from_secs(300);
    recording.duration_ns = Nanos::from_secs(20_000);
    recording
}

fn store(path: &std::path::Path, mut recording: Recording) {
    let store = Store::open(path).unwrap();
    recording.id = RecordingId::new();
    let running = Recording {
        completion: Completion::Running,
        ..recording.clone()
    };
    let mut writer = store.begin(&running, &Lease::default()).unwrap();
    for rows in recording.series.rows.chunks(CPUS as usize) {
        let batch = Batch {
            elapsed: rows[0].start_ns,
            rows: rows.to_vec(),
            ..Batch::default()
        };
        writer.commit(&batch).unwrap();
    }
    writer.finish(&recording).unwrap();
}

fn median_ms(store: &std::path::Path, line: &str) -> f64 {
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            let status = Command::new(env!("CARGO_BIN_EXE_punctual"))
                .args(line.split(' '))
                .current_dir(store.parent().unwrap())
                .env("PUNCTUAL_STORE", store)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .unwrap();
            assert!(status.success(), "{line}");
            start.elapsed()
        })
        .collect();
    times.sort();
    times[RUNS / 2].as_secs_f64() * 1e3
}
