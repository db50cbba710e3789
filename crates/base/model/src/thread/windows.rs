//! Late periods in windows of consecutive due periods.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::MissLimit;
use crate::Nanos;

/// The windows of consecutive due periods of a thread, and the late periods in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowCount {
    /// The limit of late periods in a window: `2/100`.
    pub limit: MissLimit,
    /// A period that began later than this after its due time is late. A missed period is late too.
    pub budget_ns: Nanos,
    /// Largest number of late periods in a window.
    pub worst: u64,
    /// Due time of the last period of the worst window, since the start of the run. Null if no
    /// period was late.
    pub worst_end_ns: Option<Nanos>,
    /// Due time of the period that violated the first window, since the start of the run. Null if
    /// none was violated.
    pub first_violated_ns: Option<Nanos>,
    /// Number of seconds of the run, counted from its start, with a late period that violated a
    /// window. Null in recordings of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violated_seconds: Option<u64>,
    /// Largest number of consecutive late periods.
    pub longest_series: u64,
}

const SECOND: Nanos = Nanos::from_secs(1);

/// Counts late periods in windows, in the order of the periods. It allocates memory only when it is
/// created.
#[derive(Clone, Debug)]
pub struct MissWindows {
    count: WindowCount,
    /// Number of the next due period.
    next: u64,
    /// Number of consecutive late periods up to now.
    series: u64,
    /// The late periods in the last window, by their number.
    late: VecDeque<u64>,
    /// The number of seconds up to the end of the last violated one.
    violated_until: u64,
}

impl MissWindows {
    /// Creates a counter for a limit and a budget.
    pub fn new(limit: MissLimit, budget_ns: Nanos) -> Self {
        Self {
            count: WindowCount {
                limit,
                budget_ns,
                worst: 0,
                worst_end_ns: None,
                first_violated_ns: None,
                violated_seconds: Some(0),
                longest_series: 0,
            },
            violated_until: 0,
            next: 0,
            series: 0,
            late: VecDeque::with_capacity(limit.periods() as usize + 1),
        }
    }

    /// Adds a period with a sample. `due` is its due time since the start of the run.
    pub fn sample(&mut self, late: Nanos, due: Nanos) {
        if late > self.count.budget_ns {
            self.late(due);
        } else {
            self.series = 0;
        }
        self.next += 1;
    }

    /// Adds `count` consecutive periods with samples that were not late.
    pub const fn on_time(&mut self, count: u64) {
        if count > 0 {
            self.series = 0;
            self.next = self.next.saturating_add(count);
        }
    }

    /// Adds `count` missed periods of length `interval`, the first of them due at `first`.
    pub fn missed(&mut self, first: Nanos, count: u64, interval: Nanos) {
        // More missed periods than a window has do not change the worst window.
        let most = u64::from(self.count.limit.periods());
        for number in 0..count.min(most) {
            self.late(Nanos(first.0.saturating_add(number * interval.0)));
            self.next += 1;
        }
        let more = count.saturating_sub(most);
        if more > 0 {
            (self.late.iter_mut()).for_each(|period| *period = period.saturating_add(more));
            self.next = self.next.saturating_add(more);
            self.series = self.series.saturating_add(more);
            self.count.longest_series = self.count.longest_series.max(self.series);
            // All periods of the windows before them are late.
            let since_first = (count - 1).saturating_mul(interval.0);
            self.violated(
                self.violated_until,
                Nanos(first.0.saturating_add(since_first)),
            );
        }
    }

    fn late(&mut self, due: Nanos) {
        let limit = self.count.limit;
        let first = (self.next + 1).saturating_sub(u64::from(limit.periods()));
        while self.late.front().is_some_and(|late| *late < first) {
            self.late.pop_front();
        }
        self.late.push_back(self.next);
        self.series += 1;
        self.count.longest_series = self.count.longest_series.max(self.series);
        let in_window = self.late.len() as u64;
        if in_window > self.count.worst {
            (self.count.worst, self.count.worst_end_ns) = (in_window, Some(due));
        }
        if in_window > u64::from(limit.late()) {
            self.count.first_violated_ns.get_or_insert(due);
            self.violated(due.0 / SECOND.0, due);
        }
    }

