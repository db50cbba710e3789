//! A value, its lock, and a condition variable that keeps priorities.
//!
//! The C library's condition variable has a lock of its own without priority
//! inheritance (glibc bug 11588), so that a thread of middle priority can keep a
//! notification back. Here the kernel moves waiters from the condition to the lock, by
//! their priority (`futex(2)`: FUTEX_WAIT_REQUEUE_PI, FUTEX_CMP_REQUEUE_PI), and the rule
//! of librtpi is kept by the types: who notifies holds the lock.
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

/// A value behind a lock with priority inheritance, and the one condition that belongs
/// to it.
///
/// While a thread of higher priority waits for the lock, its owner runs with that
/// priority; of several that wait for the condition, the one with the highest priority
/// is notified first. There is no poison: a thread that panics lets go of the lock, and
/// the next one finds the value as it was left. Taken and released without contention it
/// makes no system call.
pub struct Monitor<T> {
    lock: PiLock,
    /// Counts notifications; changed only by who holds the lock.
    notified: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value goes from thread to thread with the lock, and only one holds it at a
// time.
unsafe impl<T: Send> Send for Monitor<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Monitor<T> {}

/// How a wait with a deadline ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notified {
    /// It was notified, or returned without a reason: look at the value.
    Perhaps,
    /// The deadline has passed.
    TimedOut,
}

impl<T> Monitor<T> {
    /// An unlocked one.
    ///
    /// # Errors
    /// [`Error::Os`] where the kernel has no priority inheritance (ENOSYS).
    pub fn new(value: T) -> Result<Self, Error> {
        Ok(Self {
            lock: PiLock::new()?,
            notified: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        })
    }

    /// Waits until the lock is free and takes it. No signal ends the wait.
    ///
    /// # Errors
    /// [`Error::Os`]: EDEADLK where this thread has it already.
    #[inline]
    pub fn lock(&self) -> Result<MonitorGuard<'_, T>, Error> {
        self.lock.lock()?;
        Ok(MonitorGuard {
            monitor: self,
            _stays: PhantomData,
        })
    }

    /// The guard of a lock that this thread holds, where the guard itself was forgotten
    /// ([`std::mem::forget`]); `None` where it does not hold it. For interfaces that
    /// cannot keep a guard, such as C's.
    ///
    /// # Safety
    /// No other guard of this monitor is in use by this thread.
    pub unsafe fn held_by_this_thread(&self) -> Option<MonitorGuard<'_, T>> {
        self.lock.is_own().then_some(MonitorGuard {
            monitor: self,
            _stays: PhantomData,
        })
    }

    /// The value, of a monitor that nobody else has.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// Wakes the first waiter, and puts `others` of the rest in the lock's queue. The
    /// lock is held.
    fn notify(&self, others: i32) -> Result<(), Error> {
        let number = self
            .notified
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_add(1);
        loop {
            // SAFETY: both words live as long as `self`; the other arguments are numbers.
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
                // A waiter's end was in progress.
                Err(libc::EAGAIN | libc::EINTR) => {}
                Err(code) => return Err(failed("FUTEX_CMP_REQUEUE_PI", code)),
            }
        }
    }

    fn wait(&self, deadline: Option<Instant>) -> Result<Notified, Error> {
        let seen = self.notified.load(Ordering::Relaxed);
        let time = deadline.map(Instant::to_timespec);
        self.lock.unlock();
        // SAFETY: both words and the time live as long as the call; the deadline is
        // absolute on CLOCK_MONOTONIC, the default of this operation.
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
            // The kernel gave this thread the lock.
            Ok(()) => Ok(Notified::Perhaps),
            Err(code) => {
                self.lock.lock()?;
                match code {
                    libc::ETIMEDOUT => Ok(Notified::TimedOut),
                    // Notified before it slept, or a signal.
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

/// The lock of a [`Monitor`], held until this is dropped.
pub struct MonitorGuard<'a, T> {
    monitor: &'a Monitor<T>,
    _stays: PhantomData<*mut ()>,
}

impl<T> MonitorGuard<'_, T> {
    /// Lets go of the lock, waits to be notified, and takes the lock again. It may also
    /// return without a reason, and when a signal handler ran: look at the value.
    ///
    /// # Errors
    /// [`Error::Os`], for reasons a correct program does not meet. Then the lock may not
    /// be held any more, and the program should end.
    #[inline]
    pub fn wait(&mut self) -> Result<(), Error> {
        self.monitor.wait(None).map(drop)
    }

    /// As [`wait`](Self::wait), until `deadline` on CLOCK_MONOTONIC at the latest.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    #[inline]
    pub fn wait_until(&mut self, deadline: Instant) -> Result<Notified, Error> {
        self.monitor.wait(Some(deadline))
    }

    /// Wakes the waiter with the highest priority, if there is one. It runs once this
    /// guard is dropped; until then it lends its priority to this thread.
    ///
    /// # Errors
    /// [`Error::Os`], for reasons a correct program does not meet.
    #[inline]
    pub fn notify_one(&mut self) -> Result<(), Error> {
        self.monitor.notify(0)
    }

    /// Wakes all waiters: they get the lock one after the other, by their priority.
    ///
    /// # Errors
    /// [`Error::Os`], for reasons a correct program does not meet.
    #[inline]
    pub fn notify_all(&mut self) -> Result<(), Error> {
        self.monitor.notify(i32::MAX)
    }
}

impl<T> Deref for MonitorGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held, so nobody else has the value.
        unsafe { &*self.monitor.value.get() }
    }
}

impl<T> DerefMut for MonitorGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, so nobody else has the value.
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
