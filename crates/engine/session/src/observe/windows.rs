//! Windows of time in which jobs are watched, so that this takes no more than was asked for.
//!
//! What takes most is to record system calls: the kernel's tracepoints slow down those of
//! all threads. So their time is measured, and they are off between windows. A job that
//! begins within a window is watched to its end, so that long jobs are seen as often as
//! short ones.

use punctual_model::{JobWindows, Nanos};
use punctual_trace::CallCost;

/// So long a window is open at least.
const WINDOW: Nanos = Nanos::from_millis(100);

/// So long it stays open at first to find release waits, which needs many jobs.
const LEARNING: Nanos = Nanos::from_secs(3);

/// So long after a window its last jobs are waited for.
const LAST_JOBS: Nanos = Nanos::from_secs(1);

/// What watching took so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    /// To record system calls, on all CPUs.
    pub(super) calls: Nanos,
    /// The time of this program on a CPU.
    pub(super) own: Nanos,
}

impl Taken {
    /// Since an earlier look.
    fn since(&self, before: &Self) -> Nanos {
        self.calls.saturating_sub(before.calls) + self.own.saturating_sub(before.own)
    }
}

/// What is known of the jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Release waits are still looked for.
    pub(super) learning: bool,
    /// When the job began that began first of those that have not ended.
    pub(super) oldest_open: Option<Nanos>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Stay,
    /// Nothing is watched from now on.
    Shut,
    /// Watch again; the window before had ended at this time.
    Open {
        ended: Nanos,
    },
}

#[derive(Clone, Copy, Debug)]
enum State {
    Open,
    /// Jobs that began before this time are waited for.
    Closing(Nanos),
    Shut {
        ended: Nanos,
        until: Nanos,
    },
}

/// The windows of one run.
#[derive(Debug)]
pub(super) struct Windows {
    limit: f64,
    cost: CallCost,
    began: Nanos,
    state: State,
    /// When the window opened, or the last look at what it takes; what was taken then.
    since: Nanos,
    before: Taken,
    first: bool,
    count: u64,
    watched: Nanos,
    taken: Nanos,
}

impl Windows {
    /// `limit`: CPU time, all together, per time.
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

    /// At the end of a turn. `taken` is looked at only when it matters.
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

    /// How long nothing is to be done from now on; `None`: a window is open.
    pub(super) fn pause(&self, now: Nanos) -> Option<Nanos> {
        match self.state {
            State::Shut { until, .. } => Some(until.saturating_sub(now)),
            State::Open | State::Closing(_) => None,
        }
    }

    /// Decides whether an open window must close.
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

    /// Adds what was watched since the last look; its share of a CPU.
    fn add(&mut self, now: Nanos, taken: Taken) -> f64 {
        let (length, took) = (now.saturating_sub(self.since), taken.since(&self.before));
        self.watched += length;
        self.taken += took;
        share(took, length)
    }

    /// What is told of them in the end.
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
    fn what_takes_little_is_watched_all_the_time() {
        let mut machine = Machine::new(0.02, 1);
        for _ in 0..500 {
            assert_eq!(machine.turn(IDLE), Step::Stay);
        }
        let found = machine.finish();
        assert_eq!((found.count, found.watched_ns), (1, ms(10_000)));
        assert!((found.taken - 0.01).abs() < 0.001, "{found:?}");
    }

    #[test]
    fn what_takes_much_is_watched_for_so_long_that_the_limit_holds() {
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
    fn release_waits_are_looked_for_in_a_longer_first_window() {
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
    fn a_window_closes_when_its_last_job_has_ended() {
        let mut machine = Machine::new(0.02, 20);
        let long = Progress {
            oldest_open: Some(ms(50)),
            ..IDLE
        };
        while machine.now < ms(600) {
            assert_eq!(machine.turn(long), Step::Stay);
        }
        // Others have begun since the window should have ended.
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
        // One that does not end is given up.
        let begun = machine.now;
        let endless = Progress {
            oldest_open: Some(begun),
            ..IDLE
        };
        while machine.turn(endless) == Step::Stay {}
        assert!(machine.now - begun >= LAST_JOBS);
    }
}
