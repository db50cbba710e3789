//! A lock with its condition, which keep priorities.

use std::ffi::{c_int, c_void};

use punctual_rt::{Instant, Monitor, MonitorGuard, Notified};

use crate::error::{Failure, answer, number};
use crate::handle::{Object, end, fits, put, share};
use crate::thread::duration;

/// Storage of the caller's for a lock with its condition; its content is the library's own.
#[repr(C)]
pub struct punctual_monitor_t {
    /// Not to be touched.
    pub reserved: [u64; 4],
}
const _: () = fits::<Monitor<()>, punctual_monitor_t>();

/// What a handle points to.
pub struct punctual_monitor(());
/// The owner's handle of a lock with its condition, to be dropped once.
pub type punctual_monitor_h = *mut punctual_monitor;
/// A borrowed handle of a lock with its condition.
pub type punctual_monitor_h_ref = *mut punctual_monitor;

/// Ends a lock with its condition; NULL is none. Its storage is the caller's again.
///
/// # Safety
/// A handle that was made and not dropped, which nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_monitor_drop(handle: punctual_monitor_h) {
    let _ = answer(|| {
        // SAFETY: as the caller promises.
        unsafe { end(handle.cast::<Object<Monitor<()>>>()) };
        Ok(())
    });
}

/// Makes an unlocked one, for the threads of this process. It must not be moved. Errors:
/// ENOSYS where the kernel has no priority inheritance.
///
/// # Safety
/// `storage` is NULL or a punctual_monitor_t; `handle` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_monitor_new(
    storage: *mut punctual_monitor_t,
    handle: *mut punctual_monitor_h,
) -> c_int {
    // SAFETY: as the caller promises; the storage is large enough.
    answer(|| unsafe {
        put(storage.cast::<c_void>(), handle.cast(), || {
            Ok(Monitor::new(())?)
        })
    })
}

/// Waits until the lock is free and takes it. Errors: EDEADLK where this thread has it.
///
/// # Safety
/// `handle` is a monitor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_monitor_lock(handle: punctual_monitor_h_ref) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let monitor = unsafe { share::<Monitor<()>>(handle.cast())? };
        std::mem::forget(monitor.lock()?);
        Ok(())
    })
}

/// Lets go of the lock. Errors: EPERM where this thread does not have it.
///
/// # Safety
/// `handle` is a monitor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_monitor_unlock(handle: punctual_monitor_h_ref) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        drop(unsafe { held(handle)? });
        Ok(())
    })
}

/// Lets go of the lock, waits to be notified, and takes it again. It may return without a
/// reason: look at what is waited for. Errors: EPERM where this thread does not have it.
///
/// # Safety
/// `handle` is a monitor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_monitor_wait(handle: punctual_monitor_h_ref) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let mut guard = std::mem::ManuallyDrop::new(unsafe { held(handle)? });
        Ok(guard.wait()?)
    })
}

/// As punctual_monitor_wait(), until `deadline_ns` at the latest: 1 where it has passed,
/// else 0.
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
        // SAFETY: as the caller promises.
        let mut guard = std::mem::ManuallyDrop::new(unsafe { held(handle)? });
        let ended = guard.wait_until(Instant::from_nanos(deadline))?;
        Ok(c_int::from(ended == Notified::TimedOut))
    })
}

/// Wakes the waiter with the highest priority. Errors: EPERM where this thread does not
/// have the lock.
///
/// # Safety
/// `handle` is a monitor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_monitor_notify_one(handle: punctual_monitor_h_ref) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let mut guard = std::mem::ManuallyDrop::new(unsafe { held(handle)? });
        Ok(guard.notify_one()?)
    })
}

/// Wakes all waiters, one after the other by their priority. Errors: EPERM where this
/// thread does not have the lock.
///
/// # Safety
/// `handle` is a monitor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_monitor_notify_all(handle: punctual_monitor_h_ref) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let mut guard = std::mem::ManuallyDrop::new(unsafe { held(handle)? });
        Ok(guard.notify_all()?)
    })
}

/// The guard of a lock that this thread took before.
///
/// # Safety
/// `handle` is NULL or a monitor.
unsafe fn held<'a>(handle: punctual_monitor_h_ref) -> Result<MonitorGuard<'a, ()>, Failure> {
    // SAFETY: as the caller promises.
    let monitor = unsafe { share::<Monitor<()>>(handle.cast())? };
    // SAFETY: the guard of the call that took it was forgotten.
    unsafe { monitor.held_by_this_thread() }.ok_or_else(|| {
        Failure::new(
            libc::EPERM,
            "this thread does not have the lock of the monitor",
        )
    })
}
