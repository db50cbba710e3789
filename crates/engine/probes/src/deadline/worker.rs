//! One deadline thread, with periods from the kernel or from the clock.

use punctual_model::Nanos;
use punctual_rt::{Clock, Instant, Nanosleep, PeriodicWait, Wake};

use super::due_times::DueTimes;
use super::{CLOCK, Length, Times};
use crate::run::end_of;
use crate::{Control, ProbeError, Recorder, SelfCost, WorkerOutcome};

/// The clock of the periods if the kernel starts them.
const RAW: Clock = Clock::MonotonicRaw;

/// Number of wake-ups from which the start of the periods is determined, before any of them is
/// counted.
pub(super) const TO_SETTLE: usize = 20;

/// The longest wait for these wake-ups.
const LONGEST_TO_SETTLE: Nanos = Nanos::from_millis(500);

/// One period as seen by the thread. Times are in ns of [`RAW`] unless noted otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeriodTimes {
    /// When the thread finished the work of the previous period.
    pub(super) done: u64,
    /// When the thread woke.
    pub(super) woke: u64,
    /// When the thread woke, on [`CLOCK`].
    pub(super) now: Nanos,
    /// CPU time used by the work and by the wait before it.
    pub(super) used: Nanos,
    /// When the work ended, on [`CLOCK`].
    pub(super) ended: Nanos,
}

/// The results of one thread besides its latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) periods: u64,
    pub(super) overruns: u64,
    pub(super) most_cpu: Nanos,
    pub(super) deadlines_missed: u64,
    pub(super) longest: Nanos,
    /// Number of times that the kernel restarted the periods; `None` if the thread times its
    /// periods itself.
    pub(super) begun_anew: Option<u64>,
}

impl Tally {
    /// Adds the work of a period, which used the CPU time `cpu` and ended `took` after the start of
    /// the period.
    fn add(&mut self, cpu: Nanos, took: Nanos, times: &Times) {
        self.periods += 1;
        self.overruns += u64::from(cpu > times.runtime);
        self.most_cpu = self.most_cpu.max(cpu);
        self.deadlines_missed += u64::from(took > times.deadline);
        self.longest = self.longest.max(took);
    }
}

/// The result of one thread.
pub(super) struct Found {
    pub(super) worker: WorkerOutcome,
    pub(super) tally: Tally,
}

pub(super) struct Worker {
    recorder: Recorder,
    times: Times,
    length: Length,
    tally: Tally,
    /// Samples before this time are warm-up.
    warm_until: Nanos,
    /// The thread's CPU time at the end of the last work.
    cpu_before: Nanos,
}

impl Worker {
    /// Call this before the start, because it allocates memory.
    pub(super) fn new(mut recorder: Recorder, times: Times, length: Length) -> Self {
        recorder.count_overruns();
        Self {
            recorder,
            times,
            length,
            tally: Tally::default(),
            warm_until: Nanos::ZERO,
            cpu_before: Nanos::ZERO,
        }
    }

    pub(super) fn run(
        mut self,
        yields: bool,
        start: Instant,
        cost: SelfCost,
        control: &Control,
    ) -> Result<Found, ProbeError> {
        let expected = if yields {
            self.yielding(Nanos(start.as_nanos()), control)
        } else {
            self.sleeping(Nanos(start.as_nanos()), control)?
        };
        Ok(self.finish(expected, cost))
    }

    pub(super) fn finish(self, expected: u64, cost: SelfCost) -> Found {
        Found {
            worker: self.recorder.finish(expected, cost),
            tally: self.tally,
        }
    }

    fn begin(&mut self, first: Nanos) {
        self.recorder.start(first);
        self.warm_until = first + self.length.warm_up;
    }

