//! The futex, the kernel's wait operation that all other locks build on.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::thread::futex;

use super::Waited;
use crate::Error;

/// A number on which threads can wait until it changes (`futex(2)`, FUTEX_WAIT and FUTEX_WAKE,
/// private to this process).
#[derive(Debug, Default)]
pub struct Futex(AtomicU32);

impl Futex {
    /// Returns the current number.
    #[inline]
    pub fn value(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Adds one to the number (it wraps to zero) and wakes one waiting thread.
    ///
    /// # Errors
    /// Returns [`Error::Os`] only on a programming error.
    #[inline]
    pub fn post(&self) -> Result<(), Error> {
        post(&self.0, futex::Flags::PRIVATE)
    }

    /// Waits while the number is `value`. Spurious wake-ups are possible, so check the number
    /// afterwards.
    ///
    /// # Errors
    /// Returns [`Error::Os`] only on a programming error.
    #[inline]
    pub fn wait_while(&self, value: u32) -> Result<Waited, Error> {
        wait_while(&self.0, futex::Flags::PRIVATE, value)
    }
}

/// A futex on a number shared by processes ([`SharedNumbers`](crate::SharedNumbers)). It is not
/// private to one process, so the kernel identifies it by its page instead of its address.
#[derive(Clone, Copy, Debug)]
pub struct SharedFutex<'a>(&'a AtomicU32);

impl<'a> SharedFutex<'a> {
    pub(crate) const fn new(number: &'a AtomicU32) -> Self {
        Self(number)
    }

    /// See [`Futex::value`].
    #[inline]
    pub fn value(self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// See [`Futex::post`].
    ///
    /// # Errors
    /// Returns [`Error::Os`] only on a programming error.
    #[inline]
    pub fn post(self) -> Result<(), Error> {
        post(self.0, futex::Flags::empty())
    }

    /// See [`Futex::wait_while`].
    ///
    /// # Errors
    /// Returns [`Error::Os`] only on a programming error.
    #[inline]
    pub fn wait_while(self, value: u32) -> Result<Waited, Error> {
        wait_while(self.0, futex::Flags::empty(), value)
    }
}

#[inline]
fn post(number: &AtomicU32, flags: futex::Flags) -> Result<(), Error> {
    number.fetch_add(1, Ordering::Release);
    match futex::wake(number, flags, 1) {
        Ok(_) => Ok(()),
        Err(errno) => Err(failed("FUTEX_WAKE", errno)),
    }
}

#[inline]
fn wait_while(number: &AtomicU32, flags: futex::Flags, value: u32) -> Result<Waited, Error> {
    match futex::wait(number, flags, value, None) {
        // EAGAIN: the number had already changed when the kernel checked it.
        Ok(()) | Err(Errno::AGAIN) => Ok(Waited::Woken),
        Err(Errno::INTR) => Ok(Waited::Interrupted),
        Err(errno) => Err(failed("FUTEX_WAIT", errno)),
    }
}

#[cold]
fn failed(operation: &str, errno: Errno) -> Error {
    Error::os("futex", operation, io::Error::from(errno))
}
