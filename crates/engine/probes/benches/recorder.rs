//! Measures the cost of recording one sample, in the measuring thread.
//!
//! Run `cargo bench -p punctual-probes`.

use std::sync::Arc;

use divan::{Bencher, black_box, counter::ItemsCount};
use punctual_model::{Histogram, Nanos, SignedNanos};
use punctual_probes::{Control, RecorderSlot, WorkerSettings};

fn main() {
    divan::main();
}

/// Samples per iteration: the capacity of the smallest ring.
const SAMPLES: u64 = 4_000;

/// Returns latencies typical of a quiet machine: microseconds, with an occasional tail.
fn latencies() -> Vec<SignedNanos> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..SAMPLES)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let tail = if state.is_multiple_of(1_000) {
                80_000
            } else {
                0
            };
            SignedNanos((3_000 + state % 4_000 + tail) as i64)
        })
        .collect()
}

#[divan::bench]
fn histogram(bencher: Bencher) {
    let latencies = latencies();
    let mut histogram = Histogram::preallocated();
    bencher.counter(ItemsCount::new(SAMPLES)).bench_local(|| {
        for latency in &latencies {
            histogram.record(black_box(*latency));
        }
    });
}

/// Measures the cost of the histogram, the top samples, the accounting and the ring together.
#[divan::bench]
fn recorder_with_sample_capture(bencher: Bencher) {
    let latencies = latencies();
    let control = Arc::new(Control::new());
    let settings = WorkerSettings {
        warm_up: Nanos::ZERO,
        break_above: None,
        rate_hz: 1,
    };
    let (mut recorder, mut reader) = RecorderSlot::open(settings, &control);
    recorder.start(Nanos(1));
    bencher
        .counter(ItemsCount::new(SAMPLES))
        // Empties the ring outside the timed part, as the housekeeping thread does.
        .with_inputs(|| {
            reader.drain(|event| {
                black_box(event);
            })
        })
        .bench_local_values(|()| {
            for (period, latency) in latencies.iter().enumerate() {
                recorder.sample(Nanos(period as u64), black_box(*latency));
            }
        });
}
