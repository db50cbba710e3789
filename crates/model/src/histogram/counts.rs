//! The counters of a histogram: one for each bucket of the grid, in pages of which only
//! those take memory that were counted in. Latencies lie close together: a histogram of a
//! thread fills some ten of the 91.
//!
//! A counter has 32 bits, as hardly one ever needs more; what does not fit stands beside.

use crate::bucket_counts::BUCKETS;

/// Buckets of a page: a tenth of a decade's end.
const PAGE: usize = 100;
const PAGES: usize = BUCKETS / PAGE;
const _: () = assert!(BUCKETS.is_multiple_of(PAGE) && PAGES < ABSENT as usize);

/// The place of a page that nothing was counted in.
const ABSENT: u8 = u8::MAX;

/// Pages that a measuring thread finds in RAM: as many as all latencies up to a second fill.
const TOUCHED: usize = 64;

/// Carries that it has room for: each takes 2^32 samples, an hour at a rate
/// of 1 MHz.
const CARRIES: usize = 16;

type Page = [u32; PAGE];

/// A count for each bucket.
#[derive(Debug)]
pub(super) struct Counts {
    /// Where each page lies in `pages`, or [`ABSENT`].
    places: [u8; PAGES],
    /// In the order in which they were first counted in; the low half of each count.
    pages: Vec<Page>,
    /// The high halves that are not zero, by bucket, rising.
    carries: Vec<(u16, u32)>,
}

impl Counts {
    /// All counts are zero; each page is allocated when it is first counted in.
    pub(super) fn new() -> Self {
        Self {
            places: [ABSENT; PAGES],
            pages: Vec::new(),
            carries: Vec::new(),
        }
    }

    /// All counts are zero; all pages are allocated, so that counting never does, and as many as
    /// latencies up to a second fill are touched, so that counting these does not fault.
    pub(super) fn preallocated() -> Self {
        let mut pages = Vec::with_capacity(PAGES);
        // An allocation is only promised pages: write those that are needed.
        pages.resize(TOUCHED, [0; PAGE]);
        std::hint::black_box(pages.as_mut_slice());
        pages.clear();
        Self {
            pages,
            carries: Vec::with_capacity(CARRIES),
            ..Self::new()
        }
    }

    /// The count of a bucket of the grid.
    pub(super) fn get(&self, index: usize) -> u64 {
        let place = usize::from(self.places[index / PAGE]);
        let low = self.pages.get(place).map_or(0, |page| page[index % PAGE]);
        self.whole(index, low)
    }

    /// The count of a bucket whose low half is `low`.
    fn whole(&self, index: usize, low: u32) -> u64 {
        u64::from(self.high(index)) << u32::BITS | u64::from(low)
    }

    fn high(&self, index: usize) -> u32 {
        let found = self.carry_of(index).ok();
        found.map_or(0, |place| self.carries[place].1)
    }

    /// Where the high half of a bucket stands, or would.
    fn carry_of(&self, index: usize) -> Result<usize, usize> {
        let bucket = |carry: &(u16, u32)| usize::from(carry.0);
        self.carries.binary_search_by_key(&index, bucket)
    }

    /// Counts one sample in a bucket of the grid.
    #[inline]
    pub(super) fn count(&mut self, index: usize) {
        let low = self.low(index);
        match low.checked_add(1) {
            Some(more) => *low = more,
            None => self.add(index, 1),
        }
    }

    /// Adds to the count of a bucket; it stays at its largest value rather than begin anew.
    pub(super) fn add(&mut self, index: usize, count: u64) {
        self.set(index, self.get(index).saturating_add(count));
    }

    /// Takes from the count of a bucket, which does not fall below zero.
    pub(super) fn take(&mut self, index: usize, count: u64) {
        self.set(index, self.get(index).saturating_sub(count));
    }

    fn set(&mut self, index: usize, count: u64) {
        *self.low(index) = count as u32;
        let high = (count >> u32::BITS) as u32;
        match (self.carry_of(index), high) {
            (Ok(place), 0) => drop(self.carries.remove(place)),
            (Ok(place), high) => self.carries[place].1 = high,
            (Err(_), 0) => {}
            (Err(place), high) => self.carries.insert(place, (index as u16, high)),
        }
    }

    /// The low half of the count of a bucket.
    #[inline]
    fn low(&mut self, index: usize) -> &mut u32 {
        let mut place = self.places[index / PAGE];
        if place == ABSENT {
            place = self.add_page(index / PAGE);
        }
        &mut self.pages[usize::from(place)][index % PAGE]
    }

    /// Adds a page; where it lies.
    #[cold]
    fn add_page(&mut self, page: usize) -> u8 {
        let place = self.pages.len() as u8;
        // A page more is all that most will ever need.
        self.pages.reserve_exact(1);
        self.pages.push([0; PAGE]);
        self.places[page] = place;
        place
    }

    /// The filled buckets with their counts, rising.
    pub(super) fn filled(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.present().flat_map(move |(page, lows)| {
            let lows = lows.iter().enumerate();
            lows.map(move |(at, low)| (page * PAGE + at, self.whole(page * PAGE + at, *low)))
                .filter(|(_, count)| *count > 0)
        })
    }

