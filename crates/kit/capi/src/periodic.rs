//! A periodic loop.

use std::ffi::{c_int, c_void};

use punctual_rt::{Clock, Instant, OverrunPolicy, Periodic};

use crate::error::{Failure, answer, number};
use crate::handle::{Object, end, fits, get, put};
use crate::sized::{Sized_, read, write};
use crate::thread::duration;

/// Storage of the caller's for a periodic loop; its content is the library's own.
#[repr(C)]
pub struct punctual_periodic_t {
    /// Not to be touched.
    pub reserved: [u64; 24],
}
const _: () = fits::<Periodic, punctual_periodic_t>();

/// What a handle points to.
pub struct punctual_periodic(());
/// The owner's handle of a periodic loop, to be dropped once.
pub type punctual_periodic_h = *mut punctual_periodic;
/// A borrowed handle of a periodic loop.
pub type punctual_periodic_h_ref = *mut punctual_periodic;

/// Ends a periodic loop; NULL is none. Its storage is the caller's again.
///
/// # Safety
/// A handle that was made and not dropped, which nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_periodic_drop(handle: punctual_periodic_h) {
    let _ = answer(|| {
        // SAFETY: as the caller promises.
        unsafe { end(handle.cast::<Object<Periodic>>()) };
        Ok(())
    });
}

/// What becomes of releases that passed while the job before them ran.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_overrun {
    /// They are missed; the next job is run at the next release.
    PUNCTUAL_OVERRUN_SKIP = 0,
    /// Up to `catch_up` are run at once; older ones are missed.
    PUNCTUAL_OVERRUN_CATCH_UP = 1,
    /// One is run at once, and periods count from that moment on.
    PUNCTUAL_OVERRUN_REPHASE = 2,
}

/// How a loop is to be.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_periodic_spec_t {
    /// sizeof this structure.
    pub size: usize,
    /// The period, above 0.
    pub period_ns: i64,
    /// The first release on CLOCK_MONOTONIC; 0: one period from now.
    pub first_release_ns: i64,
    /// A value of `punctual_overrun`.
    pub overrun: u32,
    /// With PUNCTUAL_OVERRUN_CATCH_UP: how many at most.
    pub catch_up: u32,
}

// SAFETY: numbers, the first of which is the size.
unsafe impl Sized_ for punctual_periodic_spec_t {
    const NAME: &'static str = "punctual_periodic_spec_t";
}

/// One job that is to be run now.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_job_t {
    /// sizeof this structure.
    pub size: usize,
    /// When it was due.
    pub release_ns: i64,
    /// When the thread was awake for it.
    pub start_ns: i64,
    /// Periods missed between the job before and this one.
    pub missed: u64,
}

// SAFETY: as above.
unsafe impl Sized_ for punctual_job_t {
    const NAME: &'static str = "punctual_job_t";
}

/// The account of a loop: due = run + missed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_account_t {
    /// sizeof this structure.
    pub size: usize,
    /// Periods that came due.
    pub due: u64,
    /// Periods whose job was run.
    pub run: u64,
    /// Periods without a job.
    pub missed: u64,
    /// Of those run: jobs that began when the next one was due, or after an overrun.
    pub late: u64,
}

// SAFETY: as above.
unsafe impl Sized_ for punctual_account_t {
    const NAME: &'static str = "punctual_account_t";
}

/// Makes a loop that waits by clock_nanosleep(2) on CLOCK_MONOTONIC, for the thread that
/// calls punctual_periodic_wait(). Errors: EINVAL.
///
/// # Safety
/// `storage` is NULL or a punctual_periodic_t; `spec` says its size; `handle` may be
/// written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_periodic_new(
    storage: *mut punctual_periodic_t,
    spec: *const punctual_periodic_spec_t,
    handle: *mut punctual_periodic_h,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
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
        // SAFETY: as the caller promises; the storage is large enough.
        unsafe { put(storage.cast::<c_void>(), handle.cast(), make) }
    })
}

/// Waits for the next job: 1 and the job, or 0 where a signal handler ran first (then
/// wait again, or end).
///
/// # Safety
/// `handle` is a loop that no other thread uses; `job` says its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_periodic_wait(
    handle: punctual_periodic_h_ref,
    job: *mut punctual_job_t,
) -> c_int {
    number(|| {
        // SAFETY: as the caller promises.
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
        // SAFETY: as the caller promises.
        unsafe { write(job, found)? };
        Ok(1)
    })
}

/// What became of the periods so far.
///
/// # Safety
/// As for punctual_periodic_wait().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_periodic_account(
    handle: punctual_periodic_h_ref,
    account: *mut punctual_account_t,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let found = unsafe { get::<Periodic>(handle.cast())? }.account();
        let found = punctual_account_t {
            size: 0,
            due: found.due,
            run: found.run,
            missed: found.missed,
            late: found.late,
        };
        // SAFETY: as the caller promises.
        unsafe { write(account, found) }
    })
}

/// Follows an external phase: releases are moved towards `edge_ns + n * period` by at
/// most `step_ns`. `error_ns`, where it is not NULL, is the error that was seen.
///
/// # Safety
/// `handle` is a loop that no other thread uses; `error_ns` is NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_periodic_follow(
    handle: punctual_periodic_h_ref,
    edge_ns: i64,
    step_ns: i64,
    error_ns: *mut i64,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let periodic = unsafe { get::<Periodic>(handle.cast())? };
        let edge = duration(edge_ns, "edge_ns")?.as_nanos() as u64;
        let step = duration(step_ns, "step_ns")?;
        let seen = periodic.follow(Instant::from_nanos(edge), std::time::Duration::ZERO, step);
        // SAFETY: as the caller promises.
        if let Some(error) = unsafe { error_ns.as_mut() } {
            *error = seen;
        }
        Ok(())
    })
}
