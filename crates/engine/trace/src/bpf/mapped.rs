//! Maps the memory of a BPF map, so that reading it needs no system call.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

use aya::maps::MapData;

/// The memory of an array with BPF_F_MMAPABLE, mapped read-only. Dropping this value unmaps it.
#[derive(Debug)]
pub(crate) struct Mapped {
    first: NonNull<u64>,
    words: usize,
}

// SAFETY: the memory belongs to this value alone, is only read, and may be read
// from any thread.
unsafe impl Send for Mapped {}

impl Mapped {
    /// # Errors
    /// Returns the errors of mmap(2).
    pub(crate) fn new(map: &MapData, words: usize) -> io::Result<Self> {
        // SAFETY: this creates a new mapping at an address that the kernel chooses.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                words * size_of::<u64>(),
                libc::PROT_READ,
                libc::MAP_SHARED,
                map.fd().as_fd().as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = NonNull::new(at.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { first, words })
    }

    /// Returns a word, or 0 if it is beyond the end.
    pub(crate) fn word(&self, place: usize) -> u64 {
        if place >= self.words {
            return 0;
        }
        // SAFETY: `place` is less than the number of mapped words, so the address is mapped and
        // aligned. Any bytes are a valid value.
        unsafe { self.first.add(place).read_volatile() }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `new` mapped this address with this length, and no reference into it exists.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.words * size_of::<u64>()) };
    }
}
