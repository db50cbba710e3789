//! Periods of a worker, which come due independently of its thread.

use punctual_model::{Histogram, Nanos, OpenPeriods, SignedNanos};
use punctual_store::Lateness;

use crate::measure::suspension::Wait;

/// Due times of periods, if the worker specifies them, and what became of them.
#[derive(Default)]
pub(super) struct Schedule {
    /// Time between two periods, and the end of the run.
    times: Option<(Nanos, Nanos)>,
    /// Duration of the warm-up after the start.
    warm_up: Nanos,
    /// First period whose result is still unknown.
    next: Nanos,
    /// Time of the latest sample.
    woke: Nanos,
    /// Number of samples that did not fit into the ring, as of the last drain.
    dropped: u64,
    /// Whether samples were lost recently, so that the last periods are unknown.
    unsure: bool,
    /// Longest wait of this drain and longest wait of the previous one.
    longest: [Option<Wait>; 2],
    /// Lateness of missed periods, as far as known.
    late: Option<Box<Histogram>>,
}

impl Schedule {
    pub(super) fn new(warm_up: Nanos) -> Self {
        Self {
            warm_up,
            ..Self::default()
        }
    }

    /// Sets the first expected wake-up.
    pub(super) const fn start(&mut self, at: Nanos) {
        self.next = at;
    }

    /// Sets the time between two periods, and the end of the run.
    pub(super) const fn set_times(&mut self, period: Nanos, end: Nanos) {
        self.times = Some((period, end));
    }

    /// Begins a drain. `dropped`: number of samples so far that did not fit into the ring.
    pub(super) const fn begin_drain(&mut self, dropped: u64) {
        self.unsure = std::mem::replace(&mut self.dropped, dropped) != dropped;
        self.longest = [None, self.longest[0]];
    }

    /// Notes the sample of a period.
    pub(super) fn woken(&mut self, expected: Nanos, latency: SignedNanos) {
        self.passed(expected, 1);
        self.woke = Nanos(expected.0.saturating_add_signed(latency.0));
        let wait = self.times.map(|(period, _)| Wait {
            due: expected,
            woke: self.woke,
            period,
        });
        if wait.map(|wait| wait.length()) > self.longest[0].map(|wait| wait.length()) {
            self.longest[0] = wait;
        }
    }

    /// Notes the lateness of periods that passed before the thread ran.
    pub(super) fn overrun(&mut self, first: Nanos, count: u64) {
        if let Some((period, _)) = self.times {
            let late = self.late.get_or_insert_default();
            late.record_run(self.woke.saturating_sub(first), period, count);
        }
    }

    /// Notes that the results of these periods are known.
    pub(super) fn passed(&mut self, first: Nanos, count: u64) {
        if let Some((period, _)) = self.times {
            let time = period.0.saturating_mul(count);
            self.next = self.next.max(Nanos(first.0.saturating_add(time)));
        }
    }

    /// Returns the longest wait of the last two drains, if the worker has periods.
    pub(super) fn longest(&self) -> Option<Option<Wait>> {
        self.times?;
        let waits = self.longest.into_iter().flatten();
        Some(waits.max_by_key(Wait::length))
    }

    /// Returns the lateness of missed periods, and the periods that have had no wake-up yet.
    /// `started`: start of the worker while it measures.
    pub(super) fn lateness(&self, started: Option<Nanos>, now: Nanos) -> Lateness {
        Lateness {
            missed_histogram: self.late.clone(),
            open: started.and_then(|started| self.open(started, now)),
        }
    }

    /// Returns the periods after the warm-up that have had no wake-up yet.
    fn open(&self, started: Nanos, now: Nanos) -> Option<OpenPeriods> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(warm_up: u64) -> Schedule {
        let mut schedule = Schedule::new(Nanos(warm_up));
        schedule.start(Nanos(1_000));
        schedule.set_times(Nanos(100), Nanos(5_000));
        schedule
    }

    fn open(schedule: &Schedule, now: u64) -> Option<u64> {
        let lateness = schedule.lateness(Some(Nanos(1_000)), Nanos(now));
        lateness.open.map(|open| open.periods)
    }

    #[test]
    fn unwoken_periods_are_open_after_warmup() {
        assert_eq!(open(&schedule(0), 1_250), Some(3));
        assert_eq!(open(&schedule(200), 1_250), Some(1));
        assert_eq!(open(&schedule(300), 1_250), None);
        assert_eq!(open(&Schedule::new(Nanos::ZERO), 1_250), None);
    }

    #[test]
    fn lost_samples_leave_open_periods_unknown() {
        let mut schedule = schedule(0);
        schedule.begin_drain(3);
        assert_eq!(open(&schedule, 1_250), None);
        schedule.begin_drain(3);
        assert_eq!(open(&schedule, 1_250), Some(3));
    }

    #[test]
    fn longest_wait_lasts_two_drains() {
        let mut schedule = schedule(0);
        let longest = |schedule: &Schedule| schedule.longest().unwrap().map(|wait| wait.length());
        schedule.begin_drain(0);
        schedule.woken(Nanos(1_000), SignedNanos(70));
        schedule.woken(Nanos(1_100), SignedNanos(20));
        assert_eq!(longest(&schedule), Some(Nanos(70)));
        schedule.begin_drain(0);
        schedule.woken(Nanos(1_200), SignedNanos(30));
        assert_eq!(longest(&schedule), Some(Nanos(70)));
        schedule.begin_drain(0);
        assert_eq!(longest(&schedule), Some(Nanos(30)));
    }

    #[test]
    fn overrun_is_late_since_each_due_time() {
        let mut schedule = schedule(0);
        schedule.woken(Nanos(1_000), SignedNanos(250));
        schedule.overrun(Nanos(1_100), 2);
        schedule.passed(Nanos(1_100), 2);
        let late = schedule
            .lateness(None, Nanos(1_250))
            .missed_histogram
            .unwrap();
        assert_eq!(
            (late.min(), late.max()),
            (Some(Nanos(50)), Some(Nanos(150)))
        );
        assert_eq!(open(&schedule, 1_250), None);
    }
}
