//! A POSIX semaphore.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;

use super::Waited;
use crate::Error;

/// A semaphore for the threads of this process (`sem_overview(7)`).
pub struct Semaphore(Box<UnsafeCell<MaybeUninit<libc::sem_t>>>);

// SAFETY: a semaphore is designed for sharing between threads.
unsafe impl Send for Semaphore {}
// SAFETY: as above.
unsafe impl Sync for Semaphore {}

impl Semaphore {
    /// Creates a semaphore with the value `count`.
    ///
    /// # Errors
    /// Returns [`Error::Os`] for a count above SEM_VALUE_MAX (2^31 - 1).
    pub fn new(count: u32) -> Result<Self, Error> {
        let semaphore = Box::new(UnsafeCell::new(MaybeUninit::uninit()));
        // SAFETY: the call initialises new memory.
        if unsafe { libc::sem_init(semaphore.get().cast(), 0, count) } != 0 {
            let what = format!("a count of {count}");
            return Err(Error::os("sem_init", what, io::Error::last_os_error()));
        }
        Ok(Self(semaphore))
    }

    /// Increments the semaphore, which wakes a waiting thread.
    ///
    /// # Errors
    /// Returns [`Error::Os`] if the counter is at its maximum.
    #[inline]
    pub fn post(&self) -> Result<(), Error> {
        // SAFETY: the semaphore is initialised and does not move.
        match unsafe { libc::sem_post(self.0.get().cast()) } {
            0 => Ok(()),
            _ => Err(failed("sem_post")),
        }
    }

    /// Decrements the semaphore. Waits while it is zero.
    ///
    /// # Errors
    /// Returns [`Error::Os`] only on a programming error.
    #[inline]
    pub fn wait(&self) -> Result<Waited, Error> {
        // SAFETY: the semaphore is initialised and does not move.
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
        // SAFETY: no borrow remains, so no thread is waiting.
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
