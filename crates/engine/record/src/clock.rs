//! The clocks that a service goes by.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use punctual_model::Nanos;
use rustix::thread::nanosleep;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The longest wait: then the clock may have been set.
const LONGEST: Duration = Duration::from_secs(10);

/// How soon a stop is seen at the latest; a signal ends a nap.
const NAP: Duration = Duration::from_secs(1);

/// The clocks that a service goes by; a test has its own.
pub trait Clock {
    /// The wall clock.
    fn now(&self) -> Timestamp;
    /// Time since the machine booted, with that in which it was suspended.
    fn since_boot(&self) -> Nanos;
    /// Time since the machine booted in which it was not suspended.
    fn awake(&self) -> Nanos;
    /// Whether the wall clock is known to agree with NTP or PTP.
    fn is_synchronized(&self) -> bool;
    /// The time zone of times of day.
    fn zone(&self) -> TimeZone;
    /// Waits, not longer than this and until `stop` is set. It may return earlier: others
    /// set the clock meanwhile.
    fn wait(&self, at_most: Duration, stop: &AtomicBool);
}

/// Those of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    // Both count from boot on and are not negative.
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    Nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn since_boot(&self) -> Nanos {
        read(ClockId::Boottime)
    }

    fn awake(&self) -> Nanos {
        read(ClockId::Monotonic)
    }

    fn is_synchronized(&self) -> bool {
        punctual_rt::clock_is_synchronized()
    }

    fn zone(&self) -> TimeZone {
        TimeZone::system()
    }

    fn wait(&self, at_most: Duration, stop: &AtomicBool) {
        let end = Instant::now() + at_most.min(LONGEST);
        while !stop.load(Ordering::Relaxed) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            nap(left.min(NAP));
        }
    }
}

/// Sleeps, but not on after a signal: `std::thread::sleep` does. Each nap more is a wake-up
/// on a machine that is measured.
fn nap(time: Duration) {
    let _ = nanosleep(&Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(1),
        tv_nsec: time.subsec_nanos().into(),
    });
}
