//! The spin loop: finds gaps between two consecutive readings of a clock.

use punctual_model::Nanos;
use punctual_rt::{Clock, Tsc, TscRate};

use crate::Control;

/// A clock that is read in a tight loop. It must be cheap to read and have a constant rate.
pub(super) trait Ticks: Copy {
    /// Reads the clock in its own unit.
    fn read(self) -> u64;
    /// Converts ticks to nanoseconds.
    fn to_nanos(self, ticks: u64) -> u64;
    /// Converts nanoseconds to ticks.
    fn to_ticks(self, nanos: u64) -> u64;
}

/// The time stamp counter with its measured rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter {
    pub(super) tsc: Tsc,
    pub(super) rate: TscRate,
}

impl Ticks for Counter {
    #[inline(always)]
    fn read(self) -> u64 {
        self.tsc.read()
    }
    fn to_nanos(self, ticks: u64) -> u64 {
        self.rate.to_nanos(ticks)
    }
    fn to_ticks(self, nanos: u64) -> u64 {
        self.rate.to_ticks(nanos)
    }
}

/// CLOCK_MONOTONIC_RAW, if there is no such counter.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawClock;

impl Ticks for RawClock {
    #[inline(always)]
    fn read(self) -> u64 {
        Clock::MonotonicRaw.now().as_nanos()
    }
    fn to_nanos(self, ticks: u64) -> u64 {
        ticks
    }
    fn to_ticks(self, nanos: u64) -> u64 {
        nanos
    }
}

/// The limits for gaps, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// A gap above this is reported with its cause.
    pub(super) threshold: u64,
    /// A gap above this is longer than a usual iteration of the loop.
    pub(super) floor: u64,
}

/// Number of gaps, and their lengths in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gaps {
    pub(super) count: u64,
    pub(super) total: u64,
    pub(super) max: u64,
}

impl Gaps {
    pub(super) fn add(&mut self, ticks: u64) {
        self.count += 1;
        self.total += ticks;
        self.max = self.max.max(ticks);
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.total += other.total;
        self.max = self.max.max(other.max);
    }
}

/// The result of one spin without a pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spin {
    /// Length of the spin in ticks.
    pub(super) ticks: u64,
    /// The gap that ended the spin; 0 if the spin reached its planned end.
    pub(super) ended_by: u64,
    /// The largest gap.
    pub(super) largest: u64,
    /// The start of the largest gap, in ticks from the start of the spin.
    pub(super) largest_at: u64,
    /// Gaps that were above the floor but did not end the spin.
    pub(super) short: Gaps,
}

/// An action that is done in each iteration of the loop.
pub(super) trait Eye {
    /// Called between the two readings of the clock, with the time since the previous iteration.
    fn turn(&mut self, ticks: u64);
}

/// Does nothing, so that only gaps are recorded.
#[derive(Debug)]
pub(super) struct Shut;

impl Eye for Shut {
    #[inline(always)]
    fn turn(&mut self, _ticks: u64) {}
}

/// Reads the clock in a loop, for at most `ticks`, until a gap is above `stop` or the run is
/// stopped. Counts gaps above `floor`.
///
/// This is the hot path. It makes no system call and accesses no memory except its own.
#[inline(never)]
pub(super) fn spin<T: Ticks>(
    clock: T,
    ticks: u64,
    (floor, stop): (u64, u64),
    eye: &mut impl Eye,
    control: &Control,
) -> Spin {
    let mut spin = Spin::default();
    let start = clock.read();
    let mut last = start;
    loop {
        let now = clock.read();
        // A backward step of the counter, caused by a hypervisor, is not a gap.
        let gap = now.saturating_sub(last);
        eye.turn(gap);
        if gap > spin.largest {
            spin.largest = gap;
            spin.largest_at = last.saturating_sub(start);
        }
        if gap > floor {
            if gap > stop {
                spin.ended_by = gap;
                spin.ticks = now.saturating_sub(start);
                return spin;
            }
            spin.short.add(gap);
        }
        last = now;
        let spent = now.saturating_sub(start);
        if spent >= ticks || control.stopping() {
            spin.ticks = spent;
            return spin;
        }
    }
}

