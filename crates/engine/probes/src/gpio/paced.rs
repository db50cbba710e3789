//! The periods of a loop that waits for an answer in each of them.

use punctual_model::Nanos;
use punctual_rt::{Clock, Error, Instant, Nanosleep, PeriodicWait, Wake};

use crate::monotonic::now;
use crate::run::end_of;
use crate::{Control, Recorder};

/// When periods come due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) interval: Nanos,
    /// Length of the run; `None` to run until stopped.
    pub(super) duration: Option<Nanos>,
}

/// One period.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) at: Nanos,
    /// When the next period comes due.
    pub(super) until: Nanos,
}

/// How a period ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Period {
    /// With a sample.
    Answered,
    /// Without a sample.
    Missed,
    /// The run was stopped, so no answer is expected.
    Stopped,
}

/// Numbers of periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paced {
    /// Periods that came due.
    pub(super) expected: u64,
    /// Periods that passed before the thread woke.
    pub(super) skipped: u64,
}

impl Pace {
    /// Sleeps until each period from `first` on, and calls `period`, which must record its sample.
    /// The thread must have entered `control`.
    pub(super) fn run(
        self,
        first: Nanos,
        recorder: &mut Recorder,
        control: &Control,
        mut period: impl FnMut(&mut Recorder, Due) -> Result<Period, Error>,
    ) -> Result<Paced, Error> {
        let interval = self.interval;
        let mut sleep = Nanosleep::new(Clock::Monotonic)?;
        let end = end_of(first, self.duration);
        recorder.start(first);
        let mut skipped = 0;
        let mut due = first;
        while due < end && !control.stopping() {
            if sleep.wait_until(Instant::from_nanos(due.0))? == Wake::Interrupted {
                continue;
            }
            let passed = now().saturating_sub(due).0 / interval.0;
            if passed > 0 {
                let left = (end - due).0.div_ceil(interval.0);
                let passed = passed.min(left);
                recorder.missed(due, passed, interval);
                skipped += passed;
                due += Nanos(interval.0 * passed);
                continue;
            }
            let until = due + interval;
            match period(recorder, Due { at: due, until })? {
                Period::Answered => {}
                Period::Missed => recorder.missed(due, 1, interval),
                Period::Stopped => break,
            }
            due = until;
        }
        Ok(Paced {
            expected: (due - first).0 / interval.0,
            skipped,
        })
    }
}
