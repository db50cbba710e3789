//! Tests steal time and handler durations on this machine, if the kernel supports them.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::time::Duration;

use punctual_model::{HandlerOf, Nanos};
use punctual_trace::StealRecorder;

/// Returns the sum of `steal` in /proc/stat, and the number of softirqs of one kind so far.
fn counted(kind: &str) -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let steal = stat.lines().next().unwrap().split_whitespace().nth(8);
    let softirqs = std::fs::read_to_string("/proc/softirqs").unwrap();
    let row = softirqs.lines().find(|line| line.trim().starts_with(kind));
    let counts = row.unwrap().split_whitespace().skip(1);
    let sum = counts.map(|count| count.parse::<u64>().unwrap()).sum();
    (steal.unwrap().parse().unwrap(), sum)
}

fn now() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

#[test]
fn steal_agrees_with_kernel_figures() {
    let cpus = std::thread::available_parallelism().unwrap().get() as u32 + 64;
    let recorder = match StealRecorder::start(cpus) {
        Ok(recorder) => recorder,
        Err(error) => {
            return punctual_testing::skip_refused("the recorder of steal time", &error);
        }
    };
    let before = counted("TIMER:");
    let from = now();
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let to = now();
    let (steal, softirqs) = counted("TIMER:");
    let usual = recorder.usual(HandlerOf::Softirq(1)).unwrap();
    let (seen, ran) = (usual.length.count, softirqs - before.1);
    assert!(
        seen <= ran + 1_000 && ran <= 2 * seen + 100,
        "{seen} of {ran}"
    );
    assert!(usual.length.p999_ns > Nanos::ZERO);
    assert_eq!(recorder.usual(HandlerOf::Irq(239)), None);
    let counts: Vec<_> = (0..cpus)
        .filter_map(|cpu| recorder.around(cpu, (from, to)))
        .collect();
    if counts.is_empty() {
        return punctual_testing::skip!(Kernel, "the kernel keeps no steal time in ns");
    }
    for count in &counts {
        assert!(count.from <= count.to && count.to <= now(), "{count:?}");
        assert!(
            count.rises.iter().all(|rise| rise.from <= rise.to),
            "{count:?}"
        );
    }
    // For each CPU, /proc/stat counts in steps of 10 ms.
    let rises = counts.iter().flat_map(|count| &count.rises);
    let stolen: u64 = rises.map(|rise| rise.stolen.0).sum();
    let shown = (steal - before.0) * 10_000_000;
    let unsure = 20_000_000 * (counts.len() as u64 + 1) + (to - from).0 / 4;
    assert!(
        stolen.abs_diff(shown) <= unsure,
        "{stolen} and {shown}: {counts:?}"
    );
}
