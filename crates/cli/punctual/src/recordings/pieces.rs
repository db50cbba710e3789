//! Splits stored samples into blocks if a recording has no time series or only a short one.

use std::collections::BTreeSet;

use anyhow::Result;
use punctual_model::{Histogram, IntervalRow, Nanos, Recording, Series};
use punctual_store::Store;

/// A time series with at least this number of intervals is long enough.
const ENOUGH: usize = 60;
/// Maximum number of blocks to split the samples into.
const PIECES: u64 = 120;
/// Minimum number of samples of each thread in a block.
const LEAST: u64 = 50;

/// If the time series of `recording` is missing or short, replaces it with blocks that contain
/// equal numbers of its stored samples. A recording with missed periods is left unchanged, because
/// the samples do not contain the times of those periods.
///
/// # Errors
/// Returns an error if the samples cannot be read.
pub(crate) fn instead_of_intervals(store: &Store, recording: &mut Recording) -> Result<()> {
    let starts: BTreeSet<Nanos> = (recording.series.rows.iter())
        .map(|row| row.start_ns)
        .collect();
    let fewest = (recording.threads.iter())
        .map(|thread| thread.histogram.recorded())
        .min();
    let pieces = fewest.map_or(0, |fewest| PIECES.min(fewest / LEAST));
    let whole = recording
        .samples
        .is_some_and(|kept| kept.count > 0 && kept.dropped == 0);
    let missed = recording.accounting().missed > 0;
    if !whole || missed || starts.len() >= ENOUGH || pieces <= starts.len() as u64 {
        return Ok(());
    }
    let mut rows = Vec::new();
    for (thread, record) in (0..).zip(&recording.threads) {
        let all = record.histogram.recorded();
        let (mut nth, mut at) = (0u64, 0u64);
        let mut histogram = Histogram::new();
        store.samples::<anyhow::Error>(recording.id, thread, &mut |samples| {
            for sample in samples {
                // The product is computed with 128 bits, because a count can have any value.
                let piece = u128::from(nth) * u128::from(pieces) / u128::from(all);
                let piece = (piece as u64).min(pieces - 1);
                if piece != at {
                    rows.push(row(thread, at, &histogram));
                    histogram.clear();
                    at = piece;
                }
                histogram.record(sample.latency);
                nth += 1;
            }
            Ok(())
        })?;
        rows.push(row(thread, at, &histogram));
    }
    rows.sort_by_key(|row: &IntervalRow| (row.start_ns, row.thread));
    recording.series = Series {
        interval_ns: Nanos::ZERO,
        dropped: 0,
        rows,
    };
    Ok(())
}

/// Returns a block as an interval. The number of the block serves as the start time.
fn row(thread: u32, piece: u64, histogram: &Histogram) -> IntervalRow {
    IntervalRow::new(thread, Nanos(piece), 0, histogram)
}
