//! Measures the cost of measuring.

use std::hint::black_box;
use std::sync::Arc;

use punctual_model::{Histogram, Nanos, SignedNanos};
use punctual_rt::Clock;

use super::{Recorder, RecorderSlot, WorkerReader, WorkerSettings};
use crate::Control;

/// The cost of measuring on one CPU, as medians.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelfCost {
    /// One reading of the clock.
    pub clock_read: Nanos,
    /// One iteration of the loop without its wait.
    pub turn: Nanos,
}

impl SelfCost {
    /// Number of measurements of each cost. This is enough for a median, and takes well under a
    /// millisecond.
    const ROUNDS: usize = 1_001;

    /// Capacity of the worker's ring in events. It is small, because all measuring threads measure
    /// their cost at the same time.
    const RING: u64 = 64;

    /// Measures the cost on the calling thread, which must already be on the CPU where it will
    /// measure.
    pub fn measure(clock: Clock) -> Self {
        // Use a separate small worker. It runs the same code, but none of its samples reach the
        // recording.
        let settings = WorkerSettings {
            warm_up: Nanos::ZERO,
            break_above: None,
            rate_hz: 1,
        };
        let control = Arc::new(Control::new());
        let (mut recorder, mut reader) =
            RecorderSlot::with_capacity(settings, &control, Self::RING, Histogram::preallocated());
        recorder.start(Nanos::ZERO);
        // The values have only 32 bits, because the arrays are on the stack. This is enough for 4
        // s.
        let mut reads = [0; Self::ROUNDS];
        let mut turns = [0; Self::ROUNDS];
        for (read, turn) in reads.iter_mut().zip(&mut turns) {
            let before = clock.now().as_nanos();
            let between = clock.now().as_nanos();
            recorder.sample(Nanos(before), Nanos(between).signed_sub(Nanos(before)));
            black_box(control.stopping());
            let after = clock.now().as_nanos();
            *read = span(before, between);
            *turn = span(between, after);
            reader.drain(|event| {
                black_box(event);
            });
        }
        rehearse(recorder, &mut reader);
        Self {
            clock_read: median(&mut reads),
            turn: median(&mut turns),
        }
    }
}

/// Runs the rare operations once, so that their code is already in memory and locked when they are
/// needed.
fn rehearse(mut recorder: Recorder, reader: &mut WorkerReader) {
    const PERIOD: Nanos = Nanos(1_000);
    recorder.count_overruns();
    let woke = Nanos(4 * PERIOD.0);
    recorder.sample(Nanos::ZERO, SignedNanos(woke.0 as i64));
    recorder.overrun(PERIOD, 3, PERIOD, woke);
    recorder.missed(woke, 1, PERIOD);
    recorder.still_open(woke, 2, PERIOD, Nanos(2 * woke.0));
    black_box(recorder.finish(0, SelfCost::default()));
    reader.drain(|event| {
        black_box(event);
    });
}

fn span(from: u64, to: u64) -> u32 {
    u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX)
}

fn median(values: &mut [u32]) -> Nanos {
    let middle = values.len() / 2;
    Nanos(u64::from(*values.select_nth_unstable(middle).1))
}
