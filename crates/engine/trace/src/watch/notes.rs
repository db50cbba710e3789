//! The notes of woken threads that do not run yet, as written by the programs in the kernel;
//! mapped, so that reading all of them copies nothing.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

use aya::maps::MapData;
use punctual_model::Nanos;

use super::WaitNote;
use super::layout::Note;

/// The map `notes`, read-only, until this is dropped.
#[derive(Debug)]
pub(super) struct Notes {
    first: NonNull<Note>,
    count: usize,
}

// SAFETY: the memory belongs to this value alone, is only read, and may be read
// from any thread.
unsafe impl Send for Notes {}

impl Notes {
    /// Maps `count` notes.
    ///
    /// # Errors
    /// The errors of mmap(2).
    pub(super) fn map(map: &MapData, count: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at a place of the kernel's choice.
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

    /// Returns the waiting threads.
    pub(super) fn waiting(&self) -> Vec<WaitNote> {
        (0..self.count).filter_map(|place| self.at(place)).collect()
    }

    fn at(&self, place: usize) -> Option<WaitNote> {
        // SAFETY: `place` is below the count that was mapped.
        let at = unsafe { self.first.add(place) };
        // SAFETY: mapped and aligned; the kernel writes it meanwhile, and any
        // bytes are a value.
        let read = || unsafe { at.read_volatile() };
        let note = read();
        // A note being written belongs to a new wake-up.
        (note.woken > 0 && note == read()).then_some(WaitNote {
            tid: note.pid,
            woken: Nanos(note.woken),
            waker: note.waker,
        })
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        // SAFETY: what `map` has mapped, of the same length; nothing refers to it.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.count * size_of::<Note>()) };
    }
}
