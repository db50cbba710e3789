//! Chooses when jobs are watched in the full stage, which also records system calls, page faults and
//! interrupts. This slows down all threads of the machine, so it is limited to windows of time.
//!
//! A window opens after an outlier in the light stage, because its cause usually repeats, for a job
//! that does not end, and at random times. In most random windows, the kernel counts the jobs as in the
//! light stage, and only those that are too long are read. Windows may use the requested share of a CPU in total. One
//! that an outlier opens may use more at first; later windows then wait until the share of the
//! whole run is low enough. A job that begins within a window is watched to its end.

use punctual_model::{JobWindows, Nanos};
use punctual_trace::{CallCost, Stage};

/// Random windows use this part of the share at most. Outliers, whose causes usually repeat, may use
/// the rest.
const RANDOM_PART: f64 = 0.125;

/// Each of so many random windows shows the waits of all threads. In the others, the kernel continues to
/// count jobs.
const PER_LOOK: u64 = 16;

/// Length of a window without a special reason.
const WINDOW: Nanos = Nanos::from_millis(100);

/// Maximum length of a window that waits for outliers.
const LONGEST: Nanos = Nanos::from_secs(10);

/// Number of outliers for which such a window waits: two causes may take turns.
const OUTLIERS: u64 = 2;

/// Maximum time after a window to wait for its last jobs.
const LAST_JOBS: Nanos = Nanos::from_secs(1);

/// Windows for outliers may use the share of the run so far and of this time.
const CREDIT: Nanos = Nanos::from_secs(30);

/// Assumed share of a CPU that the full stage uses, until it has been measured.
const USUAL_SHARE: f64 = 0.3;

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
    /// Whether a job has not ended for a long time.
    pub(super) long_job: bool,
    /// Whether a watched thread has done anything since the last window began.
    pub(super) active: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Light,
    /// Opened at a time with a cost, for this many outliers.
    Open {
        since: Nanos,
        before: Taken,
        wanted: u64,
    },
    /// Waits for jobs that began before `end`.
    Closing {
        since: Nanos,
        before: Taken,
        end: Nanos,
    },
}

/// Windows of one run.
#[derive(Debug)]
pub(super) struct Windows {
    limit: f64,
    cost: CallCost,
    began: Nanos,
    state: State,
    /// Time before which no window opens without a special reason.
    next: Nanos,
    /// Outliers of each stage since the last step.
    in_light: u64,
    in_full: u64,
    count: u64,
    /// Number of random windows.
    random: u64,
    /// Whether the jobs in this window are read, and not counted in the kernel.
    reads: bool,
    watched: Nanos,
    taken: Nanos,
}

impl Windows {
    /// `limit`: CPU time for windows per unit of time.
    pub(super) const fn new(limit: f64, cost: CallCost, now: Nanos) -> Self {
        Self {
            limit,
            cost,
            began: now,
            state: State::Light,
            next: now,
            in_light: 0,
            in_full: 0,
            count: 0,
            random: 0,
            reads: false,
            watched: Nanos::ZERO,
            taken: Nanos::ZERO,
        }
    }

    /// Returns whether a window is open in which the jobs of all threads are read.
    pub(super) const fn reads(&self) -> bool {
        !matches!(self.state, State::Light) && self.reads
    }

    pub(super) const fn cost(&self) -> CallCost {
        self.cost
    }

    /// Returns the time at which the next random window may open, or `None` if steps are needed all
    /// the time, because a window is open.
    pub(super) fn next(&self) -> Option<Nanos> {
        match self.state {
            State::Light => Some(self.next.max(self.is_paid_at())),
            State::Open { .. } | State::Closing { .. } => None,
        }
    }

    /// Counts an outlier.
    pub(super) const fn saw(&mut self, stage: Stage) {
        match stage {
            Stage::Light => self.in_light += 1,
            Stage::Full => self.in_full += 1,
        }
    }

