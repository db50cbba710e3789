//! POSIX's semaphore.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;

use super::Waited;
use crate::Error;

/// A counter that threads take from and wait for (`sem_overview(7)`), within
/// this process.
pub struct Semaphore(Box<UnsafeCell<MaybeUninit<libc::sem_t>>>);

// SAFETY: made to be shared between threads.
unsafe impl Send for Semaphore {}
// SAFETY: as above.
unsafe impl Sync for Semaphore {}

impl Semaphore {
    /// A semaphore that can be taken `count` times.
    ///
    /// # Errors
    /// [`Error::Os`] for a count beyond SEM_VALUE_MAX (2^31 - 1).
    pub fn new(count: u32) -> Result<Self, Error> {
        let semaphore = Box::new(UnsafeCell::new(MaybeUninit::uninit()));
        // SAFETY: new memory for the call to make a semaphore of.
        if unsafe { libc::sem_init(semaphore.get().cast(), 0, count) } != 0 {
            let what = format!("a count of {count}");
            return Err(Error::os("sem_init", what, io::Error::last_os_error()));
        }
        Ok(Self(semaphore))
    }

    /// Adds one, and so wakes a thread that waits.
    ///
    /// # Errors
    /// [`Error::Os`] when the counter is at its end.
    #[inline]
    pub fn post(&self) -> Result<(), Error> {
        // SAFETY: an initialised semaphore that stays where it is.
        match unsafe { libc::sem_post(self.0.get().cast()) } {
            0 => Ok(()),
            _ => Err(failed("sem_post")),
        }
    }

    /// Takes one, and waits for it if there is none.
    ///
    /// # Errors
    /// [`Error::Os`], for reasons a correct program does not meet.
    #[inline]
    pub fn wait(&self) -> Result<Waited, Error> {
        // SAFETY: an initialised semaphore that stays where it is.
        if unsafe { libc::sem_wait(self.0.get().cast()) } == 0 {
            return Ok(Waited::Woken);
        }
        match failed("sem_wait") {
            Error::Os { source, .. } if source.kind() == io::ErrorKind::Interrupted => {
                Ok(Waited::Interrupted)
            }
            error => Err(error),
        }
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        // SAFETY: nobody borrows it any more, so nobody waits.
        unsafe { libc::sem_destroy(self.0.get().cast()) };
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").finish_non_exhaustive()
    }
}

#[cold]
fn failed(call: &'static str) -> Error {
    Error::os(call, "a semaphore", io::Error::last_os_error())
}
