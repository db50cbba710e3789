//! Counts the allocations in a region with a counting allocator.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Violation, Violations};
use crate::Error;

thread_local! {
    static IN_REGION: Cell<bool> = const { Cell::new(false) };
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Whether the program uses a [`CountingAllocator`].
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// An allocator that counts the allocations that a thread makes in the regions of an
/// [`AllocationGuard`]. Install it as the global allocator:
///
/// ```
/// use punctual_rt::CountingAllocator;
///
/// #[global_allocator]
/// static ALLOCATOR: CountingAllocator = CountingAllocator::system();
/// # fn main() {}
/// ```
///
/// Outside regions, it costs one read of a byte per call.
#[derive(Debug, Default)]
pub struct CountingAllocator<A = System>(A);

impl CountingAllocator {
    /// Creates a counting allocator on top of the system allocator.
    pub const fn system() -> Self {
        Self(System)
    }
}

impl<A> CountingAllocator<A> {
    /// Creates a counting allocator on top of another allocator.
    pub const fn over(allocator: A) -> Self {
        Self(allocator)
    }
}

#[inline]
fn seen() {
    if IN_REGION.get() {
        COUNT.set(COUNT.get() + 1);
    }
}

// SAFETY: forwards to the wrapped allocator and counts. Thread-locals without a destructor are
// usable at any time.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !INSTALLED.load(Ordering::Relaxed) {
            INSTALLED.store(true, Ordering::Relaxed);
        }
        seen();
        // SAFETY: as the caller guarantees.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        seen();
        // SAFETY: as the caller guarantees.
        unsafe { self.0.dealloc(address, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        seen();
        // SAFETY: as the caller guarantees.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        seen();
        // SAFETY: as the caller guarantees.
        unsafe { self.0.realloc(address, layout, size) }
    }
}

/// Counts the allocations and deallocations that the calling thread makes in its regions.
#[derive(Debug)]
pub struct AllocationGuard {
    _stays: PhantomData<*mut ()>,
}

impl AllocationGuard {
    /// Creates a guard for the calling thread. Only one guard counts at a time.
    ///
    /// # Errors
    /// Returns [`Error::NotSupported`] if the global allocator is not a [`CountingAllocator`].
    pub fn new() -> Result<Self, Error> {
        drop(std::hint::black_box(Box::new(0_u8)));
        if !INSTALLED.load(Ordering::Relaxed) {
            return Err(Error::NotSupported {
                what: "an allocation guard",
                why: "CountingAllocator is not the #[global_allocator] of this program",
            });
        }
        COUNT.set(0);
        Ok(Self {
            _stays: PhantomData,
        })
    }

    /// Runs a region.
    #[inline]
    pub fn region<T>(&mut self, work: impl FnOnce() -> T) -> T {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                IN_REGION.set(false);
            }
        }
        let _leave = Leave;
        IN_REGION.set(true);
        work()
    }

    /// Returns the violations so far. Allocations have no address; to find them, set a breakpoint
    /// on `CountingAllocator::alloc` in a debugger.
    pub fn violations(&self) -> Violations {
        let mut all = Violations::default();
        let count = COUNT.get();
        if count > 0 {
            all.add(Violation {
                number: 0,
                address: 0,
            });
        }
        all.count = count;
        all
    }
}
