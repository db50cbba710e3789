//! A mutex with a condition variable, with priority inheritance and wake-up by priority.

use std::ffi::{c_int, c_void};

use punctual_rt::{Instant, Monitor, MonitorGuard, Notified};

use crate::error::{Failure, answer, number};
use crate::handle::{Object, end, fits, share, store};
use crate::thread::duration;

/// Caller-provided storage for a monitor (a mutex with a condition variable). Its contents are private.
#[repr(C)]
pub struct punctual_monitor_t {
    /// Private to the library.
    pub reserved: [u64; 4],
}
const _: () = fits::<Monitor<()>, punctual_monitor_t>();

/// Opaque type behind a handle.
pub struct punctual_monitor(());
/// Owning handle of a monitor. Drop it exactly once.
pub type punctual_monitor_h = *mut punctual_monitor;
/// Borrowed handle of a monitor.
pub type punctual_monitor_h_ref = *mut punctual_monitor;

/// Drops a monitor; NULL is ignored. The caller may then reuse the storage.
///
/// # Safety
/// `handle` is NULL, or a handle that has not been dropped and is no longer in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_monitor_drop(handle: punctual_monitor_h) {
    let _ = answer(|| {
        // SAFETY: the caller guarantees this.
        unsafe { end(handle.cast::<Object<Monitor<()>>>()) };
        Ok(())
    });
}

/// Creates an unlocked monitor for the threads of this process. The monitor must not be moved.
/// Errors: ENOSYS if the kernel has no priority inheritance.
///
/// # Safety
/// `storage` is NULL or points to a punctual_monitor_t, and `handle` points to writable memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_monitor_new(
    storage: *mut punctual_monitor_t,
    handle: *mut punctual_monitor_h,
) -> c_int {
    // SAFETY: the caller guarantees this, and the storage is large enough.
    answer(|| unsafe {
        store(storage.cast::<c_void>(), handle.cast(), || {
            Ok(Monitor::new(())?)
        })
    })
}

/// Waits until the lock is free and takes it. Errors: EDEADLK if this thread already holds it.
///
/// # Safety
/// `handle` is a monitor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_monitor_lock(handle: punctual_monitor_h_ref) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        let monitor = unsafe { share::<Monitor<()>>(handle.cast())? };
        std::mem::forget(monitor.lock()?);
        Ok(())
    })
}

/// Releases the lock. Errors: EPERM if this thread does not hold it.
///
/// # Safety
/// `handle` is a monitor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_monitor_unlock(handle: punctual_monitor_h_ref) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        drop(unsafe { held(handle)? });
        Ok(())
    })
}

/// Releases the lock, waits for a notification, and takes the lock again. Wake-ups can be spurious,
/// so check the condition again. Errors: EPERM if this thread does not hold the lock.
///
/// # Safety
/// `handle` is a monitor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_monitor_wait(handle: punctual_monitor_h_ref) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        let mut guard = std::mem::ManuallyDrop::new(unsafe { held(handle)? });
        Ok(guard.wait()?)
    })
}

/// Like punctual_monitor_wait(), but waits until `deadline_ns` at the latest. Returns 1 if the
/// deadline has passed, otherwise 0.
///
/// # Safety
/// `handle` is a monitor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_monitor_wait_until(
    handle: punctual_monitor_h_ref,
    deadline_ns: i64,
) -> c_int {
    number(|| {
        let deadline = duration(deadline_ns, "deadline_ns")?.as_nanos() as u64;
        // SAFETY: the caller guarantees this.
        let mut guard = std::mem::ManuallyDrop::new(unsafe { held(handle)? });
        let ended = guard.wait_until(Instant::from_nanos(deadline))?;
        Ok(c_int::from(ended == Notified::TimedOut))
    })
}

/// Wakes the waiter with the highest priority. Errors: EPERM if this thread does not hold the lock.
///
/// # Safety
/// `handle` is a monitor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_monitor_notify_one(handle: punctual_monitor_h_ref) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        let mut guard = std::mem::ManuallyDrop::new(unsafe { held(handle)? });
        Ok(guard.notify_one()?)
    })
}

/// Wakes all waiters one after the other, in order of priority. Errors: EPERM if this thread does
/// not hold the lock.
///
/// # Safety
/// `handle` is a monitor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_monitor_notify_all(handle: punctual_monitor_h_ref) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        let mut guard = std::mem::ManuallyDrop::new(unsafe { held(handle)? });
        Ok(guard.notify_all()?)
    })
}

/// Returns the guard of a lock that this thread took earlier.
///
/// # Safety
/// `handle` is NULL or a monitor.
unsafe fn held<'a>(handle: punctual_monitor_h_ref) -> Result<MonitorGuard<'a, ()>, Failure> {
    // SAFETY: the caller guarantees this.
    let monitor = unsafe { share::<Monitor<()>>(handle.cast())? };
    // SAFETY: the call that took the lock did not drop its guard but called `forget`.
    unsafe { monitor.held_by_this_thread() }.ok_or_else(|| {
        Failure::new(
            libc::EPERM,
            "this thread does not hold the lock of the monitor",
        )
    })
}
