//! System V's semaphore.
#![allow(unsafe_code)]

use std::io;

use crate::{Error, Waited};

/// A set of one semaphore without a key (`semget(2)` with IPC_PRIVATE),
/// removed when this is dropped.
///
/// The kernel keeps such a set until it is removed: after a kill -9 it stays,
/// listed by `ipcs -s`, until `ipcrm -s ID` or the next start.
#[derive(Debug)]
pub struct SystemVSemaphore {
    id: libc::c_int,
    ours: bool,
}

impl SystemVSemaphore {
    /// One that cannot be taken before it is posted.
    ///
    /// # Errors
    /// [`Error::Os`]: ENOSPC beyond the limits in `/proc/sys/kernel/sem`,
    /// ENOSYS where the kernel has none.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: takes numbers only.
        let id = unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) };
        if id < 0 {
            let source = io::Error::last_os_error();
            return Err(Error::os("semget", "a set of one semaphore", source));
        }
        // Linux makes it with the value zero (semget(2), "Semaphore
        // initialization").
        Ok(Self { id, ours: true })
    }

    /// That of another process, by its number there. It is not removed when this
    /// is dropped.
    pub fn of_other(id: i32) -> Self {
        Self { id, ours: false }
    }

    /// Its number, by which another process can use it.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Removes it; for who outlives the one that made it. Whoever waits for it
    /// gets an error.
    pub fn remove(&self) {
        // SAFETY: takes numbers only; IPC_RMID takes no fourth argument.
        unsafe { libc::semctl(self.id, 0, libc::IPC_RMID) };
    }

    /// Adds one, and so wakes a thread that waits.
    ///
    /// # Errors
    /// [`Error::Os`] when the counter is at its end (32767).
    #[inline]
    pub fn post(&self) -> Result<(), Error> {
        self.change(1).map(|_| ())
    }

    /// Takes one, and waits for it if there is none.
    ///
    /// # Errors
    /// [`Error::Os`] if somebody else has removed the set.
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
