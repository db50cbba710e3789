//! The counters of a histogram: one for each bucket of the grid, in pages of which only
//! those take memory that were counted in. Latencies lie close together: a histogram of a
//! thread fills some ten of the 91.

use crate::decimal::BUCKETS;

/// Buckets of a page: a tenth of a decade's end.
const PAGE: usize = 100;
const PAGES: usize = BUCKETS / PAGE;
const _: () = assert!(BUCKETS.is_multiple_of(PAGE) && PAGES < ABSENT as usize);

/// The place of a page that nothing was counted in.
const ABSENT: u8 = u8::MAX;

/// A count for each bucket.
#[derive(Debug)]
pub(super) struct Counts {
    /// Where each page lies in `pages`, or [`ABSENT`].
    places: [u8; PAGES],
    /// In the order in which they were first counted in.
    pages: Vec<[u64; PAGE]>,
}

impl Counts {
    /// All counts are zero; each page is allocated when it is first counted in.
    pub(super) fn new() -> Self {
        Self {
            places: [ABSENT; PAGES],
            pages: Vec::new(),
        }
    }

    /// All counts are zero; all pages are allocated and touched, so that counting neither
    /// allocates nor faults.
    pub(super) fn preallocated() -> Self {
        let mut pages = vec![[0; PAGE]; PAGES];
        // A zeroed allocation is only promised pages: write each of them.
        std::hint::black_box(pages.as_mut_slice()).fill([0; PAGE]);
        Self {
            places: std::array::from_fn(|page| page as u8),
            pages,
        }
    }

    /// The count of a bucket of the grid.
    pub(super) fn get(&self, index: usize) -> u64 {
        let place = usize::from(self.places[index / PAGE]);
        self.pages.get(place).map_or(0, |page| page[index % PAGE])
    }

    /// The counter of a bucket of the grid.
    #[inline]
    pub(super) fn slot(&mut self, index: usize) -> &mut u64 {
        let mut place = self.places[index / PAGE];
        if place == ABSENT {
            place = self.add(index / PAGE);
        }
        &mut self.pages[usize::from(place)][index % PAGE]
    }

    /// Allocates a page; where it lies.
    #[cold]
    fn add(&mut self, page: usize) -> u8 {
        let place = self.pages.len() as u8;
        // A page more is all that most will ever need.
        self.pages.reserve_exact(1);
        self.pages.push([0; PAGE]);
        self.places[page] = place;
        place
    }

    /// The filled buckets with their counts, rising.
    pub(super) fn filled(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.present().flat_map(|(page, counts)| {
            let counts = counts.iter().enumerate();
            counts
                .filter(|(_, count)| **count > 0)
                .map(move |(index, count)| (page * PAGE + index, *count))
        })
    }

    /// The pages that are there, rising.
    fn present(&self) -> impl Iterator<Item = (usize, &[u64; PAGE])> + Clone {
        let places = self.places.iter().enumerate();
        places.filter_map(|(page, place)| Some((page, self.pages.get(usize::from(*place))?)))
    }

    /// Adds all counts of `other`; each stays at its largest value rather than begin anew.
    pub(super) fn merge(&mut self, other: &Self) {
        for (index, count) in other.filled() {
            let mine = self.slot(index);
            *mine = mine.saturating_add(count);
        }
    }

    /// Sets all counts to zero; keeps the memory.
    pub(super) fn clear(&mut self) {
        self.pages.fill([0; PAGE]);
    }
}

/// A copy has the filled pages only.
impl Clone for Counts {
    fn clone(&self) -> Self {
        let is_filled = |counts: &[u64; PAGE]| counts.iter().any(|count| *count > 0);
        let mut copy = Self::new();
        let filled = self.present().filter(|(_, counts)| is_filled(counts));
        copy.pages.reserve_exact(filled.clone().count());
        for (page, counts) in filled {
            copy.places[page] = copy.pages.len() as u8;
            copy.pages.push(*counts);
        }
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

    proptest! {
        /// What is counted is there, in whatever order the pages came, and in each copy.
        #[test]
        fn counts_are_those_of_an_array(
            added in prop::collection::vec((0..BUCKETS, 0u64..5), 0..80),
            more in prop::collection::vec((0..BUCKETS, 0u64..5), 0..20),
        ) {
            let mut plain = vec![0u64; BUCKETS];
            let (mut lazy, mut whole) = (Counts::new(), Counts::preallocated());
            for (index, count) in &added {
                plain[*index] += count;
                *lazy.slot(*index) += count;
                *whole.slot(*index) += count;
            }
            let mut other = Counts::new();
            for (index, count) in &more {
                plain[*index] += count;
                *other.slot(*index) += count;
            }
            lazy.merge(&other);
            whole.merge(&other);
            prop_assert!((0..BUCKETS).all(|index| lazy.get(index) == plain[index]));
            let filled: Vec<(usize, u64)> = lazy.filled().collect();
            let expected = plain.iter().copied().enumerate().filter(|(_, count)| *count > 0);
            prop_assert_eq!(filled, expected.collect::<Vec<_>>());
            prop_assert_eq!(&lazy, &whole);
            let copy = whole.clone();
            prop_assert_eq!(&copy, &whole);
            prop_assert!(copy.pages.len() <= added.len() + more.len());
            prop_assert_eq!(whole.pages.len(), PAGES);
            lazy.clear();
            prop_assert_eq!(lazy, Counts::new());
        }
    }
}
