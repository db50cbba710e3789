//! Reads the notes that BPF programs write about woken threads that are not running yet. The BPF
//! map is mapped into memory, so that nothing is copied when all notes are read.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

use aya::maps::MapData;
use punctual_model::Nanos;

use super::WaitNote;
use super::layout::Note;

/// The BPF map `notes`, mapped read-only. Dropping this value unmaps it.
#[derive(Debug)]
pub(super) struct Notes {
    first: NonNull<Note>,
    count: usize,
}

// SAFETY: the memory belongs to this value alone, is only read, and may be read
// from any thread.
unsafe impl Send for Notes {}

impl Notes {
    /// Maps `count` notes into memory.
    ///
    /// # Errors
    /// Returns the errors of mmap(2).
    pub(super) fn map(map: &MapData, count: usize) -> io::Result<Self> {
        // SAFETY: this creates a new mapping at an address that the kernel chooses.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                count * size_of::<Note>(),
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
        Ok(Self { first, count })
    }

    /// Returns the threads that are waiting now.
    pub(super) fn waiting(&self) -> Vec<WaitNote> {
        (0..self.count).filter_map(|place| self.at(place)).collect()
    }

    fn at(&self, place: usize) -> Option<WaitNote> {
        // SAFETY: `place` is less than the number of mapped notes.
        let at = unsafe { self.first.add(place) };
        // SAFETY: the address is mapped and aligned. The kernel may be writing the note at the same
        // time, but any bytes are a valid value.
        let read = || unsafe { at.read_volatile() };
        let note = read();
        // If the note has changed between two reads, the thread has been woken again, so skip it.
        (note.woken > 0 && note == read()).then_some(WaitNote {
            tid: note.pid,
            woken: Nanos(note.woken),
            waker: note.waker,
        })
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        // SAFETY: `map` mapped this address with this length, and no reference into it exists.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.count * size_of::<Note>()) };
    }
}
