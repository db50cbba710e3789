//! Merges the pages of two buffers of one CPU, for programs that support only one buffer per CPU.

use crate::ring::{DELTA_BITS, LONG, Layout, MISSED, Page, SHORT, TIME_EXTEND};

/// A record from one of the two buffers.
struct Entry<'a> {
    time: u64,
    data: &'a [u8],
    /// Whether events are missing before this record.
    gap: bool,
}

/// Merges the records of both buffers into new pages, in ascending order of time. A page that
/// follows a gap is marked as in the original.
pub(super) fn merge(layout: Layout, first: &[Vec<u8>], second: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for pages in [first, second] {
        let mut gap = false;
        for page in pages {
            let Ok(page) = Page::parse(layout, page) else {
                continue;
            };
            gap |= page.lost().is_some();
            for record in page.records() {
                all.push(Entry {
                    time: record.time,
                    data: record.data,
                    gap: std::mem::take(&mut gap),
                });
            }
        }
    }
    // The sort is stable: records of one buffer with equal times keep their order.
    all.sort_by_key(|entry| entry.time);
    let mut pages: Vec<NewPage> = Vec::new();
    for entry in &all {
        let fits = match pages.last_mut() {
            Some(page) if !entry.gap => page.add(entry),
            _ => false,
        };
        if !fits {
            let mut page = NewPage::begin(layout, entry);
            page.add(entry);
            pages.push(page);
        }
    }
    pages.into_iter().map(NewPage::finish).collect()
}

/// A page while it is being built (`kernel/trace/ring_buffer.c`).
struct NewPage {
    layout: Layout,
    begin: u64,
    time: u64,
    gap: bool,
    data: Vec<u8>,
}

