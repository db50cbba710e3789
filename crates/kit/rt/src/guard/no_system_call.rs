//! Replacement for the system call guard on architectures without kernel support.

use super::Violations;
use crate::Error;

/// Counts the system calls of the calling thread in its regions. Works only on x86-64, because
/// other architectures do not support `PR_SET_SYSCALL_USER_DISPATCH`.
#[derive(Debug)]
pub struct SystemCallGuard(());

impl SystemCallGuard {
    /// Always fails.
    ///
    /// # Errors
    /// Returns [`Error::NotSupported`].
    pub fn new() -> Result<Self, Error> {
        Err(Error::NotSupported {
            what: "a guard of system calls",
            why: "PR_SET_SYSCALL_USER_DISPATCH is available only on x86",
        })
    }

    /// Runs a region.
    #[inline]
    pub fn region<T>(&mut self, work: impl FnOnce() -> T) -> T {
        work()
    }

    /// Begins a region.
    #[inline]
    pub fn enter(&mut self) {}

    /// Ends a region.
    #[inline]
    pub fn leave(&mut self) {}

    /// Returns no violations.
    pub fn violations(&self) -> Violations {
        Violations::default()
    }
}