    /// Counts the seconds from this one to the one of `due`, except for those already counted.
    fn violated(&mut self, from: u64, due: Nanos) {
        let until = due.0 / SECOND.0 + 1;
        let new = until.saturating_sub(from.max(self.violated_until));
        self.violated_until = self.violated_until.max(until);
        if let Some(seconds) = &mut self.count.violated_seconds {
            *seconds += new;
        }
    }

    /// Returns the counts so far.
    pub const fn count(&self) -> WindowCount {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    fn windows(limit: &str) -> MissWindows {
        MissWindows::new(limit.parse().unwrap(), Nanos(100))
    }

    /// Compares the counts with those of each window.
    #[test]
    fn windows_are_those_of_the_definition() {
        let mut random = 7_u64;
        for limit in ["0/1", "1/2", "2/5", "3/40"] {
            let mut next = || {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (random >> 33).is_multiple_of(7)
            };
            let late: Vec<bool> = (0..3_000).map(|_| next()).collect();
            let mut found = windows(limit);
            for (number, late) in (0..).zip(&late) {
                let latency = if *late { 101 } else { 100 };
                found.sample(Nanos(latency), Nanos(MS.0 * number));
            }
            let found = found.count();
            let limit = found.limit;
            let count = |end: usize| {
                let first = (end + 1).saturating_sub(limit.periods() as usize);
                late[first..=end].iter().filter(|late| **late).count() as u64
            };
            assert_eq!(Some(found.worst), (0..late.len()).map(count).max());
            let violated = (0..late.len()).find(|end| count(*end) > u64::from(limit.late()));
            let violated = violated.map(|number| Nanos::from_millis(number as u64));
            assert_eq!(found.first_violated_ns, violated, "{limit}");
        }
    }

    /// Periods that were not late can be added together.
    #[test]
    fn periods_on_time_are_added_together() {
        let (mut single, mut together) = (windows("1/3"), windows("1/3"));
        for (late, on_time) in [(0, 5), (1, 1), (1, 2), (1, 0), (1, 9)] {
            let mut samples = vec![101; late];
            samples.extend(vec![1; on_time]);
            for latency in samples {
                single.sample(Nanos(latency), MS);
            }
            (0..late).for_each(|_| together.sample(Nanos(101), MS));
            together.on_time(on_time as u64);
        }
        assert_eq!(single.count(), together.count());
        assert_eq!(single.count().worst, 2);
    }

    #[test]
    fn missed_periods_are_late() {
        let mut found = windows("2/10");
        found.sample(Nanos(1), Nanos::ZERO);
        found.missed(MS, 2, MS);
        assert_eq!(found.count().first_violated_ns, None);
        found.missed(Nanos(3 * MS.0), u64::MAX / 2, MS);
        let count = found.count();
        assert_eq!(count.first_violated_ns, Some(Nanos::from_millis(3)));
        assert_eq!((count.worst, count.longest_series), (10, u64::MAX / 2 + 2));
        // The window is full of late periods until ten others have passed.
        for number in 0..20 {
            found.sample(Nanos(1), Nanos(number));
        }
        found.sample(Nanos(101), Nanos(MS.0));
        assert_eq!(found.count().worst, 10);
    }

    #[test]
    fn periods_in_time_end_a_series_and_move_the_window() {
        let limit = MissLimit::new(1, 3).unwrap();
        let mut windows = MissWindows::new(limit, Nanos(10));
        let due = |number: u64| Nanos(number * MS.0);
        // Late periods 0 and 3 are never in one window of three.
        windows.sample(Nanos(11), due(0));
        windows.on_time(0);
        assert_eq!(windows.count().longest_series, 1);
        windows.on_time(2);
        windows.sample(Nanos(11), due(3));
        let count = windows.count();
        assert_eq!(
            (count.worst, count.first_violated_ns, count.longest_series),
            (1, None, 1)
        );
        // Late periods 3 and 5 are.
        windows.sample(Nanos(10), due(4));
        windows.sample(Nanos(11), due(5));
        windows.sample(Nanos(11), due(6));
        let count = windows.count();
        assert_eq!((count.worst, count.worst_end_ns), (2, Some(due(5))));
        assert_eq!(
            (count.first_violated_ns, count.longest_series),
            (Some(due(5)), 2)
        );
        assert_eq!(count.violated_seconds, Some(1));
        assert_eq!((count.limit, count.budget_ns), (limit, Nanos(10)));
    }
}
