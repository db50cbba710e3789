//! The measured clocks, and the reference clock, which times the reads.

use std::hint::black_box;

use punctual_rt::{Clock, PosixClock, Tsc, TscRate};

/// A measured clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// A clock of the kernel.
    Posix(PosixClock),
    /// The processor's counter.
    Tsc(Tsc, TscRate),
}

impl Reader {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Posix(clock) => clock.short_name(),
            Self::Tsc(..) => TSC,
        }
    }

    /// Reads the clock: nanoseconds, or the counter's ticks.
    #[inline(always)]
    pub(super) fn read(self) -> u64 {
        match self {
            Self::Posix(clock) => clock.read(),
            Self::Tsc(tsc, _) => tsc.read(),
        }
    }

    /// Converts a difference of two readings to nanoseconds.
    pub(super) fn nanos(self, difference: u64) -> u64 {
        match self {
            Self::Posix(_) => difference,
            Self::Tsc(_, rate) => rate.to_nanos(difference),
        }
    }

    pub(super) fn posix(self) -> Option<PosixClock> {
        match self {
            Self::Posix(clock) => Some(clock),
            Self::Tsc(..) => None,
        }
    }
}

/// The name of the worker of the processor's counter.
pub(super) const TSC: &str = Tsc::NAME;

/// The time source for timing reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ruler {
    /// The processor's counter, which is finer and cheaper than the measured clocks.
    Tsc(Tsc, TscRate),
    /// `CLOCK_MONOTONIC`, if there is no such counter. It is as coarse as the measured clocks, so
    /// only many reads together can be timed.
    Monotonic,
}

impl Ruler {
    pub(super) fn new(tsc: Option<(Tsc, TscRate)>) -> Self {
        tsc.map_or(Self::Monotonic, |(tsc, rate)| Self::Tsc(tsc, rate))
    }

    #[inline(always)]
    pub(super) fn now(self) -> u64 {
        match self {
            Self::Tsc(tsc, _) => tsc.read(),
            Self::Monotonic => Clock::Monotonic.now().as_nanos(),
        }
    }

    /// Returns the nanoseconds from `start` to `end`, both of which come from [`now`](Self::now).
    #[inline(always)]
    pub(super) fn nanos(self, start: u64, end: u64) -> u64 {
        let ticks = end.saturating_sub(start);
        match self {
            Self::Tsc(_, rate) => rate.to_nanos(ticks),
            Self::Monotonic => ticks,
        }
    }

    /// Returns the median time between two consecutive readings. Each time measured with the
    /// reference clock includes this cost.
    pub(super) fn own_cost(self) -> u64 {
        const ROUNDS: usize = 1_001;
        let mut costs = [0; ROUNDS];
        for cost in &mut costs {
            let start = self.now();
            *cost = self.nanos(start, black_box(self.now()));
        }
        *costs.select_nth_unstable(ROUNDS / 2).1
    }
}

/// The differences between consecutive readings of a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    last: Option<u64>,
    /// The smallest step that is not zero.
    pub(super) smallest: Option<u64>,
    /// Number of readings that were lower than the previous one.
    pub(super) backward: u64,
    /// The largest step back.
    pub(super) backward_max: u64,
}

impl Steps {
    #[inline(always)]
    pub(super) fn see(&mut self, reading: u64) {
        if let Some(last) = self.last {
            if reading > last {
                let step = reading - last;
                self.smallest = Some(self.smallest.map_or(step, |known| known.min(step)));
            } else if reading < last {
                self.backward += 1;
                self.backward_max = self.backward_max.max(last - reading);
            }
        }
        self.last = Some(reading);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_step_is_nonzero_and_backsteps_count() {
        let steps = |readings: &[u64]| {
            let mut steps = Steps::default();
            readings.iter().for_each(|reading| steps.see(*reading));
            steps
        };
        assert_eq!(steps(&[5, 5, 5]).smallest, None);
        let found = steps(&[100, 100, 140, 147, 147, 160]);
        assert_eq!((found.smallest, found.backward), (Some(7), 0));
        let found = steps(&[100, 90, 95, 60, 200]);
        assert_eq!((found.backward, found.backward_max), (2, 35));
        assert_eq!(found.smallest, Some(5));
        assert_eq!(steps(&[]).backward, 0);
    }

    #[test]
    fn negative_span_is_none() {
        assert_eq!(Ruler::Monotonic.nanos(10, 4), 0);
        assert_eq!(Ruler::Monotonic.nanos(10, 14), 4);
    }

    /// On average over many consecutive readings, each takes at least the usual cost of one
    /// reading.
    #[test]
    fn the_ruler_knows_what_it_costs() {
        let tsc = Tsc::available();
        let tsc = tsc.map(|tsc| (tsc, tsc.calibrate(std::time::Duration::from_millis(2))));
        let ruler = Ruler::new(tsc);
        let begun = std::time::Instant::now();
        let cost = ruler.own_cost();
        let took = begun.elapsed().as_nanos();
        assert!(u128::from(cost) * 100 <= took, "{cost} of {took}");
    }
}
