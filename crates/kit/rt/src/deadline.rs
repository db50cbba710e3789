//! A deadline thread that is notified of runtime overruns.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

use crate::interrupt::change_mask;
use crate::policy::{current_policy, set_deadline_with_signal, set_policy};
use crate::{Error, Policy, ThreadRef, demote};

thread_local! {
    static OVERRUNS: Cell<u64> = const { Cell::new(0) };
}

/// Gives the calling thread SCHED_DEADLINE, with a signal from the kernel for each runtime overrun
/// (SCHED_FLAG_DL_OVERRUN of sched_setattr(2), Linux 4.16). Dropping this value restores the
/// previous policy.
///
/// The signal is SIGXCPU. It interrupts a blocking system call of the thread (EINTR). The kernel
/// detects overruns at the next tick, so several overruns in quick succession count as one.
///
/// ```no_run
/// use std::time::Duration;
/// use punctual_rt::DeadlineThread;
///
/// let ms = Duration::from_millis;
/// let thread = DeadlineThread::new(ms(2), ms(10), ms(10))?;
/// for _ in 0..1_000 {
///     // ... at most 2 ms of work ...
///     thread.end_job();
/// }
/// println!("{} overruns", thread.overruns());
/// # Ok::<(), punctual_rt::Error>(())
/// ```
#[derive(Debug)]
pub struct DeadlineThread {
    before: Option<Policy>,
    /// The signal is delivered to the thread that created this value, so this type is not `Send`.
    _stays: PhantomData<*mut ()>,
}

impl DeadlineThread {
    /// Gives the calling thread `runtime` of CPU time before `deadline` in every `period`. Installs
    /// a handler for SIGXCPU in the whole process.
    ///
    /// # Errors
    /// See [`set_policy`]. Also returns [`Error::SignalTaken`] if another part of the program
    /// handles SIGXCPU, and [`Error::NotSupported`] before Linux 4.16.
    pub fn new(runtime: Duration, deadline: Duration, period: Duration) -> Result<Self, Error> {
        install()?;
        change_mask(libc::SIG_UNBLOCK, libc::SIGXCPU)?;
        OVERRUNS.set(0);
        let policy = Policy::Deadline {
            runtime,
            deadline,
            period,
        };
        let before = current_policy().ok();
        set_deadline_with_signal(&policy)?;
        Ok(Self {
            before,
            _stays: PhantomData,
        })
    }

    /// Gives up the remaining runtime until the next period (`sched_yield(2)` in a deadline thread,
    /// see sched(7)).
    #[inline]
    pub fn end_job(&self) {
        rustix::thread::sched_yield();
    }

    /// Returns the number of runtime overruns.
    pub fn overruns(&self) -> u64 {
        OVERRUNS.get()
    }
}

impl Drop for DeadlineThread {
    fn drop(&mut self) {
        let before = self.before.unwrap_or(Policy::Other { nice: 0 });
        if set_policy(ThreadRef::Current, &before).is_err() {
            demote(ThreadRef::Current);
        }
    }
}

/// A store to a thread-local without a destructor is allowed in a signal handler.
extern "C" fn handler(_: libc::c_int) {
    OVERRUNS.set(OVERRUNS.get().saturating_add(1));
}

/// Installs the handler for the whole process. Further calls have no effect.
fn install() -> Result<(), Error> {
    let failed = || Error::os("sigaction", "SIGXCPU", io::Error::last_os_error());
    let ours = handler as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: all zero bytes are a valid sigaction: no flags, an empty mask.
    let (mut new, mut old) = unsafe {
        (
            MaybeUninit::<libc::sigaction>::zeroed().assume_init(),
            MaybeUninit::<libc::sigaction>::zeroed().assume_init(),
        )
    };
    // SAFETY: with a null new action, the call only queries, and writes to `old`.
    if unsafe { libc::sigaction(libc::SIGXCPU, ptr::null(), &raw mut old) } != 0 {
        return Err(failed());
    }
    if old.sa_sigaction == ours {
        return Ok(());
    }
    if ![libc::SIG_DFL, libc::SIG_IGN].contains(&old.sa_sigaction) {
        return Err(Error::SignalTaken {
            signal: libc::SIGXCPU,
        });
    }
    new.sa_sigaction = ours;
    new.sa_flags = libc::SA_ONSTACK;
    // SAFETY: `new` is complete; its handler is async-signal-safe and exists as long as the
    // program.
    match unsafe { libc::sigaction(libc::SIGXCPU, &raw const new, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(failed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicyKind;

    #[test]
    fn exhausted_runtime_is_signalled() {
        let thread = punctual_testing::thread_of_test().spawn(|| {
            let ms = Duration::from_millis;
            let thread = match DeadlineThread::new(ms(1), ms(10), ms(10)) {
                Ok(thread) => thread,
                Err(error) => {
                    punctual_testing::skip_refused("a deadline thread", &error);
                    return;
                }
            };
            assert_eq!(current_policy().unwrap().kind(), PolicyKind::Deadline);
            for _ in 0..3 {
                thread.end_job();
            }
            // The runtime is 1 ms in each 10 ms, so this loop overruns repeatedly.
            let start = std::time::Instant::now();
            while thread.overruns() == 0 && start.elapsed() < Duration::from_secs(20) {
                std::hint::spin_loop();
            }
            assert!(thread.overruns() > 0);
            drop(thread);
            assert_eq!(current_policy().unwrap().kind(), PolicyKind::Other);
        });
        thread.unwrap().join().unwrap();
    }
}
