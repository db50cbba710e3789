//! A periodic loop.

use std::ffi::{c_int, c_void};

use punctual_rt::{Clock, Instant, OverrunPolicy, Periodic};

use crate::error::{Failure, answer, number};
use crate::handle::{Object, end, fits, get, store};
use crate::sized::{Sized_, read, write};
use crate::thread::duration;

/// Caller-provided storage for a periodic loop. Its contents are private.
#[repr(C)]
pub struct punctual_periodic_t {
    /// Private to the library.
    pub reserved: [u64; 24],
}
const _: () = fits::<Periodic, punctual_periodic_t>();

/// Opaque type behind a handle.
pub struct punctual_periodic(());
/// Owning handle of a periodic loop. Drop it exactly once.
pub type punctual_periodic_h = *mut punctual_periodic;
/// Borrowed handle of a periodic loop.
pub type punctual_periodic_h_ref = *mut punctual_periodic;

/// Drops a periodic loop; NULL is ignored. The caller may then reuse the storage.
///
/// # Safety
/// `handle` is NULL, or a handle that has not been dropped and is no longer in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_periodic_drop(handle: punctual_periodic_h) {
    let _ = answer(|| {
        // SAFETY: the caller guarantees this.
        unsafe { end(handle.cast::<Object<Periodic>>()) };
        Ok(())
    });
}

/// How to handle releases that passed while the previous job was still running.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_overrun {
    /// Skips them; the next job runs at the next release.
    PUNCTUAL_OVERRUN_SKIP = 0,
    /// Runs up to `catch_up` of them immediately and skips older ones.
    PUNCTUAL_OVERRUN_CATCH_UP = 1,
    /// Runs one immediately and counts periods from that moment.
    PUNCTUAL_OVERRUN_REPHASE = 2,
}

/// The settings of a loop.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_periodic_spec_t {
    /// Set to sizeof this structure.
    pub size: usize,
    /// Period; must be above 0.
    pub period_ns: i64,
    /// First release on CLOCK_MONOTONIC; 0 for a release one period from now.
    pub first_release_ns: i64,
    /// A value of `punctual_overrun`.
    pub overrun: u32,
    /// Maximum number of missed jobs to run, for PUNCTUAL_OVERRUN_CATCH_UP.
    pub catch_up: u32,
}

// SAFETY: all fields are plain numbers, and the first one is the size.
unsafe impl Sized_ for punctual_periodic_spec_t {
    const NAME: &'static str = "punctual_periodic_spec_t";
}

/// A job that is due.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_job_t {
    /// Set to sizeof this structure.
    pub size: usize,
    /// Time when the job was due.
    pub release_ns: i64,
    /// Time when the thread was awake to run the job.
    pub start_ns: i64,
    /// Periods missed between the previous job and this one.
    pub missed: u64,
}

// SAFETY: as for the structure above.
unsafe impl Sized_ for punctual_job_t {
    const NAME: &'static str = "punctual_job_t";
}

/// Counts of a loop's periods: due = run + missed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_account_t {
    /// Set to sizeof this structure.
    pub size: usize,
    /// Periods that came due.
    pub due: u64,
    /// Periods whose job ran.
    pub run: u64,
    /// Periods in which no job ran.
    pub missed: u64,
    /// Jobs that ran, but started after an overrun or when the next job was already due.
    pub late: u64,
}

// SAFETY: as for the structure above.
unsafe impl Sized_ for punctual_account_t {
    const NAME: &'static str = "punctual_account_t";
}

/// Creates a loop for the thread that calls punctual_periodic_wait(). This function waits with
/// clock_nanosleep(2) on CLOCK_MONOTONIC. Errors: EINVAL.
///
/// # Safety
/// `storage` is NULL or points to a punctual_periodic_t, `spec` points to a structure that begins
/// with its size, and `handle` points to writable memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_periodic_new(
    storage: *mut punctual_periodic_t,
    spec: *const punctual_periodic_spec_t,
    handle: *mut punctual_periodic_h,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        let spec = unsafe { read(spec)? };
        let period = duration(spec.period_ns, "period_ns")?;
        let policy = match spec.overrun {
            0 => OverrunPolicy::Skip,
            1 => OverrunPolicy::CatchUp(spec.catch_up),
            2 => OverrunPolicy::Rephase,
            other => {
                let why = format!("overrun is {other}: use a value of punctual_overrun");
                return Err(Failure::new(libc::EINVAL, why));
            }
        };
        let first = match spec.first_release_ns {
            0 => Clock::Monotonic.now() + period,
            ns => Instant::from_nanos(duration(ns, "first_release_ns")?.as_nanos() as u64),
        };
        let make = || {
            Ok(Periodic::starting_at(
                Clock::Monotonic,
                first,
                period,
                policy,
            )?)
        };
        // SAFETY: the caller guarantees this, and the storage is large enough.
        unsafe { store(storage.cast::<c_void>(), handle.cast(), make) }
    })
}

/// Waits for the next job. Returns 1 and the job, or 0 if a signal handler ran first. In the latter
/// case, wait again or stop.
///
/// # Safety
/// No other thread uses the loop `handle`, and `job` points to a structure that begins with its
/// size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_periodic_wait(
    handle: punctual_periodic_h_ref,
    job: *mut punctual_job_t,
) -> c_int {
    number(|| {
        // SAFETY: the caller guarantees this.
        let periodic = unsafe { get::<Periodic>(handle.cast())? };
        let Some(found) = periodic.wait()? else {
            return Ok(0);
        };
        let found = punctual_job_t {
            size: 0,
            release_ns: found.release.as_nanos().cast_signed(),
            start_ns: found.start.as_nanos().cast_signed(),
            missed: found.missed,
        };
        // SAFETY: the caller guarantees this.
        unsafe { write(job, found)? };
        Ok(1)
    })
}

/// Writes the counts of the periods so far.
///
/// # Safety
/// The same as for punctual_periodic_wait().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_periodic_account(
    handle: punctual_periodic_h_ref,
    account: *mut punctual_account_t,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        let found = unsafe { get::<Periodic>(handle.cast())? }.account();
        let found = punctual_account_t {
            size: 0,
            due: found.due,
            run: found.run,
            missed: found.missed,
            late: found.late,
        };
        // SAFETY: the caller guarantees this.
        unsafe { write(account, found) }
    })
}

/// Follows an external phase by moving releases towards `edge_ns + n * period` by at most
/// `step_ns`. Writes the observed phase error to `error_ns`, unless that is NULL.
///
/// # Safety
/// No other thread uses the loop `handle`, and `error_ns` is NULL or points to writable memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_periodic_follow(
    handle: punctual_periodic_h_ref,
    edge_ns: i64,
    step_ns: i64,
    error_ns: *mut i64,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        let periodic = unsafe { get::<Periodic>(handle.cast())? };
        let edge = duration(edge_ns, "edge_ns")?.as_nanos() as u64;
        let step = duration(step_ns, "step_ns")?;
        let seen = periodic.follow(Instant::from_nanos(edge), std::time::Duration::ZERO, step);
        // SAFETY: the caller guarantees this.
        if let Some(error) = unsafe { error_ns.as_mut() } {
            *error = seen;
        }
        Ok(())
    })
}
