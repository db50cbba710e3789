//! What measuring costs itself.

use std::hint::black_box;
use std::sync::Arc;

use punctual_model::{Histogram, Nanos, SignedNanos};
use punctual_rt::Clock;

use super::{Lane, LaneReader, LaneSettings, Recorder};
use crate::Control;

/// What measuring costs on one CPU; medians.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelfCost {
    /// One reading of the clock.
    pub clock_read: Nanos,
    /// One turn of the loop without its wait.
    pub turn: Nanos,
}

impl SelfCost {
    /// How often each is measured: enough for a median, done in well under a
    /// millisecond.
    const ROUNDS: usize = 1_001;

    /// Events that the ring of the lane holds; few, as all measuring threads do this at the
    /// same time.
    const RING: u64 = 64;

    /// Measures on the calling thread, which runs where it will measure.
    pub fn measure(clock: Clock) -> Self {
        // A lane of its own, a small one: the same code, and nothing of it reaches the
        // recording.
        let settings = LaneSettings {
            warm_up: Nanos::ZERO,
            break_above: None,
            rate_hz: 1,
        };
        let control = Arc::new(Control::new());
        let (mut recorder, mut reader) =
            Lane::with(settings, &control, Self::RING, Histogram::new());
        recorder.start(Nanos::ZERO);
        // Of 32 bits, as they lie on the stack: 4 s.
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

/// Does once what is rare, so that its code is in RAM, and locked, when it happens.
fn rehearse(mut recorder: Recorder, reader: &mut LaneReader) {
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
