//! A counter with a file descriptor.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use crate::{Error, Waited};

/// A blocking `eventfd(2)`.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// Creates an eventfd with a counter of zero.
    ///
    /// # Errors
    /// Returns [`Error::Os`] if no file descriptor is available.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: the call takes only integers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(Error::os(
                "eventfd",
                "a new one",
                io::Error::last_os_error(),
            ));
        }
        // SAFETY: the descriptor is new and has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Adds one to the counter.
    ///
    /// # Errors
    /// Returns [`Error::Os`] only on a programming error.
    #[inline]
    pub fn post(&self) -> Result<(), Error> {
        match rustix::io::write(&self.0, &1_u64.to_ne_bytes()) {
            Ok(_) => Ok(()),
            // The write blocks, and can be interrupted, only if the counter would exceed 2^64 - 2.
            Err(errno) => Err(failed("write", errno)),
        }
    }

    /// Waits until the counter is not zero, and resets it.
    ///
    /// # Errors
    /// Returns [`Error::Os`] only on a programming error.
    #[inline]
    pub fn wait(&self) -> Result<Waited, Error> {
        let mut count = [0_u8; 8];
        match rustix::io::read(&self.0, &mut count) {
            Ok(_) => Ok(Waited::Woken),
            Err(Errno::INTR) => Ok(Waited::Interrupted),
            Err(errno) => Err(failed("read", errno)),
        }
    }
}

/// Uses an eventfd that another process created and this one inherited.
impl From<OwnedFd> for EventFd {
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cold]
fn failed(call: &'static str, errno: Errno) -> Error {
    Error::os(call, "the eventfd", io::Error::from(errno))
}
