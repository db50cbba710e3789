//! A value with its lock, and a condition variable that respects priorities.
//!
//! The condition variable of the C library has an internal lock without priority inheritance (glibc
//! bug 11588), so a thread of medium priority can delay a notification. In this module, the kernel
//! moves waiters from the condition to the lock in priority order (`futex(2)`:
//! FUTEX_WAIT_REQUEUE_PI, FUTEX_CMP_REQUEUE_PI). As in librtpi, the notifying thread must hold the
//! lock; the types enforce this.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::pi_lock::{PiLock, syscall};
use crate::{Error, Instant};

/// A value protected by a lock with priority inheritance, and a single condition that belongs to
/// it.
///
/// While a thread of higher priority waits for the lock, the owner runs with that priority. Of
/// several threads that wait for the condition, the one with the highest priority is notified
/// first. There is no poisoning: a thread that panics releases the lock, and the next one finds the
/// value as it was left. Locking and unlocking without contention makes no system call.
pub struct Monitor<T> {
    lock: PiLock,
    /// Counts notifications. Changed only while the lock is held.
    notified: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value moves between threads together with the lock, and only one thread holds it at a
// time.
unsafe impl<T: Send> Send for Monitor<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Monitor<T> {}

/// Result of a wait with a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notified {
    /// The thread was notified, or woke up spuriously, so check the value.
    Perhaps,
    /// The deadline has passed.
    TimedOut,
}

impl<T> Monitor<T> {
    /// Creates an unlocked monitor.
    ///
    /// # Errors
    /// Returns [`Error::Os`] if the kernel does not support priority inheritance (ENOSYS).
    pub fn new(value: T) -> Result<Self, Error> {
        Ok(Self {
            lock: PiLock::new()?,
            notified: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        })
    }

    /// Waits until the lock is free and takes it. Signals do not end the wait.
    ///
    /// # Errors
    /// Returns [`Error::Os`]: EDEADLK if this thread already holds the lock.
    #[inline]
    pub fn lock(&self) -> Result<MonitorGuard<'_, T>, Error> {
        self.lock.lock()?;
        Ok(MonitorGuard {
            monitor: self,
            _stays: PhantomData,
        })
    }

    /// Returns a new guard for the lock if this thread holds it after the previous guard was
    /// forgotten ([`std::mem::forget`]), or `None` if the thread does not hold it. This is for
    /// interfaces that cannot store a guard, such as C.
    ///
    /// # Safety
    /// This thread must not use another guard of this monitor.
    pub unsafe fn held_by_this_thread(&self) -> Option<MonitorGuard<'_, T>> {
        self.lock.is_own().then_some(MonitorGuard {
            monitor: self,
            _stays: PhantomData,
        })
    }

    /// Returns the value and consumes the monitor.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// Wakes the first waiter, and moves up to `others` further waiters to the queue of the lock.
    /// The lock must be held.
    fn notify(&self, others: i32) -> Result<(), Error> {
        let number = self
            .notified
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_add(1);
        loop {
            // SAFETY: both words exist as long as `self`; the other arguments are integers.
            let result = unsafe {
                syscall(
                    &self.notified,
                    libc::FUTEX_CMP_REQUEUE_PI,
                    1,
                    ptr::without_provenance(others.unsigned_abs() as usize),
                    self.lock.word(),
                    number,
                )
            };
            match result {
                Ok(()) => return Ok(()),
                // A waiter was just about to end its wait.
                Err(libc::EAGAIN | libc::EINTR) => {}
                Err(code) => return Err(failed("FUTEX_CMP_REQUEUE_PI", code)),
            }
        }
    }

    fn wait(&self, deadline: Option<Instant>) -> Result<Notified, Error> {
        let seen = self.notified.load(Ordering::Relaxed);
        let time = deadline.map(Instant::to_timespec);
        self.lock.unlock();
        // SAFETY: both words and the time stay valid during the call. The deadline is absolute on
        // CLOCK_MONOTONIC, the default of this operation.
        let result = unsafe {
            syscall(
                &self.notified,
                libc::FUTEX_WAIT_REQUEUE_PI,
                seen,
                time.as_ref()
                    .map_or(ptr::null(), |time| ptr::from_ref(time).cast()),
                self.lock.word(),
                0,
            )
        };
        match result {
            // The kernel has given the lock to this thread.
            Ok(()) => Ok(Notified::Perhaps),
            Err(code) => {
                self.lock.lock()?;
                match code {
                    libc::ETIMEDOUT => Ok(Notified::TimedOut),
                    // The thread was notified before it slept, or interrupted by a signal.
                    libc::EAGAIN | libc::EINTR => Ok(Notified::Perhaps),
                    code => Err(failed("FUTEX_WAIT_REQUEUE_PI", code)),
                }
            }
        }
    }
}

#[cold]
fn failed(operation: &str, code: i32) -> Error {
    Error::os("futex", operation, io::Error::from_raw_os_error(code))
}

impl<T> fmt::Debug for Monitor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor").finish_non_exhaustive()
    }
}

/// Holds the lock of a [`Monitor`] until dropped.
pub struct MonitorGuard<'a, T> {
    monitor: &'a Monitor<T>,
    _stays: PhantomData<*mut ()>,
}

impl<T> MonitorGuard<'_, T> {
    /// Releases the lock, waits for a notification, and takes the lock again. Spurious wake-ups are
    /// possible, for example when a signal handler runs, so check the value afterwards.
    ///
    /// # Errors
    /// Returns [`Error::Os`] only on a programming error. The lock may then no longer be held, and
    /// the program should end.
    #[inline]
    pub fn wait(&mut self) -> Result<(), Error> {
        self.monitor.wait(None).map(drop)
    }

    /// Like [`wait`](Self::wait), but only until `deadline` on CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// See [`wait`](Self::wait).
    #[inline]
    pub fn wait_until(&mut self, deadline: Instant) -> Result<Notified, Error> {
        self.monitor.wait(Some(deadline))
    }

    /// Wakes the waiter with the highest priority, if there is one. The waiter continues once this
    /// guard is dropped. Until then, this thread inherits the waiter's priority.
    ///
    /// # Errors
    /// Returns [`Error::Os`] only on a programming error.
    #[inline]
    pub fn notify_one(&mut self) -> Result<(), Error> {
        self.monitor.notify(0)
    }

    /// Wakes all waiters. They get the lock one after another, in priority order.
    ///
    /// # Errors
    /// Returns [`Error::Os`] only on a programming error.
    #[inline]
    pub fn notify_all(&mut self) -> Result<(), Error> {
        self.monitor.notify(i32::MAX)
    }
}

impl<T> Deref for MonitorGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held, so no other thread accesses the value.
        unsafe { &*self.monitor.value.get() }
    }
}

impl<T> DerefMut for MonitorGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, so no other thread accesses the value.
        unsafe { &mut *self.monitor.value.get() }
    }
}

impl<T> Drop for MonitorGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.monitor.lock.unlock();
    }
}

impl<T> fmt::Debug for MonitorGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MonitorGuard").finish_non_exhaustive()
    }
}
