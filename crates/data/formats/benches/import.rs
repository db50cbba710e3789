//! Benchmarks for reading sample files, without the cost of storing the samples.
//!
//! Run with `cargo bench -p punctual-formats`. The rates are in bytes of the file.
//! `benches/import.py` measures the whole command instead.

// A benchmark stops at the first error.
#![allow(clippy::unwrap_used)]

use std::io;

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use punctual_formats::{CountSamples, Import, SampleSink, Source, import};
use punctual_model::Sample;

fn main() {
    divan::main();
}

/// Realistic samples of two threads: a few microseconds, with a tail.
fn latencies(count: u64) -> impl Iterator<Item = (u32, u64, u64)> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    (0..count).map(move |nth| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let tail = if state.is_multiple_of(997) {
            state % 900
        } else {
            0
        };
        ((nth % 2) as u32, nth / 2, 4 + state % 11 + tail)
    })
}

/// Returns the samples as printed by cyclictest -v.
fn verbose(count: u64) -> Vec<u8> {
    let mut text = Vec::new();
    for (thread, cycle, us) in latencies(count) {
        text.extend_from_slice(format!("{thread:8}:{cycle:8}:{us:8}\n").as_bytes());
    }
    text
}

/// Returns the samples as stored by jitterdebugger.
fn raw(count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (thread, cycle, us) in latencies(count) {
        bytes.extend_from_slice(&thread.to_le_bytes());
        let nanos = cycle * 1_000_000 + us * 1_000;
        for number in [1_000 + nanos / 1_000_000_000, nanos % 1_000_000_000, us] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }
    bytes
}

/// A sink that reads each sample.
#[derive(Default)]
struct Sum(u64);

impl SampleSink for Sum {
    fn take(&mut self, _: u32, samples: &[Sample]) -> io::Result<()> {
        for sample in samples {
            self.0 = self.0.wrapping_add(sample.latency.0.cast_unsigned());
        }
        Ok(())
    }
}

fn read(bencher: Bencher<'_, '_>, name: &str, bytes: &[u8], sink: &mut dyn SampleSink) {
    let import: &Import = import(name).unwrap();
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| {
            let mut source = Source::new("bench", black_box(bytes));
            (import.read)(&mut source, sink).unwrap()
        });
}

#[divan::bench(sample_count = 10)]
fn cyclictest_samples(bencher: Bencher<'_, '_>) {
    read(
        bencher,
        "cyclictest-samples",
        &verbose(2_000_000),
        &mut CountSamples::default(),
    );
}

#[divan::bench(sample_count = 10)]
fn cyclictest_samples_looked_at(bencher: Bencher<'_, '_>) {
    read(
        bencher,
        "cyclictest-samples",
        &verbose(2_000_000),
        &mut Sum::default(),
    );
}

#[divan::bench(sample_count = 10)]
fn jitterdebugger_samples(bencher: Bencher<'_, '_>) {
    read(
        bencher,
        "jitterdebugger-samples",
        &raw(2_000_000),
        &mut CountSamples::default(),
    );
}

#[divan::bench(sample_count = 10)]
fn jitterdebugger_samples_looked_at(bencher: Bencher<'_, '_>) {
    read(
        bencher,
        "jitterdebugger-samples",
        &raw(2_000_000),
        &mut Sum::default(),
    );
}
