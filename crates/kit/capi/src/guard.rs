//! What a region of a loop should not do.

use std::ffi::{c_int, c_void};

use punctual_rt::{PageFaultGuard, SystemCallGuard, Violations};

use crate::error::answer;
use crate::handle::{Object, end, fits, get, put};
use crate::sized::{Sized_, write};

/// Storage of the caller's for a guard of system calls; its content is the library's own.
#[repr(C)]
pub struct punctual_system_call_guard_t {
    /// Not to be touched.
    pub reserved: [u64; 4],
}
const _: () = fits::<SystemCallGuard, punctual_system_call_guard_t>();

/// What a handle points to.
pub struct punctual_system_call_guard(());
/// The owner's handle of a guard of system calls, to be dropped once.
pub type punctual_system_call_guard_h = *mut punctual_system_call_guard;
/// A borrowed handle of a guard of system calls.
pub type punctual_system_call_guard_h_ref = *mut punctual_system_call_guard;

/// Ends a guard of system calls; NULL is none. Its storage is the caller's again.
///
/// # Safety
/// A handle that was made and not dropped, which nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_system_call_guard_drop(handle: punctual_system_call_guard_h) {
    let _ = answer(|| {
        // SAFETY: as the caller promises.
        unsafe { end(handle.cast::<Object<SystemCallGuard>>()) };
        Ok(())
    });
}

/// Storage of the caller's for a guard of page faults; its content is the library's own.
#[repr(C)]
pub struct punctual_page_fault_guard_t {
    /// Not to be touched.
    pub reserved: [u64; 4],
}
const _: () = fits::<PageFaultGuard, punctual_page_fault_guard_t>();

/// What a handle points to.
pub struct punctual_page_fault_guard(());
/// The owner's handle of a guard of page faults, to be dropped once.
pub type punctual_page_fault_guard_h = *mut punctual_page_fault_guard;
/// A borrowed handle of a guard of page faults.
pub type punctual_page_fault_guard_h_ref = *mut punctual_page_fault_guard;

/// Ends a guard of page faults; NULL is none. Its storage is the caller's again.
///
/// # Safety
/// A handle that was made and not dropped, which nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_page_fault_guard_drop(handle: punctual_page_fault_guard_h) {
    let _ = answer(|| {
        // SAFETY: as the caller promises.
        unsafe { end(handle.cast::<Object<PageFaultGuard>>()) };
        Ok(())
    });
}

/// What a guard has seen in its regions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_violations_t {
    /// sizeof this structure.
    pub size: usize,
    /// How many there were.
    pub count: u64,
    /// Regions whose rest was not watched (a fork, exec, exit, signal mask).
    pub cut_short: u64,
    /// Of the first: the number of the system call; of a page fault 0.
    pub first_number: u64,
    /// Of the first: the address behind the system call or allocation, or that was not there.
    pub first_address: u64,
}

// SAFETY: numbers, the first of which is the size.
unsafe impl Sized_ for punctual_violations_t {
    const NAME: &'static str = "punctual_violations_t";
}

fn violations_of(found: &Violations) -> punctual_violations_t {
    let first = found.kept().next();
    punctual_violations_t {
        size: 0,
        count: found.count,
        cut_short: found.cut_short,
        first_number: first.map_or(0, |first| first.number),
        first_address: first.map_or(0, |first| first.address),
    }
}

/// Makes a guard of the calling thread's system calls; it counts in regions, and the program
/// goes on. Errors: EOPNOTSUPP before Linux 5.11 and on other architectures than x86-64; EBUSY
/// where another part of the program handles SIGSYS.
///
/// # Safety
/// `storage` is NULL or a punctual_system_call_guard_t; `handle` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_system_call_guard_new(
    storage: *mut punctual_system_call_guard_t,
    handle: *mut punctual_system_call_guard_h,
) -> c_int {
    // SAFETY: as the caller promises; the storage is large enough.
    answer(|| unsafe {
        put(storage.cast::<c_void>(), handle.cast(), || {
            Ok(SystemCallGuard::new()?)
        })
    })
}

/// Begins a region: one store of a byte.
///
/// # Safety
/// `handle` is a guard of the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_system_call_guard_enter(
    handle: punctual_system_call_guard_h_ref,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe { get::<SystemCallGuard>(handle.cast())? }.enter();
        Ok(())
    })
}

/// Ends a region.
///
/// # Safety
/// `handle` is a guard of the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_system_call_guard_leave(
    handle: punctual_system_call_guard_h_ref,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe { get::<SystemCallGuard>(handle.cast())? }.leave();
        Ok(())
    })
}

/// What was seen so far.
///
/// # Safety
/// `handle` is a guard of the calling thread; `violations` says its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_system_call_guard_violations(
    handle: punctual_system_call_guard_h_ref,
    violations: *mut punctual_violations_t,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let found = unsafe { get::<SystemCallGuard>(handle.cast())? }.violations();
        // SAFETY: as the caller promises.
        unsafe { write(violations, violations_of(&found)) }
    })
}

/// Makes a guard of the calling thread's page faults; it counts in regions, and the program
/// goes on. Errors: EOPNOTSUPP before Linux 5.13; EBUSY where another part of the program handles
/// SIGTRAP.
///
/// # Safety
/// `storage` is NULL or a punctual_page_fault_guard_t; `handle` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_page_fault_guard_new(
    storage: *mut punctual_page_fault_guard_t,
    handle: *mut punctual_page_fault_guard_h,
) -> c_int {
    // SAFETY: as the caller promises; the storage is large enough.
    answer(|| unsafe {
        put(storage.cast::<c_void>(), handle.cast(), || {
            Ok(PageFaultGuard::new()?)
        })
    })
}

/// Begins a region: one store of a byte.
///
/// # Safety
/// `handle` is a guard of the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_page_fault_guard_enter(
    handle: punctual_page_fault_guard_h_ref,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe { get::<PageFaultGuard>(handle.cast())? }.enter();
        Ok(())
    })
}

/// Ends a region.
///
/// # Safety
/// `handle` is a guard of the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_page_fault_guard_leave(
    handle: punctual_page_fault_guard_h_ref,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe { get::<PageFaultGuard>(handle.cast())? }.leave();
        Ok(())
    })
}

/// What was seen so far.
///
/// # Safety
/// `handle` is a guard of the calling thread; `violations` says its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_page_fault_guard_violations(
    handle: punctual_page_fault_guard_h_ref,
    violations: *mut punctual_violations_t,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let found = unsafe { get::<PageFaultGuard>(handle.cast())? }.violations();
        // SAFETY: as the caller promises.
        unsafe { write(violations, violations_of(&found)) }
    })
}
