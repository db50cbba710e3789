//! Limits the cost of watching jobs to the requested value, by watching only in windows of time.
//!
//! Most of the cost is due to the recording of system calls, because the kernel's tracepoints slow
//! down the calls of all threads. So the cost of the tracepoints is measured, and they are off
//! between windows. A job that begins within a window is watched to its end, so that long jobs are
//! seen as often as short ones.

use punctual_model::{JobWindows, Nanos};
use punctual_trace::CallCost;

/// Minimum length of a window.
const WINDOW: Nanos = Nanos::from_millis(100);

/// Length of the first window, in which the release waits are found. This requires many jobs.
const LEARNING: Nanos = Nanos::from_secs(3);

/// Maximum time after a window to wait for its last jobs.
const LAST_JOBS: Nanos = Nanos::from_secs(1);

/// Cost of watching so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    /// Time for recording system calls, on all CPUs.
    pub(super) calls: Nanos,
    /// CPU time of this program.
    pub(super) own: Nanos,
}

impl Taken {
    /// Returns the cost since an earlier reading.
    fn since(&self, before: &Self) -> Nanos {
        self.calls.saturating_sub(before.calls) + self.own.saturating_sub(before.own)
    }
}

/// State of the jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Whether release waits are still unknown.
    pub(super) learning: bool,
    /// Release time of the oldest unfinished job.
    pub(super) oldest_open: Option<Nanos>,
}

/// Action to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Stay,
    /// Stop watching.
    Shut,
    /// Start watching; the previous window ended at this time.
    Open {
        ended: Nanos,
    },
}

#[derive(Clone, Copy, Debug)]
enum State {
    Open,
    /// Wait for jobs that began before this time.
    Closing(Nanos),
    Shut {
        ended: Nanos,
        until: Nanos,
    },
}

/// Windows of one run.
#[derive(Debug)]
pub(super) struct Windows {
    limit: f64,
    cost: CallCost,
    began: Nanos,
    state: State,
    /// Time of opening the window or of the last check of its cost, and the cost at that time.
    since: Nanos,
    before: Taken,
    first: bool,
    count: u64,
    watched: Nanos,
    taken: Nanos,
}

impl Windows {
    /// `limit`: total CPU time per unit of time.
    pub(super) fn new(limit: f64, cost: CallCost, now: Nanos, before: Taken) -> Self {
        Self {
            limit,
            cost,
            began: now,
            state: State::Open,
            since: now,
            before,
            first: true,
            count: 1,
            watched: Nanos::ZERO,
            taken: Nanos::ZERO,
        }
    }

    pub(super) const fn cost(&self) -> CallCost {
        self.cost
    }

    /// Performs one step at the end of a poll. `taken` is only called if the cost is needed.
    pub(super) fn step(
        &mut self,
        now: Nanos,
        progress: Progress,
        taken: impl FnOnce() -> Taken,
    ) -> Step {
        let open = now.saturating_sub(self.since);
        match self.state {
            State::Open => {
                let learning = self.first && progress.learning && open < LEARNING;
                if open >= WINDOW && !learning {
                    self.look(now, taken());
                }
                Step::Stay
            }
            State::Closing(end) => {
                let waits = progress.oldest_open.is_some_and(|begun| begun < end);
                if waits && now < end + LAST_JOBS {
                    return Step::Stay;
                }
                let share = self.add(now, taken());
                let shut = open.0 as f64 * (share / self.limit - 1.0);
                let until = now + Nanos(shut.max(0.0) as u64);
                self.state = State::Shut { ended: end, until };
                Step::Shut
            }
            State::Shut { ended, until } if now >= until => {
                (self.since, self.before) = (now, taken());
                self.state = State::Open;
                self.count += 1;
                Step::Open { ended }
            }
            State::Shut { .. } => Step::Stay,
        }
    }

    /// Returns the time until the next window; `None` if a window is open.
    pub(super) fn pause(&self, now: Nanos) -> Option<Nanos> {
        match self.state {
            State::Shut { until, .. } => Some(until.saturating_sub(now)),
            State::Open | State::Closing(_) => None,
        }
    }

    /// Decides whether an open window must be closed.
    fn look(&mut self, now: Nanos, taken: Taken) {
        let share = share(taken.since(&self.before), now.saturating_sub(self.since));
        if share > self.limit {
            self.state = State::Closing(now);
        } else {
            self.add(now, taken);
            (self.since, self.before) = (now, taken);
        }
        self.first = false;
    }

    /// Adds the time and cost since the last check. Returns their share of a CPU.
    fn add(&mut self, now: Nanos, taken: Taken) -> f64 {
        let (length, took) = (now.saturating_sub(self.since), taken.since(&self.before));
        self.watched += length;
        self.taken += took;
        share(took, length)
    }

