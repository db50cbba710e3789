//! The processor's counter, the cheapest clock: the time stamp counter of x86-64, the virtual
//! counter of arm64, the timer of riscv64.
#![allow(unsafe_code)]

use std::time::Duration;

use crate::Clock;

/// The time stamp counter, if its rate is constant in all processor states; `cntvct_el0` of arm64
/// and `time` of riscv64, whose ticks are longer (10 to 100 ns on many boards).
///
/// A read costs a few nanoseconds, uses neither kernel nor vDSO, and cannot be slewed by NTP. The
/// counters of different CPUs are synchronized on most machines, but this is not guaranteed:
/// compare only reads on the same CPU, or check first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tsc {
    // Only `available` creates a value of this type, so having one proves that the counter may be
    // read.
    _known: (),
}

/// Length of a tick of the [`Tsc`] as a fixed-point number, created by [`Tsc::calibrate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TscRate {
    /// Nanoseconds per tick, times 2^32.
    multiplier: u64,
}

impl Tsc {
    /// Name of the counter on this architecture.
    pub const NAME: &str = if cfg!(target_arch = "aarch64") {
        "cntvct_el0"
    } else if cfg!(target_arch = "riscv64") {
        "rdtime"
    } else {
        "TSC"
    };

    /// Returns the counter if it has a constant rate, never stops (CPUID 0x80000007, EDX bit 8:
    /// "invariant TSC", Intel SDM volume 3, 19.17.1; AMD APM volume 3, E.4.8), and may be read by
    /// this process (`PR_SET_TSC` of prctl(2)). On arm64 and riscv64 the architecture guarantees
    /// this (Arm ARM, The Generic Timer; RISC-V unprivileged specification, Zicntr). Returns `None`
    /// on other architectures.
    ///
    /// A hypervisor can hide the bit; then the counter is not used.
    pub fn available() -> Option<Self> {
        (is_invariant() && may_read()).then_some(Self { _known: () })
    }

    /// Returns whether a tick takes at most 2 ns, so that it can time a single clock read. Returns
    /// `false` if the counter does not report its frequency (riscv64).
    pub fn is_fine(self) -> bool {
        cfg!(target_arch = "x86_64") || frequency().is_some_and(|hertz| hertz >= 500_000_000)
    }

    /// Returns the ticks since the counter was reset, read after all earlier instructions have
    /// completed.
    #[inline(always)]
    pub fn read(self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `self` exists, so the counter may be read; LFENCE is part of SSE2, which every
        // x86_64 processor has. Without the fence, the read may be executed before earlier loads
        // (Intel SDM, RDTSC).
        unsafe {
            std::arch::x86_64::_mm_lfence();
            std::arch::x86_64::_rdtsc()
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: this reads a register that processes may read, directly or emulated by the kernel
        // (Documentation/arch/arm64/booting.rst, CNTKCTL_EL1); ISB orders the read.
        unsafe {
            let ticks: u64;
            std::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks,
                            options(nostack, preserves_flags));
            ticks
        }
        #[cfg(target_arch = "riscv64")]
        // SAFETY: reads a register that the kernel lets processes read (its own vDSO uses
        // `rdtime`); the fence orders the read.
        unsafe {
            let ticks: u64;
            std::arch::asm!("fence", "rdtime {}", out(reg) ticks, options(nostack));
            ticks
        }
        #[cfg(not(any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            target_arch = "riscv64"
        )))]
        0
    }

    /// Measures the rate of the counter against CLOCK_MONOTONIC_RAW over about this time, during
    /// which the calling thread sleeps.
    ///
    /// With 20 ms, the rate is accurate to a few parts per million, because the time of each end is
    /// known to within the cost of one clock read. Shorter times than 1 ms are raised to 1 ms.
    pub fn calibrate(self, over: Duration) -> TscRate {
        let (first_ticks, first_nanos) = self.both();
        std::thread::sleep(over.max(Duration::from_millis(1)));
        let (last_ticks, last_nanos) = self.both();
        TscRate::between(
            last_ticks.saturating_sub(first_ticks),
            last_nanos.saturating_sub(first_nanos),
        )
    }

    /// Reads both clocks at nearly the same moment. Makes several attempts and uses the one with
    /// the shortest time around the clock read.
    fn both(self) -> (u64, u64) {
        let mut best = (u64::MAX, 0, 0);
        for _ in 0..16 {
            let before = self.read();
            let nanos = Clock::MonotonicRaw.now().as_nanos();
            let spent = self.read().wrapping_sub(before);
            if spent < best.0 {
                best = (spent, before.wrapping_add(spent / 2), nanos);
            }
        }
        (best.1, best.2)
    }
}

impl TscRate {
    /// Returns the rate of a counter that advanced by `ticks` in `nanos`.
    fn between(ticks: u64, nanos: u64) -> Self {
        let multiplier = (u128::from(nanos) << 32) / u128::from(ticks.max(1));
        Self {
            multiplier: u64::try_from(multiplier).unwrap_or(u64::MAX).max(1),
        }
    }

