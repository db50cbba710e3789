//! The counters of a histogram: one for each bucket.

use super::bucket_counts::BUCKETS;

/// Counts of the buckets from the first counted one to the last. All buckets take 73 kB; the
/// samples of most threads are in a small range of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Bucket of the first counter.
    first: usize,
    counters: Vec<u64>,
}

/// The range of buckets begins and ends at multiples of this number.
const STEP: usize = 64;

impl Counts {
    /// Creates counters of all buckets. The memory is written to, so that counting neither allocates
    /// memory nor causes page faults.
    pub(super) fn preallocated() -> Self {
        let mut counters = vec![0; BUCKETS];
        // Zeroed memory from the allocator has no pages until it is written to.
        std::hint::black_box(counters.as_mut_slice()).fill(0);
        Self { first: 0, counters }
    }

    /// Returns the count of a bucket.
    pub(super) fn get(&self, index: usize) -> u64 {
        let counter = self.counters.get(index.wrapping_sub(self.first));
        counter.copied().unwrap_or(0)
    }

    /// Counts one sample in a bucket.
    #[inline]
    pub(super) fn count(&mut self, index: usize) {
        self.add(index, 1);
    }

    /// Adds to the count of a bucket. It saturates instead of wrapping around.
    #[inline]
    pub(super) fn add(&mut self, index: usize, count: u64) {
        // A bucket before the first one wraps around to a number beyond the last one.
        match self.counters.get_mut(index.wrapping_sub(self.first)) {
            Some(counter) => *counter = counter.saturating_add(count),
            None => self.extend(index, count),
        }
    }

    /// Extends the range to a bucket, and adds to its count.
    #[cold]
    fn extend(&mut self, index: usize, count: u64) {
        let lower = index / STEP * STEP;
        let upper = (lower + STEP).min(BUCKETS);
        if self.counters.is_empty() {
            self.first = lower;
        }
        if let Some(missing @ 1..) = self.first.checked_sub(lower) {
            self.counters.splice(..0, std::iter::repeat_n(0, missing));
            self.first = lower;
        }
        let length = (upper - self.first).max(self.counters.len());
        self.counters.resize(length, 0);
        self.counters[index - self.first] = count;
    }

    /// Subtracts from the count of a bucket, but not below zero.
    pub(super) fn take(&mut self, index: usize, count: u64) {
        if let Some(counter) = self.counters.get_mut(index.wrapping_sub(self.first)) {
            *counter = counter.saturating_sub(count);
        }
    }

    /// Returns the filled buckets with their counts, in ascending order.
    pub(super) fn filled(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let counts = (self.first..).zip(self.counters.iter().copied());
        counts.filter(|(_, count)| *count > 0)
    }

    /// Adds all counts of `other`. They saturate instead of wrapping around.
    pub(super) fn merge(&mut self, other: &Self) {
        for (index, count) in other.filled() {
            self.add(index, count);
        }
    }

    /// Sets all counts to zero but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.counters.fill(0);
    }
}

impl PartialEq for Counts {
    fn eq(&self, other: &Self) -> bool {
        self.filled().eq(other.filled())
    }
}

impl Eq for Counts {}
