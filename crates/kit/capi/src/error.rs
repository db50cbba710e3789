//! Errors as negative errno values, with the last message of each thread.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use punctual_rt::Error;

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::new(CString::default());
}

/// The reason why a call failed.
pub(crate) struct Failure {
    number: c_int,
    message: String,
}

impl Failure {
    pub(crate) fn new(number: c_int, message: impl Into<String>) -> Self {
        Self {
            number,
            message: message.into(),
        }
    }

    /// The error for a pointer that must not be NULL.
    pub(crate) fn null(what: &str) -> Self {
        Self::new(libc::EINVAL, format!("{what} is NULL"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let of = |source: &io::Error| source.raw_os_error().unwrap_or(libc::EIO);
        let number = match &error {
            error if error.is_privilege() => match error {
                Error::MemoryLockRefused { source, .. } => of(source),
                _ => libc::EPERM,
            },
            Error::Os { source, .. } | Error::SpawnFailed { source, .. } => of(source),
            Error::NoSuchThread { .. } => libc::ESRCH,
            Error::DeadlineOverbooked { .. }
            | Error::AffinityOfDeadlineThread { .. }
            | Error::SignalTaken { .. } => libc::EBUSY,
            Error::NotSupported { .. } | Error::ClockUnsupported { .. } => libc::EOPNOTSUPP,
            _ => libc::EINVAL,
        };
        Self::new(number, error.to_string())
    }
}

impl From<punctual_app::Error> for Failure {
    fn from(error: punctual_app::Error) -> Self {
        use punctual_app::Error;
        let number = match &error {
            Error::Os { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
            Error::NoChannelLeft { .. } => libc::ENOSPC,
            Error::NoSeal => libc::EOPNOTSUPP,
            _ => libc::EINVAL,
        };
        Self::new(number, error.to_string())
    }
}

/// Runs `work` and returns 0, or a negative errno after storing the message.
#[inline]
pub(crate) fn answer(work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    number(|| work().map(|()| 0))
}

/// Like [`answer`], but for functions that return a non-negative number.
#[inline]
pub(crate) fn number(work: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(number)) => number,
        Ok(Err(failure)) => keep(failure),
        Err(_) => keep(Failure::new(
            libc::ENOTRECOVERABLE,
            "a panic in libpunctual_kit, which is a bug",
        )),
    }
}

#[cold]
fn keep(failure: Failure) -> c_int {
    // Our messages contain no zero byte, but text that they quote may contain one.
    let text = failure.message.replace('\0', "?");
    MESSAGE.with_borrow_mut(|message| *message = CString::new(text).unwrap_or_default());
    -failure.number
}

/// Returns the message of the last call that failed in this thread. It stays valid until the next
/// failure. If a permission is missing, the message names the permission and how to get it. The
/// result is never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_last_error() -> *const c_char {
    // While a thread exits, its message may already be destroyed.
    MESSAGE
        .try_with(|message| message.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}
