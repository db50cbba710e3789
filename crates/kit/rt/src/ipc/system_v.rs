//! A System V semaphore.
#![allow(unsafe_code)]

use std::io;

use crate::{Error, Waited};

/// A set that contains one semaphore and has no key (`semget(2)` with IPC_PRIVATE), removed on
/// drop.
///
/// The kernel keeps such a set until it is removed. After a kill -9 it remains, listed by
/// `ipcs -s`, until `ipcrm -s ID` or the next boot.
#[derive(Debug)]
pub struct SystemVSemaphore {
    id: libc::c_int,
    ours: bool,
}

impl SystemVSemaphore {
    /// Creates a semaphore with the value zero.
    ///
    /// # Errors
    /// Returns [`Error::Os`]: ENOSPC if it would exceed the limits in `/proc/sys/kernel/sem`,
    /// ENOSYS if the kernel does not support System V semaphores.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: the call takes only integers.
        let id = unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) };
        if id < 0 {
            let source = io::Error::last_os_error();
            return Err(Error::os("semget", "a set of one semaphore", source));
        }
        // On Linux its initial value is zero (semget(2), "Semaphore initialization").
        Ok(Self { id, ours: true })
    }

    /// Uses the semaphore of another process, by its ID. It is not removed on drop.
    pub fn of_other(id: i32) -> Self {
        Self { id, ours: false }
    }

    /// Returns the ID, which another process can use with `of_other`.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Removes the semaphore, for a process that outlives the semaphore's creator. Waiting threads
    /// get an error.
    pub fn remove(&self) {
        // SAFETY: the call takes only integers; IPC_RMID takes no fourth argument.
        unsafe { libc::semctl(self.id, 0, libc::IPC_RMID) };
    }

    /// Increments the semaphore, which wakes a waiting thread.
    ///
    /// # Errors
    /// Returns [`Error::Os`] if the counter is at its maximum (32767).
    #[inline]
    pub fn post(&self) -> Result<(), Error> {
        self.change(1).map(|_| ())
    }

    /// Decrements the semaphore. Waits while it is zero.
    ///
    /// # Errors
    /// Returns [`Error::Os`] if the set has been removed.
    #[inline]
    pub fn wait(&self) -> Result<Waited, Error> {
        self.change(-1)
    }

    #[inline]
    fn change(&self, by: libc::c_short) -> Result<Waited, Error> {
        let mut operation = libc::sembuf {
            sem_num: 0,
            sem_op: by,
            sem_flg: 0,
        };
        // SAFETY: one complete operation.
        match unsafe { libc::semop(self.id, &raw mut operation, 1) } {
            0 => Ok(Waited::Woken),
            _ => failed(),
        }
    }
}

impl Drop for SystemVSemaphore {
    fn drop(&mut self) {
        if self.ours {
            self.remove();
        }
    }
}

#[cold]
fn failed() -> Result<Waited, Error> {
    let source = io::Error::last_os_error();
    if source.kind() == io::ErrorKind::Interrupted {
        return Ok(Waited::Interrupted);
    }
    Err(Error::os("semop", "a System V semaphore", source))
}