/// Returns the median time of one iteration of the loop, in ticks. Call this on the CPU that will
/// spin.
pub(super) fn usual_turn<T: Ticks>(clock: T, control: &Control) -> u64 {
    const ROUNDS: usize = 1_001;
    let mut turns = [0; ROUNDS];
    let mut last = clock.read();
    for turn in &mut turns {
        std::hint::black_box(control.stopping());
        let now = clock.read();
        *turn = now.saturating_sub(last);
        last = now;
    }
    *turns.select_nth_unstable(ROUNDS / 2).1
}

/// A time that is shorter than any interrupt. Even on the fastest processors, entry, handler and
/// return take several hundred nanoseconds.
const SHORTEST_INTERRUPT: Nanos = Nanos(250);

/// Returns the limits for a threshold on a clock whose loop takes `turn` ticks.
pub(super) fn limits<T: Ticks>(clock: T, threshold: Nanos, turn: u64) -> Limits {
    let threshold = clock.to_ticks(threshold.0);
    let floor = clock
        .to_ticks(SHORTEST_INTERRUPT.0)
        // With a slow clock, an iteration of the loop can take longer than that.
        .max(turn.saturating_mul(3));
    Limits {
        threshold,
        floor: floor.min(threshold),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A clock that returns these times one after the other, then repeats the last.
    #[derive(Clone, Copy)]
    struct Script<'a>(&'a [u64], &'a Cell<usize>);

    impl Ticks for Script<'_> {
        fn read(self) -> u64 {
            let place = self.1.get();
            self.1.set(place + 1);
            self.0[place.min(self.0.len() - 1)]
        }
        fn to_nanos(self, ticks: u64) -> u64 {
            ticks
        }
        fn to_ticks(self, nanos: u64) -> u64 {
            nanos
        }
    }

    const LIMITS: (u64, u64) = (20, 100);

    fn spin_of(times: &[u64], ticks: u64) -> Spin {
        let clock = Script(times, &Cell::new(0));
        spin(clock, ticks, LIMITS, &mut Shut, &Control::new())
    }

    #[test]
    fn a_spin_goes_to_its_end() {
        let spin = spin_of(&[1_000, 1_010, 1_060, 1_070, 1_170, 1_200], 200);
        assert_eq!(spin.ended_by, 0);
        assert_eq!(spin.ticks, 200);
        assert_eq!((spin.largest, spin.largest_at), (100, 70));
        let short = Gaps {
            count: 3,
            total: 50 + 100 + 30,
            max: 100,
        };
        assert_eq!(spin.short, short);
    }

    #[test]
    fn a_gap_above_the_limit_ends_it() {
        let spin = spin_of(&[1_000, 1_030, 1_131, 1_140], 1_000);
        assert_eq!(
            (spin.ended_by, spin.largest, spin.largest_at),
            (101, 101, 30)
        );
        assert_eq!(spin.ticks, 131);
        assert_eq!(spin.short.count, 1);
    }

    #[test]
    fn a_clock_set_back_is_no_gap() {
        let spin = spin_of(&[1_000, 1_010, 500, 1_010, 1_020, 1_300], 15);
        assert_eq!(spin.ended_by, 510);
        assert_eq!(spin_of(&[1_000, 400, 400, 1_050], 50).largest, 650);
    }

    #[test]
    fn a_stop_ends_it() {
        let control = Control::new();
        control.stop();
        let spin = spin(RawClock, u64::MAX, LIMITS, &mut Shut, &control);
        assert!(spin.ticks < u64::MAX);
    }

    #[test]
    fn slow_clock_raises_floor_to_threshold() {
        let limits = |turn| limits(RawClock, Nanos(10_000), turn).floor;
        assert_eq!(limits(20), 250);
        assert_eq!(limits(400), 1_200);
        assert_eq!(limits(1_000_000), 10_000);
    }
}