    /// Converts ticks to nanoseconds, rounded down. Uses only integer arithmetic.
    #[inline]
    pub fn to_nanos(self, ticks: u64) -> u64 {
        let nanos = (u128::from(ticks) * u128::from(self.multiplier)) >> 32;
        if nanos > u64::MAX as u128 {
            u64::MAX
        } else {
            nanos as u64
        }
    }

    /// Returns the fewest ticks that take at least this many nanoseconds.
    pub fn to_ticks(self, nanos: u64) -> u64 {
        let ticks = (u128::from(nanos) << 32).div_ceil(u128::from(self.multiplier));
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// Returns the ticks per second, rounded.
    pub fn hertz(self) -> u64 {
        let multiplier = u128::from(self.multiplier);
        let ticks = ((1_000_000_000_u128 << 32) + multiplier / 2) / multiplier;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }
}

/// Returns whether the counter has one rate in all power states.
#[cfg(target_arch = "x86_64")]
fn is_invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    const EXTENDED: u32 = 0x8000_0000;
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    #[allow(unused_unsafe)] // safe to call in newer releases of Rust
    // SAFETY: every x86_64 processor has CPUID; a leaf is read only after the processor has
    // reported that it supports it.
    unsafe {
        __cpuid(EXTENDED).eax >= POWER && __cpuid(POWER).edx & INVARIANT != 0
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn is_invariant() -> bool {
    cfg!(any(target_arch = "aarch64", target_arch = "riscv64"))
}

/// Returns the ticks per second, if the processor reports them.
fn frequency() -> Option<u64> {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads a register that processes may read if they may read the counter.
    let hertz = unsafe {
        let hertz: u64;
        std::arch::asm!("mrs {}, cntfrq_el0", out(reg) hertz,
                        options(nomem, nostack, preserves_flags));
        Some(hertz)
    };
    #[cfg(not(target_arch = "aarch64"))]
    let hertz = None;
    hertz
}

/// Returns whether this process may read the counter without SIGSEGV.
fn may_read() -> bool {
    let mut mode: libc::c_int = 0;
    // SAFETY: PR_GET_TSC writes an int to the address it is given.
    let result = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
    // A kernel that does not support this query cannot forbid reading the counter either.
    result != 0 || mode == libc::PR_TSC_ENABLE
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_agrees_with_the_raw_clock() {
        let Some(tsc) = Tsc::available() else {
            punctual_testing::skip!(
                Hardware,
                "this processor has no invariant time stamp counter"
            );
            return;
        };
        let rate = tsc.calibrate(Duration::from_millis(20));
        assert!(rate.hertz() > 1_000_000, "{rate:?}");
        let (ticks, nanos) = tsc.both();
        std::thread::sleep(Duration::from_millis(20));
        let (later_ticks, later_nanos) = tsc.both();
        let ours = rate.to_nanos(later_ticks - ticks);
        // The limit is 10%, which a clock of another rate exceeds by far, but an attempt that was
        // preempted at both ends does not.
        let theirs = later_nanos - nanos;
        assert!(ours.abs_diff(theirs) < theirs / 10, "{ours} {theirs}");
    }

    #[test]
    fn it_never_runs_backwards_on_one_cpu() {
        let Some(tsc) = Tsc::available() else {
            punctual_testing::skip!(
                Hardware,
                "this processor has no invariant time stamp counter"
            );
            return;
        };
        let cpu = crate::affinity::current().unwrap()[0];
        std::thread::spawn(move || {
            crate::affinity::set(crate::ThreadRef::Current, &[cpu]).unwrap();
            let mut last = tsc.read();
            for _ in 0..10_000 {
                let now = tsc.read();
                assert!(now >= last);
                last = now;
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn rate_is_exact_where_possible() {
        let gigahertz = TscRate::between(1_000_000, 1_000_000);
        assert_eq!(gigahertz.to_nanos(123_456_789), 123_456_789);
        assert_eq!(gigahertz.hertz(), 1_000_000_000);
        let two = TscRate::between(2_000_000, 1_000_000);
        assert_eq!(two.to_nanos(7), 3);
        assert_eq!(two.to_ticks(3), 6);
        assert_eq!(two.hertz(), 2_000_000_000);
        // Zero time or zero ticks must not divide by zero.
        assert!(TscRate::between(0, 5).to_nanos(1) >= 5);
        assert!(TscRate::between(5, 0).to_ticks(1) > 0);
        assert_eq!(TscRate::between(0, u64::MAX).to_nanos(u64::MAX), u64::MAX);
    }

    proptest! {
        #[test]
        fn ticks_and_nanoseconds_are_inverse(
            hertz in 1_000_000_u64..10_000_000_000,
            nanos in 0_u64..10_000_000_000_000,
        ) {
            let rate = TscRate::between(hertz, 1_000_000_000);
            let back = rate.to_nanos(rate.to_ticks(nanos));
            // A tick can be longer than a nanosecond.
            let tick = rate.to_nanos(1) + 1;
            prop_assert!(back >= nanos && back <= nanos + tick, "{nanos} {back}");
        }

        #[test]
        fn longer_never_reads_shorter(multiplier in 1_u64.., a: u64, b: u64) {
            let rate = TscRate { multiplier };
            prop_assert!(rate.to_nanos(a.min(b)) <= rate.to_nanos(a.max(b)));
        }
    }
}
