//! A deadline thread that learns when its runtime is used up.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

use crate::interrupt::change_mask;
use crate::policy::{current_policy, set_deadline_with_signal, set_policy};
use crate::{Error, Policy, ThreadRef};

thread_local! {
    static OVERRUNS: Cell<u64> = const { Cell::new(0) };
}

/// SCHED_DEADLINE for the calling thread, with the kernel's signal for each time that it
/// used its runtime up (SCHED_FLAG_DL_OVERRUN of sched_setattr(2), Linux 4.16). Dropped,
/// the thread has its former policy again.
///
/// The signal is SIGXCPU, and ends a wait that the thread is in (EINTR). It is noticed at
/// the next tick, so that overruns in quick succession count as one.
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
    /// The signal goes to the thread that made it.
    _stays: PhantomData<*mut ()>,
}

impl DeadlineThread {
    /// Makes the calling thread one with `runtime` of CPU time before `deadline` in every
    /// `period`. SIGXCPU is then handled here, in all threads.
    ///
    /// # Errors
    /// As [`set_policy`]; [`Error::SignalTaken`] if another part of the program handles
    /// SIGXCPU; [`Error::NotSupported`] before Linux 4.16.
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

    /// Gives the rest of the runtime back until the next period begins
    /// (`sched_yield(2)` of a deadline thread, sched(7)).
    #[inline]
    pub fn end_job(&self) {
        rustix::thread::sched_yield();
    }

    /// How often the runtime was used up.
    pub fn overruns(&self) -> u64 {
        OVERRUNS.get()
    }
}

impl Drop for DeadlineThread {
    fn drop(&mut self) {
        let usual = Policy::Other { nice: 0 };
        let before = self.before.unwrap_or(usual);
        // To an ordinary policy nobody is refused.
        if set_policy(ThreadRef::Current, &before).is_err() {
            let _ = set_policy(ThreadRef::Current, &usual);
        }
    }
}

/// A store to a thread-local without a destructor is allowed in a handler.
extern "C" fn handler(_: libc::c_int) {
    OVERRUNS.set(OVERRUNS.get().saturating_add(1));
}

/// Installs the handler for the whole process; again does nothing new.
fn install() -> Result<(), Error> {
    let failed = || Error::os("sigaction", "SIGXCPU", io::Error::last_os_error());
    let ours = handler as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: all zeroes is a valid sigaction: no flags, an empty mask.
    let (mut new, mut old) = unsafe {
        (
            MaybeUninit::<libc::sigaction>::zeroed().assume_init(),
            MaybeUninit::<libc::sigaction>::zeroed().assume_init(),
        )
    };
    // SAFETY: a null new action only asks; `old` is there to write to.
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
    // SAFETY: `new` is complete; its handler is async-signal-safe and lives as long as
    // the program.
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
    fn a_runtime_that_is_used_up_is_signalled() {
        std::thread::spawn(|| {
            let ms = Duration::from_millis;
            let thread = match DeadlineThread::new(ms(1), ms(10), ms(10)) {
                Ok(thread) => thread,
                Err(error) => {
                    punctual_testing::skip!("{error}");
                    return;
                }
            };
            assert_eq!(current_policy().unwrap().kind(), PolicyKind::Deadline);
            for _ in 0..3 {
                thread.end_job();
            }
            // It gets 1 ms of each 10, so this uses its runtime up again and again.
            let start = std::time::Instant::now();
            while thread.overruns() == 0 && start.elapsed() < Duration::from_secs(20) {
                std::hint::spin_loop();
            }
            assert!(thread.overruns() > 0);
            drop(thread);
            assert_eq!(current_policy().unwrap().kind(), PolicyKind::Other);
        })
        .join()
        .unwrap();
    }
}
