//! All of a process's memory kept in RAM.
#![allow(unsafe_code)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::mm::{MlockAllFlags, mlockall, munlockall};

use super::explain;
use crate::Error;

/// Which pages of a process are kept in RAM (`mlockall(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// All that are mapped now, read in at once.
    Current,
    /// All that are mapped now or later, each read in when it is mapped. The
    /// whole stack of every new thread then takes RAM.
    CurrentAndFuture,
    /// All that are mapped now or later, each from its first touch on, so that
    /// memory use stays what is used. The first touch still faults: touch what
    /// matters beforehand ([`crate::LockedBuffer`],
    /// [`crate::prefault_stack`]). Linux 4.4.
    OnFault,
}

impl LockMode {
    fn flags(self) -> MlockAllFlags {
        let future = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE;
        match self {
            Self::Current => MlockAllFlags::CURRENT,
            Self::CurrentAndFuture => future,
            Self::OnFault => future | MlockAllFlags::ONFAULT,
        }
    }
}

/// Keeps the process's memory locked until dropped. Where several live, the
/// mode of the newest holds, and dropping the last one unlocks; locked buffers
/// stay locked.
#[derive(Debug)]
#[must_use = "the memory is unlocked again as soon as this is dropped"]
pub struct MemoryLock {
    mode: LockMode,
}

/// `munlockall(2)` unlocks also what `mlock(2)` locked. So the guards are
/// counted, and the buffers remembered, to lock them again.
struct Registry {
    guards: usize,
    /// Address and size of each live locked buffer.
    buffers: Vec<(usize, usize)>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    guards: 0,
    buffers: Vec::new(),
});

fn registry() -> MutexGuard<'static, Registry> {
    // Nothing panics with it held, and the counts are right even so.
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks the memory of the whole process, until the guard is dropped.
///
/// # Errors
/// [`Error::MemoryLockRefused`] with the limit and how to raise it. The kernel
/// counts what is *mapped* against the limit, not what is used, also with
/// [`LockMode::OnFault`]: with a limit, later allocations and new threads can
/// fail.
pub fn lock_process_memory(mode: LockMode) -> Result<MemoryLock, Error> {
    let mut registry = registry();
    mlockall(mode.flags())
        .map_err(|errno| explain("mlockall", "the memory of this process".to_owned(), errno))?;
    registry.guards += 1;
    Ok(MemoryLock { mode })
}

impl MemoryLock {
    /// Which pages are locked.
    pub fn mode(&self) -> LockMode {
        self.mode
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        let mut registry = registry();
        registry.guards -= 1;
        if registry.guards > 0 {
            return;
        }
        // Fails only where the call does not exist, and then nothing is locked.
        let _ = munlockall();
        for &(address, bytes) in &registry.buffers {
            // SAFETY: the buffer is mapped: it leaves the registry, under the
            // same mutex, before it is unmapped.
            let _ = unsafe { rustix::mm::mlock(address as *mut _, bytes) };
        }
    }
}

/// Remembers a locked buffer.
pub(super) fn enter(address: usize, bytes: usize) {
    registry().buffers.push((address, bytes));
}

/// Forgets it. To be called before it is unmapped.
pub(super) fn leave(address: usize) {
    registry().buffers.retain(|&(entry, _)| entry != address);
}
