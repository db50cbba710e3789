//! The condition variable of the C library, for use by a probe. Its internal lock has no priority
//! inheritance (glibc bug 11588), unlike [`crate::Monitor`].
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::Protocol;
use super::mutex::RawMutex;
use crate::Error;

/// A mutex with a single condition variable that belongs to it (`pthread_cond_wait(3)`). Combining
/// them ensures that all waiters of the condition use the same mutex.
pub struct PthreadMonitor<T> {
    mutex: RawMutex,
    condition: Box<UnsafeCell<libc::pthread_cond_t>>,
    value: UnsafeCell<T>,
}

// SAFETY: the value moves between threads together with the lock, and only one thread holds it at a
// time.
unsafe impl<T: Send> Send for PthreadMonitor<T> {}
// SAFETY: as above, and the condition variable is designed for sharing.
unsafe impl<T: Send> Sync for PthreadMonitor<T> {}

impl<T> PthreadMonitor<T> {
    /// Creates an unlocked monitor.
    ///
    /// # Errors
    /// See [`super::Mutex::new`].
    pub fn new(value: T, protocol: Protocol) -> Result<Self, Error> {
        Ok(Self {
            mutex: RawMutex::new(protocol)?,
            // This constant is a complete condition variable with default attributes.
            condition: Box::new(UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER)),
            value: UnsafeCell::new(value),
        })
    }

    /// Waits until the lock is free and takes it.
    ///
    /// # Errors
    /// See [`super::Mutex::lock`].
    #[inline]
    pub fn lock(&self) -> Result<PthreadMonitorGuard<'_, T>, Error> {
        self.mutex.lock()?;
        Ok(PthreadMonitorGuard {
            monitor: self,
            _stays: PhantomData,
        })
    }

    /// Wakes one thread that is waiting for the condition, if there is one. The caller need not
    /// hold the lock.
    #[inline]
    pub fn notify_one(&self) {
        // SAFETY: the condition variable is initialised and does not move, so the call does not
        // fail.
        unsafe { libc::pthread_cond_signal(self.condition.get()) };
    }

    /// Wakes all threads that are waiting for the condition.
    #[inline]
    pub fn notify_all(&self) {
        // SAFETY: as in `notify_one`.
        unsafe { libc::pthread_cond_broadcast(self.condition.get()) };
    }
}

impl<T> Drop for PthreadMonitor<T> {
    fn drop(&mut self) {
        // SAFETY: no borrow remains, so no thread is waiting.
        unsafe { libc::pthread_cond_destroy(self.condition.get()) };
    }
}

impl<T> fmt::Debug for PthreadMonitor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PthreadMonitor").finish_non_exhaustive()
    }
}

/// Holds the lock of a [`PthreadMonitor`] until dropped.
pub struct PthreadMonitorGuard<'a, T> {
    monitor: &'a PthreadMonitor<T>,
    _stays: PhantomData<*mut ()>,
}

impl<T> PthreadMonitorGuard<'_, T> {
    /// Releases the lock, waits for a notification, and takes the lock again. Spurious wake-ups are
    /// possible, so check the value. A signal handler does not end the wait.
    ///
    /// # Errors
    /// Returns [`Error::Os`] only on a programming error.
    #[inline]
    pub fn wait(&mut self) -> Result<(), Error> {
        let monitor = self.monitor;
        // SAFETY: both are initialised and do not move. This thread holds the mutex, and all waits
        // on this condition use it. No reference to the value remains, because `self` is borrowed
        // exclusively.
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
        // SAFETY: the lock is held, so no other thread accesses the value.
        unsafe { &*self.monitor.value.get() }
    }
}

impl<T> DerefMut for PthreadMonitorGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, so no other thread accesses the value.
        unsafe { &mut *self.monitor.value.get() }
    }
}

impl<T> Drop for PthreadMonitorGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a guard exists only if this thread holds the lock, and the guard does not leave
        // the thread.
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
