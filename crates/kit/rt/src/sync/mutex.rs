//! A mutex that may lend its owner the priority of who waits.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr;

use crate::Error;

/// What a mutex does for the priority of its owner
/// (`pthread_mutexattr_setprotocol(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Nothing (PTHREAD_PRIO_NONE): a thread of middle priority can keep the
    /// owner from running, and with it the thread that waits, for as long as
    /// it likes.
    Plain,
    /// Priority inheritance (PTHREAD_PRIO_INHERIT): while a thread of higher
    /// priority waits, the owner runs with that priority. The kernel does it
    /// (`Documentation/locking/rt-mutex-design.rst`).
    Inherit,
}

/// A value behind a `pthread_mutex_t` with a [`Protocol`].
///
/// There is no poison: a thread that panics while it holds the lock lets go of
/// it, and the next one finds the value as it was left. A thread that locks it
/// twice waits for itself.
pub struct Mutex<T> {
    raw: RawMutex,
    value: UnsafeCell<T>,
}

// SAFETY: the value goes from thread to thread with the lock, and only one
// holds it at a time.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    ///
    /// # Errors
    /// [`Error::Os`] where the system has no priority inheritance (ENOTSUP).
    pub fn new(value: T, protocol: Protocol) -> Result<Self, Error> {
        Ok(Self {
            raw: RawMutex::new(protocol)?,
            value: UnsafeCell::new(value),
        })
    }

    /// Waits until the lock is free and takes it. No signal ends the wait.
    ///
    /// # Errors
    /// [`Error::Os`] with EAGAIN or EDEADLK from the kernel's side of a mutex
    /// with priority inheritance.
    #[inline]
    pub fn lock(&self) -> Result<MutexGuard<'_, T>, Error> {
        self.raw.lock()?;
        Ok(MutexGuard {
            mutex: self,
            _stays: PhantomData,
        })
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

/// The lock of a [`Mutex`], held until this is dropped; in the thread that
/// took it, for only the owner may unlock.
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    _stays: PhantomData<*mut ()>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held, so nobody else has the value.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, so nobody else has the value.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a guard exists only where this thread holds the lock, and it
        // does not leave the thread.
        unsafe { self.mutex.raw.unlock() };
    }
}

impl<T> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutexGuard").finish_non_exhaustive()
    }
}

/// The mutex without a value. It must not move while it is in use, hence the
/// box.
pub(super) struct RawMutex(Option<Box<UnsafeCell<libc::pthread_mutex_t>>>);

impl RawMutex {
    pub(super) fn new(protocol: Protocol) -> Result<Self, Error> {
        let failed = |call, code| Error::os(call, "a mutex", io::Error::from_raw_os_error(code));
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: written to by the call, and only used if that succeeded.
        let code = unsafe { libc::pthread_mutexattr_init(attributes.as_mut_ptr()) };
        if code != 0 {
            return Err(failed("pthread_mutexattr_init", code));
        }
        let number = match protocol {
            Protocol::Plain => libc::PTHREAD_PRIO_NONE,
            Protocol::Inherit => libc::PTHREAD_PRIO_INHERIT,
        };
        // All zeroes only to have memory; the call below makes it a mutex.
        let mutex = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        // SAFETY: the attributes are initialised and destroyed once, after
        // their use; the mutex is new memory that nobody else knows.
        unsafe {
            let protocol = libc::pthread_mutexattr_setprotocol(attributes.as_mut_ptr(), number);
            let made = match protocol {
                0 => libc::pthread_mutex_init(mutex.get(), attributes.as_ptr()),
                _ => 0,
            };
            libc::pthread_mutexattr_destroy(attributes.as_mut_ptr());
            match (protocol, made) {
                (0, 0) => Ok(Self(Some(mutex))),
                (0, code) => Err(failed("pthread_mutex_init", code)),
                (code, _) => Err(failed("pthread_mutexattr_setprotocol", code)),
            }
        }
    }

    /// The C library's structure; null only while it is dropped.
    #[inline]
    pub(super) fn as_ptr(&self) -> *mut libc::pthread_mutex_t {
        self.0.as_ref().map_or(ptr::null_mut(), |mutex| mutex.get())
    }

    #[inline]
    pub(super) fn lock(&self) -> Result<(), Error> {
        // SAFETY: an initialised mutex that stays where it is.
        match unsafe { libc::pthread_mutex_lock(self.as_ptr()) } {
            0 => Ok(()),
            code => Err(refused(code)),
        }
    }

    /// # Safety
    /// The calling thread holds the lock.
    #[inline]
    pub(super) unsafe fn unlock(&self) {
        // SAFETY: an initialised mutex, held by this thread as the caller
        // promises; then the call does not fail.
        unsafe { libc::pthread_mutex_unlock(self.as_ptr()) };
    }
}

impl Drop for RawMutex {
    fn drop(&mut self) {
        let Some(mutex) = self.0.take() else { return };
        // SAFETY: nobody borrows it any more. It is locked only if a guard was
        // forgotten; to destroy it then is undefined, so it is left in memory.
        unsafe {
            if libc::pthread_mutex_trylock(mutex.get()) == 0 {
                libc::pthread_mutex_unlock(mutex.get());
                libc::pthread_mutex_destroy(mutex.get());
            } else {
                std::mem::forget(mutex);
            }
        }
    }
}

#[cold]
fn refused(code: i32) -> Error {
    let source = io::Error::from_raw_os_error(code);
    Error::os("pthread_mutex_lock", "a mutex", source)
}
