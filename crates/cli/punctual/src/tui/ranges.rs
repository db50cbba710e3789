//! The histogram in ranges of latency that fit the screen.

use punctual_model::{Histogram, Nanos};

/// A range of latencies: at least `from`, below `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) from: Nanos,
    pub(super) to: Nanos,
    pub(super) count: u64,
}

/// Returns the ranges between the smallest and the largest latency: 1, 2, 5, 10, 20 and so on, or if
/// these are more than `most`, 1, 10, 100 and so on. These numbers are edges of buckets, so the counts
/// are exact.
pub(super) fn ranges(latencies: &Histogram, most: usize) -> Vec<Range> {
    let fine = ranges_of(latencies, &[1, 2, 5]);
    if fine.len() <= most {
        return fine;
    }
    let mut coarse = ranges_of(latencies, &[1]);
    // The largest latencies are the last to be left out.
    let over = coarse.len().saturating_sub(most.max(1));
    coarse.drain(..over);
    coarse
}

fn ranges_of(latencies: &Histogram, steps: &[u64]) -> Vec<Range> {
    let mut edges = vec![0];
    let mut decade: u64 = 1;
    // The buckets end at 2^64 ns.
    while let Some(next) = decade.checked_mul(10) {
        edges.extend(steps.iter().map(|step| decade * step));
        decade = next;
    }
    let mut all: Vec<Range> = edges
        .windows(2)
        .map(|two| Range {
            from: Nanos(two[0]),
            to: Nanos(two[1]),
            count: 0,
        })
        .collect();
    for (lower, _, count) in latencies.buckets().iter() {
        let place = all.partition_point(|range| range.to.0 <= lower);
        if let Some(range) = all.get_mut(place) {
            range.count = range.count.saturating_add(count);
        }
    }
    let first = all.iter().position(|range| range.count > 0);
    let last = all.iter().rposition(|range| range.count > 0);
    match (first, last) {
        (Some(first), Some(last)) => all[first..=last].to_vec(),
        _ => Vec::new(),
    }
}
