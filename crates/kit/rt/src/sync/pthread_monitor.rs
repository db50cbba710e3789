//! The condition variable of the C library, as a probe measures it. It has a lock of its
//! own without priority inheritance (glibc bug 11588): [`crate::Monitor`] has not.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::Protocol;
use super::mutex::RawMutex;
use crate::Error;

/// A mutex with the one condition variable that belongs to it
/// (`pthread_cond_wait(3)`). That they are one thing keeps the rule that all
/// who wait for a condition hold the same mutex.
pub struct PthreadMonitor<T> {
    mutex: RawMutex,
    condition: Box<UnsafeCell<libc::pthread_cond_t>>,
    value: UnsafeCell<T>,
}

// SAFETY: the value goes from thread to thread with the lock, and only one
// holds it at a time.
unsafe impl<T: Send> Send for PthreadMonitor<T> {}
// SAFETY: as above; the condition variable is made to be shared.
unsafe impl<T: Send> Sync for PthreadMonitor<T> {}

impl<T> PthreadMonitor<T> {
    /// An unlocked one.
    ///
    /// # Errors
    /// As [`super::Mutex::new`].
    pub fn new(value: T, protocol: Protocol) -> Result<Self, Error> {
        Ok(Self {
            mutex: RawMutex::new(protocol)?,
            // Complete as it is: default attributes.
            condition: Box::new(UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER)),
            value: UnsafeCell::new(value),
        })
    }

    /// Waits until the lock is free and takes it.
    ///
    /// # Errors
    /// As [`super::Mutex::lock`].
    #[inline]
    pub fn lock(&self) -> Result<PthreadMonitorGuard<'_, T>, Error> {
        self.mutex.lock()?;
        Ok(PthreadMonitorGuard {
            monitor: self,
            _stays: PhantomData,
        })
    }

    /// Wakes one thread that waits for the condition, if any does. The lock
    /// may be held or not.
    #[inline]
    pub fn notify_one(&self) {
        // SAFETY: an initialised condition variable that stays where it is;
        // the call does not fail.
        unsafe { libc::pthread_cond_signal(self.condition.get()) };
    }

    /// Wakes all threads that wait for the condition.
    #[inline]
    pub fn notify_all(&self) {
        // SAFETY: as in `notify_one`.
        unsafe { libc::pthread_cond_broadcast(self.condition.get()) };
    }
}

impl<T> Drop for PthreadMonitor<T> {
    fn drop(&mut self) {
        // SAFETY: nobody borrows it any more, so nobody waits.
        unsafe { libc::pthread_cond_destroy(self.condition.get()) };
    }
}

impl<T> fmt::Debug for PthreadMonitor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PthreadMonitor").finish_non_exhaustive()
    }
}

/// The lock of a [`PthreadMonitor`], held until this is dropped.
pub struct PthreadMonitorGuard<'a, T> {
    monitor: &'a PthreadMonitor<T>,
    _stays: PhantomData<*mut ()>,
}

impl<T> PthreadMonitorGuard<'_, T> {
    /// Lets go of the lock, waits to be notified, and takes the lock again. It
    /// may also return without a reason: look at the value. A signal handler
    /// does not end the wait.
    ///
    /// # Errors
    /// [`Error::Os`], for reasons a correct program does not meet.
    #[inline]
    pub fn wait(&mut self) -> Result<(), Error> {
        let monitor = self.monitor;
        // SAFETY: both are initialised and stay where they are; this thread
        // holds the mutex, and all waits on this condition use this mutex. No
        // reference to the value lives on, as `self` is borrowed exclusively.
        let code =
            unsafe { libc::pthread_cond_wait(monitor.condition.get(), monitor.mutex.as_ptr()) };
        match code {
            0 => Ok(()),
            code => Err(refused(code)),
        }
    }
}

impl<T> Deref for PthreadMonitorGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held, so nobody else has the value.
        unsafe { &*self.monitor.value.get() }
    }
}

impl<T> DerefMut for PthreadMonitorGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, so nobody else has the value.
        unsafe { &mut *self.monitor.value.get() }
    }
}

impl<T> Drop for PthreadMonitorGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a guard exists only where this thread holds the lock, and it
        // does not leave the thread.
        unsafe { self.monitor.mutex.unlock() };
    }
}

impl<T> fmt::Debug for PthreadMonitorGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PthreadMonitorGuard")
            .finish_non_exhaustive()
    }
}

#[cold]
fn refused(code: i32) -> Error {
    let source = io::Error::from_raw_os_error(code);
    Error::os("pthread_cond_wait", "a condition variable", source)
}
