//! A mutex with optional priority inheritance.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr;

use crate::Error;

/// Effect of a mutex on the priority of its owner (`pthread_mutexattr_setprotocol(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// None (PTHREAD_PRIO_NONE): a thread of medium priority can preempt the owner indefinitely,
    /// and so delay the waiting thread (priority inversion).
    Plain,
    /// Priority inheritance (PTHREAD_PRIO_INHERIT): while a thread of higher priority waits, the
    /// owner runs with that priority. The kernel implements it
    /// (`Documentation/locking/rt-mutex-design.rst`).
    Inherit,
}

/// A value protected by a `pthread_mutex_t` with a [`Protocol`].
///
/// There is no poisoning: a thread that panics while holding the lock releases it, and the next one
/// finds the value as it was left. A thread that locks it twice deadlocks.
pub struct Mutex<T> {
    raw: RawMutex,
    value: UnsafeCell<T>,
}

// SAFETY: the value moves between threads together with the lock, and only one thread holds it at a
// time.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// Creates an unlocked mutex.
    ///
    /// # Errors
    /// Returns [`Error::Os`] if the system does not support priority inheritance (ENOTSUP).
    pub fn new(value: T, protocol: Protocol) -> Result<Self, Error> {
        Ok(Self {
            raw: RawMutex::new(protocol)?,
            value: UnsafeCell::new(value),
        })
    }

    /// Waits until the lock is free and takes it. Signals do not end the wait.
    ///
    /// # Errors
    /// Returns [`Error::Os`] with EAGAIN or EDEADLK from the kernel, for a mutex with priority
    /// inheritance.
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

/// Holds the lock of a [`Mutex`] until dropped. It cannot leave the thread that took the lock,
/// because only the owner may unlock it.
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    _stays: PhantomData<*mut ()>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held, so no other thread accesses the value.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, so no other thread accesses the value.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a guard exists only if this thread holds the lock, and the guard does not leave
        // the thread.
        unsafe { self.mutex.raw.unlock() };
    }
}

impl<T> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutexGuard").finish_non_exhaustive()
    }
}

/// The mutex without a value. It is boxed because it must not move while in use.
pub(super) struct RawMutex(Option<Box<UnsafeCell<libc::pthread_mutex_t>>>);

impl RawMutex {
    pub(super) fn new(protocol: Protocol) -> Result<Self, Error> {
        let failed = |call, code| Error::os(call, "a mutex", io::Error::from_raw_os_error(code));
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: the call writes to this memory, which is used only if the call succeeded.
        let code = unsafe { libc::pthread_mutexattr_init(attributes.as_mut_ptr()) };
        if code != 0 {
            return Err(failed("pthread_mutexattr_init", code));
        }
        let number = match protocol {
            Protocol::Plain => libc::PTHREAD_PRIO_NONE,
            Protocol::Inherit => libc::PTHREAD_PRIO_INHERIT,
        };
        // The initial value only provides memory; the call below initialises the mutex.
        let mutex = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        // SAFETY: the attributes are initialised, used, and destroyed once. The mutex is new memory
        // to which there are no other references.
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

    /// Returns the structure of the C library, which is null only during the drop.
    #[inline]
    pub(super) fn as_ptr(&self) -> *mut libc::pthread_mutex_t {
        self.0.as_ref().map_or(ptr::null_mut(), |mutex| mutex.get())
    }

    #[inline]
    pub(super) fn lock(&self) -> Result<(), Error> {
        // SAFETY: the mutex is initialised and does not move.
        match unsafe { libc::pthread_mutex_lock(self.as_ptr()) } {
            0 => Ok(()),
            code => Err(refused(code)),
        }
    }

    /// # Safety
    /// The calling thread must hold the lock.
    #[inline]
    pub(super) unsafe fn unlock(&self) {
        // SAFETY: the mutex is initialised, and this thread holds it, as the caller guarantees. So
        // the call does not fail.
        unsafe { libc::pthread_mutex_unlock(self.as_ptr()) };
    }
}

impl Drop for RawMutex {
    fn drop(&mut self) {
        let Some(mutex) = self.0.take() else { return };
        // SAFETY: no borrow remains. The mutex is still locked only if a guard was forgotten. In
        // that case, destroying it would be undefined behaviour, so it is leaked.
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
