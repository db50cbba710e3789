//! Counts allocations in regions of a C program. The program must be compiled with
//! `interpose/punctual_malloc.c`.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::error::{Failure, answer};
use crate::guard::punctual_violations_t;
use crate::handle::{Object, end, fits, get, store};
use crate::sized::write;

/// A thread's calls of malloc and related functions. `punctual_malloc.c` writes them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_allocation_state_t {
    /// 1 inside a region, otherwise 0.
    pub in_region: u8,
    /// Number of calls inside regions.
    pub count: u64,
    /// The return address of the first of these calls.
    pub first_address: u64,
}

/// Function that returns the state of the calling thread.
pub type punctual_allocation_state_of = Option<extern "C" fn() -> *mut punctual_allocation_state_t>;

/// The function that `punctual_malloc.c` registered, if it is compiled into the program.
static STATE_OF: OnceLock<extern "C" fn() -> *mut punctual_allocation_state_t> = OnceLock::new();

/// Registers the function that returns a thread's state. `punctual_malloc.c` calls this before
/// `main`; later calls have no effect.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_allocation_install(state_of: punctual_allocation_state_of) {
    if let Some(state_of) = state_of {
        let _ = STATE_OF.set(state_of);
    }
}

/// Caller-provided storage for an allocation guard. Its contents are private.
#[repr(C)]
pub struct punctual_allocation_guard_t {
    /// Private to the library.
    pub reserved: [u64; 4],
}
const _: () = fits::<Guard, punctual_allocation_guard_t>();

/// Opaque type behind a handle.
pub struct punctual_allocation_guard(());
/// Owning handle of an allocation guard. Drop it exactly once.
pub type punctual_allocation_guard_h = *mut punctual_allocation_guard;
/// Borrowed handle of an allocation guard.
pub type punctual_allocation_guard_h_ref = *mut punctual_allocation_guard;

/// A guard for the thread that made it. The guarded state lives as long as the thread.
struct Guard(*mut punctual_allocation_state_t);

impl Guard {
    fn new() -> Result<Self, Failure> {
        let missing = || {
            let why = "an allocation guard needs interpose/punctual_malloc.c compiled into the \
                       program";
            Failure::new(libc::EOPNOTSUPP, why)
        };
        let state = STATE_OF.get().ok_or_else(missing)?();
        if state.is_null() {
            return Err(Failure::null("the state of the thread"));
        }
        // SAFETY: this is the state of the calling thread, which no other code accesses.
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
        // The fences ensure that the calls of the region stay between the two stores.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as in `new`, because a guard does not leave its thread.
        unsafe { ptr::addr_of_mut!((*self.0).in_region).write_volatile(in_region) };
        compiler_fence(Ordering::SeqCst);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Drops an allocation guard; NULL is ignored. The caller may then reuse the storage.
///
/// # Safety
/// `handle` is NULL, or a handle that was made in this thread, has not been dropped, and is no
/// longer in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_allocation_guard_drop(handle: punctual_allocation_guard_h) {
    let _ = answer(|| {
        // SAFETY: the caller guarantees this.
        unsafe { end(handle.cast::<Object<Guard>>()) };
        Ok(())
    });
}

/// Creates a guard that counts the calling thread's calls of malloc, calloc, realloc, free,
/// aligned_alloc and posix_memalign inside regions. The program continues after a violation. A
/// thread can have only one such guard at a time. Errors: EOPNOTSUPP if `punctual_malloc.c` is not
/// compiled into the program.
///
/// # Safety
/// `storage` is NULL or points to a punctual_allocation_guard_t, and `handle` points to writable
/// memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_allocation_guard_new(
    storage: *mut punctual_allocation_guard_t,
    handle: *mut punctual_allocation_guard_h,
) -> c_int {
    // SAFETY: the caller guarantees this, and the storage is large enough.
    answer(|| unsafe { store(storage.cast::<c_void>(), handle.cast(), Guard::new) })
}

/// Enters a region. Costs a one-byte store.
///
/// # Safety
/// `handle` is a guard that the calling thread made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_allocation_guard_enter(
    handle: punctual_allocation_guard_h_ref,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        unsafe { get::<Guard>(handle.cast())? }.set(1);
        Ok(())
    })
}

/// Leaves a region.
///
/// # Safety
/// `handle` is a guard that the calling thread made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_allocation_guard_leave(
    handle: punctual_allocation_guard_h_ref,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        unsafe { get::<Guard>(handle.cast())? }.set(0);
        Ok(())
    })
}

/// Writes the violations seen so far. `first_address` is the return address of the first call.
///
/// # Safety
/// `handle` is a guard that the calling thread made, and `violations` points to a structure that
/// begins with its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_allocation_guard_violations(
    handle: punctual_allocation_guard_h_ref,
    violations: *mut punctual_violations_t,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this, and the state belongs to this thread.
        let state = unsafe { get::<Guard>(handle.cast())?.0.read_volatile() };
        let seen = punctual_violations_t {
            size: 0,
            count: state.count,
            cut_short: 0,
            first_number: 0,
            first_address: state.first_address,
        };
        // SAFETY: the caller guarantees this.
        unsafe { write(violations, seen) }
    })
}
