//! Compares the decoding speed with `trace-cmd report` on the same pages.
//!
//! Run `cargo bench -p punctual-trace --bench decode` as root, with `trace-cmd` installed.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::collections::BTreeSet;
use std::hint::black_box;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punctual_model::Nanos;
use punctual_trace::{Decoder, Description, Level, Owner, Page, Plan, RawPage, Tracefs, trace_dat};

/// Number of times that each program reads all pages; the result is the median.
const ROUNDS: usize = 5;

/// Number of events to record.
const ENOUGH: usize = 300_000;

fn main() {
    let (description, pages) = record();
    let mut decoder = description.decoder().unwrap();
    let events = decode(&mut decoder, &description, &pages);
    let mut own: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            black_box(decode(&mut decoder, &description, &pages));
            begin.elapsed().as_secs_f64()
        })
        .collect();
    let bytes = trace_dat(&description, &[pages], &[], &[].into()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.dat");
    std::fs::write(&file, bytes).unwrap();
    let mut theirs: Vec<f64> = (0..ROUNDS).map(|_| report(&file)).collect();
    let rate = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        events as f64 / times[times.len() / 2]
    };
    let (own, theirs) = (rate(&mut own), rate(&mut theirs));
    println!("events           {events}");
    println!("punctual         {:.2} M events/s", own / 1e6);
    println!("trace-cmd report {:.2} M events/s", theirs / 1e6);
    println!("ratio            {:.1}", own / theirs);
}

/// Records two threads that wake each other and do nothing else.
fn record() -> (Description, Vec<RawPage>) {
    let tracefs = Tracefs::find(Path::new("/")).unwrap();
    let plan = Plan {
        level: Level::Full,
        bytes_per_cpu: 8 << 20,
    };
    let owner = Owner {
        pid: std::process::id(),
        start: 1,
    };
    let mut flight = tracefs.arm(plan, owner, None).unwrap();
    let stop = AtomicBool::new(false);
    let (mut read_a, mut write_a) = std::io::pipe().unwrap();
    let (mut read_b, mut write_b) = std::io::pipe().unwrap();
    let mut pages = Vec::new();
    let mut seen = BTreeSet::new();
    let mut events = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                write_a.write_all(b"x").unwrap();
                read_b.read_exact(&mut [0]).unwrap();
            }
            drop(write_a);
        });
        scope.spawn(move || {
            while read_a.read_exact(&mut [0]).is_ok() {
                if write_b.write_all(b"x").is_err() {
                    break;
                }
            }
        });
        flight.switch(true).unwrap();
        while events < ENOUGH {
            std::thread::sleep(Duration::from_millis(20));
            flight.take_out().unwrap();
            let cut = flight.slice_for(1, None, Nanos::ZERO, Nanos(u64::MAX >> 1));
            let layout = flight.layout();
            for page in cut.pages {
                let parsed = Page::parse(layout, &page.bytes).unwrap();
                if seen.insert((page.cpu, parsed.time())) {
                    events += parsed.records().count();
                    pages.push(page);
                }
            }
        }
        flight.switch(false).unwrap();
        stop.store(true, Ordering::Relaxed);
    });
    let description = flight.describe().unwrap();
    flight.stop().unwrap();
    (description, pages)
}

fn decode(decoder: &mut Decoder, description: &Description, pages: &[RawPage]) -> usize {
    let clock = description.clock();
    let mut events = 0;
    for page in pages {
        let parsed = Page::parse(decoder.layout(), &page.bytes).unwrap();
        decoder.page(
            &parsed,
            page.cpu,
            clock,
            |_| true,
            |event| {
                black_box(event);
                events += 1;
            },
        );
    }
    events
}

fn report(file: &Path) -> f64 {
    let begin = Instant::now();
    let status = Command::new("trace-cmd")
        .args(["report", "-i"])
        .arg(file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    begin.elapsed().as_secs_f64()
}
