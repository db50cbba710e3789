//! The counters of a histogram: one for each bucket.

use crate::bucket_counts::BUCKETS;

/// A count for each bucket. Takes 73 kB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counts(Box<[u64]>);

impl Counts {
    /// Creates counters with all counts zero. The memory is written to, so that counting causes no
    /// page faults.
    pub(super) fn new() -> Self {
        let mut counts = vec![0; BUCKETS];
        // Zeroed memory from the allocator has no pages until it is written to.
        std::hint::black_box(counts.as_mut_slice()).fill(0);
        Self(counts.into_boxed_slice())
    }

    /// Returns the count of a bucket.
    pub(super) fn get(&self, index: usize) -> u64 {
        self.0[index]
    }

    /// Counts one sample in a bucket.
    #[inline]
    pub(super) fn count(&mut self, index: usize) {
        self.add(index, 1);
    }

    /// Adds to the count of a bucket. It saturates instead of wrapping around.
    #[inline]
    pub(super) fn add(&mut self, index: usize, count: u64) {
        self.0[index] = self.0[index].saturating_add(count);
    }

    /// Subtracts from the count of a bucket, but not below zero.
    pub(super) fn take(&mut self, index: usize, count: u64) {
        self.0[index] = self.0[index].saturating_sub(count);
    }

    /// Returns the filled buckets with their counts, in ascending order.
    pub(super) fn filled(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let counts = self.0.iter().copied().enumerate();
        counts.filter(|(_, count)| *count > 0)
    }

    /// Adds all counts of `other`. They saturate instead of wrapping around.
    pub(super) fn merge(&mut self, other: &Self) {
        for (index, count) in other.filled() {
            self.add(index, count);
        }
    }

    /// Sets all counts to zero.
    pub(super) fn clear(&mut self) {
        self.0.fill(0);
    }
}