    /// The pages that are there, rising.
    fn present(&self) -> impl Iterator<Item = (usize, &Page)> + Clone {
        let places = self.places.iter().enumerate();
        places.filter_map(|(page, place)| Some((page, self.pages.get(usize::from(*place))?)))
    }

    /// Adds all counts of `other`; each stays at its largest value rather than begin anew.
    pub(super) fn merge(&mut self, other: &Self) {
        for (index, count) in other.filled() {
            self.add(index, count);
        }
    }

    /// Sets all counts to zero; keeps the memory.
    pub(super) fn clear(&mut self) {
        self.pages.fill([0; PAGE]);
        self.carries.clear();
    }
}

/// A copy has the filled pages only.
impl Clone for Counts {
    fn clone(&self) -> Self {
        let is_carried = |page| {
            let carries = self.carries.iter();
            carries
                .map(|carry| usize::from(carry.0) / PAGE)
                .any(|carried| carried == page)
        };
        let is_filled = |page, lows: &Page| lows.iter().any(|low| *low > 0) || is_carried(page);
        let mut copy = Self::new();
        let filled = self.present().filter(|(page, lows)| is_filled(*page, lows));
        copy.pages.reserve_exact(filled.clone().count());
        for (page, lows) in filled {
            copy.places[page] = copy.pages.len() as u8;
            copy.pages.push(*lows);
        }
        copy.carries.clone_from(&self.carries);
        copy
    }
}

/// Equal where the counts are, whatever pages are allocated.
impl PartialEq for Counts {
    fn eq(&self, other: &Self) -> bool {
        self.filled().eq(other.filled())
    }
}

impl Eq for Counts {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Small counts, and those around what a counter holds.
    fn count() -> impl Strategy<Value = u64> {
        let limit = 1u64 << u32::BITS;
        prop_oneof![0u64..5, limit - 2..limit + 2, u64::MAX - 2..=u64::MAX]
    }

    fn added(most: usize) -> impl Strategy<Value = Vec<(usize, u64)>> {
        // Few of many, and several times the same.
        prop::collection::vec((prop_oneof![0..BUCKETS, 0..3usize], count()), 0..most)
    }

    proptest! {
        /// What is counted is there, in whatever order the pages came, and in each copy.
        #[test]
        fn counts_are_those_of_an_array(added in added(80), more in added(20), taken in added(20)) {
            let mut plain = vec![0u64; BUCKETS];
            let (mut lazy, mut whole) = (Counts::new(), Counts::preallocated());
            for (index, count) in &added {
                plain[*index] = plain[*index].saturating_add(*count);
                lazy.add(*index, *count);
                whole.add(*index, *count);
            }
            let mut other = Counts::new();
            for (index, count) in &more {
                plain[*index] = plain[*index].saturating_add(*count).saturating_add(1);
                other.add(*index, *count);
                lazy.count(*index);
                whole.count(*index);
            }
            lazy.merge(&other);
            whole.merge(&other);
            for (index, count) in &taken {
                plain[*index] = plain[*index].saturating_sub(*count);
                lazy.take(*index, *count);
                whole.take(*index, *count);
            }
            prop_assert!((0..BUCKETS).all(|index| lazy.get(index) == plain[index]));
            let filled: Vec<(usize, u64)> = lazy.filled().collect();
            let expected = plain.iter().copied().enumerate().filter(|(_, count)| *count > 0);
            prop_assert_eq!(filled, expected.collect::<Vec<_>>());
            prop_assert_eq!(&lazy, &whole);
            let copy = whole.clone();
            prop_assert_eq!(&copy, &whole);
            prop_assert!(copy.pages.len() <= added.len() + more.len());
            lazy.clear();
            prop_assert_eq!(lazy, Counts::new());
        }
    }

    #[test]
    fn all_latencies_find_room_and_those_up_to_a_second_touched_pages() {
        let mut counts = Counts::preallocated();
        let (room, place) = (counts.pages.capacity(), counts.pages.as_ptr());
        assert!(room >= PAGES);
        let second = crate::bucket_counts::index_of(999_999_999).unwrap();
        (0..=second).for_each(|index| counts.count(index));
        assert_eq!(counts.pages.len(), TOUCHED);
        (second + 1..BUCKETS).for_each(|index| counts.count(index));
        assert_eq!(
            (counts.pages.capacity(), counts.pages.as_ptr()),
            (room, place)
        );
        assert!(counts.filled().eq((0..BUCKETS).map(|index| (index, 1))));
    }

    #[test]
    fn a_counter_that_is_full_is_carried_without_an_allocation() {
        let mut counts = Counts::preallocated();
        let room = counts.carries.capacity();
        counts.add(7, u64::from(u32::MAX));
        counts.count(7);
        assert_eq!(counts.get(7), 1 << u32::BITS);
        counts.count(7);
        assert_eq!(
            counts.filled().collect::<Vec<_>>(),
            [(7, (1 << u32::BITS) + 1)]
        );
        assert!(room >= CARRIES && counts.carries.capacity() == room);
    }
}
