//! Periods that come due independently of a worker's thread.

use punctual_model::{Nanos, OpenPeriods};

/// Due times of periods, if the worker specifies them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Schedule {
    /// Time between two periods, and the end of the run.
    pub(super) times: Option<(Nanos, Nanos)>,
    /// Duration of the warm-up after the start.
    pub(super) warm_up: Nanos,
    /// First period whose result is still unknown.
    pub(super) next: Nanos,
    /// Time of the latest sample.
    pub(super) woke: Nanos,
    /// Whether samples were lost recently, so that the last periods are unknown.
    pub(super) unsure: bool,
}

impl Schedule {
    pub(super) fn passed(&mut self, first: Nanos, count: u64) {
        if let Some((period, _)) = self.times {
            let time = period.0.saturating_mul(count);
            self.next = self.next.max(Nanos(first.0.saturating_add(time)));
        }
    }

    /// Returns the periods after the warm-up that have had no wake-up yet.
    pub(super) fn open(&self, started: Nanos, now: Nanos) -> Option<OpenPeriods> {
        let (period, end) = self.times.filter(|_| !self.unsure)?;
        let warm = (started + self.warm_up).saturating_sub(self.next);
        let of_warm_up = warm.0.div_ceil(period.0.max(1));
        let first = self
            .next
            .0
            .saturating_add(period.0.saturating_mul(of_warm_up));
        OpenPeriods::at(now, Nanos(first), period, end)
    }
}
