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

/// How memory that is mapped from now on is treated; see [`NewMappings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NewMappingMode {
    /// As in a process that never called `mlockall(2)`: not locked, and
    /// MAP_POPULATE and MAP_LOCKED do what they say. What is locked already
    /// stays locked.
    Usual,
    /// Locked and read in when it is mapped (`mlockall(2)`, MCL_FUTURE). What
    /// is mapped already stays as it is.
    Locked,
}

/// Treats new mappings of the process otherwise than the [`MemoryLock`] in
/// force, until dropped; for those who measure or compare ways to allocate. It
/// holds for all threads. Of two that live at a time the newer holds, and the
/// first that is dropped ends both.
///
/// It is needed because with [`LockMode::OnFault`] the kernel leaves all new
/// mappings to their first touch, also those with MAP_POPULATE or MAP_LOCKED
/// (`populate_vma_page_range` in Linux' `mm/gup.c`).
#[derive(Debug)]
#[must_use = "new mappings are treated as before as soon as this is dropped"]
pub struct NewMappings {
    /// Whether anything was changed that is to be put back.
    changed: bool,
}

/// `munlockall(2)` unlocks also what `mlock(2)` locked. So the guards are
/// counted, and the buffers remembered, to lock them again.
struct Registry {
    guards: usize,
    /// That of the newest guard, as long as there are any.
    mode: Option<LockMode>,
    /// Address and size of each live locked buffer.
    buffers: Vec<(usize, usize)>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    guards: 0,
    mode: None,
    buffers: Vec::new(),
});

impl Registry {
    /// Makes the kernel's setting that of the newest guard, or of none.
    fn apply(&self) -> Result<(), Error> {
        if let Some(mode) = self.mode {
            return lock_all(mode.flags());
        }
        // Fails only where the call does not exist, and then nothing is locked.
        let _ = munlockall();
        for &(address, bytes) in &self.buffers {
            // SAFETY: the buffer is mapped: it leaves the registry, under the
            // same mutex, before it is unmapped.
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
    lock_all(mode.flags())?;
    registry.guards += 1;
    registry.mode = Some(mode);
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
        if registry.guards == 0 {
            registry.mode = None;
            let _ = registry.apply();
        }
    }
}

impl NewMappings {
    /// Treats them as `mode` says from here on.
    ///
    /// # Errors
    /// [`Error::MemoryLockRefused`] for [`NewMappingMode::Locked`] without the
    /// right to lock memory.
    pub fn treat(mode: NewMappingMode) -> Result<Self, Error> {
        let registry = registry();
        let changed = match (mode, registry.mode) {
            // New mappings are as usual already.
            (NewMappingMode::Usual, None | Some(LockMode::Current)) => false,
            (NewMappingMode::Usual, Some(_)) => {
                // Without MCL_FUTURE the next mappings are as usual; the
                // present ones stay locked, and nothing is read in for it.
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

    /// Ends it, and says if the former state could not be had again.
    ///
    /// # Errors
    /// [`Error::MemoryLockRefused`] if the process has mapped more meanwhile
    /// than it may lock.
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

/// Remembers a locked buffer.
pub(super) fn enter(address: usize, bytes: usize) {
    registry().buffers.push((address, bytes));
}

/// Forgets it. To be called before it is unmapped.
pub(super) fn leave(address: usize) {
    registry().buffers.retain(|&(entry, _)| entry != address);
}
