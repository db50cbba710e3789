//! One page of the ring buffer: its header, and the records in it.
//!
//! Source: `kernel/trace/ring_buffer.c` and `include/linux/ring_buffer.h`
//! (`struct buffer_data_page`, `struct ring_buffer_event`).

use super::Layout;

/// Of the word `commit`: events before this page were lost, and how many
/// stands behind the data (`RB_MISSED_EVENTS`, `RB_MISSED_STORED`).
pub(crate) const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
/// Of the same: the bytes of data, without these flags.
const COMMITTED: u64 = MISSED_STORED - 1;

/// What `type_len` means beyond the length of a record in words: that it is in the next word.
pub(crate) const LONG: u32 = 0;
const PADDING: u32 = 29;
pub(crate) const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// The longest record whose length is in its first word, in bytes.
pub(crate) const SHORT: usize = 28 * 4;

/// Bits of a time difference in a record's first word.
pub(crate) const DELTA_BITS: u32 = 27;
/// Bits of an absolute time stamp: the others are those of the time before
/// (`TS_MSB`).
const STAMP_BITS: u32 = 59;

/// Events that were lost just before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// This number.
    Count(u64),
    /// One or more: the number did not fit into the page.
    Some,
}

impl Lost {
    /// Lower bound of their number.
    pub const fn at_least(self) -> u64 {
        match self {
            Self::Count(count) => count,
            Self::Some => 1,
        }
    }
}

/// The header of a page, and its records.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    layout: Layout,
    time: u64,
    lost: Option<Lost>,
    data: &'a [u8],
}

/// A record: when, and what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// On the trace clock.
    pub time: u64,
    /// The event, from its `common_type` on.
    pub data: &'a [u8],
}

/// An invalid page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid ring-buffer page: {bytes} bytes with {committed} committed")]
pub struct BadPage {
    /// Bytes read.
    pub bytes: usize,
    /// Bytes according to its header.
    pub committed: u64,
}

impl<'a> Page<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// It is shorter than its header claims.
    pub fn parse(layout: Layout, bytes: &'a [u8]) -> Result<Self, BadPage> {
        let bad = |committed| BadPage {
            bytes: bytes.len(),
            committed,
        };
        let time = bytes.first_chunk().ok_or(bad(0))?;
        let commit = bytes
            .get(Layout::COMMIT_AT..layout.data_at)
            .map(|word| layout.unsigned(word))
            .ok_or(bad(0))?;
        let committed = commit & COMMITTED;
        let length = usize::try_from(committed).map_err(|_| bad(committed))?;
        let behind = bytes.get(layout.data_at..).ok_or(bad(committed))?;
        let data = behind.get(..length).ok_or(bad(committed))?;
        let lost = (commit & MISSED != 0).then(|| {
            let word = length..length + usize::from(layout.long_bytes);
            match behind.get(word) {
                Some(word) if commit & MISSED_STORED != 0 => Lost::Count(layout.unsigned(word)),
                _ => Lost::Some,
            }
        });
        Ok(Self {
            layout,
            time: layout.u64(*time),
            lost,
            data,
        })
    }

    /// The time stamp of the page: no record is before it.
    pub const fn time(&self) -> u64 {
        self.time
    }

    /// Events lost between the previous page and this one.
    pub const fn lost(&self) -> Option<Lost> {
        self.lost
    }

    /// Bytes of its records.
    pub const fn committed(&self) -> usize {
        self.data.len()
    }

    /// Its records, in the order in which they were written.
    pub const fn records(&self) -> Records<'a> {
        Records {
            layout: self.layout,
            data: self.data,
            time: self.time,
            broken: false,
        }
    }
}

/// The records of a page.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    layout: Layout,
    data: &'a [u8],
    time: u64,
    broken: bool,
}

impl<'a> Records<'a> {
    /// Whether the page ended in an invalid record; its rest is
    /// unknown.
    pub const fn is_broken(&self) -> bool {
        self.broken
    }

    /// The time of the last record, or of the page without records.
    pub const fn time(&self) -> u64 {
        self.time
    }

    /// Takes `count` bytes; `None` if fewer are left.
    #[inline]
    fn cut(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.data.split_at_checked(bytes)?;
        self.data = rest;
        Some(head)
    }

    #[inline]
    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.data.split_first_chunk()?;
        self.data = rest;
        Some(self.layout.u32(*word))
    }

    /// The first word: a type or length, and a difference in time. On machines
    /// that begin with the high end, bit fields do so too.
    #[inline]
    fn head(&mut self) -> Option<(u32, u64)> {
        let word = self.word()?;
        Some(match self.layout.big_endian {
            false => (word & 31, u64::from(word >> 5)),
            true => (
                word >> DELTA_BITS,
                u64::from(word & ((1 << DELTA_BITS) - 1)),
            ),
        })
    }

    /// Length of a record by its second word, that word included.
    #[inline]
    fn long(&mut self) -> Option<&'a [u8]> {
        let length = (self.word()? as usize).checked_sub(4)?;
        // The next record begins at a word.
        let padded = length.checked_next_multiple_of(4)?;
        match self.data.len() < padded {
            // The last one of a page need not be filled up.
            true => self.cut(length),
            false => self.cut(padded).map(|bytes| &bytes[..length]),
        }
    }

    /// The next record; `Ok(None)`: the end. `Err`: not a valid record.
    #[inline]
    fn step(&mut self) -> Result<Option<Record<'a>>, ()> {
        while !self.data.is_empty() {
            let (kind, delta) = self.head().ok_or(())?;
            match kind {
                // Discarded data; without a time difference, the rest.
                PADDING if delta == 0 => return Ok(None),
                PADDING => {
                    self.time = self.time.wrapping_add(delta);
                    self.long().ok_or(())?;
                }
                TIME_EXTEND => {
                    let high = u64::from(self.word().ok_or(())?);
                    self.time = self.time.wrapping_add((high << DELTA_BITS) | delta);
                }
                TIME_STAMP => {
                    let high = u64::from(self.word().ok_or(())?);
                    self.time = stamp((high << DELTA_BITS) | delta, self.time);
                }
                words => {
                    self.time = self.time.wrapping_add(delta);
                    let data = match words {
                        LONG => self.long(),
                        words => self.cut(words as usize * 4),
                    };
                    let data = data.ok_or(())?;
                    return Ok(Some(Record {
                        time: self.time,
                        data,
                    }));
                }
            }
        }
        Ok(None)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        match self.step() {
            Ok(Some(record)) => return Some(record),
            Ok(None) => {}
            Err(()) => self.broken = true,
        }
        self.data = &[];
        None
    }
}

/// An absolute time of 59 bits; those above are of the time before, which is
/// the smaller (`rb_fix_abs_ts`).
fn stamp(low: u64, before: u64) -> u64 {
    const LOW: u64 = (1 << STAMP_BITS) - 1;
    let low = low & LOW;
    if before & !LOW == 0 {
        return low;
    }
    let time = low | (before & !LOW);
    match time < before {
        true => time.wrapping_add(1 << STAMP_BITS),
        false => time,
    }
}