    /// Returns the summary for the recording.
    pub(super) fn finish(&mut self, now: Nanos, taken: Taken) -> JobWindows {
        if !matches!(self.state, State::Shut { .. }) {
            self.add(now, taken);
        }
        JobWindows {
            limit: self.limit,
            taken: share(self.taken, now.saturating_sub(self.began)),
            count: self.count,
            watched_ns: self.watched,
            call_ns: self.cost.watched,
            other_call_ns: self.cost.other,
        }
    }
}

fn share(part: Nanos, of: Nanos) -> f64 {
    part.0 as f64 / of.0.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: Nanos = Nanos::from_millis(20);
    const IDLE: Progress = Progress {
        learning: false,
        oldest_open: None,
    };

    fn ms(count: u64) -> Nanos {
        Nanos::from_millis(count)
    }

    /// A machine on which watching takes `percent` of one CPU while a window is open.
    struct Machine {
        windows: Windows,
        now: Nanos,
        calls: Nanos,
        percent: u64,
        open: bool,
    }

    impl Machine {
        fn new(limit: f64, percent: u64) -> Self {
            let (cost, before) = (CallCost::default(), Taken::default());
            Self {
                windows: Windows::new(limit, cost, Nanos::ZERO, before),
                now: Nanos::ZERO,
                calls: Nanos::ZERO,
                percent,
                open: true,
            }
        }

        fn taken(calls: Nanos) -> Taken {
            Taken {
                calls: Nanos(calls.0 / 3),
                own: Nanos(calls.0 - calls.0 / 3),
            }
        }

        fn turn(&mut self, progress: Progress) -> Step {
            self.now += TURN;
            if self.open {
                self.calls += Nanos(TURN.0 * self.percent / 100);
            }
            let calls = self.calls;
            let step = self.windows.step(self.now, progress, || Self::taken(calls));
            match step {
                Step::Stay => {}
                Step::Shut => self.open = false,
                Step::Open { .. } => self.open = true,
            }
            step
        }

        fn finish(mut self) -> JobWindows {
            let calls = self.calls;
            self.windows.finish(self.now, Self::taken(calls))
        }
    }

    #[test]
    fn cheap_watch_is_continuous() {
        let mut machine = Machine::new(0.02, 1);
        for _ in 0..500 {
            assert_eq!(machine.turn(IDLE), Step::Stay);
        }
        let found = machine.finish();
        assert_eq!((found.count, found.watched_ns), (1, ms(10_000)));
        assert!((found.taken - 0.01).abs() < 0.001, "{found:?}");
    }

    #[test]
    fn costly_watch_is_shortened_to_the_limit() {
        let mut machine = Machine::new(0.02, 20);
        for _ in 0..5_000 {
            machine.turn(IDLE);
        }
        let found = machine.finish();
        assert!((found.taken - 0.02).abs() < 0.002, "{found:?}");
        assert!((80..=100).contains(&found.count), "{found:?}");
        assert!((ms(9_000)..=ms(11_000)).contains(&found.watched_ns));
    }

    #[test]
    fn first_window_for_release_waits_is_longer() {
        let mut machine = Machine::new(0.02, 20);
        let learning = Progress {
            learning: true,
            ..IDLE
        };
        while machine.turn(learning) == Step::Stay {}
        assert!((LEARNING..LEARNING + ms(100)).contains(&machine.now));
        while machine.turn(learning) == Step::Stay {}
        let opened = machine.now;
        while machine.turn(learning) == Step::Stay {}
        assert!(machine.now - opened < ms(200), "only the first is longer");
    }

    #[test]
    fn window_closes_after_its_last_job() {
        let mut machine = Machine::new(0.02, 20);
        let long = Progress {
            oldest_open: Some(ms(50)),
            ..IDLE
        };
        while machine.now < ms(600) {
            assert_eq!(machine.turn(long), Step::Stay);
        }
        // The oldest unfinished job began after the planned end of the window.
        let later = Progress {
            oldest_open: Some(ms(300)),
            ..IDLE
        };
        assert_eq!(machine.windows.pause(machine.now), None);
        assert_eq!(machine.turn(later), Step::Shut);
        let shut = machine.now;
        let pause = machine.windows.pause(shut).unwrap();
        let ended = loop {
            if let Step::Open { ended } = machine.turn(IDLE) {
                break ended;
            }
        };
        assert_eq!(ended, WINDOW);
        assert!((ms(5_500)..=ms(6_500)).contains(&(machine.now - shut)));
        assert!((shut + pause..shut + pause + TURN).contains(&machine.now));
        // The window closes even if a job does not end.
        let begun = machine.now;
        let endless = Progress {
            oldest_open: Some(begun),
            ..IDLE
        };
        while machine.turn(endless) == Step::Stay {}
        assert!(machine.now - begun >= LAST_JOBS);
    }
}
