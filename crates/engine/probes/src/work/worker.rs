//! The thread of one CPU: does a piece of work in each period, and records its execution time.

use std::time::Duration;

use punctual_model::Nanos;
use punctual_rt::{Clock, Instant, Nanosleep, PeriodicWait, Wake};

use super::calibration::{LONGEST, time_of};
use super::counting::{Counting, Events, Values};
use super::piece::{Kind, Piece};
use crate::monotonic::now;
use crate::run::end_of;
use crate::{Control, ProbeError, Recorder, SelfCost, WorkerOutcome};

/// The clock of the periods and of the execution times.
const CLOCK: Clock = Clock::Monotonic;

/// The inputs of one thread.
pub(super) struct Worker {
    pub(super) recorder: Recorder,
    pub(super) cpu: u32,
    pub(super) kind: Kind,
    pub(super) iterations: u64,
    pub(super) interval: Nanos,
    /// Time from the common start to the first period.
    pub(super) offset: Duration,
    pub(super) duration: Option<Nanos>,
    pub(super) warm_up: Nanos,
    /// The events to count; `None` to count nothing.
    pub(super) events: Option<Events>,
}

/// A thread that is ready for its first period.
pub(super) struct Loop {
    worker: Worker,
    piece: Piece,
    counting: Counters,
    cost: SelfCost,
    alone: Nanos,
}

/// The hardware counters of a thread.
#[derive(Debug)]
pub(super) enum Counters {
    /// They were not requested.
    Off,
    /// They cannot be used, for this reason.
    Unknown(String),
    Open(Box<Counting>),
}

/// The result of one thread.
#[derive(Debug)]
pub(super) struct Worked {
    pub(super) outcome: WorkerOutcome,
    /// The shortest time of the work before the run.
    pub(super) alone: Nanos,
    pub(super) counting: Counters,
}

impl Worker {
    /// Prepares the work on the CPU of the thread.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory, or if the work takes too long on this CPU.
    pub(super) fn ready(self, control: &Control) -> Result<Loop, ProbeError> {
        let mut piece = Piece::new(self.kind)?;
        let limit = LONGEST.min(Nanos(self.interval.0 / 2));
        let alone = time_of(self.iterations, limit, |iterations| {
            if control.stopping() {
                return Nanos::ZERO;
            }
            piece.time(iterations)
        });
        if alone > limit {
            return Err(ProbeError::Unfit(format!(
                "{} iterations take about {alone} on CPU {}, but at most {limit} are possible, \
                 half of the interval and at most {LONGEST}, so that other threads can run: give \
                 fewer --iterations, a shorter --work-time or a longer --interval",
                self.iterations, self.cpu
            )));
        }
        let counting = match self.events.map(Counting::open) {
            None => Counters::Off,
            Some(Err(why)) => Counters::Unknown(why),
            Some(Ok(counting)) => Counters::Open(Box::new(counting)),
        };
        Ok(Loop {
            worker: self,
            piece,
            counting,
            cost: SelfCost::measure(CLOCK),
            alone,
        })
    }
}

impl Loop {
    /// Works until the end of the run.
    pub(super) fn run(self, control: &Control, start: Instant) -> Result<Worked, ProbeError> {
        let Self {
            worker,
            mut piece,
            mut counting,
            cost,
            alone,
        } = self;
        let Worker {
            mut recorder,
            iterations,
            interval,
            ..
        } = worker;
        let first = Nanos((start + worker.offset).as_nanos());
        let end = end_of(first, worker.duration);
        let warm_until = first + worker.warm_up;
        let mut sleep = Nanosleep::new(CLOCK)?;
        recorder.start(first);
        let mut due = first;
        while due < end && !control.stopping() {
            if sleep.wait_until(Instant::from_nanos(due.0))? == Wake::Interrupted {
                continue;
            }
            let counted_before = counting.read();
            let before = now();
            piece.run(iterations);
            let after = now();
            let counted_after = counting.read();
            recorder.sample(before, after.signed_sub(before));
            if let (Counters::Open(counting), true) = (&mut counting, before >= warm_until) {
                counting.add(after - before, counted_before, counted_after);
            }
            due += interval;
            if after >= due {
                due += skipped(after, due, end, interval, &mut recorder);
            }
        }
        Ok(Worked {
            outcome: recorder.finish((due - first).0 / interval.0, cost),
            alone,
            counting,
        })
    }
}

impl Counters {
    #[inline]
    fn read(&self) -> Option<Values> {
        match self {
            Self::Open(counting) => counting.read(),
            Self::Off | Self::Unknown(_) => None,
        }
    }
}

/// Counts the periods, starting at `due`, that have passed by `now` without a piece of work, and
/// returns their total time. These periods have no execution time.
#[cold]
pub(super) fn skipped(
    now: Nanos,
    due: Nanos,
    end: Nanos,
    interval: Nanos,
    recorder: &mut Recorder,
) -> Nanos {
    // Periods at or after the end are not part of the run.
    let left = (end - due).0.div_ceil(interval.0);
    let passed = ((now - due).0 / interval.0 + 1).min(left);
    recorder.missed(due, passed, interval);
    Nanos(passed.saturating_mul(interval.0))
}
