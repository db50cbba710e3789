//! All POSIX clocks, which can be read in two ways: through the C library, and by a system call.
#![allow(unsafe_code)]

use std::fmt;
use std::thread;
use std::time::Duration;

use crate::clock;

/// The clocks of `clock_gettime(2)`, including those for CPU time and the cheap coarse ones. For
/// waiting and periodic work, use [`Clock`](crate::Clock).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PosixClock {
    /// `CLOCK_REALTIME`.
    Realtime,
    /// `CLOCK_REALTIME_COARSE`: realtime as of the last tick.
    RealtimeCoarse,
    /// `CLOCK_MONOTONIC`.
    Monotonic,
    /// `CLOCK_MONOTONIC_COARSE`: monotonic as of the last tick.
    MonotonicCoarse,
    /// `CLOCK_MONOTONIC_RAW`.
    MonotonicRaw,
    /// `CLOCK_BOOTTIME`.
    Boottime,
    /// `CLOCK_TAI`.
    Tai,
    /// `CLOCK_PROCESS_CPUTIME_ID`: CPU time of all threads of the process.
    ProcessCpuTime,
    /// `CLOCK_THREAD_CPUTIME_ID`: CPU time of the calling thread.
    ThreadCpuTime,
}

/// The structure that the kernel fills in (`struct __kernel_timespec`), 64 bits wide on all
/// machines.
#[repr(C)]
#[derive(Default)]
struct KernelTime {
    secs: i64,
    nanos: i64,
}

/// The system call with a 64-bit time.
#[cfg(target_pointer_width = "64")]
const CLOCK_GETTIME: libc::c_long = libc::SYS_clock_gettime;
// This number is used on all architectures except MIPS, since Linux 5.1 (kernel,
// scripts/syscall.tbl). `libc` does not define it on all of them.
#[cfg(not(target_pointer_width = "64"))]
const CLOCK_GETTIME: libc::c_long = 403;

impl PosixClock {
    /// All clocks, in the order of the manual page.
    pub const ALL: [Self; 9] = [
        Self::Realtime,
        Self::RealtimeCoarse,
        Self::Tai,
        Self::Monotonic,
        Self::MonotonicCoarse,
        Self::MonotonicRaw,
        Self::Boottime,
        Self::ProcessCpuTime,
        Self::ThreadCpuTime,
    ];

    /// Returns the kernel's name of the clock without `CLOCK_`.
    pub const fn short_name(self) -> &'static str {
        match self {
            Self::Realtime => "REALTIME",
            Self::RealtimeCoarse => "REALTIME_COARSE",
            Self::Monotonic => "MONOTONIC",
            Self::MonotonicCoarse => "MONOTONIC_COARSE",
            Self::MonotonicRaw => "MONOTONIC_RAW",
            Self::Boottime => "BOOTTIME",
            Self::Tai => "TAI",
            Self::ProcessCpuTime => "PROCESS_CPUTIME_ID",
            Self::ThreadCpuTime => "THREAD_CPUTIME_ID",
        }
    }

    #[inline(always)]
    const fn id(self) -> libc::clockid_t {
        match self {
            Self::Realtime => libc::CLOCK_REALTIME,
            Self::RealtimeCoarse => libc::CLOCK_REALTIME_COARSE,
            Self::Monotonic => libc::CLOCK_MONOTONIC,
            Self::MonotonicCoarse => libc::CLOCK_MONOTONIC_COARSE,
            Self::MonotonicRaw => libc::CLOCK_MONOTONIC_RAW,
            Self::Boottime => libc::CLOCK_BOOTTIME,
            Self::Tai => libc::CLOCK_TAI,
            Self::ProcessCpuTime => libc::CLOCK_PROCESS_CPUTIME_ID,
            Self::ThreadCpuTime => libc::CLOCK_THREAD_CPUTIME_ID,
        }
    }

    /// Reads the clock with clock_gettime() of the C library, like any program. Uses the vDSO if it
    /// supports the clock. Returns the nanoseconds since the origin of the clock, or zero for a
    /// clock that this kernel does not have.
    #[inline]
    pub fn read(self) -> u64 {
        clock::read(self.id())
    }

    /// Reads the clock by a system call, even if the vDSO supports it.
    #[inline]
    pub fn read_by_system_call(self) -> u64 {
        self.by_system_call().unwrap_or(0)
    }

    #[inline]
    fn by_system_call(self) -> Option<u64> {
        let mut time = KernelTime::default();
        // SAFETY: clock_gettime(2) writes a 64-bit timespec to its second argument, which points to
        // one.
        let result = unsafe { libc::syscall(CLOCK_GETTIME, self.id(), &raw mut time) };
        let (secs, nanos) = (u64::try_from(time.secs), u64::try_from(time.nanos));
        match (result, secs, nanos) {
            (0, Ok(secs), Ok(nanos)) => {
                Some(secs.saturating_mul(1_000_000_000).saturating_add(nanos))
            }
            _ => None,
        }
    }

    /// Returns the resolution that the kernel states (`clock_getres(2)`): 1 ns with high-resolution
    /// timers, a tick for the coarse clocks. The real step of the clock may differ. Returns `None`
    /// for a clock that this kernel does not have.
    pub fn resolution(self) -> Option<Duration> {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is a valid timespec for the call to write to.
        let result = unsafe { libc::clock_getres(self.id(), &raw mut time) };
        let secs = u64::try_from(time.tv_sec).ok()?;
        let nanos = u32::try_from(time.tv_nsec).ok()?;
        (result == 0).then(|| Duration::new(secs, nanos))
    }

    /// Determines which of these clocks the C library reads without a system call.
    ///
    /// The result is reliable and needs no privilege. A separate thread blocks the system call
    /// clock_gettime for itself with a seccomp(2) filter, and the clocks that it can still read
    /// need no system call. Returns `None` if the kernel has no seccomp filters or does not allow
    /// this one.
    ///
    /// The answer depends on the current clock source, and on nothing else that changes while the
    /// kernel is running.
    pub fn served_without_kernel(clocks: &[Self]) -> Option<Vec<bool>> {
        thread::scope(|scope| {
            let reader = thread::Builder::new()
                .name("no-clock-calls".to_owned())
                .spawn_scoped(scope, || {
                    let forbidden = forbid_clock_gettime();
                    let works = forbidden && Self::Monotonic.by_system_call().is_none();
                    works.then(|| clocks.iter().map(|clock| clock.can_be_read()).collect())
                });
            reader.ok()?.join().ok()?
        })
    }

    fn can_be_read(self) -> bool {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is a valid timespec for the call to write to.
        unsafe { libc::clock_gettime(self.id(), &raw mut time) == 0 }
    }
}

