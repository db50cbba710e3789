//! The clocks that a service uses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use punctual_model::Nanos;
use rustix::thread::nanosleep;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Maximum wait. The wall clock may be set during a wait, so it must be read again after this time.
const LONGEST: Duration = Duration::from_secs(10);

/// Longest delay until a stop request is noticed. A signal interrupts a nap.
const NAP: Duration = Duration::from_secs(1);

/// The clocks that a service uses. Tests implement their own.
pub trait Clock {
    /// Returns the time of the wall clock.
    fn now(&self) -> Timestamp;
    /// Returns the time since boot, including suspend.
    fn since_boot(&self) -> Nanos;
    /// Returns the time since boot, excluding suspend.
    fn awake(&self) -> Nanos;
    /// Returns whether the wall clock is known to agree with NTP or PTP.
    fn is_synchronized(&self) -> bool;
    /// Returns the time zone for times of day.
    fn zone(&self) -> TimeZone;
    /// Waits for at most this time, or until `stop` is set. It may return earlier, so that the
    /// caller notices when the wall clock has been set.
    fn wait(&self, at_most: Duration, stop: &AtomicBool);
}

/// The system clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    // Both clocks count from boot and are not negative.
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

/// Sleeps for this time, or until a signal arrives (`std::thread::sleep` would continue after a
/// signal). With shorter naps instead, the service would wake up more often and disturb
/// measurements.
fn nap(time: Duration) {
    let _ = nanosleep(&Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(1),
        tv_nsec: time.subsec_nanos().into(),
    });
}
