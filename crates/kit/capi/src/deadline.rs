//! Gives a thread the policy SCHED_DEADLINE.

use std::ffi::{c_int, c_void};

use punctual_rt::DeadlineThread;

use crate::error::{Failure, answer};
use crate::handle::{Object, end, fits, get, store};
use crate::thread::duration;

/// Caller-provided storage for the deadline policy of a thread. Its contents are private.
#[repr(C)]
pub struct punctual_deadline_t {
    /// Private to the library.
    pub reserved: [u64; 12],
}
const _: () = fits::<DeadlineThread, punctual_deadline_t>();

/// Opaque type behind a handle.
pub struct punctual_deadline(());
/// Owning handle of the deadline policy of a thread. Drop it exactly once.
pub type punctual_deadline_h = *mut punctual_deadline;
/// Borrowed handle of the deadline policy of a thread.
pub type punctual_deadline_h_ref = *mut punctual_deadline;

/// Drops the deadline policy of a thread; NULL is ignored. The caller may then reuse the storage.
///
/// # Safety
/// `handle` is NULL, or a handle that has not been dropped and is no longer in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_deadline_drop(handle: punctual_deadline_h) {
    let _ = answer(|| {
        // SAFETY: the caller guarantees this.
        unsafe { end(handle.cast::<Object<DeadlineThread>>()) };
        Ok(())
    });
}

/// Gives the calling thread the policy SCHED_DEADLINE. The thread gets a signal (SIGXCPU) each time
/// it exhausts its runtime. Dropping the handle restores the previous policy. Errors: EPERM; EBUSY
/// if no bandwidth is left or the signal is already in use; EINVAL.
///
/// # Safety
/// `storage` is NULL or points to a punctual_deadline_t, and `handle` points to writable memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_deadline_new(
    storage: *mut punctual_deadline_t,
    runtime_ns: i64,
    deadline_ns: i64,
    period_ns: i64,
    handle: *mut punctual_deadline_h,
) -> c_int {
    answer(|| {
        let runtime = duration(runtime_ns, "runtime_ns")?;
        let deadline = duration(deadline_ns, "deadline_ns")?;
        let period = duration(period_ns, "period_ns")?;
        let make = || Ok(DeadlineThread::new(runtime, deadline, period)?);
        // SAFETY: the caller guarantees this, and the storage is large enough.
        unsafe { store(storage.cast::<c_void>(), handle.cast(), make) }
    })
}

/// Gives up the rest of the runtime until the next period begins.
///
/// # Safety
/// `handle` was made in the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_deadline_end_job(handle: punctual_deadline_h_ref) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        unsafe { get::<DeadlineThread>(handle.cast())? }.end_job();
        Ok(())
    })
}

/// Writes how often the thread has exhausted its runtime.
///
/// # Safety
/// `handle` was made in the calling thread, and `overruns` points to writable memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_deadline_overruns(
    handle: punctual_deadline_h_ref,
    overruns: *mut u64,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        let found = unsafe { get::<DeadlineThread>(handle.cast())? }.overruns();
        // SAFETY: the caller guarantees this.
        let place = unsafe { overruns.as_mut() };
        *place.ok_or_else(|| Failure::null("overruns"))? = found;
        Ok(())
    })
}
