//! A periodic timer that sends a signal to one thread.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::account::Account;
use super::{PeriodicWait, Wake};
use crate::interrupt::{change_mask, set_of};
use crate::{Clock, Error, Instant, current_tid};

/// A `timer_create(2)` timer that expires at `first` and every `interval` after it. It signals the
/// thread that created it, which waits for the signal with `rt_sigtimedwait(2)`.
///
/// The signal is SIGRTMAX-3, which is blocked in this thread until the timer is dropped. A thread
/// can have at most one such timer, which cannot leave the thread.
///
/// The deadlines are the expirations of the timer, as with [`crate::TimerFd`].
///
/// ```compile_fail
/// fn sent_to_another_thread<T: Send>() {}
/// sent_to_another_thread::<punctual_rt::SignalTimer>();
/// ```
#[derive(Debug)]
pub struct SignalTimer {
    clock: Clock,
    timer: libc::timer_t,
    signals: libc::sigset_t,
    /// A value that the kernel returns with each signal of this timer.
    identity: usize,
    account: Account,
    was_blocked: bool,
    /// The signal is delivered to the thread that created this value, so this type is not `Send`.
    _stays: PhantomData<*mut ()>,
}

/// The kernel's data for a timer signal: `siginfo_t` as laid out in
/// `include/uapi/asm-generic/siginfo.h`, in full size.
#[repr(C)]
struct TimerSignal {
    signo: libc::c_int,
    // MIPS has these two in reverse order.
    #[cfg(not(any(target_arch = "mips", target_arch = "mips64")))]
    errno: libc::c_int,
    code: libc::c_int,
    #[cfg(any(target_arch = "mips", target_arch = "mips64"))]
    errno: libc::c_int,
    fields: TimerFields,
    /// Pads to at least the 128 bytes that the kernel writes.
    rest: [libc::c_int; 28],
}

#[repr(C)]
struct TimerFields {
    timer: libc::c_int,
    overrun: libc::c_int,
    value: *mut c_void,
}

const _: () = assert!(size_of::<TimerSignal>() >= 128);

/// Size of the kernel's `sigset_t`, which differs from that of the C library (`_NSIG / 8`).
const KERNEL_SIGNAL_SET: usize = if cfg!(any(target_arch = "mips", target_arch = "mips64")) {
    16
} else {
    8
};

thread_local! {
    static IN_USE: Cell<bool> = const { Cell::new(false) };
}

fn signal() -> libc::c_int {
    libc::SIGRTMAX() - 3
}

impl SignalTimer {
    /// Creates an armed timer on `clock` for the calling thread.
    ///
    /// # Errors
    /// Returns [`Error::SignalTimerInUse`] if the thread already has one,
    /// [`Error::ClockUnsupported`] for [`Clock::MonotonicRaw`], [`Error::IntervalZero`], and
    /// [`Error::Os`] if no timer is available (RLIMIT_SIGPENDING).
    pub fn new(clock: Clock, first: Instant, interval: Duration) -> Result<Self, Error> {
        static IDENTITIES: AtomicUsize = AtomicUsize::new(1);
        let account = Account::new(first, interval)?;
        if IN_USE.get() {
            return Err(Error::SignalTimerInUse);
        }
        let was_blocked = change_mask(libc::SIG_BLOCK, signal())?;
        let identity = IDENTITIES.fetch_add(1, Ordering::Relaxed);
        let timer = create(clock, identity).inspect_err(|_| unblock(was_blocked))?;
        IN_USE.set(true);
        // From here on, the drop undoes everything.
        let this = Self {
            clock,
            timer,
            signals: set_of(signal()),
            identity,
            account,
            was_blocked,
            _stays: PhantomData,
        };
        this.arm()?;
        Ok(this)
    }

    /// Returns the number of expirations received so far, including those of skipped deadlines.
    pub fn expirations(&self) -> u64 {
        self.account.expirations()
    }

