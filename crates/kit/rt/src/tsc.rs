//! The processor's own counter, the cheapest clock there is: the time stamp counter of
//! x86-64, the virtual counter of arm64, the timer of riscv64.
#![allow(unsafe_code)]

use std::time::Duration;

use crate::Clock;

/// The time stamp counter, where it counts at one rate whatever the processor
/// does; `cntvct_el0` of arm64 and `time` of riscv64, whose ticks are longer (10 to
/// 100 ns on many boards).
///
/// A read costs some nanoseconds, enters no kernel and no vDSO, and cannot be
/// slewed by NTP. The counters of different CPUs start together on most
/// machines, but nothing here promises it: compare reads of one CPU only, or
/// check first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tsc {
    // Only `available` makes one: to hold it is to know that it may be read.
    _known: (),
}

/// How long a tick of the [`Tsc`] is, as a fixed-point number; made by
/// [`Tsc::calibrate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TscRate {
    /// Nanoseconds a tick, times 2^32.
    multiplier: u64,
}

impl Tsc {
    /// What the counter is called on this architecture.
    pub const NAME: &str = if cfg!(target_arch = "aarch64") {
        "cntvct_el0"
    } else if cfg!(target_arch = "riscv64") {
        "rdtime"
    } else {
        "TSC"
    };

    /// The counter, if this processor has one that neither changes its rate
    /// nor stops (CPUID 0x80000007, EDX bit 8: "invariant TSC", Intel SDM
    /// volume 3, 19.17.1; AMD APM volume 3, E.4.8) and this process may read
    /// it (`PR_SET_TSC` of prctl(2)). The counters of arm64 and riscv64 are so by
    /// their architecture (Arm ARM, The Generic Timer; RISC-V unprivileged
    /// specification, Zicntr). `None` on other architectures.
    ///
    /// A hypervisor can hide the bit; then the counter is not used.
    pub fn available() -> Option<Self> {
        (is_invariant() && may_read()).then_some(Self { _known: () })
    }

    /// Whether a tick takes 2 ns at most, so that a single read of a clock can be timed
    /// with it. False where the counter does not say how fast it goes (riscv64).
    pub fn is_fine(self) -> bool {
        cfg!(target_arch = "x86_64") || frequency().is_some_and(|hertz| hertz >= 500_000_000)
    }

