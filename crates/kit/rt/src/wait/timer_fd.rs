//! A periodic timer as a file descriptor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::account::Account;
use super::{PeriodicWait, Wake};
use crate::{Clock, Error, Instant};

/// A blocking `timerfd_create(2)` timer that expires at `first` and every `interval` after it.
///
/// The deadlines are the expirations of the timer, `first + n * interval`, in ascending order. A
/// deadline between two expirations is rounded up. Expirations of deadlines that the caller skipped
/// are read and counted, but never end a wait for a later deadline.
#[derive(Debug)]
pub struct TimerFd {
    fd: OwnedFd,
    account: Account,
}

impl TimerFd {
    /// Creates an armed timer on `clock`.
    ///
    /// # Errors
    /// Returns [`Error::ClockUnsupported`] for [`Clock::MonotonicRaw`] and [`Clock::Tai`],
    /// [`Error::IntervalZero`], and [`Error::Os`] if no file descriptor is available.
    pub fn new(clock: Clock, first: Instant, interval: Duration) -> Result<Self, Error> {
        let account = Account::new(first, interval)?;
        let id = match clock {
            Clock::Monotonic => TimerfdClockId::Monotonic,
            Clock::Realtime => TimerfdClockId::Realtime,
            Clock::Boottime => TimerfdClockId::Boottime,
            Clock::MonotonicRaw | Clock::Tai => {
                return Err(Error::ClockUnsupported {
                    clock,
                    wait: "timerfd_create",
                });
            }
        };
        let fd = timerfd_create(id, TimerfdFlags::CLOEXEC)
            .map_err(|errno| Error::os("timerfd_create", clock.name(), io::Error::from(errno)))?;
        let times = Itimerspec {
            it_interval: account.interval().to_timespec(),
            it_value: account.first().to_timespec(),
        };
        timerfd_settime(&fd, TimerfdTimerFlags::ABSTIME, &times).map_err(|errno| {
            let what = format!("{} ns on {clock}", first.as_nanos());
            Error::os("timerfd_settime", what, io::Error::from(errno))
        })?;
        Ok(Self { fd, account })
    }

    /// Returns the number of expirations read so far, including those of skipped deadlines.
    pub fn expirations(&self) -> u64 {
        self.account.expirations()
    }
}

impl PeriodicWait for TimerFd {
    #[inline]
    fn wait_until(&mut self, deadline: Instant) -> Result<Wake, Error> {
        while !self.account.covers(deadline) {
            let mut count = [0_u8; 8];
            match rustix::io::read(&self.fd, &mut count) {
                // Always all eight bytes, or an error (timerfd_create(2)).
                Ok(_) => self.account.add(u64::from_ne_bytes(count)),
                Err(Errno::INTR) => return Ok(Wake::Interrupted),
                Err(errno) => return Err(failed(errno)),
            }
        }
        Ok(Wake::Due)
    }
}

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cold]
fn failed(errno: Errno) -> Error {
    Error::os("read", "the timerfd", io::Error::from(errno))
}
