//! Builds pages of the ring buffer.

use crate::{Layout, Lost};

/// Returns the usual layout, with longs of 64 bits and pages of 4 KiB.
pub fn layout(big_endian: bool) -> Layout {
    Layout {
        long_bytes: 8,
        big_endian,
        data_at: 16,
        page_bytes: 4_096,
    }
}

/// An item that the kernel writes into a page.
#[derive(Clone, Debug)]
pub enum Piece {
    /// An event, given by the time since the preceding item and its bytes.
    Event(u32, Vec<u8>),
    /// A discarded event, given by the time since the preceding item and its size in words.
    Discarded(u32, usize),
    /// A time difference that does not fit into an event.
    Extend(u64),
    /// An absolute time.
    Stamp(u64),
}

/// Builds pages in the same way as `kernel/trace/ring_buffer.c`.
#[derive(Clone, Debug)]
pub struct PageBuilder {
    layout: Layout,
    data: Vec<u8>,
}

impl PageBuilder {
    /// Creates an empty page.
    pub fn new(layout: Layout) -> Self {
        Self {
            layout,
            data: Vec::new(),
        }
    }

    fn word(&mut self, word: u32) {
        self.data.extend(if self.layout.big_endian {
            word.to_be_bytes()
        } else {
            word.to_le_bytes()
        });
    }

    fn head(&mut self, kind: u32, delta: u32) {
        let delta = delta & 0x07ff_ffff;
        self.word(if self.layout.big_endian {
            kind << 27 | delta
        } else {
            kind | delta << 5
        });
    }

    /// Appends an item.
    pub fn write(&mut self, piece: &Piece) {
        match piece {
            Piece::Event(delta, bytes) => {
                let padded = bytes.len().next_multiple_of(4).max(4);
                if bytes.len() % 4 == 0 && (4..=112).contains(&bytes.len()) {
                    self.head(bytes.len() as u32 / 4, *delta);
                } else {
                    self.head(0, *delta);
                    self.word(bytes.len() as u32 + 4);
                }
                let from = self.data.len();
                self.data.extend(bytes);
                self.data
                    .resize(from + padded.min(bytes.len().next_multiple_of(4)), 0);
            }
            Piece::Discarded(delta, words) => {
                self.head(29, (*delta).max(1));
                self.word(*words as u32 * 4 + 4);
                self.data.resize(self.data.len() + words * 4, 0xee);
            }
            Piece::Extend(delta) => {
                self.head(30, *delta as u32);
                self.word((delta >> 27) as u32);
            }
            Piece::Stamp(time) => {
                self.head(31, *time as u32);
                self.word((time >> 27) as u32);
            }
        }
    }

    /// Marks the rest of the page as empty.
    pub fn end(&mut self) {
        self.head(29, 0);
        self.word(77);
    }

    /// Writes the first word of an event, but not its data.
    pub fn cut_off(&mut self) {
        self.head(20, 1);
    }

    /// Returns the page in the form in which a read returns it. `lost` gives the events lost before
    /// it (see [`Lost`]).
    pub fn page(self, time: u64, lost: Option<Lost>) -> Vec<u8> {
        let flags = match lost {
            None => 0,
            Some(Lost::Some) => 1_u64 << 31,
            Some(Lost::Count(_)) => 3 << 30,
        };
        let commit = self.data.len() as u64 | flags;
        let number = |number: u64| {
            if self.layout.big_endian {
                number.to_be_bytes()
            } else {
                number.to_le_bytes()
            }
        };
        let mut page = [number(time), number(commit)].concat();
        page.extend(&self.data);
        if let Some(Lost::Count(count)) = lost {
            page.extend(number(count));
        }
        let longest = page.len().max(self.layout.page_bytes);
        page.resize(longest, 0);
        page
    }
}
