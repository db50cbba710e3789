//! Late periods in blocks of time.

use crate::{Nanos, Series, counted};

/// Length of the shortest blocks, as in the rate of late seconds.
const BLOCK: Nanos = Nanos::from_secs(2);

/// The late periods of a thread in blocks of time.
pub(super) struct Blocks {
    /// The periods that were certainly late, and those that may have been late.
    pub(super) late: [Vec<u64>; 2],
    /// Start of the first block since the start of the run, and the length of each.
    pub(super) start: Nanos,
    pub(super) length: Nanos,
}

/// Counts the late periods of a thread in blocks of two seconds or one row of the time series,
/// whichever is longer.
pub(super) fn late_in_blocks(
    series: Option<&Series>,
    place: usize,
    limit: Nanos,
    measured: Nanos,
) -> Result<Blocks, String> {
    let series = series.filter(|series| series.interval_ns.0 > 0);
    let series = series.ok_or("the time series is missing")?;
    if series.dropped > 0 {
        let dropped = counted(series.dropped, "sample", "samples");
        return Err(format!("the time series lacks {dropped}"));
    }
    let interval = series.interval_ns.0;
    let block = BLOCK.0.div_ceil(interval).saturating_mul(interval);
    let mut blocks = [0, 1].map(|_| vec![0u64; (measured.0 / block).min(1 << 24) as usize]);
    let own = || {
        series
            .rows
            .iter()
            .filter(|row| row.thread as usize == place)
    };
    let start = own().map(|row| row.start_ns).min().unwrap_or_default();
    for row in own() {
        let at = (row.start_ns.saturating_sub(start).0 / block) as usize;
        let late = |of: fn(u64, u64) -> u64| {
            let buckets = row.histogram.iter();
            let above = buckets.filter(|(lower, width, _)| of(*lower, *width) > limit.0);
            (above.map(|(.., count)| count)).fold(row.missed, u64::saturating_add)
        };
        let both = [
            late(|lower, _| lower),
            late(|lower, width| lower + width - 1),
        ];
        for (blocks, late) in blocks.iter_mut().zip(both) {
            if let Some(count) = blocks.get_mut(at) {
                *count = count.saturating_add(late);
            }
        }
    }
    Ok(Blocks {
        late: blocks,
        start,
        length: Nanos(block),
    })
}
