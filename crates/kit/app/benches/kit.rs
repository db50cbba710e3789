//! Measures what the kit costs in a loop: recording a sample, and one iteration without its wait.
//!
//! `cargo bench -p punctual-app`

use divan::{Bencher, black_box, counter::ItemsCount};
use punctual_app::{ChannelSpec, Figures, Kind};
use punctual_rt::{Clock, Error, Instant, OverrunPolicy, Periodic, PeriodicWait, Wake};

fn main() {
    divan::main();
}

const SAMPLES: u64 = 10_000;

/// Latencies like those of a quiet machine: microseconds, and occasionally more.
fn latencies() -> Vec<i64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let tail = u64::from(state.is_multiple_of(1_000)) * 80_000;
        (3_000 + state % 4_000 + tail) as i64
    };
    (0..SAMPLES).map(next).collect()
}

const SPEC: ChannelSpec<'static> = ChannelSpec {
    name: "bench",
    kind: Kind::Latency,
    period_ns: 1_000_000,
    budget_ns: 100_000,
};

#[divan::bench]
fn record(bencher: Bencher) {
    let latencies = latencies();
    let figures = Figures::create("bench", 1).expect("figures");
    let mut channel = figures.channel(&SPEC).expect("a channel");
    let mut at = 0;
    bencher.counter(ItemsCount::new(SAMPLES)).bench_local(|| {
        for latency in &latencies {
            at += 1_000_000;
            channel.record(black_box(at), black_box(*latency));
        }
    });
}

#[divan::bench]
fn hdrhistogram_record(bencher: Bencher) {
    let latencies = latencies();
    let mut histogram =
        hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1_000_000_000_000, 3).expect("bounds");
    bencher.counter(ItemsCount::new(SAMPLES)).bench_local(|| {
        for latency in &latencies {
            histogram.saturating_record(black_box(*latency as u64));
        }
    });
}

#[divan::bench]
fn clock_read(bencher: Bencher) {
    bencher.counter(ItemsCount::new(SAMPLES)).bench_local(|| {
        for _ in 0..SAMPLES {
            black_box(Clock::Monotonic.now());
        }
    });
}

/// A wait that returns immediately.
struct NoWait;

impl PeriodicWait for NoWait {
    #[inline]
    fn wait_until(&mut self, _: Instant) -> Result<Wake, Error> {
        Ok(Wake::Due)
    }
}

/// Each iteration consists of two clock reads, the accounting, and a record. The first release is
/// in the future, so that no iteration is an overrun.
#[divan::bench]
fn turn_with_record(bencher: Bencher) {
    let figures = Figures::create("bench", 1).expect("figures");
    let mut channel = figures.channel(&SPEC).expect("a channel");
    let period = std::time::Duration::from_millis(1);
    let first = Clock::Monotonic.now() + std::time::Duration::from_secs(1_000_000);
    let mut periodic =
        Periodic::with_wait(NoWait, Clock::Monotonic, first, period, OverrunPolicy::Skip)
            .expect("a period");
    bencher.counter(ItemsCount::new(SAMPLES)).bench_local(|| {
        for _ in 0..SAMPLES {
            if let Ok(Some(job)) = periodic.wait() {
                channel.record(job.release.as_nanos(), job.latency_ns() as i64);
                let account = periodic.account();
                channel.account(account.due, account.missed, account.late);
            }
        }
    });
}
