//! The kernel's own wait, which all the others are made of.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::thread::futex;

use super::Waited;
use crate::Error;

/// A number that threads wait for to change (`futex(2)`, FUTEX_WAIT and
/// FUTEX_WAKE, private to this process).
#[derive(Debug, Default)]
pub struct Futex(AtomicU32);

impl Futex {
    /// The number now.
    #[inline]
    pub fn value(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Adds one to the number (it starts again at zero) and wakes one thread
    /// that waits.
    ///
    /// # Errors
    /// [`Error::Os`], for reasons a correct program does not meet.
    #[inline]
    pub fn post(&self) -> Result<(), Error> {
        post(&self.0, futex::Flags::PRIVATE)
    }

    /// Waits while the number is `value`. It may also return without a reason:
    /// look at the number.
    ///
    /// # Errors
    /// [`Error::Os`], for reasons a correct program does not meet.
    #[inline]
    pub fn wait_while(&self, value: u32) -> Result<Waited, Error> {
        wait_while(&self.0, futex::Flags::PRIVATE, value)
    }
}

/// The same for a number that processes share
/// ([`SharedNumbers`](crate::SharedNumbers)): not private, so that the kernel
/// knows it by its page and not by its address.
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
    /// [`Error::Os`], for reasons a correct program does not meet.
    #[inline]
    pub fn post(self) -> Result<(), Error> {
        post(self.0, futex::Flags::empty())
    }

    /// See [`Futex::wait_while`].
    ///
    /// # Errors
    /// [`Error::Os`], for reasons a correct program does not meet.
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
        // Again: it was another number when the kernel looked.
        Ok(()) | Err(Errno::AGAIN) => Ok(Waited::Woken),
        Err(Errno::INTR) => Ok(Waited::Interrupted),
        Err(errno) => Err(failed("FUTEX_WAIT", errno)),
    }
}

#[cold]
fn failed(operation: &str, errno: Errno) -> Error {
    Error::os("futex", operation, io::Error::from(errno))
}
