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

/// What a mark names.
pub(super) enum Marked {
    Record(Record),
    /// The mark is being written, or overwritten by a later one.
    Unwritten,
    /// The record is: it had ended when it was marked.
    Overwritten,
}

/// The rings of all CPUs.
#[derive(Debug)]
pub(super) struct Rings {
    heads: Mapped,
    marks: Mapped,
    records: Mapped,
    /// Records of one CPU, a power of two.
    length: u64,
}

impl Rings {
    /// # Errors
    /// Those of mmap(2).
    pub(super) fn map(
        (heads, marks, records): (&MapData, &MapData, &MapData),
        cpus: usize,
        length: u32,
    ) -> io::Result<Self> {
        let all = cpus * length as usize;
        Ok(Self {
            heads: Mapped::new(heads, cpus * HEAD_WORDS)?,
            marks: Mapped::new(marks, all)?,
            records: Mapped::new(records, all * WORDS)?,
            length: u64::from(length),
        })
    }

    /// How many records a CPU began.
    pub(super) fn begun(&self, cpu: u32) -> u64 {
        self.heads.word(cpu as usize * HEAD_WORDS)
    }

    /// How many records a CPU marked.
    pub(super) fn marked(&self, cpu: u32) -> u64 {
        self.heads.word(cpu as usize * HEAD_WORDS + 1)
    }

    /// A marked record by the number of its mark.
    pub(super) fn marked_at(&self, cpu: u32, number: u64) -> Marked {
        let mark = self.marks.word(self.place(cpu, number));
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        if (mark >> 32) as u32 != (number as u32).wrapping_add(1) {
            return Marked::Unwritten;
        }
        // The low half is enough: the record is one of the last `length`.
        let begun = self.begun(cpu);
        let behind = (begun as u32).wrapping_sub(mark as u32);
        let record = self.at(cpu, begun.wrapping_sub(u64::from(behind)));
        record.map_or(Marked::Overwritten, Marked::Record)
    }

    /// The first record, or mark, that may still be there.
    pub(super) const fn oldest(&self, begun: u64) -> u64 {
        begun.saturating_sub(self.length)
    }

    const fn place(&self, cpu: u32, number: u64) -> usize {
        (cpu as u64 * self.length + (number & (self.length - 1))) as usize
    }

    /// A record by its number; `None`: it is being written, or overwritten.
    pub(super) fn at(&self, cpu: u32, number: u64) -> Option<Record> {
        let first = self.place(cpu, number) * WORDS;
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

/// Rings of one CPU as the programs leave them.
#[cfg(test)]
pub(super) mod testing {
    use super::{HEAD_WORDS, Mapped, NonNull, Rings, WORDS};

    impl Mapped {
        fn holding(words: &[u64]) -> Self {
            // SAFETY: a new mapping at a place of the kernel's choice, which no file backs.
            let at = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    size_of_val(words),
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            assert_ne!(at, libc::MAP_FAILED);
            let first: NonNull<u64> = NonNull::new(at.cast()).unwrap();
            // SAFETY: the mapping is as long as `words`, and nothing else refers to it.
            unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), first.as_ptr(), words.len()) };
            let words = words.len();
            Self { first, words }
        }
    }

    /// Rings of `length` records: `begun` were written, each at ten times its number + 1,
    /// and those of `marked` were marked in this order; `None`: a mark in the making.
    pub(in super::super) fn rings(length: u64, begun: u64, marked: &[Option<u64>]) -> Rings {
        let mut heads = [0; HEAD_WORDS];
        heads[..2].copy_from_slice(&[begun, marked.len() as u64]);
        let mut records = vec![0; length as usize * WORDS];
        for number in 0..begun {
            let first = (number % length) as usize * WORDS;
            records[first] = number * 10 + 1;
            records[first + 1] = number + 1;
        }
        let mut marks = vec![0; length as usize];
        for (number, record) in (0..).zip(marked) {
            let mark = record.map_or(0, |record| (number + 1) << 32 | record);
            marks[(number % length) as usize] = mark;
        }
        Rings {
            heads: Mapped::holding(&heads),
            marks: Mapped::holding(&marks),
            records: Mapped::holding(&records),
            length,
        }
    }
}
