//! Clocks and their instants.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// An instant on one of the [`Clock`]s, in nanoseconds since the origin of that clock.
///
/// It does not store which clock it belongs to, so do not compare instants of different clocks. 64
/// bits of nanoseconds last for 584 years, where arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Creates the instant `nanos` nanoseconds after the origin of the clock.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the origin of the clock.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this instant, or zero if `earlier` is later.
    #[inline]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the instant `duration` before this one, or the origin of the clock if that would be
    /// earlier.
    #[inline]
    pub const fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }

    pub(crate) fn to_timespec(self) -> rustix::time::Timespec {
        timespec(self.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at the end of the range.
    #[inline]
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

/// Converts a duration to nanoseconds. Saturates if it does not fit (584 years).
#[inline]
pub(crate) const fn nanos(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(duration.subsec_nanos() as u64)
}

/// Converts nanoseconds to the kernel's format.
pub(crate) fn timespec(nanos: u64) -> rustix::time::Timespec {
    rustix::time::Timespec {
        // At most 1.8e10 seconds; the nanoseconds are below one second.
        tv_sec: (nanos / 1_000_000_000).cast_signed(),
        tv_nsec: (nanos % 1_000_000_000) as _,
    }
}

/// Returns whether the kernel considers its wall clock synchronized by NTP or PTP (adjtimex(2)),
/// which means that a program has disciplined it since it was last set. Also returns `false` if the
/// kernel does not report it.
pub fn clock_is_synchronized() -> bool {
    // SAFETY: all zero bytes are a valid timex, which consists of integers. With no mode set, the
    // call only reads the clock's state.
    let mut state = unsafe { std::mem::MaybeUninit::<libc::timex>::zeroed().assume_init() };
    // SAFETY: `state` is a valid timex for the call to write to.
    let said = unsafe { libc::adjtimex(&raw mut state) };
    said >= 0 && said != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0
}

/// The Linux clocks for real-time programs (`clock_gettime(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`: cannot be set, is slewed by NTP, and stops during suspend. Use this clock
    /// for periodic work.
    Monotonic,
    /// `CLOCK_REALTIME`: the wall clock; can be set, even backwards.
    Realtime,
    /// `CLOCK_MONOTONIC_RAW`: the rate of the hardware, not slewed. It can be read, but not waited
    /// on.
    MonotonicRaw,
    /// `CLOCK_BOOTTIME`: like monotonic, but includes suspend.
    Boottime,
    /// `CLOCK_TAI`: like realtime, without leap seconds.
    Tai,
}

impl Clock {
    /// All clocks.
    pub const ALL: [Self; 5] = [
        Self::Monotonic,
        Self::Realtime,
        Self::MonotonicRaw,
        Self::Boottime,
        Self::Tai,
    ];

    /// Reads the clock. With the common clock sources this uses the vDSO: some tens of nanoseconds,
    /// and no system call. A realtime clock that is set to before 1970 reads as zero.
    #[inline]
    pub fn now(self) -> Instant {
        Instant(read(self.id()))
    }

    /// Returns the resolution of the clock (`clock_getres(2)`): 1 ns with high-resolution timers,
    /// otherwise one tick.
    pub fn resolution(self) -> Duration {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is a valid timespec for the call to write to. On failure (impossible for
        // these clocks since Linux 3.10) it stays zero.
        unsafe { libc::clock_getres(self.id(), &raw mut time) };
        Duration::from_nanos(to_nanos(&time))
    }

    /// Returns the name of the clock, as in the manual pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Monotonic => "CLOCK_MONOTONIC",
            Self::Realtime => "CLOCK_REALTIME",
            Self::MonotonicRaw => "CLOCK_MONOTONIC_RAW",
            Self::Boottime => "CLOCK_BOOTTIME",
            Self::Tai => "CLOCK_TAI",
        }
    }

    #[inline]
    pub(crate) const fn id(self) -> libc::clockid_t {
        match self {
            Self::Monotonic => libc::CLOCK_MONOTONIC,
            Self::Realtime => libc::CLOCK_REALTIME,
            Self::MonotonicRaw => libc::CLOCK_MONOTONIC_RAW,
            Self::Boottime => libc::CLOCK_BOOTTIME,
            Self::Tai => libc::CLOCK_TAI,
        }
    }

    pub(crate) const fn rustix_id(self) -> rustix::time::ClockId {
        use rustix::time::ClockId;
        match self {
            Self::Monotonic => ClockId::Monotonic,
            Self::Realtime => ClockId::Realtime,
            Self::MonotonicRaw => ClockId::MonotonicRaw,
            Self::Boottime => ClockId::Boottime,
            Self::Tai => ClockId::Tai,
        }
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads any clock of the kernel, including the CPU-time clocks.
#[inline]
pub(crate) fn read(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec for the call to write to. On failure (impossible for the
    // IDs used in this crate) it stays zero.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    to_nanos(&time)
}

#[inline]
fn to_nanos(time: &libc::timespec) -> u64 {
    #[allow(clippy::unnecessary_cast)] // 32 bits wide on some targets
    let (secs, sub) = (time.tv_sec as i64, time.tv_nsec as i64);
    if secs < 0 {
        return 0;
    }
    secs.cast_unsigned()
        .saturating_mul(1_000_000_000)
        .saturating_add(sub.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn monotonic_clocks_never_run_backwards() {
        for clock in [Clock::Monotonic, Clock::MonotonicRaw, Clock::Boottime] {
            let mut last = clock.now();
            for _ in 0..10_000 {
                let now = clock.now();
                assert!(now >= last, "{clock} ran backwards");
                last = now;
            }
            assert!(last.as_nanos() > 0);
        }
    }

    #[test]
    fn every_clock_has_a_resolution() {
        for clock in Clock::ALL {
            assert!(clock.now().as_nanos() > 0, "{clock}");
            assert!(clock.resolution() > Duration::ZERO, "{clock}");
        }
    }

    #[test]
    fn realtime_agrees_with_the_standard_library() {
        let before = std::time::SystemTime::now();
        let ours = Clock::Realtime.now();
        let after = std::time::SystemTime::now();
        let epoch = std::time::UNIX_EPOCH;
        let (before, after) = (
            before.duration_since(epoch).unwrap(),
            after.duration_since(epoch).unwrap(),
        );
        if after >= before {
            let ours = Duration::from_nanos(ours.as_nanos());
            assert!(before <= ours && ours <= after);
        }
    }

    proptest! {
        #[test]
        fn a_duration_added_is_the_duration_between(start in 0..u64::MAX / 2, step in 0..u64::MAX / 2) {
            let (start, step) = (Instant::from_nanos(start), Duration::from_nanos(step));
            let end = start + step;
            prop_assert_eq!(end.saturating_duration_since(start), step);
            prop_assert_eq!(end.saturating_sub(step), start);
            if !step.is_zero() {
                prop_assert_eq!(start.saturating_duration_since(end), Duration::ZERO);
            }
        }

        #[test]
        fn arithmetic_saturates(start: u64, secs: u64, sub in 0..1_000_000_000_u32) {
            let step = Duration::new(secs, sub);
            let exact = u128::from(start) + step.as_nanos();
            let sum = Instant::from_nanos(start) + step;
            prop_assert_eq!(u128::from(sum.as_nanos()), exact.min(u128::from(u64::MAX)));
        }

        #[test]
        fn a_timespec_is_the_same_time(nanos: u64) {
            let time = timespec(nanos);
            prop_assert!((0..1_000_000_000).contains(&time.tv_nsec));
            let back = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
            prop_assert_eq!(back, i128::from(nanos));
        }
    }
}
