//! The sealed memory that holds the figures of an application.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::sync::Mutex;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::atomic::{AtomicU64, Ordering};
use crate::{Error, layout};

/// The mapping, and the file descriptor that readers find.
#[derive(Debug)]
pub(crate) struct Memory {
    first: NonNull<AtomicU64>,
    bytes: usize,
    /// Number of allocated channels.
    pub(crate) channels: usize,
    /// Number of channels in use.
    pub(crate) used: Mutex<usize>,
    _fd: OwnedFd,
}

// SAFETY: the mapping lives as long as this value, and all its words are atomics.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn new(channels: usize) -> Result<Self, Error> {
        let bytes = layout::total_bytes(channels);
        let failed = |call| {
            move |errno: Errno| Error::Os {
                call,
                source: io::Error::from(errno),
            }
        };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create(layout::MEMFD_NAME, flags).map_err(failed("memfd_create"))?;
        ftruncate(&fd, bytes as u64).map_err(failed("ftruncate"))?;
        // SAFETY: this creates a new mapping at an address that the kernel chooses.
        let address = unsafe {
            mmap(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                &fd,
                0,
            )
        }
        .map_err(failed("mmap"))?;
        let first = NonNull::new(address.cast::<AtomicU64>()).ok_or_else(|| Error::Os {
            call: "mmap",
            source: io::ErrorKind::OutOfMemory.into(),
        })?;
        let memory = Self {
            first,
            bytes,
            channels,
            used: Mutex::new(0),
            _fd: fd,
        };
        // The existing writable mapping stays writable.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        fcntl_add_seals(&memory._fd, seals).map_err(|errno| match errno {
            Errno::INVAL => Error::NoSeal,
            errno => failed("fcntl(F_ADD_SEALS)")(errno),
        })?;
        // MAP_POPULATE may stop early without an error, so each page is written once.
        for word in (0..bytes / layout::WORD).step_by(4096 / layout::WORD) {
            memory.word(word).store(0, Ordering::Relaxed);
        }
        Ok(memory)
    }

    /// Returns the word at this offset.
    #[inline(always)]
    pub(crate) fn word(&self, place: usize) -> &AtomicU64 {
        debug_assert!(place < self.bytes / layout::WORD);
        // SAFETY: callers pass layout offsets of existing channels. These are within the mapping,
        // which is page-aligned and lives as long as `self`.
        unsafe { self.first.add(place).as_ref() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this unmaps the whole mapping, and no reference into it outlives `self`.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}
