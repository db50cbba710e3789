//! One measuring thread of the timer probe: its start, and its loop.

use punctual_model::{Nanos, SignedNanos};
use punctual_rt::{Clock, Instant, Nanosleep, PeriodicWait, SignalTimer, TimerFd, Wake};

use crate::run::end_of;
use crate::{Control, ProbeError, Recorder, SelfCost, WorkerOutcome};

/// The start times of the threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin {
    pub(super) aligned: bool,
    pub(super) full_second: bool,
    /// Time from a multiple of `interval` to the start; `None` to start at any time.
    pub(super) phase: Option<Nanos>,
    pub(super) interval: Nanos,
    pub(super) offset: Nanos,
}

impl Begin {
    /// Returns the first due time of the thread at `place` if all threads may begin at `start`.
    pub(super) fn first(self, start: Nanos, place: u64, spread: u64) -> Nanos {
        const SECOND: u64 = 1_000_000_000;
        /// If the next second is closer than this, the one after it is used.
        const ALMOST: u64 = 100_000_000;
        let offset = self.offset.0;
        let by_place = |each: u64| Nanos(each.saturating_mul(place));
        if self.full_second {
            let second = (start.0 + ALMOST).div_ceil(SECOND) * SECOND;
            return Nanos(second + offset);
        }
        let start = self.phase.map_or(start, |phase| {
            let intervals = start.saturating_sub(phase).0.div_ceil(self.interval.0);
            Nanos(intervals * self.interval.0) + phase
        });
        if self.aligned {
            start + by_place(offset)
        } else {
            start + Nanos(offset) + by_place(spread)
        }
    }
}

/// The inputs of one measuring thread.
pub(super) struct Worker {
    pub(super) recorder: Recorder,
    pub(super) cost: SelfCost,
    pub(super) wait: &'static str,
    pub(super) clock: Clock,
    /// How far `clock` is ahead of [`CLOCK`].
    pub(super) ahead: SignedNanos,
    pub(super) interval: Nanos,
    pub(super) begin: Begin,
    pub(super) index: u64,
    pub(super) spread: u64,
    pub(super) duration: Option<Nanos>,
    pub(super) wakeups: u64,
    /// The number of threads.
    pub(super) threads: u64,
}

/// The result of a loop.
pub(super) struct Turned {
    /// Number of periods that came due according to the clock.
    due: u64,
    /// Whether the loop ended because it reached its number of wake-ups.
    complete: bool,
}

/// The periods of one thread.
#[derive(Clone, Copy)]
pub(super) struct Schedule {
    pub(super) first: Nanos,
    pub(super) interval: Nanos,
    /// No period begins at or after this.
    pub(super) end: Nanos,
    pub(super) clock: Clock,
    /// How far `clock` is ahead of [`CLOCK`].
    pub(super) ahead: SignedNanos,
    /// The number of samples at which the thread ends.
    pub(super) wakeups: u64,
}

impl Schedule {
    /// Converts a time to [`CLOCK`].
    #[inline]
    fn placed(&self, due: Nanos) -> Nanos {
        Nanos(due.0.saturating_add_signed(self.ahead.0.saturating_neg()))
    }
}

impl Worker {
    /// Call this on the CPU of the worker, before the start.
    pub(super) fn ready(self) -> Self {
        let mut ready = Self {
            cost: SelfCost::measure(self.clock),
            ..self
        };
        if ready.has_periods() {
            ready.recorder.count_overruns();
        }
        ready
    }

    /// Returns whether periods come due independently of the thread. Relative sleeps have no
    /// periods, and no overruns.
    fn has_periods(&self) -> bool {
        self.wait != "relative"
    }

    pub(super) fn run(
        mut self,
        control: &Control,
        start: Instant,
    ) -> Result<WorkerOutcome, ProbeError> {
        let start = Nanos(start.as_nanos().saturating_add_signed(self.ahead.0));
        let first = self.begin.first(start, self.index, self.spread);
        let schedule = Schedule {
            first,
            interval: self.interval,
            end: end_of(first, self.duration),
            clock: self.clock,
            ahead: self.ahead,
            wakeups: self.wakeups,
        };
        self.recorder.start(schedule.placed(first));
        let turned = self.measure(schedule, control)?;
        let outcome = self.recorder.finish(turned.due, self.cost);
        if turned.complete {
            control.complete(self.threads, self.interval);
        }
        Ok(outcome)
    }

