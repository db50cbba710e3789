//! Signals that end a program without leaving a real-time thread that exits as such.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::{Error, demote_own_threads};

/// The flag of [`stop_at_signals`] and the exit status at a second signal.
static STOP: OnceLock<(Arc<AtomicBool>, i32)> = OnceLock::new();

/// Sets the returned flag at the first of these signals. At the second one, ends the process at
/// once with this exit status, after [`demote_own_threads`]. Further calls return the same flag and
/// keep the status.
///
/// # Errors
/// Returns [`Error::Os`] if a number is not that of a signal that can be handled.
pub fn stop_at_signals(signals: &[i32], status: i32) -> Result<Arc<AtomicBool>, Error> {
    let (flag, _) = STOP.get_or_init(|| (Arc::default(), status));
    for signal in signals {
        install(*signal, stop, libc::SA_RESTART)?;
    }
    Ok(Arc::clone(flag))
}

/// Handles a signal of [`stop_at_signals`]. Everything here is async-signal-safe.
extern "C" fn stop(_signal: libc::c_int) {
    if let Some((flag, status)) = STOP.get()
        && flag.swap(true, Ordering::Relaxed)
    {
        demote_own_threads();
        // SAFETY: the call takes an integer and does not return.
        unsafe { libc::_exit(*status) }
    }
}

/// Calls [`demote_own_threads`] before one of these signals ends the process, which is their default
/// action.
///
/// # Errors
/// Returns [`Error::Os`] if a number is not that of a signal that can be handled.
pub fn demote_at_signals(signals: &[i32]) -> Result<(), Error> {
    let each = |signal: &i32| install(*signal, last_act, libc::SA_RESETHAND);
    signals.iter().try_for_each(each)
}

/// Handles a signal of [`demote_at_signals`], whose action is the default one again.
extern "C" fn last_act(signal: libc::c_int) {
    demote_own_threads();
    // SAFETY: the call takes an integer. The signal is blocked until this handler returns.
    unsafe { libc::raise(signal) };
}

fn install(signal: i32, handler: extern "C" fn(libc::c_int), flags: i32) -> Result<(), Error> {
    // SAFETY: all zero bytes are a valid sigaction: no flags, an empty mask.
    let mut action = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
    action.sa_sigaction = handler as libc::sighandler_t;
    // Threads started by code in other languages may have small stacks.
    action.sa_flags = flags | libc::SA_ONSTACK;
    // SAFETY: `action` is complete; its handler is async-signal-safe and exists as long as the
    // program.
    match unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(Error::os(
            "sigaction",
            format!("signal {signal}"),
            io::Error::last_os_error(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    /// Runs a test of this file again in a process of its own, where `act` ends the process.
    fn in_process(test: &str, act: fn()) -> Option<std::process::ExitStatus> {
        const MARK: &str = "PUNCTUAL_SIGNALS";
        if std::env::var_os(MARK).is_some() {
            act();
            return None;
        }
        let this = std::env::current_exe().unwrap();
        let mut command = std::process::Command::new(this);
        command.args(["--exact", &format!("stop_signal::tests::{test}")]);
        Some(command.env(MARK, "1").status().unwrap())
    }

    fn raise(signal: i32) {
        // SAFETY: the call takes an integer.
        unsafe { libc::raise(signal) };
    }

    #[test]
    fn second_signal_ends_process() {
        let status = in_process("second_signal_ends_process", || {
            let signals = [libc::SIGTERM, libc::SIGINT];
            let stop = stop_at_signals(&signals, 42).unwrap();
            assert!(!stop.load(Ordering::Relaxed));
            raise(libc::SIGINT);
            assert!(stop.load(Ordering::Relaxed));
            let again = stop_at_signals(&signals, 43).unwrap();
            assert!(again.load(Ordering::Relaxed));
            raise(libc::SIGTERM);
        });
        if let Some(status) = status {
            assert_eq!(status.code(), Some(42));
        }
    }

    #[test]
    fn fatal_signal_stays_fatal() {
        let status = in_process("fatal_signal_stays_fatal", || {
            demote_at_signals(&[libc::SIGALRM]).unwrap();
            raise(libc::SIGALRM);
        });
        if let Some(status) = status {
            assert_eq!(status.signal(), Some(libc::SIGALRM));
        }
    }

    #[test]
    fn impossible_signal_is_refused() {
        let error = demote_at_signals(&[libc::SIGKILL]).unwrap_err();
        assert!(error.to_string().contains("signal 9"), "{error}");
    }
}