impl fmt::Display for PosixClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CLOCK_{}", self.short_name())
    }
}

/// Makes the system call clock_gettime fail with EPERM in the calling thread. This cannot be
/// undone: the thread must end soon.
fn forbid_clock_gettime() -> bool {
    const fn instruction(code: u32, yes: u8, no: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter {
            code: code as u16,
            jt: yes,
            jf: no,
            k,
        }
    }
    // Classic BPF on struct seccomp_data, whose first word is the system call number (seccomp(2)).
    // The filter returns EPERM, not ENOSYS, because a C library may try another call on ENOSYS.
    let mut filter = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            1,
            0,
            libc::SYS_clock_gettime as u32,
        ),
        instruction(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            CLOCK_GETTIME as u32,
        ),
        instruction(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned(),
        ),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: both calls only change the calling thread. `program` and the instructions it points
    // to stay valid until the kernel has copied them. An unprivileged filter needs no_new_privs
    // (seccomp(2)).
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_read_the_same_clock() {
        for clock in PosixClock::ALL {
            let before = clock.read();
            let between = clock.read_by_system_call();
            let after = clock.read();
            assert!(
                clock.resolution().is_some_and(|time| !time.is_zero()),
                "{clock}"
            );
            assert!(between > 0, "{clock}");
            // Another program may set CLOCK_REALTIME during the test.
            let settable = matches!(
                clock,
                PosixClock::Realtime | PosixClock::RealtimeCoarse | PosixClock::Tai
            );
            assert!(
                settable || (before <= between && between <= after),
                "{clock}"
            );
        }
    }

    #[test]
    fn names_are_the_kernels() {
        assert_eq!(PosixClock::Tai.to_string(), crate::Clock::Tai.name());
        assert_eq!(
            PosixClock::MonotonicRaw.to_string(),
            crate::Clock::MonotonicRaw.name()
        );
    }

    #[test]
    fn cpu_time_clocks_always_need_the_kernel() {
        let Some(served) = PosixClock::served_without_kernel(&PosixClock::ALL) else {
            punctual_testing::skip!(Right, "this process may not set a seccomp filter");
            return;
        };
        let of = |clock| {
            let place = PosixClock::ALL.iter().position(|c| *c == clock).unwrap();
            served[place]
        };
        // No vDSO supports these clocks, because only the scheduler has their data.
        assert!(!of(PosixClock::ProcessCpuTime));
        assert!(!of(PosixClock::ThreadCpuTime));
        // The coarse clock needs no more support from the vDSO than CLOCK_MONOTONIC.
        if of(PosixClock::Monotonic) {
            assert!(of(PosixClock::MonotonicCoarse));
        }
        // The filter ended with its thread, so clocks can be read again.
        assert!(PosixClock::Monotonic.read_by_system_call() > 0);
    }
}
