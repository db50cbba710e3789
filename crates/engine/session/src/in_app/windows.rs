//! Late jobs of a channel in windows of consecutive periods.

use punctual_app::ChannelHead;
use punctual_model::{MissLimit, MissWindows, Nanos, WindowCount};

/// Counts the late jobs of a channel in windows. The application stores each job above the budget with
/// its release, so the number of periods between two late jobs follows from their releases.
pub(super) struct ChannelWindows {
    windows: MissWindows,
    limit: MissLimit,
    budget: Nanos,
    period: Nanos,
    /// Release of the last late job.
    last: Option<Nanos>,
    /// Time of the last reading.
    read: Nanos,
    /// Largest number of missed periods that are known to lie in one window.
    missed_in_window: u64,
    has_missed: bool,
}

impl ChannelWindows {
    /// Returns `None` if the channel has no period or no budget.
    pub(super) fn new(limit: MissLimit, head: &ChannelHead) -> Option<Self> {
        let budget = Nanos(head.budget_ns?);
        Some(Self {
            windows: MissWindows::new(limit, budget),
            limit,
            budget,
            period: Nanos(head.period_ns.filter(|period| *period > 0)?),
            last: None,
            read: Nanos::ZERO,
            missed_in_window: 0,
            has_missed: false,
        })
    }

    /// Adds a job that was released `at` this time since the start. Jobs within the budget are
    /// ignored.
    pub(super) fn sample(&mut self, took: Nanos, at: Nanos) {
        if took <= self.budget {
            return;
        }
        if let Some(last) = self.last {
            let since = at.saturating_sub(last).0 + self.period.0 / 2;
            self.windows
                .on_time((since / self.period.0).saturating_sub(1));
        }
        self.last = Some(at);
        self.windows.sample(took, at);
    }

    /// Adds the periods that were missed since the last reading. All of them became due before this
    /// reading, and only those of the first overrun can be older than the last one. Each window of
    /// more periods than lie between the readings therefore contains the others.
    pub(super) fn missed(&mut self, count: u64, now: Nanos) {
        let between = now.saturating_sub(self.read).0.div_ceil(self.period.0) + 1;
        self.read = now;
        if count > 0 {
            self.has_missed = true;
            let room = u64::from(self.limit.periods()).saturating_sub(between);
            self.missed_in_window = self.missed_in_window.max(count.min(room));
        }
    }

    /// Returns whether the times of missed periods leave the windows open.
    pub(super) const fn is_open(&self) -> bool {
        self.has_missed
    }

    /// Returns the counts; `None` if it is unknown whether the limit was violated.
    pub(super) fn finish(self) -> Option<WindowCount> {
        let mut count = self.windows.count();
        count.worst = count.worst.max(self.missed_in_window);
        if self.has_missed {
            count.violated_seconds = None;
        }
        let is_violated = count.worst > u64::from(self.limit.late());
        (is_violated || !self.has_missed).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use punctual_app::Kind;

    use super::*;

    const MS: u64 = 1_000_000;

    fn windows(limit: &str) -> ChannelWindows {
        let head = ChannelHead {
            name: "control".to_owned(),
            kind: Kind::Latency,
            tid: 7,
            period_ns: Some(MS),
            budget_ns: Some(100_000),
        };
        ChannelWindows::new(limit.parse().unwrap(), &head).unwrap()
    }

    #[test]
    fn releases_place_late_jobs_in_windows() {
        let mut found = windows("2/10");
        // Late jobs in the periods 5, 6, 20, 24 and 28, some of them released a little late.
        for (number, beyond) in [(5, 0), (6, 40_000), (20, 0), (24, 90_000), (28, 0)] {
            found.sample(Nanos(100_001), Nanos(number * MS + beyond));
            found.sample(Nanos(100_000), Nanos(number * MS + MS / 2));
        }
        let count = found.finish().unwrap();
        assert_eq!((count.worst, count.longest_series), (3, 2));
        assert_eq!(count.violated_seconds, Some(1));
    }

    /// The place of missed periods is unknown. Only an excess that any place would cause is certain.
    #[test]
    fn missed_periods_violate_only_for_certain() {
        let mut few = windows("2/100");
        few.missed(2, Nanos(50 * MS));
        assert_eq!(few.finish(), None);
        let mut many = windows("2/100");
        many.missed(30, Nanos(50 * MS));
        let count = many.finish().unwrap();
        assert_eq!((count.worst, count.violated_seconds), (30, None));
        // The readings are further apart than a window is long.
        let mut rare = windows("2/10");
        rare.missed(30, Nanos(50 * MS));
        assert_eq!(rare.finish(), None);
    }
}
