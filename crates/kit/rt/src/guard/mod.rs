//! Detects operations that a real-time region should avoid.
//!
//! Each guard belongs to one thread and stays there. It watches *regions*, such as the part of a
//! loop between two waits. Entering or leaving a region costs one byte store. A violation is
//! counted and stored with its location, and the program continues.

mod allocation;
mod page_fault;
#[cfg_attr(not(target_arch = "x86_64"), path = "no_system_call.rs")]
mod system_call;

use std::fmt;

pub use allocation::{AllocationGuard, CountingAllocator};
pub use page_fault::PageFaultGuard;
pub use system_call::SystemCallGuard;

/// Runs `work` between `enter` and `leave`. Also calls `leave` if it panics.
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

/// Number of violations that are stored with their location. All violations are counted.
pub const KEPT_VIOLATIONS: usize = 16;

/// A violation in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The system call number; 0 for a page fault or an allocation.
    pub number: u64,
    /// The address: the instruction after the system call, or the faulting address; 0 for an
    /// allocation.
    pub address: u64,
}

/// Violations in the regions of a guard so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    /// Total number of violations.
    pub count: u64,
    /// Number of regions that were not watched to the end because they made a system call that the
    /// handler cannot make for them (fork, exec, exit, signal masks, the return from a handler).
    pub cut_short: u64,
    kept: [Option<Violation>; KEPT_VIOLATIONS],
}

impl Violations {
    /// Returns the first violations, with their locations.
    pub fn kept(&self) -> impl Iterator<Item = Violation> + '_ {
        self.kept.iter().flatten().copied()
    }

    /// Called in signal handlers, so it must not allocate or panic.
    fn add(&mut self, violation: Violation) {
        let place = usize::try_from(self.count).unwrap_or(usize::MAX);
        if let Some(free) = self.kept.get_mut(place) {
            *free = Some(violation);
        }
        self.count = self.count.saturating_add(1);
    }
}

/// Formats as `3 (first: 35 at 0x7f12)` or `none`.
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