    /// Ticks since the counter was reset, read after all instructions before
    /// it have completed.
    #[inline(always)]
    pub fn read(self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `self` exists, so the counter may be read; LFENCE is part of
        // SSE2, which every x86_64 processor has. Without the fence the read
        // may be taken before earlier loads (Intel SDM, RDTSC).
        unsafe {
            std::arch::x86_64::_mm_lfence();
            std::arch::x86_64::_rdtsc()
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: reads a register that the kernel lets processes read, or emulates
        // (Documentation/arch/arm64/booting.rst, CNTKCTL_EL1); ISB orders the read.
        unsafe {
            let ticks: u64;
            std::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks,
                            options(nostack, preserves_flags));
            ticks
        }
        #[cfg(target_arch = "riscv64")]
        // SAFETY: reads a register that the kernel lets processes read (`rdtime` is what
        // its own vDSO uses); the fence orders the read.
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

    /// Measures the counter's rate against CLOCK_MONOTONIC_RAW over about this
    /// time, which the calling thread sleeps through.
    ///
    /// Over 20 ms the rate is exact to a few millionths: each end is placed to
    /// within the cost of one clock read. Under 1 ms is taken as 1 ms.
    pub fn calibrate(self, over: Duration) -> TscRate {
        let (first_ticks, first_nanos) = self.both();
        std::thread::sleep(over.max(Duration::from_millis(1)));
        let (last_ticks, last_nanos) = self.both();
        TscRate::between(
            last_ticks.saturating_sub(first_ticks),
            last_nanos.saturating_sub(first_nanos),
        )
    }

    /// Both clocks at one moment: of several tries the one with the least time
    /// around the clock's read.
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
    /// The rate of a counter that went `ticks` on in `nanos`.
    fn between(ticks: u64, nanos: u64) -> Self {
        let multiplier = (u128::from(nanos) << 32) / u128::from(ticks.max(1));
        Self {
            multiplier: u64::try_from(multiplier).unwrap_or(u64::MAX).max(1),
        }
    }

    /// These ticks as nanoseconds, rounded down; integer arithmetic only.
    #[inline]
    pub fn to_nanos(self, ticks: u64) -> u64 {
        let nanos = (u128::from(ticks) * u128::from(self.multiplier)) >> 32;
        if nanos > u64::MAX as u128 {
            u64::MAX
        } else {
            nanos as u64
        }
    }

    /// The fewest ticks that take at least these nanoseconds.
    pub fn to_ticks(self, nanos: u64) -> u64 {
        let ticks = (u128::from(nanos) << 32).div_ceil(u128::from(self.multiplier));
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// Ticks a second, rounded.
    pub fn hertz(self) -> u64 {
        let multiplier = u128::from(self.multiplier);
        let ticks = ((1_000_000_000_u128 << 32) + multiplier / 2) / multiplier;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }
}

/// Whether the counter has one rate in all power states.
#[cfg(target_arch = "x86_64")]
fn is_invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    const EXTENDED: u32 = 0x8000_0000;
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    #[allow(unused_unsafe)] // safe to call in newer releases of Rust
    // SAFETY: every x86_64 processor has CPUID; a leaf is read only after the
    // processor has said that it knows it.
    unsafe {
        __cpuid(EXTENDED).eax >= POWER && __cpuid(POWER).edx & INVARIANT != 0
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn is_invariant() -> bool {
    cfg!(any(target_arch = "aarch64", target_arch = "riscv64"))
}

/// Ticks a second, where the processor says so.
fn frequency() -> Option<u64> {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads a register that processes may read wherever they may read the counter.
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

/// Whether reading it is not made to fail with SIGSEGV in this process.
fn may_read() -> bool {
    let mut mode: libc::c_int = 0;
    // SAFETY: PR_GET_TSC writes an int to the address it is given.
    let result = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
    // A kernel that does not know the question does not forbid it either.
    result != 0 || mode == libc::PR_TSC_ENABLE
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_agrees_with_the_raw_clock() {
        let Some(tsc) = Tsc::available() else {
            punctual_testing::skip!("this processor has no invariant time stamp counter");
            return;
        };
        let rate = tsc.calibrate(Duration::from_millis(20));
        assert!(rate.hertz() > 1_000_000, "{rate:?}");
        let (ticks, nanos) = tsc.both();
        std::thread::sleep(Duration::from_millis(20));
        let (later_ticks, later_nanos) = tsc.both();
        let ours = rate.to_nanos(later_ticks - ticks);
        // One part in a hundred: a clock of another rate is far off, a try that
        // was preempted at both ends is not.
        let theirs = later_nanos - nanos;
        assert!(ours.abs_diff(theirs) < theirs / 100, "{ours} {theirs}");
    }

    #[test]
    fn it_never_runs_backwards_on_one_cpu() {
        let Some(tsc) = Tsc::available() else {
            punctual_testing::skip!("this processor has no invariant time stamp counter");
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
    fn a_rate_is_exact_where_it_can_be() {
        let gigahertz = TscRate::between(1_000_000, 1_000_000);
        assert_eq!(gigahertz.to_nanos(123_456_789), 123_456_789);
        assert_eq!(gigahertz.hertz(), 1_000_000_000);
        let two = TscRate::between(2_000_000, 1_000_000);
        assert_eq!(two.to_nanos(7), 3);
        assert_eq!(two.to_ticks(3), 6);
        assert_eq!(two.hertz(), 2_000_000_000);
        // No time or no ticks: nothing to divide by, and still a number.
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
