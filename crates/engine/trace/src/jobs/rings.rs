//! Maps the rings that the programs write into memory, so that reading them needs no system call.

#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{Ordering, fence};

use aya::maps::MapData;

use super::record::{JobRecord, WORDS};
use crate::bpf::{Mapped, settled};

/// Number of words in `struct head`.
const HEAD_WORDS: usize = 8;

/// The rings of all CPUs.
#[derive(Debug)]
pub(super) struct Rings {
    heads: Mapped,
    records: Mapped,
    listed: Mapped,
    /// Number of records of one CPU, which is also the number of entries in its ring of listed
    /// records. It is a power of two.
    length: u64,
}

/// An entry in the ring of listed records.
pub(super) enum Listed {
    /// The number of a record.
    Record(u64),
    /// The entry is still being written.
    NotYet,
    /// The entry was overwritten.
    Gone,
}

impl Rings {
    /// # Errors
    /// Returns the errors of mmap(2).
    pub(super) fn map(
        (heads, records, listed): (&MapData, &MapData, &MapData),
        cpus: usize,
        length: u32,
    ) -> io::Result<Self> {
        Ok(Self {
            heads: Mapped::new(heads, cpus * HEAD_WORDS)?,
            records: Mapped::new(records, cpus * length as usize * WORDS)?,
            listed: Mapped::new(listed, cpus * length as usize)?,
            length: u64::from(length),
        })
    }

    /// Returns the number of records that have been started on a CPU.
    pub(super) fn begun(&self, cpu: u32) -> u64 {
        self.heads.word(cpu as usize * HEAD_WORDS)
    }

    /// Returns the number of records that have been listed on a CPU.
    pub(super) fn listed(&self, cpu: u32) -> u64 {
        self.heads.word(cpu as usize * HEAD_WORDS + 1)
    }

    /// Returns the numbers of system calls that have begun on a CPU: those of all threads, and
    /// those of watched threads.
    pub(super) fn calls(&self, cpu: u32) -> [u64; 2] {
        [2, 3].map(|word| self.heads.word(cpu as usize * HEAD_WORDS + word))
    }

    /// Returns how many threads got the wanted name or joined a control group on a CPU.
    pub(super) fn joins(&self, cpu: u32) -> u64 {
        self.heads.word(cpu as usize * HEAD_WORDS + 6)
    }

    /// Returns the number of user stacks that a CPU did not record, because there were too many.
    pub(super) fn stacks_dropped(&self, cpu: u32) -> u64 {
        self.heads.word(cpu as usize * HEAD_WORDS + 4)
    }

    /// Returns the number of the oldest record or entry that may still exist.
    pub(super) const fn oldest(&self, begun: u64) -> u64 {
        begun.saturating_sub(self.length)
    }

    /// Returns the entry with this number.
    pub(super) fn entry(&self, cpu: u32, number: u64) -> Listed {
        let place = u64::from(cpu) * self.length + (number & (self.length - 1));
        let entry = self.listed.word(place as usize);
        let (of, sequence) = ((entry >> 32) as u32, entry as u32);
        let expected = (number as u32).wrapping_add(1);
        if of != expected {
            return if expected.wrapping_sub(of) < 1 << 31 {
                Listed::NotYet
            } else {
                Listed::Gone
            };
        }
        fence(Ordering::Acquire);
        // Record numbers have 64 bits, but entries contain only the lower 32 bits. The upper bits
        // are chosen so that the number is as close as possible to that of the newest record.
        let begun = self.begun(cpu);
        let back = (begun as u32).wrapping_sub(sequence);
        match begun.checked_sub(u64::from(back) + 1) {
            Some(number) => Listed::Record(number),
            None => Listed::Gone,
        }
    }

    /// Returns the record with this number, or `None` if it is still being written or has been
    /// overwritten.
    pub(super) fn at(&self, cpu: u32, number: u64) -> Option<JobRecord> {
        let place = u64::from(cpu) * self.length + (number & (self.length - 1));
        let first = place as usize * WORDS;
        let expected = (number as u32).wrapping_add(1);
        settled(
            || u64::from(self.records.word(first + 1) as u32 == expected),
            || JobRecord(std::array::from_fn(|word| self.records.word(first + word))),
        )
    }
}
