//! Periods as they come due, whatever the thread of a lane does.

use punctual_model::{Nanos, OpenPeriods};

/// When periods come due, where the lane says so.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Grid {
    /// The time between two, and the end of the run.
    pub(super) times: Option<(Nanos, Nanos)>,
    /// How long after the start periods are warm-up.
    pub(super) warm_up: Nanos,
    /// The first that nothing is known of yet.
    pub(super) next: Nanos,
    /// When the latest sample was taken.
    pub(super) woke: Nanos,
    /// Whether samples were lost of late: then nothing is known of the last ones.
    pub(super) unsure: bool,
}

impl Grid {
    pub(super) fn passed(&mut self, first: Nanos, count: u64) {
        if let Some((period, _)) = self.times {
            let time = period.0.saturating_mul(count);
            self.next = self.next.max(Nanos(first.0.saturating_add(time)));
        }
    }

    /// The periods after the warm-up that have had no wake-up by now.
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
