//! The largest samples of a run.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Blame, Nanos};

/// One of the largest samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopSample {
    /// Time at which the thread should have woken, on the wall clock.
    pub time: Timestamp,
    /// The same time on CLOCK_MONOTONIC.
    pub monotonic_ns: Nanos,
    /// The CPU on which the latency was measured. Null if the thread was not bound to a CPU.
    pub cpu: Option<u32>,
    /// The thread, as an index into `threads`.
    pub thread: u32,
    /// The latency.
    pub latency_ns: Nanos,
    /// Explanation of the latency. Null if it was not explained.
    pub blame: Option<Blame>,
}

/// The `N` largest latencies so far, each with its time. The type uses a fixed amount of memory and
/// is fast enough for the hot path: a sample that is not among the largest costs one comparison.
#[derive(Clone, Debug)]
pub struct TopSamples<const N: usize> {
    /// The latencies are not ordered. Once there are `N` of them, `floor` is the smallest one.
    entries: [(Nanos, Nanos); N],
    len: usize,
    /// A latency is added only if it exceeds this value.
    floor: Option<Nanos>,
}

impl<const N: usize> Default for TopSamples<N> {
    fn default() -> Self {
        Self {
            entries: [(Nanos::ZERO, Nanos::ZERO); N],
            len: 0,
            floor: None,
        }
    }
}

impl<const N: usize> TopSamples<N> {
    /// Adds a latency at `time` if it is among the largest. If latencies are equal, the earlier one
    /// is kept.
    #[inline]
    pub fn offer(&mut self, latency: Nanos, time: Nanos) {
        if self.floor.is_none_or(|floor| latency > floor) {
            self.insert(latency, time);
        }
    }

    /// Inserts a latency. This is rare: for n independent samples it happens about N·ln(n) times.
    #[cold]
    fn insert(&mut self, latency: Nanos, time: Nanos) {
        if self.len < N {
            self.entries[self.len] = (latency, time);
            self.len += 1;
        } else if let Some(smallest) = self.entries.iter_mut().min_by(|a, b| {
            // If latencies are equal, the later one is removed.
            a.0.cmp(&b.0).then(b.1.cmp(&a.1))
        }) {
            *smallest = (latency, time);
        }
        if self.len == N {
            self.floor = self.entries.iter().map(|entry| entry.0).min();
        }
    }

    /// Returns the length that a latency must exceed to be added; `None` while any latency is.
    pub const fn floor(&self) -> Option<Nanos> {
        self.floor
    }

    /// Returns the entries as (latency, time), the largest first.
    pub fn sorted(&self) -> Vec<(Nanos, Nanos)> {
        let mut entries = self.entries[..self.len].to_vec();
        entries.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn list_is_sorted_head(latencies in proptest::collection::vec(0u64..50, 0..200)) {
            let mut list = TopSamples::<20>::default();
            let mut all: Vec<_> = Vec::new();
            for (time, latency) in latencies.iter().enumerate() {
                let entry = (Nanos(*latency), Nanos(time as u64));
                list.offer(entry.0, entry.1);
                all.push(entry);
            }
            all.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
            all.truncate(20);
            proptest::prop_assert_eq!(list.sorted(), all);
        }
    }
}
