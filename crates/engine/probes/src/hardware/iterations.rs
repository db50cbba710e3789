//! Counts every iteration of the loop, like oslat, and does work in each of them.

use std::hint::black_box;

use punctual_model::{Cell, Histogram, Nanos, SignedNanos, Table};

use super::spin::{Eye, Ticks};

/// Counts the iterations by length, and copies memory in each iteration.
#[derive(Debug)]
pub(super) struct Iterations<T> {
    clock: T,
    pub(super) histogram: Histogram,
    /// Source and destination of the copy; empty if nothing is copied.
    memory: (Vec<u8>, Vec<u8>),
}

impl<T: Ticks> Iterations<T> {
    /// Creates a counter that copies `bytes` bytes in each iteration.
    pub(super) fn new(clock: T, bytes: usize) -> Self {
        Self {
            clock,
            histogram: Histogram::preallocated(),
            memory: (vec![1; bytes], vec![2; bytes]),
        }
    }

    /// Clears the counts.
    pub(super) fn clear(&mut self) {
        self.histogram.clear();
    }
}

impl<T: Ticks> Eye for Iterations<T> {
    #[inline]
    fn turn(&mut self, ticks: u64) {
        let nanos = self.clock.to_nanos(ticks);
        self.histogram
            .record(SignedNanos(i64::try_from(nanos).unwrap_or(i64::MAX)));
        let (from, to) = &mut self.memory;
        if !from.is_empty() {
            to.copy_from_slice(black_box(from));
            black_box(to);
        }
    }
}

/// Creates two empty tables of all iterations, one with figures and one with the lengths.
pub(super) fn tables() -> [Table; 2] {
    let figures = Table::new(
        "turns",
        "Iterations of the loop",
        &[
            ("cpu", "CPU"),
            ("turns", "turns"),
            ("min_ns", "shortest"),
            ("mean_ns", "mean"),
            ("max_ns", "longest"),
            ("clock_mhz", "clock, MHz"),
        ],
    );
    let counts = Table::new(
        "turn_lengths",
        "Iterations by their length",
        &[("cpu", "CPU"), ("from_ns", "from"), ("turns", "turns")],
    );
    [figures, counts]
}

/// Adds the iterations of one CPU.
pub(super) fn push<T: Ticks>(tables: &mut [Table; 2], cpu: u32, clock: T, turns: &Histogram) {
    const SECOND: u64 = 1_000_000_000;
    let [figures, counts] = tables;
    let cpu = u64::from(cpu);
    figures.push([
        Cell::from(cpu),
        turns.recorded().into(),
        turns.min().into(),
        turns.mean().into(),
        turns.max().into(),
        (clock.to_ticks(SECOND) / 1_000_000).into(),
    ]);
    for (lower, _, count) in turns.buckets().iter() {
        counts.push([Cell::from(cpu), Nanos(lower).into(), count.into()]);
    }
}