    /// Performs one step at the end of a poll. Returns the stage to enter, if it changes. `taken` is
    /// only called if the cost is needed.
    pub(super) fn step(
        &mut self,
        now: Nanos,
        progress: Progress,
        taken: impl FnOnce() -> Taken,
    ) -> Option<Stage> {
        let in_light = std::mem::take(&mut self.in_light);
        let in_full = std::mem::take(&mut self.in_full);
        match self.state {
            State::Light => {
                let for_outliers = in_light > 0 && !progress.learning;
                let special = for_outliers || progress.long_job;
                // The other half of the credit is left for the window itself, which would otherwise
                // close before the next outlier.
                let credit = if for_outliers {
                    Nanos(CREDIT.0 / 2)
                } else {
                    Nanos::ZERO
                };
                if self.is_in_debt(now + credit)
                    || (!special && (progress.learning || !progress.active || now < self.next))
                {
                    return None;
                }
                self.state = State::Open {
                    since: now,
                    before: taken(),
                    wanted: if for_outliers { OUTLIERS } else { 0 },
                };
                self.count += 1;
                self.reads = special || self.random.is_multiple_of(PER_LOOK);
                self.random += u64::from(!special);
                Some(Stage::Full)
            }
            State::Open {
                since,
                before,
                wanted,
            } => {
                // An outlier in this window may be several jobs without a wait in between.
                self.reads |= in_light + in_full > 0;
                let wanted = match in_light {
                    0 => wanted.saturating_sub(in_full),
                    // This job began before the window.
                    _ => OUTLIERS,
                };
                // A window that waits for outliers closes when it has used the credit.
                let may_wait =
                    wanted > 0 && self.taken + taken().since(&before) <= self.allowed(now + CREDIT);
                let least = if may_wait { LONGEST } else { WINDOW };
                self.state = if now.saturating_sub(since) < least {
                    State::Open {
                        since,
                        before,
                        wanted,
                    }
                } else {
                    State::Closing {
                        since,
                        before,
                        end: now,
                    }
                };
                None
            }
            State::Closing { since, before, end } => {
                let waits = progress.oldest_open.is_some_and(|begun| begun < end);
                self.in_light = in_light;
                if waits && now < end + LAST_JOBS {
                    return None;
                }
                self.add((since, before), now, taken());
                self.state = State::Light;
                self.next = now + self.rest(now);
                Some(Stage::Light)
            }
        }
    }

    /// Returns whether the windows have used more than the requested share of the run so far.
    fn is_in_debt(&self, now: Nanos) -> bool {
        self.taken > self.allowed(now)
    }

    /// Returns the time at which the cost so far is no more than the requested share.
    fn is_paid_at(&self) -> Nanos {
        let needed = (self.taken.0 as f64 / self.limit).ceil() as u64;
        Nanos(self.began.0.saturating_add(needed))
    }

    /// Returns the cost that windows may have at this time.
    fn allowed(&self, now: Nanos) -> Nanos {
        Nanos((self.limit * now.saturating_sub(self.began).0 as f64) as u64)
    }

    /// Returns the time until the next random window.
    fn rest(&self, now: Nanos) -> Nanos {
        let share = match self.watched {
            Nanos::ZERO => USUAL_SHARE,
            watched => share(self.taken, watched),
        };
        let mean = WINDOW.0 as f64 * (share / (RANDOM_PART * self.limit)).max(1.0);
        // The lowest digits of the time are as good as random. The factor is between 0.5 and 1.5.
        let factor = 0.5 + (now.0 % 1_000) as f64 / 1_000.0;
        Nanos((mean * factor) as u64)
    }

    /// Adds the time and cost of a window.
    fn add(&mut self, (since, before): (Nanos, Taken), now: Nanos, taken: Taken) {
        self.watched += now.saturating_sub(since);
        self.taken += taken.since(&before);
    }

