//! Interrupts a thread in a blocking system call.
//!
//! To stop a thread, set a flag and call [`interrupt`]. The signal handler does nothing, but the
//! system call of the thread returns EINTR (a [`PeriodicWait`](crate::PeriodicWait) returns
//! [`Wake::Interrupted`](crate::Wake::Interrupted)), and the thread checks the flag. A signal that
//! arrives just before the thread blocks has no effect, so repeat it until the thread has ended.
//!
//! The signal is SIGRTMAX-2; [`SignalTimer`](crate::SignalTimer) uses SIGRTMAX-3. Do not use these
//! parts of the crate in a program that uses the signals for other purposes.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Tid};

static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Returns the signal that [`interrupt`] sends.
pub fn signal() -> i32 {
    libc::SIGRTMAX() - 2
}

/// Does nothing: running it is enough to end the system call.
extern "C" fn handler(_signal: libc::c_int) {}

/// Installs the handler for the whole process, without SA_RESTART, so that system calls end.
/// Further calls have no effect.
///
/// # Errors
/// Returns [`Error::SignalTaken`] if another part of the program handles the signal.
pub fn install_interrupt_handler() -> Result<(), Error> {
    if INSTALLED.load(Ordering::Acquire) {
        return Ok(());
    }
    let failed = |source| Error::os("sigaction", format!("signal {}", signal()), source);
    let mut old = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with a null new action, the call only queries. The call writes to `old`, and all zero
    // bytes are a valid sigaction if it fails.
    let (result, old) = unsafe {
        (
            libc::sigaction(signal(), ptr::null(), old.as_mut_ptr()),
            old.assume_init(),
        )
    };
    if result != 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    let ours = handler as extern "C" fn(libc::c_int) as libc::sighandler_t;
    if ![libc::SIG_DFL, libc::SIG_IGN, ours].contains(&old.sa_sigaction) {
        return Err(Error::SignalTaken { signal: signal() });
    }
    // SAFETY: all zero bytes are a valid sigaction: no flags, an empty mask.
    let mut new = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
    new.sa_sigaction = ours;
    // Threads started by code in other languages may have small stacks.
    new.sa_flags = libc::SA_ONSTACK;
    // SAFETY: `new` is complete. Its handler does nothing, so it is async-signal-safe, and it
    // exists as long as the program.
    if unsafe { libc::sigaction(signal(), &raw const new, ptr::null_mut()) } != 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    INSTALLED.store(true, Ordering::Release);
    Ok(())
}

/// Interrupts the current system call of a thread of this process, if any.
///
/// The thread must not block the signal. Threads started by [`ThreadBuilder`](crate::ThreadBuilder)
/// do not block it.
///
/// # Errors
/// Returns [`Error::NoSuchThread`] if the thread has ended, and [`Error::NoInterruptHandler`]
/// before [`install_interrupt_handler`].
pub fn interrupt(thread: Tid) -> Result<(), Error> {
    if !INSTALLED.load(Ordering::Acquire) {
        return Err(Error::NoInterruptHandler);
    }
    // SAFETY: the call takes only integers. The process ID keeps the signal inside this process
    // even if the TID has been reused.
    let result = unsafe {
        libc::syscall(
            libc::SYS_tgkill as libc::c_long,
            libc::getpid(),
            thread.as_raw(),
            signal(),
        )
    };
    if result == 0 {
        return Ok(());
    }
    let source = io::Error::last_os_error();
    Err(match source.raw_os_error() {
        Some(libc::ESRCH) => Error::NoSuchThread {
            thread: thread.into(),
        },
        _ => Error::os("tgkill", format!("thread {thread}"), source),
    })
}

/// Unblocks the signal in the calling thread, which may have inherited a mask that blocks it.
pub(crate) fn unblock() -> Result<(), Error> {
    change_mask(libc::SIG_UNBLOCK, signal()).map(|_| ())
}

/// Blocks or unblocks one signal in the calling thread. Returns whether it was blocked before.
pub(crate) fn change_mask(how: libc::c_int, signal: libc::c_int) -> Result<bool, Error> {
    let set = set_of(signal);
    let mut old = set_of(signal);
    // SAFETY: both point to initialised signal sets.
    let code = unsafe { libc::pthread_sigmask(how, &raw const set, &raw mut old) };
    if code != 0 {
        return Err(Error::os(
            "pthread_sigmask",
            format!("signal {signal}"),
            io::Error::from_raw_os_error(code),
        ));
    }
    // SAFETY: `old` is an initialised signal set.
    Ok(unsafe { libc::sigismember(&raw const old, signal) } == 1)
}

/// Returns the set with only this signal.
pub(crate) fn set_of(signal: libc::c_int) -> libc::sigset_t {
    // SAFETY: all zero bytes are a valid sigset_t, and sigemptyset writes to it. sigaddset changes
    // nothing if the signal number is invalid.
    unsafe {
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed().assume_init();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::current_tid;

    #[test]
    fn an_ended_thread_cannot_be_interrupted() {
        install_interrupt_handler().unwrap();
        install_interrupt_handler().unwrap();
        let ended = std::thread::spawn(current_tid).join().unwrap();
        assert!(matches!(interrupt(ended), Err(Error::NoSuchThread { .. })));
        interrupt(current_tid()).unwrap();
    }

    #[test]
    fn the_mask_is_read_back() {
        std::thread::spawn(|| {
            let signal = libc::SIGUSR1;
            assert!(!change_mask(libc::SIG_BLOCK, signal).unwrap());
            assert!(change_mask(libc::SIG_UNBLOCK, signal).unwrap());
            assert!(!change_mask(libc::SIG_BLOCK, signal).unwrap());
        })
        .join()
        .unwrap();
    }
}
