//! One deadline thread: its periods, as the kernel or as the clock makes them.

use punctual_model::Nanos;
use punctual_rt::{Clock, Instant, Nanosleep, PeriodicWait, Wake};

use super::grid::Grid;
use super::{CLOCK, Length, Times};
use crate::{Control, LaneOutcome, ProbeError, Recorder, SelfCost};

/// The clock of the periods where the kernel makes them.
const RAW: Clock = Clock::MonotonicRaw;

/// So many wake-ups show where the periods begin, before anything counts.
pub(super) const TO_SETTLE: u64 = 20;

/// What one thread found beside its latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) periods: u64,
    pub(super) overruns: u64,
    pub(super) most_cpu: Nanos,
    pub(super) deadlines_missed: u64,
    pub(super) longest: Nanos,
    /// `None` where the thread makes its periods itself.
    pub(super) begun_anew: Option<u64>,
}

impl Tally {
    /// The work of a period: `cpu` of CPU time, done `took` after its start.
    fn add(&mut self, cpu: Nanos, took: Nanos, times: &Times) {
        self.periods += 1;
        self.overruns += u64::from(cpu > times.runtime);
        self.most_cpu = self.most_cpu.max(cpu);
        self.deadlines_missed += u64::from(took > times.deadline);
        self.longest = self.longest.max(took);
    }
}

/// What one thread returns.
pub(super) struct Found {
    pub(super) lane: LaneOutcome,
    pub(super) tally: Tally,
}

pub(super) struct Worker {
    recorder: Recorder,
    times: Times,
    length: Length,
    tally: Tally,
    /// From here on it counts.
    warm_until: Nanos,
    /// The thread's CPU time at the end of the last work.
    cpu_before: Nanos,
}

impl Worker {
    /// Before the start, for it allocates.
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
        let expected = match yields {
            true => self.yielding(Nanos(start.as_nanos()), control),
            false => self.sleeping(Nanos(start.as_nanos()), control)?,
        };
        Ok(Found {
            lane: self.recorder.finish(expected, cost),
            tally: self.tally,
        })
    }

    fn begin(&mut self, first: Nanos) {
        self.recorder.start(first);
        self.warm_until = first + self.length.warm_up;
        self.cpu_before = cpu_time();
    }

    /// Period after period as the kernel makes them; returns how many came due.
    fn yielding(&mut self, start: Nanos, control: &Control) -> u64 {
        let period = self.times.period;
        let end = self
            .length
            .duration
            .map_or(Nanos(u64::MAX), |duration| start + duration);
        std::thread::yield_now();
        let mut done = RAW.now().as_nanos();
        let mut grid = Grid::new(period.0, done);
        for _ in 0..TO_SETTLE {
            std::thread::yield_now();
            let woke = RAW.now().as_nanos();
            grid.wake(done, woke);
            done = RAW.now().as_nanos();
            if control.stopping() {
                break;
            }
        }
        let now = Nanos(CLOCK.now().as_nanos());
        let until_first = grid.begin(RAW.now().as_nanos());
        self.begin(now + Nanos(until_first));
        while !control.stopping() && Nanos(CLOCK.now().as_nanos()) + period <= end {
            std::thread::yield_now();
            let woke = RAW.now().as_nanos();
            let now = Nanos(CLOCK.now().as_nanos());
            let wake = grid.wake(done, woke);
            let due = now.saturating_sub(Nanos(wake.late));
            if wake.missed > 0 {
                let first = due.saturating_sub(Nanos(period.0.saturating_mul(wake.missed)));
                self.recorder.overrun(first, wake.missed, period, now);
            }
            let late = Nanos(wake.late).signed_sub(Nanos::ZERO);
            self.recorder.sample(due, late);
            self.work(due, control);
            done = RAW.now().as_nanos();
        }
        self.tally.begun_anew = Some(grid.moved());
        grid.due()
    }

    /// Period after period by absolute times; returns how many came due.
    fn sleeping(&mut self, start: Nanos, control: &Control) -> Result<u64, ProbeError> {
        let period = self.times.period;
        let end = self
            .length
            .duration
            .map_or(Nanos(u64::MAX), |duration| start + duration);
        let mut sleep = Nanosleep::new(CLOCK)?;
        self.begin(start);
        let mut due = start;
        while due < end && !control.stopping() {
            if sleep.wait_until(Instant::from_nanos(due.0))? == Wake::Interrupted {
                continue;
            }
            let now = Nanos(CLOCK.now().as_nanos());
            self.recorder.sample(due, now.signed_sub(due));
            self.work(due, control);
            due += period;
            let now = Nanos(CLOCK.now().as_nanos());
            if now > due && due < end {
                // Begun while it was busy, and begun before the end.
                let passed = (now - due).0.div_ceil(period.0);
                let passed = passed.min((end - due).0.div_ceil(period.0));
                self.recorder.overrun(due, passed, period, now);
                due += Nanos(passed.saturating_mul(period.0));
            }
        }
        Ok((due - start).0 / period.0)
    }

    /// Uses CPU time as asked, and looks at what the period came to.
    fn work(&mut self, due: Nanos, control: &Control) {
        let begun = cpu_time();
        let mut now = begun;
        while now.saturating_sub(begun) < self.times.work && !control.stopping() {
            now = cpu_time();
        }
        // The wait before it is part of what the reservation paid for.
        let used = now.saturating_sub(self.cpu_before);
        self.cpu_before = now;
        if due >= self.warm_until {
            let took = Nanos(CLOCK.now().as_nanos()).saturating_sub(due);
            self.tally.add(used, took, &self.times);
        }
    }
}

/// CPU time of the calling thread so far.
fn cpu_time() -> Nanos {
    punctual_rt::thread_usage().cpu_time.into()
}