    fn measure(
        &mut self,
        schedule: Schedule,
        control: &Control,
    ) -> Result<Turned, punctual_rt::Error> {
        let first = Instant::from_nanos(schedule.first.0);
        let interval = schedule.interval.into();
        if self.has_periods() {
            let end = schedule.placed(schedule.end);
            self.recorder.set_schedule(schedule.interval, end);
        }
        let recorder = &mut self.recorder;
        match self.wait {
            "timerfd" => {
                let mut wait = TimerFd::new(self.clock, first, interval)?;
                turn(&mut wait, schedule, recorder, control)
            }
            "signal" => {
                let mut wait = SignalTimer::new(self.clock, first, interval)?;
                turn(&mut wait, schedule, recorder, control)
            }
            "relative" => drift(Nanosleep::new(self.clock)?, schedule, recorder, control),
            _ => {
                let mut wait = Nanosleep::new(self.clock)?;
                turn(&mut wait, schedule, recorder, control)
            }
        }
    }
}

/// The measuring loop: sleep to the next absolute time, read the clock, record.
fn turn<W: PeriodicWait>(
    wait: &mut W,
    schedule: Schedule,
    recorder: &mut Recorder,
    control: &Control,
) -> Result<Turned, punctual_rt::Error> {
    let Schedule {
        first,
        interval,
        end,
        clock,
        ..
    } = schedule;
    let mut due = first;
    let mut left = schedule.wakeups;
    while due < end && !control.stopping() {
        if wait.wait_until(Instant::from_nanos(due.0))? == Wake::Interrupted {
            continue;
        }
        let now = Nanos(clock.now().as_nanos());
        recorder.sample(schedule.placed(due), now.signed_sub(due));
        due += interval;
        left -= 1;
        if left == 0 {
            break;
        }
        if now >= due {
            due += overrun(now, due, &schedule, recorder);
        }
    }
    Ok(Turned {
        due: (due - first).0 / interval.0,
        complete: left == 0,
    })
}

/// Like [`turn`], but with relative sleeps, so each iteration starts from the current time. No
/// period is missed, and the number of due periods equals the number of iterations.
fn drift(
    mut wait: Nanosleep,
    schedule: Schedule,
    recorder: &mut Recorder,
    control: &Control,
) -> Result<Turned, punctual_rt::Error> {
    let (first, interval) = (schedule.first, schedule.interval);
    let sleep = interval.into();
    while !control.stopping() && wait.wait_until(Instant::from_nanos(first.0))? != Wake::Due {}
    let mut turns = 0;
    while !control.stopping() && turns < schedule.wakeups {
        let before = Nanos(schedule.clock.now().as_nanos());
        if before >= schedule.end {
            break;
        }
        if wait.sleep_for(sleep)? == Wake::Interrupted {
            continue;
        }
        let now = Nanos(schedule.clock.now().as_nanos());
        let due = before + interval;
        recorder.sample(schedule.placed(due), now.signed_sub(due));
        turns += 1;
    }
    Ok(Turned {
        due: turns,
        complete: turns == schedule.wakeups,
    })
}

/// Counts the periods, starting at `due`, that have passed by `now`, and returns their total time.
/// Overruns are rare, so the division is kept out of the loop.
#[cold]
pub(super) fn overrun(
    now: Nanos,
    due: Nanos,
    schedule: &Schedule,
    recorder: &mut Recorder,
) -> Nanos {
    let interval = schedule.interval;
    // Periods at or after the end are not part of the run.
    let left = (schedule.end - due).0.div_ceil(interval.0);
    let passed = ((now - due).0 / interval.0 + 1).min(left);
    recorder.overrun(schedule.placed(due), passed, interval, schedule.placed(now));
    Nanos(passed.saturating_mul(interval.0))
}
