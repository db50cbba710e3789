//! Locks all memory of the process in RAM.
#![allow(unsafe_code)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::mm::{MlockAllFlags, mlockall, munlockall};

use super::explain;
use crate::Error;

/// Which pages of a process are locked in RAM (`mlockall(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// All current mappings, faulted in at once.
    Current,
    /// All current and future mappings, faulted in when they are mapped. With this mode, the whole
    /// stack of every new thread occupies RAM.
    CurrentAndFuture,
    /// All current and future mappings, locked page by page on first touch, so that only used
    /// memory takes RAM. The first touch still faults: touch important memory in advance
    /// ([`crate::LockedBuffer`], [`crate::prefault_stack`]). Linux 4.4.
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

/// Keeps the memory of the process locked until dropped. If several exist, the mode of the newest
/// applies, and the memory is unlocked when the last one is dropped. Locked buffers stay locked.
#[derive(Debug)]
#[must_use = "the memory is unlocked as soon as this value is dropped"]
pub struct MemoryLock {
    mode: LockMode,
}

/// How future mappings are treated; see [`NewMappings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NewMappingMode {
    /// As in a process that never called `mlockall(2)`: not locked, and MAP_POPULATE and MAP_LOCKED
    /// have their usual effect. Locked memory stays locked.
    Usual,
    /// Locked and faulted in when mapped (`mlockall(2)`, MCL_FUTURE). Existing mappings do not
    /// change.
    Locked,
}

/// Overrides how the current [`MemoryLock`] treats new mappings, until dropped. This is for
/// measuring and comparing ways to allocate. It applies to all threads. If two exist at the same
/// time, the newer one applies, and dropping either one ends the effect of both.
///
/// This is needed because with [`LockMode::OnFault`] the kernel populates new mappings only on
/// first touch, even with MAP_POPULATE or MAP_LOCKED (`populate_vma_page_range` in Linux'
/// `mm/gup.c`).
#[derive(Debug)]
#[must_use = "the previous treatment of new mappings is restored as soon as this value is dropped"]
pub struct NewMappings {
    /// Whether the drop must undo a change.
    changed: bool,
}

/// `munlockall(2)` also unlocks the memory that `mlock(2)` locked. So the guards are counted, and
/// the buffers are recorded in order to lock them again.
struct Registry {
    guards: usize,
    /// Mode of the newest guard; `None` without guards.
    mode: Option<LockMode>,
    /// Address and size of each existing locked buffer.
    buffers: Vec<(usize, usize)>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    guards: 0,
    mode: None,
    buffers: Vec::new(),
});

impl Registry {
    /// Applies the mode of the newest guard, or unlocks.
    fn apply(&self) -> Result<(), Error> {
        if let Some(mode) = self.mode {
            return lock_all(mode.flags());
        }
        // Fails only if the kernel lacks this call, and nothing is locked in that case.
        let _ = munlockall();
        for &(address, bytes) in &self.buffers {
            // SAFETY: the buffer is still mapped, because it is removed from the registry, under
            // the same mutex, before it is unmapped.
            let _ = unsafe { rustix::mm::mlock(address as *mut _, bytes) };
        }
        Ok(())
    }
}

fn lock_all(flags: MlockAllFlags) -> Result<(), Error> {
    mlockall(flags)
        .map_err(|errno| explain("mlockall", "the memory of this process".to_owned(), errno))
}

fn registry() -> MutexGuard<'static, Registry> {
    // No code panics while it holds the lock, and the counts would be correct even if it did.
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks the memory of the whole process until the guard is dropped.
///
/// # Errors
/// Returns [`Error::MemoryLockRefused`] with the limit and how to raise it. The kernel counts
/// *mapped* memory against the limit, not used memory, even with [`LockMode::OnFault`]. If there is
/// a limit, later allocations and new threads can therefore fail.
pub fn lock_process_memory(mode: LockMode) -> Result<MemoryLock, Error> {
    let mut registry = registry();
    lock_all(mode.flags())?;
    registry.guards += 1;
    registry.mode = Some(mode);
    Ok(MemoryLock { mode })
}

impl MemoryLock {
    /// Returns which pages are locked.
    pub fn mode(&self) -> LockMode {
        self.mode
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        let mut registry = registry();
        registry.guards -= 1;
        if registry.guards == 0 {
            registry.mode = None;
            let _ = registry.apply();
        }
    }
}

impl NewMappings {
    /// From now on, treats new mappings according to `mode`.
    ///
    /// # Errors
    /// Returns [`Error::MemoryLockRefused`] for [`NewMappingMode::Locked`] if the process may not
    /// lock memory.
    pub fn treat(mode: NewMappingMode) -> Result<Self, Error> {
        let registry = registry();
        let changed = match (mode, registry.mode) {
            // In this case, new mappings are already treated as usual.
            (NewMappingMode::Usual, None | Some(LockMode::Current)) => false,
            (NewMappingMode::Usual, Some(_)) => {
                // Clears MCL_FUTURE, so that new mappings are treated as usual. Existing mappings
                // stay locked, and ONFAULT avoids faulting them in.
                lock_all(MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT)?;
                true
            }
            (NewMappingMode::Locked, _) => {
                lock_all(MlockAllFlags::FUTURE)?;
                true
            }
        };
        Ok(Self { changed })
    }

    /// Restores the previous treatment, and returns an error if that fails.
    ///
    /// # Errors
    /// Returns [`Error::MemoryLockRefused`] if the process has meanwhile mapped more than it may
    /// lock.
    pub fn restore(mut self) -> Result<(), Error> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<(), Error> {
        let registry = registry();
        if std::mem::take(&mut self.changed) {
            registry.apply()?;
        }
        Ok(())
    }
}

impl Drop for NewMappings {
    fn drop(&mut self) {
        let _ = self.put_back();
    }
}

/// Registers a locked buffer.
pub(super) fn enter(address: usize, bytes: usize) {
    registry().buffers.push((address, bytes));
}

/// Unregisters a buffer. Call this before unmapping it.
pub(super) fn leave(address: usize) {
    registry().buffers.retain(|&(entry, _)| entry != address);
}