    /// Returns the summary for the recording.
    pub(super) fn finish(&mut self, now: Nanos, taken: Taken) -> JobWindows {
        if let State::Open { since, before, .. } | State::Closing { since, before, .. } = self.state
        {
            self.add((since, before), now, taken);
            self.state = State::Light;
        }
        JobWindows {
            limit: self.limit,
            taken: share(self.taken, now.saturating_sub(self.began)),
            count: self.count,
            watched_ns: self.watched,
            call_ns: self.cost.watched,
            other_call_ns: self.cost.other,
            light_between: true,
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
    const QUIET: Progress = Progress {
        learning: false,
        oldest_open: None,
        long_job: false,
        active: true,
    };

    fn ms(count: u64) -> Nanos {
        Nanos::from_millis(count)
    }

    /// A machine on which the full stage takes `percent` of one CPU.
    struct Machine {
        windows: Windows,
        now: Nanos,
        calls: Nanos,
        percent: u64,
        stage: Stage,
    }

    impl Machine {
        fn new(limit: f64, percent: u64) -> Self {
            Self {
                windows: Windows::new(limit, CallCost::default(), Nanos::ZERO),
                now: Nanos::ZERO,
                calls: Nanos::ZERO,
                percent,
                stage: Stage::Light,
            }
        }

        fn taken(calls: Nanos) -> Taken {
            Taken {
                calls: Nanos(calls.0 / 3),
                own: Nanos(calls.0 - calls.0 / 3),
            }
        }

        fn turn(&mut self, progress: Progress) -> Option<Stage> {
            // The lowest digits of real times differ.
            self.now += TURN + Nanos(self.now.0 / 20 * 7_919 % 997);
            if self.stage == Stage::Full {
                self.calls += Nanos(TURN.0 * self.percent / 100);
            }
            let calls = self.calls;
            let step = self.windows.step(self.now, progress, || Self::taken(calls));
            self.stage = step.unwrap_or(self.stage);
            step
        }

        fn finish(mut self) -> JobWindows {
            let calls = self.calls;
            self.windows.finish(self.now, Self::taken(calls))
        }
    }

    #[test]
    fn random_windows_use_a_part_of_the_share() {
        let mut machine = Machine::new(0.02, 20);
        for _ in 0..50_000 {
            machine.turn(QUIET);
        }
        let found = machine.finish();
        assert!((0.0015..0.0035).contains(&found.taken), "{found:?}");
        assert!(found.count > 50, "{found:?}");
    }

    #[test]
    fn few_random_windows_read_all_jobs() {
        let mut machine = Machine::new(0.02, 20);
        let (mut all, mut reading, mut first) = (0_u64, 0, None);
        for _ in 0..50_000 {
            if machine.turn(QUIET) == Some(Stage::Full) {
                all += 1;
                reading += u64::from(machine.windows.reads());
                first.get_or_insert(machine.windows.reads());
            }
        }
        assert_eq!((first, reading), (Some(true), all.div_ceil(PER_LOOK)));
        while machine.stage == Stage::Full {
            machine.turn(QUIET);
        }
        assert!(!machine.windows.reads());
        machine.windows.next = Nanos(u64::MAX);
        machine.windows.saw(Stage::Light);
        assert_eq!(machine.turn(QUIET), Some(Stage::Full));
        assert!(machine.windows.reads());
    }

    #[test]
    fn no_window_while_release_wait_is_unknown() {
        let mut machine = Machine::new(0.02, 20);
        let learning = Progress {
            learning: true,
            ..QUIET
        };
        for _ in 0..500 {
            assert_eq!(machine.turn(learning), None);
        }
    }

    #[test]
    fn no_random_window_for_idle_threads() {
        let mut machine = Machine::new(0.02, 20);
        let idle = Progress {
            active: false,
            ..QUIET
        };
        for _ in 0..500 {
            assert_eq!(machine.turn(idle), None);
        }
        machine.windows.saw(Stage::Light);
        assert_eq!(machine.turn(idle), Some(Stage::Full));
    }

    /// The cause of an outlier repeats each second: the third is in the full stage, and the share of
    /// a long run is kept.
    #[test]
    fn repeated_outliers_are_soon_in_full_stage() {
        let mut machine = Machine::new(0.02, 20);
        machine.windows.next = Nanos(u64::MAX);
        let mut stages = Vec::new();
        for turn in 1..150_000_u64 {
            if turn % 50 == 0 {
                let stage = machine.stage;
                stages.push(stage);
                machine.windows.saw(stage);
            }
            machine.turn(QUIET);
        }
        assert_eq!(stages[..3], [Stage::Light, Stage::Full, Stage::Full]);
        assert!(stages.iter().filter(|one| **one == Stage::Full).count() > 150);
        let found = machine.finish();
        assert!((0.015..0.022).contains(&found.taken), "{found:?}");
    }

    /// Recording uses a whole CPU, and only one outlier occurs.
    #[test]
    fn costly_window_closes_when_credit_is_used() {
        let mut machine = Machine::new(0.02, 100);
        machine.windows.next = Nanos(u64::MAX);
        machine.windows.saw(Stage::Light);
        assert_eq!(machine.turn(QUIET), Some(Stage::Full));
        while machine.turn(QUIET).is_none() {}
        let found = machine.finish();
        let most = Nanos::from_secs(30).0 as f64 * 0.02;
        assert!((found.watched_ns.0 as f64) < most * 1.1, "{found:?}");
    }

    /// Until then, no turn could open a random window.
    #[test]
    fn next_random_window_waits_until_paid() {
        let mut machine = Machine::new(0.02, 20);
        machine.windows.saw(Stage::Light);
        while machine.turn(QUIET) != Some(Stage::Light) {}
        let next = machine.windows.next().unwrap();
        assert!(next > machine.windows.next, "{next}");
        assert!(machine.windows.is_in_debt(next - ms(1)) && !machine.windows.is_in_debt(next));
    }

    #[test]
    fn long_job_opens_a_window() {
        let mut machine = Machine::new(0.02, 20);
        machine.windows.next = Nanos(u64::MAX);
        assert_eq!(machine.turn(QUIET), None);
        let long = Progress {
            long_job: true,
            oldest_open: Some(ms(1)),
            ..QUIET
        };
        assert_eq!(machine.turn(long), Some(Stage::Full));
        let opened = machine.now;
        // The window closes even if the job does not end.
        while machine.turn(long).is_none() {}
        assert_eq!(machine.stage, Stage::Light);
        assert!(machine.now - opened >= LAST_JOBS);
        // There is no other window before the share of the run is low enough.
        assert_eq!(machine.turn(long), None);
    }

    #[test]
    fn window_closes_after_its_last_job() {
        let mut machine = Machine::new(0.02, 20);
        assert_eq!(machine.turn(QUIET), Some(Stage::Full));
        let opened = machine.now;
        let long = Progress {
            oldest_open: Some(opened + ms(50)),
            ..QUIET
        };
        while machine.now < opened + ms(600) {
            assert_eq!(machine.turn(long), None);
        }
        // The oldest unfinished job began after the planned end of the window.
        let later = Progress {
            oldest_open: Some(opened + ms(500)),
            ..QUIET
        };
        assert_eq!(machine.turn(later), Some(Stage::Light));
    }
}
