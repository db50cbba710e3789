//! Periods that were still open when a run ended.

use serde::{Deserialize, Serialize};

use crate::{Histogram, Nanos};

/// Periods of one thread that were due but had no wake-up or reply when the run ended. Each is late
/// by at least the time from its due time to the end, or by the time that a reply was awaited. They
/// also count as missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenPeriods {
    /// Number of periods.
    pub periods: u64,
    /// Minimum lateness of the first period.
    pub late_ns: Nanos,
    /// Time between the due times of successive periods. Zero if each period was awaited for the
    /// same time.
    pub period_ns: Nanos,
}

impl OpenPeriods {
    /// Returns the open periods at the time `now`. Periods are due at `first` and every `period`
    /// after it, before `end`. `None` if none is open.
    pub fn at(now: Nanos, first: Nanos, period: Nanos, end: Nanos) -> Option<Self> {
        let late = now.0.checked_sub(first.0).filter(|late| *late > 0)?;
        let due = late.div_ceil(period.0.max(1));
        let within = end.0.saturating_sub(first.0).div_ceil(period.0.max(1));
        let periods = due.min(within);
        (periods > 0).then_some(Self {
            periods,
            late_ns: Nanos(late),
            period_ns: period,
        })
    }

    /// Returns what these periods lack, in words.
    pub fn lack(&self) -> &'static str {
        match self.period_ns {
            Nanos::ZERO => "a reply",
            _ => "a wake-up at the end of the run",
        }
    }

    /// Returns the minimum lateness of each of the first `most` periods.
    pub(crate) fn at_least(&self, most: u64) -> Histogram {
        let mut late = Histogram::new();
        late.record_run(self.late_ns, self.period_ns, self.periods.min(most));
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_due_before_now_are_open() {
        let at = |now: u64, end: u64| {
            let open = OpenPeriods::at(Nanos(now), Nanos(1_000), Nanos(100), Nanos(end));
            open.map(|open| (open.periods, open.late_ns.0))
        };
        // A period that has only just come due is not late.
        assert_eq!(at(1_000, 5_000), None);
        assert_eq!(at(1_001, 5_000), Some((1, 1)));
        assert_eq!(at(1_100, 5_000), Some((1, 100)));
        assert_eq!(at(1_101, 5_000), Some((2, 101)));
        // Periods due after the end do not belong to the run. The lateness stays the same.
        assert_eq!(at(9_000, 1_250), Some((3, 8_000)));
        assert_eq!(at(9_000, 1_000), None);
        let none = OpenPeriods::at(Nanos(9), Nanos(0), Nanos(0), Nanos(9));
        assert_eq!(none.map(|open| open.periods), Some(9));
    }
}
