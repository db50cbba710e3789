//! The rings that the programs write, mapped: reading them is no system call.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

use aya::maps::MapData;

use super::record::{Record, WORDS};

/// Words of `struct head`.
const HEAD_WORDS: usize = 8;

/// Memory of a map, read-only, until this is dropped.
#[derive(Debug)]
struct Mapped {
    first: NonNull<u64>,
    words: usize,
}

// SAFETY: the memory belongs to this value alone, is only read, and may be read
// from any thread.
unsafe impl Send for Mapped {}

impl Mapped {
    fn new(map: &MapData, words: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at a place of the kernel's choice.
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

    /// A word; 0 beyond the end.
    fn word(&self, place: usize) -> u64 {
        if place >= self.words {
            return 0;
        }
        // SAFETY: `place` is below the count that was mapped; mapped and aligned, and any
        // bytes are a value.
        unsafe { self.first.add(place).read_volatile() }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: what `new` has mapped, of the same length; nothing refers to it.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.words * size_of::<u64>()) };
    }
}

/// The rings of all CPUs.
#[derive(Debug)]
pub(super) struct Rings {
    heads: Mapped,
    records: Mapped,
    /// Records of one CPU, a power of two.
    length: u64,
}

impl Rings {
    /// # Errors
    /// Those of mmap(2).
    pub(super) fn map(
        heads: &MapData,
        records: &MapData,
        cpus: usize,
        length: u32,
    ) -> io::Result<Self> {
        Ok(Self {
            heads: Mapped::new(heads, cpus * HEAD_WORDS)?,
            records: Mapped::new(records, cpus * length as usize * WORDS)?,
            length: u64::from(length),
        })
    }

    /// How many records a CPU began.
    pub(super) fn begun(&self, cpu: u32) -> u64 {
        self.heads.word(cpu as usize * HEAD_WORDS)
    }

    /// The first record that may still be there.
    pub(super) const fn oldest(&self, begun: u64) -> u64 {
        begun.saturating_sub(self.length)
    }

    /// A record by its number; `None`: it is being written, or overwritten.
    pub(super) fn at(&self, cpu: u32, number: u64) -> Option<Record> {
        let place = u64::from(cpu) * self.length + (number & (self.length - 1));
        let first = place as usize * WORDS;
        let expected = (number as u32).wrapping_add(1);
        let mut record = Record::default();
        let sequence = || self.records.word(first + 1) as u32;
        if sequence() != expected {
            return None;
        }
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        for (place, word) in (first..).zip(&mut record.0) {
            *word = self.records.word(place);
        }
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        (sequence() == expected && record.sequence() == expected).then_some(record)
    }
}
