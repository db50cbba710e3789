//! Chooses when to read the events of the watched threads. While nothing needs attention, the BPF
//! programs wake this thread.

use std::time::Duration;

use punctual_model::Nanos;

use super::TURN;

/// Longest time without reading, which is the usual length of a row of the time series.
pub(super) const LONGEST: Nanos = Nanos::from_secs(1);

/// Turns stay short for this long after a change of the watched threads, and after an event of a
/// thread that is learnt. They also stay short after any event, if counters of the machine must be
/// read often.
const ATTENTIVE: Nanos = Nanos::from_secs(1);

/// Interval of commits while nothing new was measured. They only update the duration.
const UNCHANGED: Nanos = Nanos::from_secs(10);

/// The next times at which this thread must read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    /// Whether the programs do not show everything, so that each turn must be short.
    pub(super) always: bool,
    /// Time of the next random window.
    pub(super) window: Option<Nanos>,
    /// Time at which the oldest job becomes a long one.
    pub(super) long_job: Option<Nanos>,
}

/// Longest time without a search for processes that have joined the watched ones. The programs show
/// nearly all of them.
const LISTED: Nanos = Nanos::from_secs(10);

/// When to read, to look for new threads, and to commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    attentive_until: Nanos,
    /// Time of the last search for watched threads.
    listed: Nanos,
    /// Time at which the counts of the kernel were last read.
    counted: Nanos,
    /// Whether a watched thread has done anything since the last window began.
    pub(super) active: bool,
    /// Whether there may be new or ended threads.
    pub(super) changed: bool,
    /// Whether something was measured since the last commit.
    pub(super) measured: bool,
}

impl Pace {
    pub(super) const fn new(now: Nanos) -> Self {
        let mut pace = Self {
            attentive_until: Nanos::ZERO,
            listed: Nanos::ZERO,
            counted: Nanos::ZERO,
            active: true,
            changed: true,
            measured: true,
        };
        pace.attend(now);
        pace
    }

    /// Makes the next turns short.
    pub(super) const fn attend(&mut self, now: Nanos) {
        self.attentive_until = Nanos(now.0.saturating_add(ATTENTIVE.0));
    }

    /// Returns the time until the next turn.
    pub(super) fn next_turn(&self, now: Nanos, due: Due) -> Duration {
        if due.always || now < self.attentive_until {
            return TURN;
        }
        let window = due.window.filter(|_| self.active);
        // A window may not open at once if it would cost too much.
        let times = [window, due.long_job.filter(|at| *at > now)];
        let next = times.into_iter().flatten().min();
        let left = next.map_or(LONGEST, |at| at.saturating_sub(now).min(LONGEST));
        Duration::from(left).max(TURN)
    }

    /// Returns whether to search for watched threads now. `is_open`: whether other processes may join
    /// them; `joined`: whether one may have done so.
    pub(super) fn must_list(&mut self, now: Nanos, is_open: bool, joined: bool) -> bool {
        let changed = std::mem::take(&mut self.changed) || joined;
        let must = changed || (is_open && now.saturating_sub(self.listed) >= LISTED);
        if must {
            self.listed = now;
        }
        must
    }

    /// Returns whether to read the counts of the kernel now.
    pub(super) fn must_count(&mut self, now: Nanos, interval: Nanos) -> bool {
        let must = now.saturating_sub(self.counted) >= interval;
        if must {
            self.counted = now;
        }
        must
    }

    /// Returns the time between two commits; `usual` if something was measured.
    pub(super) const fn commit_interval(&self, usual: Nanos) -> Nanos {
        if self.measured { usual } else { UNCHANGED }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Due = Due {
        always: false,
        window: None,
        long_job: None,
    };

    fn at(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    #[test]
    fn idle_threads_are_read_once_a_second() {
        let mut pace = Pace::new(at(1));
        assert_eq!(pace.next_turn(at(1), NOTHING), TURN);
        assert_eq!(pace.next_turn(at(2), NOTHING), Duration::from_secs(1));
        pace.attend(at(5));
        assert_eq!(pace.next_turn(at(5), NOTHING), TURN);
        let always = Due {
            always: true,
            ..NOTHING
        };
        assert_eq!(pace.next_turn(at(9), always), TURN);
    }

    #[test]
    fn windows_and_long_jobs_are_not_late() {
        let mut pace = Pace::new(at(0));
        let soon = at(2) + Nanos::from_millis(300);
        let due = Due {
            window: Some(soon),
            ..NOTHING
        };
        assert_eq!(pace.next_turn(at(2), due), Duration::from_millis(300));
        // A window that is overdue is tried again with the next events.
        assert_eq!(pace.next_turn(at(3), due), TURN);
        pace.active = false;
        assert_eq!(pace.next_turn(at(2), due), Duration::from_secs(1));
        let due = Due {
            long_job: Some(soon),
            ..NOTHING
        };
        assert_eq!(pace.next_turn(at(2), due), Duration::from_millis(300));
        assert_eq!(pace.next_turn(at(3), due), Duration::from_secs(1));
    }

    #[test]
    fn threads_are_listed_after_changes() {
        let mut pace = Pace::new(at(0));
        assert!(pace.must_list(at(20), false, false));
        assert!(!pace.must_list(at(29), true, false));
        assert!(pace.must_list(at(29), true, true));
        assert!(!pace.must_list(at(38), true, false));
        assert!(pace.must_list(at(39), true, false));
        assert!(!pace.must_list(at(99), false, false));
    }

    #[test]
    fn commits_are_rare_while_nothing_is_measured() {
        let mut pace = Pace::new(at(0));
        let usual = Nanos::from_millis(500);
        assert_eq!(pace.commit_interval(usual), usual);
        pace.measured = false;
        assert_eq!(pace.commit_interval(usual), at(10));
    }
}
