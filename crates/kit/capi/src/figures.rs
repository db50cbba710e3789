//! Figures that `punctual app` reads.

use std::ffi::{c_char, c_int, c_void};

use punctual_app::{Figures, Kind, Lane, LaneSpec};

use crate::error::{Failure, answer};
use crate::handle::{Object, end, fits, get, put, share};
use crate::sized::{Sized_, read, text};
use crate::thread::duration;

/// Storage of the caller's for the figures of an application; its content is the library's own.
#[repr(C)]
pub struct punctual_figures_t {
    /// Not to be touched.
    pub reserved: [u64; 4],
}
const _: () = fits::<Figures, punctual_figures_t>();

/// What a handle points to.
pub struct punctual_figures(());
/// The owner's handle of the figures of an application, to be dropped once.
pub type punctual_figures_h = *mut punctual_figures;
/// A borrowed handle of the figures of an application.
pub type punctual_figures_h_ref = *mut punctual_figures;

/// Ends the figures of an application; NULL is none. Its storage is the caller's again.
///
/// # Safety
/// A handle that was made and not dropped, which nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_figures_drop(handle: punctual_figures_h) {
    let _ = answer(|| {
        // SAFETY: as the caller promises.
        unsafe { end(handle.cast::<Object<Figures>>()) };
        Ok(())
    });
}

/// Storage of the caller's for a lane; its content is the library's own.
#[repr(C)]
pub struct punctual_lane_t {
    /// Not to be touched.
    pub reserved: [u64; 16],
}
const _: () = fits::<Lane, punctual_lane_t>();

/// What a handle points to.
pub struct punctual_lane(());
/// The owner's handle of a lane, to be dropped once.
pub type punctual_lane_h = *mut punctual_lane;
/// A borrowed handle of a lane.
pub type punctual_lane_h_ref = *mut punctual_lane;

/// Ends a lane; NULL is none. Its storage is the caller's again.
///
/// # Safety
/// A handle that was made and not dropped, which nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_lane_drop(handle: punctual_lane_h) {
    let _ = answer(|| {
        // SAFETY: as the caller promises.
        unsafe { end(handle.cast::<Object<Lane>>()) };
        Ok(())
    });
}

/// What the samples of a lane are.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_kind {
    /// From the release of a job to its start.
    PUNCTUAL_KIND_LATENCY = 0,
    /// From the release of a job to its completion.
    PUNCTUAL_KIND_RESPONSE = 1,
    /// From the start of a job to its completion.
    PUNCTUAL_KIND_EXECUTION = 2,
    /// Another duration.
    PUNCTUAL_KIND_OTHER = 3,
}

/// What a lane is for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_lane_spec_t {
    /// sizeof this structure.
    pub size: usize,
    /// Its name, UTF-8, cut at 32 bytes.
    pub name: *const c_char,
    /// The period; 0: none.
    pub period_ns: i64,
    /// A sample above is kept with its time; 0: only the largest of each second.
    pub budget_ns: i64,
    /// A value of `punctual_kind`.
    pub kind: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: numbers and a pointer, the first of which is the size.
unsafe impl Sized_ for punctual_lane_spec_t {
    const NAME: &'static str = "punctual_lane_spec_t";
}

/// Makes the figures of this application, in sealed memory with so many lanes (1 to 64).
/// Errors: EINVAL; EOPNOTSUPP before Linux 5.1; those of memfd_create(2).
///
/// # Safety
/// `storage` is NULL or a punctual_figures_t; `name` ends in a zero byte; `handle` may be
/// written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_figures_new(
    storage: *mut punctual_figures_t,
    name: *const c_char,
    lanes: usize,
    handle: *mut punctual_figures_h,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let name = unsafe { text(name, "the name")? };
        let make = || Ok(Figures::create(name, lanes)?);
        // SAFETY: as the caller promises; the storage is large enough.
        unsafe { put(storage.cast::<c_void>(), handle.cast(), make) }
    })
}

/// Makes a lane for what the calling thread measures. It may outlive the handle of its
/// figures. Errors: EINVAL; ENOSPC where all lanes are in use.
///
/// # Safety
/// `storage` is NULL or a punctual_lane_t; `spec` says its size; `handle` may be written
/// to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_lane_new(
    storage: *mut punctual_lane_t,
    figures: punctual_figures_h_ref,
    spec: *const punctual_lane_spec_t,
    handle: *mut punctual_lane_h,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let (figures, spec) = unsafe { (share::<Figures>(figures.cast())?, read(spec)?) };
        let kind = Kind::ALL
            .into_iter()
            .find(|kind| *kind as u64 == u64::from(spec.kind));
        let Some(kind) = kind else {
            let why = format!("kind is {}: use a value of punctual_kind", spec.kind);
            return Err(Failure::new(libc::EINVAL, why));
        };
        let ns = |ns, what| Ok::<_, Failure>(duration(ns, what)?.as_nanos() as u64);
        let spec = LaneSpec {
            // SAFETY: as the caller promises.
            name: unsafe { text(spec.name, "the name")? },
            kind,
            period_ns: ns(spec.period_ns, "period_ns")?,
            budget_ns: ns(spec.budget_ns, "budget_ns")?,
        };
        // SAFETY: as the caller promises; the storage is large enough.
        unsafe {
            put(storage.cast::<c_void>(), handle.cast(), || {
                Ok(figures.lane(&spec)?)
            })
        }
    })
}

/// Counts one sample of a job that was released at `at_ns`. No system call.
///
/// # Safety
/// `handle` is a lane that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_lane_record(
    handle: punctual_lane_h_ref,
    at_ns: i64,
    ns: i64,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe { get::<Lane>(handle.cast())? }.record(at_ns.max(0).cast_unsigned(), ns);
        Ok(())
    })
}

/// Sets the account of the periods so far, from punctual_periodic_account().
///
/// # Safety
/// As for punctual_lane_record(); `account` says its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_lane_account(
    handle: punctual_lane_h_ref,
    account: *const crate::punctual_account_t,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let (lane, account) = unsafe { (get::<Lane>(handle.cast())?, read(account)?) };
        lane.account(account.due, account.missed, account.late);
        Ok(())
    })
}