    fn arm(&self) -> Result<(), Error> {
        let timespec = |time: Instant| libc::timespec {
            tv_sec: (time.as_nanos() / 1_000_000_000) as _,
            tv_nsec: (time.as_nanos() % 1_000_000_000) as _,
        };
        let times = libc::itimerspec {
            it_interval: timespec(self.account.interval()),
            it_value: timespec(self.account.first()),
        };
        // SAFETY: the timer exists, `times` is complete, and the old times are not requested.
        let result = unsafe {
            libc::timer_settime(
                self.timer,
                libc::TIMER_ABSTIME,
                &raw const times,
                ptr::null_mut(),
            )
        };
        if result == 0 {
            return Ok(());
        }
        let what = format!("{} ns on {}", self.account.first().as_nanos(), self.clock);
        Err(Error::os("timer_settime", what, io::Error::last_os_error()))
    }

    /// Receives one signal. Does not use the C library's function, because that of musl continues
    /// to wait after EINTR.
    #[inline]
    fn receive(&self, timeout: *const libc::timespec) -> io::Result<TimerSignal> {
        let mut info = MaybeUninit::<TimerSignal>::zeroed();
        // SAFETY: `signals` is a set at least as large as the kernel's, `info` is at least as large
        // as what it writes, and `timeout` is null or valid.
        let result = unsafe {
            libc::syscall(
                libc::SYS_rt_sigtimedwait as libc::c_long,
                &raw const self.signals,
                info.as_mut_ptr(),
                timeout,
                KERNEL_SIGNAL_SET,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the type consists of integers and a pointer that is never dereferenced, so any
        // bits, including all zeroes, are valid.
        Ok(unsafe { info.assume_init() })
    }
}

/// Creates the timer, which signals only the calling thread.
fn create(clock: Clock, identity: usize) -> Result<libc::timer_t, Error> {
    // SAFETY: all zero bytes are a valid sigevent.
    let mut event = unsafe { MaybeUninit::<libc::sigevent>::zeroed().assume_init() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = signal();
    event.sigev_notify_thread_id = current_tid().as_raw();
    event.sigev_value = libc::sigval {
        sival_ptr: ptr::without_provenance_mut(identity),
    };
    let mut timer = MaybeUninit::<libc::timer_t>::uninit();
    // SAFETY: `event` is complete. The call writes to `timer` if it succeeds, and `timer` is read
    // only in that case.
    let result = unsafe { libc::timer_create(clock.id(), &raw mut event, timer.as_mut_ptr()) };
    if result == 0 {
        // SAFETY: initialised by the call.
        return Ok(unsafe { timer.assume_init() });
    }
    let source = io::Error::last_os_error();
    Err(match source.raw_os_error() {
        Some(libc::EINVAL | libc::EOPNOTSUPP) => Error::ClockUnsupported {
            clock,
            wait: "timer_create",
        },
        _ => Error::os("timer_create", clock.name(), source),
    })
}

fn unblock(was_blocked: bool) {
    if !was_blocked {
        // Changing the thread's own mask does not fail for a valid signal.
        let _ = change_mask(libc::SIG_UNBLOCK, signal());
    }
}

impl PeriodicWait for SignalTimer {
    #[inline]
    fn wait_until(&mut self, deadline: Instant) -> Result<Wake, Error> {
        while !self.account.covers(deadline) {
            let info = match self.receive(ptr::null()) {
                Ok(info) => info,
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {
                    return Ok(Wake::Interrupted);
                }
                Err(error) => return Err(Error::os("rt_sigtimedwait", self.clock.name(), error)),
            };
            if info.code != libc::SI_TIMER || info.fields.value.addr() != self.identity {
                // The signal came from another sender.
                return Ok(Wake::Interrupted);
            }
            match u64::try_from(info.fields.overrun) {
                // The kernel's counter is at its maximum (DELAYTIMER_MAX).
                Ok(overrun) if overrun >= i32::MAX as u64 => {
                    self.account.catch_up(self.clock.now());
                }
                Ok(overrun) => self.account.add(1 + overrun),
                Err(_) => self.account.add(1),
            }
        }
        Ok(Wake::Due)
    }
}

impl Drop for SignalTimer {
    fn drop(&mut self) {
        // SAFETY: the timer exists and is not used again.
        unsafe { libc::timer_delete(self.timer) };
        let at_once = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // A signal that is still pending would kill the process once it is unblocked.
        while !self.was_blocked && self.receive(&raw const at_once).is_ok() {}
        unblock(self.was_blocked);
        IN_USE.set(false);
    }
}
