//! A page of the ring buffer: its header and the records in it.
//!
//! Source: `kernel/trace/ring_buffer.c` and `include/linux/ring_buffer.h`
//! (`struct buffer_data_page`, `struct ring_buffer_event`).

use super::Layout;

/// Flags in the word `commit`: events were lost before this page (`RB_MISSED_EVENTS`), and the
/// number of lost events follows the data (`RB_MISSED_STORED`).
pub(crate) const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
/// Mask for the size of the data in the word `commit`, without the flags.
const COMMITTED: u64 = MISSED_STORED - 1;

/// Special values of `type_len`. Other values give the length of a record in words, except that 0
/// means that the next word contains the length.
pub(crate) const LONG: u32 = 0;
const PADDING: u32 = 29;
pub(crate) const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Maximum length in bytes of a record whose first word contains its length.
pub(crate) const SHORT: usize = 28 * 4;

/// Number of bits of the time difference in the first word of a record.
pub(crate) const DELTA_BITS: u32 = 27;
/// Number of bits of an absolute time stamp. The bits above these are taken from the previous time
/// (`TS_MSB`).
const STAMP_BITS: u32 = 59;

/// Events that were lost just before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Number of lost events.
    Count(u64),
    /// One or more events were lost. Their number is unknown, because the page has no space for it.
    Some,
}

impl Lost {
    /// Returns the minimum number of lost events.
    pub const fn at_least(self) -> u64 {
        match self {
            Self::Count(count) => count,
            Self::Some => 1,
        }
    }
}

/// The header of a page and its records.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    layout: Layout,
    time: u64,
    lost: Option<Lost>,
    data: &'a [u8],
}

/// A record of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRecord<'a> {
    /// Time of the record, on the trace clock, in ns.
    pub time: u64,
    /// Data of the event, which starts with its `common_type`.
    pub data: &'a [u8],
}

/// The error if a page is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid ring-buffer page: {bytes} bytes with {committed} committed")]
pub struct BadPage {
    /// Number of bytes that were read.
    pub bytes: usize,
    /// Number of bytes of data, according to the header of the page.
    pub committed: u64,
}

impl<'a> Page<'a> {
    /// Parses the header of a page.
    ///
    /// # Errors
    /// Returns an error if the page is shorter than its header states.
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

    /// Returns the time stamp of the page. No record in the page is earlier.
    pub const fn time(&self) -> u64 {
        self.time
    }

    /// Returns the events that were lost between the previous page and this one.
    pub const fn lost(&self) -> Option<Lost> {
        self.lost
    }

    /// Returns the size of the page's data in bytes.
    pub const fn committed(&self) -> usize {
        self.data.len()
    }

    /// Returns the records of the page, in the order in which they were written.
    pub const fn records(&self) -> PageRecords<'a> {
        PageRecords {
            layout: self.layout,
            data: self.data,
            time: self.time,
            broken: false,
        }
    }
}

/// Iterator over the records of a page.
#[derive(Clone, Debug)]
pub struct PageRecords<'a> {
    layout: Layout,
    data: &'a [u8],
    time: u64,
    broken: bool,
}

impl<'a> PageRecords<'a> {
    /// Returns whether an invalid record ended the iteration. The rest of the page is then unknown.
    pub const fn is_broken(&self) -> bool {
        self.broken
    }

    /// Returns the time of the last record, or of the page if no record was read.
    pub const fn time(&self) -> u64 {
        self.time
    }

    /// Takes `count` bytes. Returns `None` if fewer are left.
    #[inline]
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
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

    /// Splits the first word of a record into its type or length and the time difference. On
    /// big-endian machines, bit fields start at the most significant bit.
    #[inline]
    fn head(&mut self) -> Option<(u32, u64)> {
        let word = self.word()?;
        Some(if self.layout.big_endian {
            (
                word >> DELTA_BITS,
                u64::from(word & ((1 << DELTA_BITS) - 1)),
            )
        } else {
            (word & 31, u64::from(word >> 5))
        })
    }

    /// Returns the data of a record whose second word contains its length. The length includes this
    /// word.
    #[inline]
    fn long(&mut self) -> Option<&'a [u8]> {
        let length = (self.word()? as usize).checked_sub(4)?;
        // The next record starts on a word boundary.
        let padded = length.checked_next_multiple_of(4)?;
        if self.data.len() < padded {
            // The padding may be missing after the last record of a page.
            self.take(length)
        } else {
            self.take(padded).map(|bytes| &bytes[..length])
        }
    }

    /// Returns the next record; `Ok(None)` at the end, `Err` for an invalid record.
    #[inline]
    fn step(&mut self) -> Result<Option<PageRecord<'a>>, ()> {
        while !self.data.is_empty() {
            let (kind, delta) = self.head().ok_or(())?;
            match kind {
                // A discarded record. If it has no time difference, the rest of the page is empty.
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
                        words => self.take(words as usize * 4),
                    };
                    let data = data.ok_or(())?;
                    return Ok(Some(PageRecord {
                        time: self.time,
                        data,
                    }));
                }
            }
        }
        Ok(None)
    }
}

impl<'a> Iterator for PageRecords<'a> {
    type Item = PageRecord<'a>;

    #[inline]
    fn next(&mut self) -> Option<PageRecord<'a>> {
        match self.step() {
            Ok(Some(record)) => return Some(record),
            Ok(None) => {}
            Err(()) => self.broken = true,
        }
        self.data = &[];
        None
    }
}

/// Completes an absolute time of 59 bits. The upper bits are taken from `before`, an earlier time
/// (`rb_fix_abs_ts`).
fn stamp(low: u64, before: u64) -> u64 {
    const LOW: u64 = (1 << STAMP_BITS) - 1;
    let low = low & LOW;
    if before & !LOW == 0 {
        return low;
    }
    let time = low | (before & !LOW);
    if time < before {
        time.wrapping_add(1 << STAMP_BITS)
    } else {
        time
    }
}
