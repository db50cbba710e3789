//! Guards that detect system calls and page faults in certain regions of a loop.

use std::ffi::{c_int, c_void};

use punctual_rt::{PageFaultGuard, SystemCallGuard, Violations};

use crate::error::answer;
use crate::handle::{Object, end, fits, get, store};
use crate::sized::{Sized_, write};

/// Caller-provided storage for a system call guard. Its contents are private.
#[repr(C)]
pub struct punctual_system_call_guard_t {
    /// Private to the library.
    pub reserved: [u64; 4],
}
const _: () = fits::<SystemCallGuard, punctual_system_call_guard_t>();

/// Opaque type behind a handle.
pub struct punctual_system_call_guard(());
/// Owning handle of a system call guard. Drop it exactly once.
pub type punctual_system_call_guard_h = *mut punctual_system_call_guard;
/// Borrowed handle of a system call guard.
pub type punctual_system_call_guard_h_ref = *mut punctual_system_call_guard;

/// Drops a system call guard; NULL is ignored. The caller may then reuse the storage.
///
/// # Safety
/// `handle` is NULL, or a handle that has not been dropped and is no longer in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_system_call_guard_drop(handle: punctual_system_call_guard_h) {
    let _ = answer(|| {
        // SAFETY: the caller guarantees this.
        unsafe { end(handle.cast::<Object<SystemCallGuard>>()) };
        Ok(())
    });
}

/// Caller-provided storage for a page fault guard. Its contents are private.
#[repr(C)]
pub struct punctual_page_fault_guard_t {
    /// Private to the library.
    pub reserved: [u64; 4],
}
const _: () = fits::<PageFaultGuard, punctual_page_fault_guard_t>();

/// Opaque type behind a handle.
pub struct punctual_page_fault_guard(());
/// Owning handle of a page fault guard. Drop it exactly once.
pub type punctual_page_fault_guard_h = *mut punctual_page_fault_guard;
/// Borrowed handle of a page fault guard.
pub type punctual_page_fault_guard_h_ref = *mut punctual_page_fault_guard;

/// Drops a page fault guard; NULL is ignored. The caller may then reuse the storage.
///
/// # Safety
/// `handle` is NULL, or a handle that has not been dropped and is no longer in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_page_fault_guard_drop(handle: punctual_page_fault_guard_h) {
    let _ = answer(|| {
        // SAFETY: the caller guarantees this.
        unsafe { end(handle.cast::<Object<PageFaultGuard>>()) };
        Ok(())
    });
}

/// The violations that a guard has seen in its regions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_violations_t {
    /// Set to sizeof this structure.
    pub size: usize,
    /// Number of violations.
    pub count: u64,
    /// Number of regions that were watched only in part (because of fork, exec, exit or the signal
    /// mask).
    pub cut_short: u64,
    /// Number of the first system call; 0 for a page fault.
    pub first_number: u64,
    /// Return address of the first system call or allocation, or address of the first page fault.
    pub first_address: u64,
}

// SAFETY: all fields are plain numbers, and the first one is the size.
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

/// Creates a guard that counts the calling thread's system calls inside regions. The program
/// continues after a violation. Errors: EOPNOTSUPP before Linux 5.11 and on architectures other
/// than x86-64; EBUSY if another part of the program handles SIGSYS.
///
/// # Safety
/// `storage` is NULL or points to a punctual_system_call_guard_t, and `handle` points to writable
/// memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_system_call_guard_new(
    storage: *mut punctual_system_call_guard_t,
    handle: *mut punctual_system_call_guard_h,
) -> c_int {
    // SAFETY: the caller guarantees this, and the storage is large enough.
    answer(|| unsafe {
        store(storage.cast::<c_void>(), handle.cast(), || {
            Ok(SystemCallGuard::new()?)
        })
    })
}

/// Enters a region. Costs a one-byte store.
///
/// # Safety
/// `handle` is a guard that the calling thread made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_system_call_guard_enter(
    handle: punctual_system_call_guard_h_ref,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        unsafe { get::<SystemCallGuard>(handle.cast())? }.enter();
        Ok(())
    })
}

/// Leaves a region.
///
/// # Safety
/// `handle` is a guard that the calling thread made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_system_call_guard_leave(
    handle: punctual_system_call_guard_h_ref,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        unsafe { get::<SystemCallGuard>(handle.cast())? }.leave();
        Ok(())
    })
}

/// Writes the violations seen so far.
///
/// # Safety
/// `handle` is a guard that the calling thread made, and `violations` points to a structure that
/// begins with its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_system_call_guard_violations(
    handle: punctual_system_call_guard_h_ref,
    violations: *mut punctual_violations_t,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        let found = unsafe { get::<SystemCallGuard>(handle.cast())? }.violations();
        // SAFETY: the caller guarantees this.
        unsafe { write(violations, violations_of(&found)) }
    })
}

/// Creates a guard that counts the calling thread's page faults inside regions. The program
/// continues after a violation. Errors: EOPNOTSUPP before Linux 5.13; EBUSY if another part of the
/// program handles SIGTRAP.
///
/// # Safety
/// `storage` is NULL or points to a punctual_page_fault_guard_t, and `handle` points to writable
/// memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_page_fault_guard_new(
    storage: *mut punctual_page_fault_guard_t,
    handle: *mut punctual_page_fault_guard_h,
) -> c_int {
    // SAFETY: the caller guarantees this, and the storage is large enough.
    answer(|| unsafe {
        store(storage.cast::<c_void>(), handle.cast(), || {
            Ok(PageFaultGuard::new()?)
        })
    })
}

/// Enters a region. Costs a one-byte store.
///
/// # Safety
/// `handle` is a guard that the calling thread made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_page_fault_guard_enter(
    handle: punctual_page_fault_guard_h_ref,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        unsafe { get::<PageFaultGuard>(handle.cast())? }.enter();
        Ok(())
    })
}

/// Leaves a region.
///
/// # Safety
/// `handle` is a guard that the calling thread made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_page_fault_guard_leave(
    handle: punctual_page_fault_guard_h_ref,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        unsafe { get::<PageFaultGuard>(handle.cast())? }.leave();
        Ok(())
    })
}

/// Writes the violations seen so far.
///
/// # Safety
/// `handle` is a guard that the calling thread made, and `violations` points to a structure that
/// begins with its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_page_fault_guard_violations(
    handle: punctual_page_fault_guard_h_ref,
    violations: *mut punctual_violations_t,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        let found = unsafe { get::<PageFaultGuard>(handle.cast())? }.violations();
        // SAFETY: the caller guarantees this.
        unsafe { write(violations, violations_of(&found)) }
    })
}
