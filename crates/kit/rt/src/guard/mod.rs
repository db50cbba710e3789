//! What a real-time region should not do, seen while it does it.
//!
//! Each guard is of one thread, which it does not leave. It watches *regions*: the part
//! of a loop between two waits. Entering and leaving one is a store of a byte. A
//! violation is counted and kept with its place; the program goes on.

mod allocation;
mod page_fault;
#[cfg_attr(not(target_arch = "x86_64"), path = "no_system_call.rs")]
mod system_call;

use std::fmt;

pub use allocation::{AllocationGuard, CountingAllocator};
pub use page_fault::PageFaultGuard;
pub use system_call::SystemCallGuard;

/// Runs `work` between `enter` and `leave`, also where it panics.
#[inline]
fn within<G, T>(
    guard: &mut G,
    enter: impl FnOnce(&mut G),
    leave: fn(&mut G),
    work: impl FnOnce() -> T,
) -> T {
    struct Inside<'a, G>(&'a mut G, fn(&mut G));
    impl<G> Drop for Inside<'_, G> {
        fn drop(&mut self) {
            (self.1)(self.0);
        }
    }
    let inside = Inside(guard, leave);
    enter(inside.0);
    work()
}

/// Violations that are kept with their place; all are counted.
pub const KEPT_VIOLATIONS: usize = 16;

/// What happened in a region, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The number of the system call; of a page fault or an allocation 0.
    pub number: u64,
    /// The address: of the instruction behind the system call, of the memory that was
    /// not there; 0 of an allocation.
    pub address: u64,
}

/// What a guard has seen in its regions so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    /// How many there were.
    pub count: u64,
    /// Regions whose rest was not watched: after a system call that cannot be made on
    /// behalf of the region (fork, exec, exit, signal masks, the return of a handler).
    pub cut_short: u64,
    kept: [Option<Violation>; KEPT_VIOLATIONS],
}

impl Violations {
    /// The first ones, with their places.
    pub fn kept(&self) -> impl Iterator<Item = Violation> + '_ {
        self.kept.iter().flatten().copied()
    }

    /// Called in signal handlers: no allocation, no panic.
    fn add(&mut self, violation: Violation) {
        let place = usize::try_from(self.count).unwrap_or(usize::MAX);
        if let Some(free) = self.kept.get_mut(place) {
            *free = Some(violation);
        }
        self.count = self.count.saturating_add(1);
    }
}

/// `3 (first: 35 at 0x7f12)`; `none`.
impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kept().next() {
            None => f.write_str("none"),
            Some(first) => write!(
                f,
                "{} (first: {} at {:#x})",
                self.count, first.number, first.address
            ),
        }
    }
}

#[cfg(test)]
mod tests;
