//! A barrier at which threads wait for each other.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::num::NonZeroU32;

use crate::Error;

/// A `pthread_barrier_t`: each thread that arrives waits until all threads have arrived.
pub struct Barrier(Box<UnsafeCell<MaybeUninit<libc::pthread_barrier_t>>>);

// SAFETY: a barrier is designed for sharing between threads.
unsafe impl Send for Barrier {}
// SAFETY: as above.
unsafe impl Sync for Barrier {}

impl Barrier {
    /// Creates a barrier for `threads` threads.
    ///
    /// # Errors
    /// Returns [`Error::Os`] for a number that the C library does not accept.
    pub fn new(threads: NonZeroU32) -> Result<Self, Error> {
        let barrier = Box::new(UnsafeCell::new(MaybeUninit::uninit()));
        // SAFETY: the call initialises new memory; null means the default attributes.
        let code = unsafe {
            libc::pthread_barrier_init(barrier.get().cast(), std::ptr::null(), threads.get())
        };
        match code {
            0 => Ok(Self(barrier)),
            code => Err(Error::os(
                "pthread_barrier_init",
                format!("{threads} threads"),
                io::Error::from_raw_os_error(code),
            )),
        }
    }

    /// Waits until all threads have arrived. Returns `true` in exactly one of them. Signals do not
    /// end the wait.
    #[inline]
    pub fn wait(&self) -> bool {
        // SAFETY: the barrier is initialised and does not move, so the call does not fail.
        let code = unsafe { libc::pthread_barrier_wait(self.0.get().cast()) };
        code == libc::PTHREAD_BARRIER_SERIAL_THREAD
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        // SAFETY: no borrow remains, so no thread is waiting.
        unsafe { libc::pthread_barrier_destroy(self.0.get().cast()) };
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").finish_non_exhaustive()
    }
}
