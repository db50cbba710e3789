//! Estimates when the periods of a deadline thread begin.
//!
//! The kernel does not expose the start of a thread's period (before
//! `SCHED_GETATTR_FLAG_DL_DYNAMIC`). A thread that has yielded runs again at the start of its next
//! period, never earlier. So the earliest of many wake-ups is closest to it, and the others are
//! later by whole periods plus their latency.

/// The starts of periods, in ns of CLOCK_MONOTONIC_RAW, which runs at the rate of the scheduler's
/// clock. CLOCK_MONOTONIC is slewed, so it would drift from the periods by some microseconds per
/// second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DueTimes {
    period: u64,
    /// The start of period 0.
    base: u64,
    /// The next period to wait for.
    next: u64,
    /// The smallest lateness in the current block of wake-ups, and the number of wake-ups left in
    /// the block.
    least: u64,
    left: u64,
    /// Number of times that the kernel restarted the periods.
    moved: u64,
}

/// One wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WakeUp {
    /// Number of periods that began while the thread was still busy.
    pub(super) missed: u64,
    /// Lateness of the wake-up.
    pub(super) late: u64,
}

impl DueTimes {
    /// Threshold for detecting that the kernel has restarted the periods
    /// (`replenish_dl_new_period`): either the fastest wake-up of a whole block was later than
    /// this, or a wake-up was early by more than this.
    const MOVED: u64 = 20_000;

    /// Returns the number of wake-ups in a block. It is the number in about a second, but is large
    /// enough that a block includes a fast wake-up.
    fn block(period: u64) -> u64 {
        (1_000_000_000 / period).max(16)
    }

    /// Creates the due times from the first wake-up.
    pub(super) fn new(period: u64, first: u64) -> Self {
        Self {
            period,
            base: first,
            next: 1,
            least: u64::MAX,
            left: Self::block(period),
            moved: 0,
        }
    }

    /// Restarts counting at the period of the first wake-up, which was at `first`. Returns the
    /// lateness of that wake-up.
    pub(super) fn restart_at(&mut self, first: u64) -> u64 {
        let since = first.saturating_sub(self.base) % self.period;
        *self = Self {
            next: 0,
            ..Self::new(self.period, first - since)
        };
        since
    }

    fn start_of(&self, period: u64) -> u64 {
        self.base.saturating_add(period.saturating_mul(self.period))
    }

    /// Processes a wake-up at `woke`. The thread finished its previous work at `done`.
    pub(super) fn wake(&mut self, done: u64, woke: u64) -> WakeUp {
        // Periods that had begun before the thread finished its work are missed.
        let begun = match done.checked_sub(self.base) {
            Some(since) => since / self.period + 1,
            None => 0,
        };
        let current = begun.max(self.next);
        let missed = current - self.next;
        self.next = current + 1;
        let start = self.start_of(current);
        if woke < start {
            // A thread never wakes before the start of a period, so the estimated start was too
            // late.
            let early = start - woke;
            self.base = self.base.saturating_sub(early);
            self.moved += u64::from(early > Self::MOVED);
            self.least = 0;
        }
        let late = woke.saturating_sub(start);
        self.least = self.least.min(late);
        self.left -= 1;
        if self.left == 0 {
            if self.least > Self::MOVED {
                self.base += self.least;
                self.moved += 1;
            }
            self.least = u64::MAX;
            self.left = Self::block(self.period);
        }
        WakeUp { missed, late }
    }

    /// Returns the number of periods that came due.
    pub(super) fn due(&self) -> u64 {
        self.next
    }

    /// Returns how often the kernel restarted the periods.
    pub(super) fn moved(&self) -> u64 {
        self.moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PERIOD: u64 = 1_000_000;

    /// Creates due times that begin at 10 ms.
    fn due_times() -> DueTimes {
        let mut grid = DueTimes::new(PERIOD, 9_000_000);
        assert_eq!(grid.restart_at(10_000_000), 0);
        grid
    }

    #[test]
    fn lateness_counts_from_period_start() {
        let mut grid = due_times();
        for (period, late) in [(0, 3_000), (1, 0), (2, 999_000)] {
            let start = 10_000_000 + period * PERIOD;
            assert_eq!(
                grid.wake(start - 400_000, start + late),
                WakeUp { missed: 0, late }
            );
        }
        assert_eq!((grid.due(), grid.moved()), (3, 0));
    }

    #[test]
    fn periods_begun_while_busy_are_missed() {
        let mut grid = due_times();
        grid.wake(9_900_000, 10_000_000);
        // The thread is busy until 12.5 ms, so the periods at 11 and 12 ms are missed.
        let wake = grid.wake(12_500_000, 13_000_700);
        assert_eq!(
            wake,
            WakeUp {
                missed: 2,
                late: 700
            }
        );
        assert_eq!(grid.due(), 4);
    }

    #[test]
    fn earlier_wake_up_corrects_period_start() {
        let mut grid = due_times();
        assert_eq!(grid.wake(9_900_000, 9_998_000).late, 0);
        assert_eq!(grid.moved(), 0);
        assert_eq!(grid.wake(10_900_000, 11_000_000).late, 2_000);
        // This wake-up is much too early, so the periods were restarted.
        assert_eq!(grid.wake(11_100_000, 11_600_000).late, 0);
        assert_eq!(grid.moved(), 1);
        assert_eq!(grid.wake(11_700_000, 12_600_050).late, 50);
    }

    #[test]
    fn later_period_start_is_found_after_block() {
        let mut grid = due_times();
        let mut last = 0;
        for period in 0..1_001 {
            let woke = 10_000_000 + period * PERIOD + 300_000 + period % 5;
            last = grid.wake(woke - 500_000, woke).late;
        }
        assert_eq!(grid.moved(), 1);
        assert!(last < 5, "{last}");
    }

    #[test]
    fn occasional_slowness_leaves_the_grid_unmoved() {
        let mut grid = due_times();
        for period in 0..5_000 {
            let late = if period % 100 == 0 { 4_000 } else { 90_000 };
            let woke = 10_000_000 + period * PERIOD + late;
            assert_eq!(grid.wake(woke - 500_000, woke).late, late);
        }
        assert_eq!((grid.due(), grid.moved()), (5_000, 0));
    }

    proptest! {
        #[test]
        fn each_period_wakes_or_is_missed(
            steps in prop::collection::vec((0_u64..5_000_000, 0_u64..3_000_000), 1..200),
        ) {
            let mut grid = due_times();
            let (mut wakes, mut missed, mut now) = (0, 0, 10_000_000);
            for (busy, slept) in steps {
                let done = now + busy;
                now = done + slept;
                let wake = grid.wake(done, now);
                wakes += 1;
                missed += wake.missed;
            }
            prop_assert_eq!(grid.due(), wakes + missed);
        }
    }
}
