//! Measures how fast a `trace.dat` of 1 GB can be read, and how much memory this takes.
//!
//! Run `cargo bench -p punctual-tracefile --bench dat`. The benchmark writes the file to the folder
//! for temporary files. The file consists of the pages of a fixture, repeated with increasing
//! times.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::time::Instant;

use lzma_rust2::XzReader;
use punctual_tracefile::{Input, Item, open};

const SIZE: u64 = 1 << 30;
const PAGE: usize = 4_096;
const ROUNDS: usize = 3;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.dat");
    write(&path);
    let mut rates: Vec<f64> = (0..ROUNDS).map(|_| read(&path)).collect();
    rates.sort_by(f64::total_cmp);
    println!(
        "median {:.1} M events per second of CPU time",
        rates[ROUNDS / 2] / 1e6
    );
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM:"));
    println!("peak memory {}", peak.unwrap());
}

/// Reads all items and returns the number of events read per second.
fn read(path: &Path) -> f64 {
    let (begin, before) = (Instant::now(), cpu_seconds());
    let mut reader = open(Input::path(path).unwrap()).unwrap();
    let (mut events, mut others, mut last) = (0_u64, 0_u64, 0);
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Event(event) => {
                assert!(event.time.0 >= last, "times go back");
                last = event.time.0;
                events += 1;
            }
            Item::Mark(_)
            | Item::Statement { .. }
            | Item::Function { .. }
            | Item::RunTime { .. } => others += 1,
            Item::Lost { .. } => panic!("lost events"),
        }
    }
    let (seconds, of_cpu) = (begin.elapsed().as_secs_f64(), cpu_seconds() - before);
    assert!(
        reader.head().warnings.is_empty(),
        "{:?}",
        reader.head().warnings
    );
    println!("{events} events and {others} marks in {seconds:.2} s, CPU time {of_cpu:.2} s");
    events as f64 / of_cpu
}

/// Returns the CPU time of this thread. It is used because the elapsed time also depends on other
/// programs.
fn cpu_seconds() -> f64 {
    let times = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let run: f64 = times.split(' ').next().unwrap().parse().unwrap();
    run / 1e9
}

/// The pages of one CPU in the fixture.
struct Cpu {
    row: usize,
    pages: Vec<Vec<u8>>,
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Writes the file.
fn write(path: &Path) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dat/v6.dat.xz");
    let mut file = Vec::new();
    let packed = fs::read(fixture).unwrap();
    XzReader::new(&packed[..], true)
        .read_to_end(&mut file)
        .unwrap();
    let tag = b"flyrecord\0";
    let table = file
        .windows(tag.len())
        .position(|bytes| bytes == tag)
        .unwrap()
        + tag.len();
    let cpus = [table, table + 16].map(|row| {
        let (offset, size) = (number(&file, row) as usize, number(&file, row + 8) as usize);
        let pages = file[offset..offset + size].chunks(PAGE).map(<[u8]>::to_vec);
        Cpu {
            row,
            // The first page contains marks, and the last one may be almost empty.
            pages: pages.filter(|page| number(page, 8) > 3_000).collect(),
        }
    });
    let times = cpus
        .iter()
        .flat_map(|cpu| &cpu.pages)
        .map(|page| number(page, 0));
    // This step is longer than the fixture, so that times never go backwards.
    let span = times.clone().max().unwrap() - times.min().unwrap() + 1_000_000_000;
    let mut offset = number(&file, cpus[0].row);
    file.truncate(offset as usize);
    for cpu in &cpus {
        let size = SIZE / 2 / PAGE as u64 * PAGE as u64;
        file[cpu.row..cpu.row + 8].copy_from_slice(&offset.to_le_bytes());
        file[cpu.row + 8..cpu.row + 16].copy_from_slice(&size.to_le_bytes());
        offset += size;
    }
    let mut output = BufWriter::new(File::create(path).unwrap());
    output.write_all(&file).unwrap();
    for cpu in cpus {
        for number_of_page in 0..SIZE as usize / 2 / PAGE {
            let mut page = cpu.pages[number_of_page % cpu.pages.len()].clone();
            let rounds = (number_of_page / cpu.pages.len()) as u64;
            let time = number(&page, 0) + rounds * span;
            page[..8].copy_from_slice(&time.to_le_bytes());
            output.write_all(&page).unwrap();
        }
    }
    output.flush().unwrap();
}
