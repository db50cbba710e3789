//! Allocations in a region of a C program, counted by `interpose/punctual_malloc.c`.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::error::{Failure, answer};
use crate::guard::punctual_violations_t;
use crate::handle::{Object, end, fits, get, put};
use crate::sized::write;

/// What a thread asked of malloc; written by `punctual_malloc.c`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_allocation_state_t {
    /// 1 in a region, else 0.
    pub in_region: u8,
    /// Calls in regions.
    pub count: u64,
    /// The address behind the first of these calls.
    pub first_address: u64,
}

/// Returns the state of the calling thread.
pub type punctual_allocation_state_of = Option<extern "C" fn() -> *mut punctual_allocation_state_t>;

/// What the file compiled into the program has named.
static STATE_OF: OnceLock<extern "C" fn() -> *mut punctual_allocation_state_t> = OnceLock::new();

/// Called by `punctual_malloc.c` before `main`: who counts. The first one stays.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_allocation_install(state_of: punctual_allocation_state_of) {
    if let Some(state_of) = state_of {
        let _ = STATE_OF.set(state_of);
    }
}

/// Storage of the caller's for a guard of allocations; its content is the library's own.
#[repr(C)]
pub struct punctual_allocation_guard_t {
    /// Not to be touched.
    pub reserved: [u64; 4],
}
const _: () = fits::<Guard, punctual_allocation_guard_t>();

/// What a handle points to.
pub struct punctual_allocation_guard(());
/// The owner's handle of a guard of allocations, to be dropped once.
pub type punctual_allocation_guard_h = *mut punctual_allocation_guard;
/// A borrowed handle of a guard of allocations.
pub type punctual_allocation_guard_h_ref = *mut punctual_allocation_guard;

/// A guard of the thread that made it: its state lives as long as the thread.
struct Guard(*mut punctual_allocation_state_t);

impl Guard {
    fn new() -> Result<Self, Failure> {
        let missing = || {
            let why = "a guard of allocations needs interpose/punctual_malloc.c compiled into the \
                       program";
            Failure::new(libc::EOPNOTSUPP, why)
        };
        let state = STATE_OF.get().ok_or_else(missing)?();
        if state.is_null() {
            return Err(Failure::null("the state of the thread"));
        }
        // SAFETY: the state of the calling thread, which nobody else reads or writes.
        unsafe {
            state.write(punctual_allocation_state_t {
                in_region: 0,
                count: 0,
                first_address: 0,
            });
        }
        Ok(Self(state))
    }

    fn set(&self, in_region: u8) {
        // The region's calls stay between the two stores.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as in `new`; a guard does not leave its thread.
        unsafe { ptr::addr_of_mut!((*self.0).in_region).write_volatile(in_region) };
        compiler_fence(Ordering::SeqCst);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Ends a guard of allocations; NULL is none. Its storage is the caller's again.
///
/// # Safety
/// A handle that was made in this thread and not dropped, which nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_allocation_guard_drop(handle: punctual_allocation_guard_h) {
    let _ = answer(|| {
        // SAFETY: as the caller promises.
        unsafe { end(handle.cast::<Object<Guard>>()) };
        Ok(())
    });
}

/// Makes a guard of what the calling thread asks of malloc, calloc, realloc, free,
/// aligned_alloc and posix_memalign; it counts in regions, and the program goes on. One guard
/// of a thread at a time. Errors: EOPNOTSUPP where `punctual_malloc.c` is not compiled into the
/// program.
///
/// # Safety
/// `storage` is NULL or a punctual_allocation_guard_t; `handle` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_allocation_guard_new(
    storage: *mut punctual_allocation_guard_t,
    handle: *mut punctual_allocation_guard_h,
) -> c_int {
    // SAFETY: as the caller promises; the storage is large enough.
    answer(|| unsafe { put(storage.cast::<c_void>(), handle.cast(), Guard::new) })
}

/// Begins a region: one store of a byte.
///
/// # Safety
/// `handle` is a guard of the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_allocation_guard_enter(
    handle: punctual_allocation_guard_h_ref,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe { get::<Guard>(handle.cast())? }.set(1);
        Ok(())
    })
}

/// Ends a region.
///
/// # Safety
/// `handle` is a guard of the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_allocation_guard_leave(
    handle: punctual_allocation_guard_h_ref,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe { get::<Guard>(handle.cast())? }.set(0);
        Ok(())
    })
}

/// What was seen so far. `first_address` is behind the first call.
///
/// # Safety
/// `handle` is a guard of the calling thread; `violations` says its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_allocation_guard_violations(
    handle: punctual_allocation_guard_h_ref,
    violations: *mut punctual_violations_t,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises; the state is of this thread.
        let state = unsafe { get::<Guard>(handle.cast())?.0.read_volatile() };
        let seen = punctual_violations_t {
            size: 0,
            count: state.count,
            cut_short: 0,
            first_number: 0,
            first_address: state.first_address,
        };
        // SAFETY: as the caller promises.
        unsafe { write(violations, seen) }
    })
}
