//! Allocations in a region, by an allocator that counts.
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

/// Whether a [`CountingAllocator`] is the program's.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// An allocator that counts what a thread asks for in regions of an
/// [`AllocationGuard`]; to be made the program's:
///
/// ```
/// use punctual_rt::CountingAllocator;
///
/// #[global_allocator]
/// static ALLOCATOR: CountingAllocator = CountingAllocator::system();
/// # fn main() {}
/// ```
///
/// Outside of regions it costs the reading of a byte.
#[derive(Debug, Default)]
pub struct CountingAllocator<A = System>(A);

impl CountingAllocator {
    /// One that takes memory from the system's allocator.
    pub const fn system() -> Self {
        Self(System)
    }
}

impl<A> CountingAllocator<A> {
    /// One that takes memory from another allocator.
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

// SAFETY: the other allocator's, with a count beside it; thread-locals without a
// destructor can be used at any time.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !INSTALLED.load(Ordering::Relaxed) {
            INSTALLED.store(true, Ordering::Relaxed);
        }
        seen();
        // SAFETY: as the caller promises.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        seen();
        // SAFETY: as the caller promises.
        unsafe { self.0.dealloc(address, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        seen();
        // SAFETY: as the caller promises.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        seen();
        // SAFETY: as the caller promises.
        unsafe { self.0.realloc(address, layout, size) }
    }
}

/// Counts allocations and releases of memory by the calling thread in its regions.
#[derive(Debug)]
pub struct AllocationGuard {
    _stays: PhantomData<*mut ()>,
}

impl AllocationGuard {
    /// A guard of the calling thread. One at a time counts.
    ///
    /// # Errors
    /// [`Error::NotSupported`] where no [`CountingAllocator`] is the program's.
    pub fn new() -> Result<Self, Error> {
        drop(std::hint::black_box(Box::new(0_u8)));
        if !INSTALLED.load(Ordering::Relaxed) {
            return Err(Error::NotSupported {
                what: "a guard of allocations",
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

    /// What was seen so far. Allocations have no place: a debugger that stops in
    /// `CountingAllocator::alloc` shows it.
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