    /// Runs periods that the kernel starts. Returns how many came due.
    fn yielding(&mut self, start: Nanos, control: &Control) -> u64 {
        let period = self.times.period;
        let end = end_of(start, self.length.duration);
        let mut first = Vec::with_capacity(TO_SETTLE);
        let mut grid = None;
        self.cpu_before = cpu_time();
        let mut done = RAW.now().as_nanos();
        let mut next = start;
        while !control.stopping() && next <= end {
            std::thread::yield_now();
            let woke = RAW.now().as_nanos();
            let now = Nanos(CLOCK.now().as_nanos());
            let used = self.work(control);
            let ended = Nanos(CLOCK.now().as_nanos());
            let seen = PeriodTimes {
                done,
                woke,
                now,
                used,
                ended,
            };
            match &mut grid {
                Some(grid) => self.count(grid, seen),
                None => {
                    first.push(seen);
                    if first.len() == TO_SETTLE || now >= start + LONGEST_TO_SETTLE {
                        grid = Some(self.settle(&first));
                    }
                }
            }
            done = RAW.now().as_nanos();
            next = now + period;
        }
        let grid = grid.unwrap_or_else(|| self.settle(&first));
        self.tally.begun_anew = Some(grid.moved());
        grid.due()
    }

    /// Derives the start of the periods from the earliest of the first wake-ups, and then counts
    /// all these wake-ups.
    pub(super) fn settle(&mut self, first: &[PeriodTimes]) -> DueTimes {
        let Some(earliest) = first.first() else {
            self.begin(Nanos(CLOCK.now().as_nanos()));
            let mut empty = DueTimes::new(self.times.period.0, 0);
            empty.restart_at(0);
            return empty;
        };
        let mut grid = DueTimes::new(self.times.period.0, earliest.woke);
        for seen in &first[1..] {
            grid.wake(seen.done, seen.woke);
        }
        let late = grid.restart_at(earliest.woke);
        self.begin(earliest.now.saturating_sub(Nanos(late)));
        for seen in first {
            self.count(&mut grid, *seen);
        }
        grid
    }

    /// Counts one period.
    fn count(&mut self, grid: &mut DueTimes, seen: PeriodTimes) {
        let period = self.times.period;
        let wake = grid.wake(seen.done, seen.woke);
        let due = seen.now.saturating_sub(Nanos(wake.late));
        if wake.missed > 0 {
            let first = due.saturating_sub(Nanos(period.0.saturating_mul(wake.missed)));
            self.recorder.overrun(first, wake.missed, period, seen.now);
        }
        let late = Nanos(wake.late).signed_sub(Nanos::ZERO);
        self.recorder.sample(due, late);
        self.tally_of(due, seen.used, seen.ended);
    }

    /// Runs periods that start at absolute times. Returns how many came due.
    fn sleeping(&mut self, start: Nanos, control: &Control) -> Result<u64, ProbeError> {
        let period = self.times.period;
        let end = end_of(start, self.length.duration);
        let mut sleep = Nanosleep::new(CLOCK)?;
        self.begin(start);
        self.cpu_before = cpu_time();
        let mut due = start;
        while due < end && !control.stopping() {
            if sleep.wait_until(Instant::from_nanos(due.0))? == Wake::Interrupted {
                continue;
            }
            let now = Nanos(CLOCK.now().as_nanos());
            self.recorder.sample(due, now.signed_sub(due));
            let used = self.work(control);
            self.tally_of(due, used, Nanos(CLOCK.now().as_nanos()));
            due += period;
            let now = Nanos(CLOCK.now().as_nanos());
            if now > due && due < end {
                // Periods that began while the thread was busy and before the end of the run.
                let passed = (now - due).0.div_ceil(period.0);
                let passed = passed.min((end - due).0.div_ceil(period.0));
                self.recorder.overrun(due, passed, period, now);
                due += Nanos(passed.saturating_mul(period.0));
            }
        }
        Ok((due - start).0 / period.0)
    }

    /// Uses the requested CPU time. Returns the CPU time used since the previous work.
    fn work(&mut self, control: &Control) -> Nanos {
        let begun = cpu_time();
        let mut now = begun;
        while now.saturating_sub(begun) < self.times.work && !control.stopping() {
            now = cpu_time();
        }
        // The wait before the work also uses some of the reserved runtime.
        let used = now.saturating_sub(self.cpu_before);
        self.cpu_before = now;
        used
    }

    /// Adds the work of a period to the tally, unless the period is in the warm-up.
    fn tally_of(&mut self, due: Nanos, used: Nanos, ended: Nanos) {
        if due >= self.warm_until {
            self.tally.add(used, ended.saturating_sub(due), &self.times);
        }
    }
}

/// Returns the CPU time of the calling thread so far.
fn cpu_time() -> Nanos {
    punctual_rt::thread_usage().cpu_time.into()
}