impl NewPage {
    fn begin(layout: Layout, first: &Entry<'_>) -> Self {
        Self {
            layout,
            begin: first.time,
            time: first.time,
            gap: first.gap,
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
        self.word(if self.layout.big_endian {
            kind << DELTA_BITS | delta
        } else {
            kind | delta << (u32::BITS - DELTA_BITS)
        });
    }

    /// Adds a record; returns `false` if it does not fit.
    fn add(&mut self, entry: &Entry<'_>) -> bool {
        let delta = entry.time - self.time;
        let (low, high) = (delta & ((1 << DELTA_BITS) - 1), delta >> DELTA_BITS);
        let length = entry.data.len();
        let is_short = length > 0 && length <= SHORT && length.is_multiple_of(4);
        let heads = if high > 0 { 12 } else { 4 } + if is_short { 0 } else { 4 };
        let padded = length.next_multiple_of(4);
        let room = self.layout.page_bytes - self.layout.data_at;
        // A record that filled a whole page also gets a page of its own in the result.
        if !self.data.is_empty() && self.data.len() + heads + padded > room {
            return false;
        }
        let mut delta = low as u32;
        if high > 0 {
            self.head(TIME_EXTEND, delta);
            self.word(high as u32);
            delta = 0;
        }
        if is_short {
            self.head(length as u32 / 4, delta)
        } else {
            self.head(LONG, delta);
            self.word(length as u32 + 4);
        }
        self.data.extend(entry.data);
        let full = self.data.len() + padded - length;
        // The last record of a page may be shorter.
        self.data.resize(full.min(room.max(self.data.len())), 0);
        self.time = entry.time;
        true
    }

    fn finish(self) -> Vec<u8> {
        let commit = self.data.len() as u64 | if self.gap { MISSED } else { 0 };
        let big_endian = self.layout.big_endian;
        let bytes = |number: u64| {
            if big_endian {
                number.to_be_bytes()
            } else {
                number.to_le_bytes()
            }
        };
        let mut page = bytes(self.begin).to_vec();
        let word = usize::from(self.layout.long_bytes);
        if big_endian {
            page.extend(&bytes(commit)[8 - word..])
        } else {
            page.extend(&bytes(commit)[..word])
        }
        page.extend(self.data);
        page.resize(page.len().max(self.layout.page_bytes), 0);
        page
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{PageBuilder, Piece, layout};

    /// Returns the time and the bytes of each record, and the indexes of the records that follow a
    /// gap.
    fn read(layout: Layout, pages: &[Vec<u8>]) -> (Vec<(u64, Vec<u8>)>, Vec<usize>) {
        let (mut all, mut gaps) = (Vec::new(), Vec::new());
        for page in pages {
            assert_eq!(page.len(), layout.page_bytes);
            let page = Page::parse(layout, page).unwrap();
            if page.lost().is_some() {
                gaps.push(all.len());
            }
            let mut records = page.records();
            for record in records.by_ref() {
                all.push((record.time, record.data.to_vec()));
            }
            assert!(!records.is_broken());
        }
        (all, gaps)
    }

    /// A buffer as a list of pages: for each one, its time, whether it follows a gap, and its
    /// records.
    type Buffer = Vec<(u32, bool, Vec<(u64, u8)>)>;

    /// A written record, with unique bytes.
    #[derive(Clone)]
    struct Written {
        time: u64,
        data: Vec<u8>,
        /// Whether a page that follows a gap began between the previous record and this one.
        gap: bool,
    }

    /// Builds the pages of a buffer and the expected records, which are numbered from `first`.
    fn written(layout: Layout, buffer: &Buffer, first: u32) -> (Vec<Vec<u8>>, Vec<Written>) {
        let (mut begin, mut is_after_gap) = (0, false);
        let (mut pages, mut all) = (Vec::new(), Vec::new());
        for (later, gap, records) in buffer {
            begin += u64::from(*later) + 1;
            is_after_gap |= gap;
            let mut page = PageBuilder::new(layout);
            let from = begin;
            for (delta, length) in records {
                begin += delta;
                let mut data = (first + all.len() as u32).to_le_bytes().to_vec();
                data.resize(data.len() + usize::from(*length), *length);
                page.write(&Piece::Extend(*delta));
                page.write(&Piece::Event(0, data.clone()));
                all.push(Written {
                    time: begin,
                    data,
                    gap: std::mem::take(&mut is_after_gap),
                });
            }
            pages.push(page.page(from, gap.then_some(crate::Lost::Some)));
        }
        (pages, all)
    }

    proptest! {
        #[test]
        fn all_records_are_there_in_order(big_endian: bool, buffers in prop::array::uniform2(
            prop::collection::vec(
                (0u32..5_000, any::<bool>(), prop::collection::vec((0u64..1 << 40, any::<u8>()), 0..9)),
                0..6,
            )
        )) {
            let layout = layout(big_endian);
            let [first, second] = buffers;
            let (first, one) = written(layout, &first, 0);
            let (second, two) = written(layout, &second, one.len() as u32);
            let (merged, gaps) = read(layout, &merge(layout, &first, &second));
            // The result contains each record once, sorted by time. Records with equal times stay
            // in the order in which they were written.
            let mut all = [one, two].concat();
            all.sort_by_key(|record| record.time);
            let places = all.iter().enumerate().filter(|(_, record)| record.gap);
            let places: Vec<usize> = places.map(|(place, _)| place).collect();
            prop_assert_eq!(gaps, places);
            let all: Vec<_> = all.into_iter().map(|record| (record.time, record.data)).collect();
            prop_assert_eq!(merged, all);
        }
    }

    #[test]
    fn gap_precedes_its_record() {
        let layout = layout(false);
        let (first, _) = written(layout, &vec![(9, false, vec![(1, 7), (100, 7)])], 0);
        let (second, _) = written(layout, &vec![(49, true, vec![(0, 9)])], 2);
        let (merged, gaps) = read(layout, &merge(layout, &first, &second));
        let times: Vec<u64> = merged.iter().map(|(time, _)| *time).collect();
        assert_eq!(
            (times.as_slice(), gaps.as_slice()),
            ([11, 50, 111].as_slice(), [1].as_slice())
        );
    }

    #[test]
    fn records_that_fill_pages_stay_whole() {
        let layout = layout(false);
        let full = |byte: u8| {
            let mut page = PageBuilder::new(layout);
            page.write(&Piece::Event(
                0,
                vec![byte; layout.page_bytes - layout.data_at - 8],
            ));
            page.page(7, None)
        };
        let merged = merge(layout, &[full(1)], &[full(2)]);
        let (all, _) = read(layout, &merged);
        assert_eq!((merged.len(), all.len()), (2, 2));
        assert!(merge(layout, &[], &[]).is_empty());
    }
}
