//! Sleeps until an absolute time.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::{NanosleepRelativeResult, clock_nanosleep_absolute, clock_nanosleep_relative};

use super::{PeriodicWait, Wake};
use crate::{Clock, Error, Instant};

/// `clock_nanosleep(2)` with TIMER_ABSTIME: the simplest way, and on most machines the one with the
/// lowest latency. Accepts any deadlines in any order.
///
/// For a thread with a normal policy, the kernel adds the timer slack, 50 us by default
/// (`PR_SET_TIMERSLACK`, `prctl(2)`). A real-time thread has no timer slack.
#[derive(Debug)]
pub struct Nanosleep {
    clock: Clock,
}

impl Nanosleep {
    /// Creates a wait on `clock`.
    ///
    /// # Errors
    /// Returns [`Error::ClockUnsupported`] for [`Clock::MonotonicRaw`].
    pub fn new(clock: Clock) -> Result<Self, Error> {
        // A sleep into the past shows whether the kernel supports the clock.
        match clock_nanosleep_absolute(clock.rustix_id(), &Instant::from_nanos(0).to_timespec()) {
            Ok(()) | Err(Errno::INTR) => Ok(Self { clock }),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Err(Error::ClockUnsupported {
                clock,
                wait: "clock_nanosleep",
            }),
            Err(errno) => Err(failed(clock, errno)),
        }
    }

    /// Sleeps for `duration` from now, or until a signal handler has run. This is a sleep without
    /// TIMER_ABSTIME. A loop of such sleeps drifts: each iteration adds the time that it takes in
    /// addition to the sleep.
    ///
    /// # Errors
    /// Returns [`Error::Os`] only on a programming error.
    #[inline]
    pub fn sleep_for(&mut self, duration: Duration) -> Result<Wake, Error> {
        let duration = Instant::from_nanos(crate::clock::nanos(duration)).to_timespec();
        match clock_nanosleep_relative(self.clock.rustix_id(), &duration) {
            NanosleepRelativeResult::Ok => Ok(Wake::Due),
            NanosleepRelativeResult::Interrupted(_) => Ok(Wake::Interrupted),
            NanosleepRelativeResult::Err(errno) => Err(failed(self.clock, errno)),
        }
    }
}

impl PeriodicWait for Nanosleep {
    #[inline]
    fn wait_until(&mut self, deadline: Instant) -> Result<Wake, Error> {
        match clock_nanosleep_absolute(self.clock.rustix_id(), &deadline.to_timespec()) {
            Ok(()) => Ok(Wake::Due),
            Err(Errno::INTR) => Ok(Wake::Interrupted),
            Err(errno) => Err(failed(self.clock, errno)),
        }
    }
}

#[cold]
fn failed(clock: Clock, errno: Errno) -> Error {
    Error::os("clock_nanosleep", clock.name(), io::Error::from(errno))
}
