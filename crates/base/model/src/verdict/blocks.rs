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

#[cfg(test)]
mod tests {
    use super::*;

    use crate::{Histogram, IntervalRow, SignedNanos};

    fn series(interval: Nanos, rows: &[(u32, u64, &[i64], u64)]) -> Series {
        let row = |(thread, start, latencies, missed): &(u32, u64, &[i64], u64)| {
            let mut counts = Histogram::new();
            latencies
                .iter()
                .for_each(|ns| counts.record(SignedNanos(*ns)));
            IntervalRow {
                thread: *thread,
                start_ns: Nanos::from_millis(*start),
                count: counts.recorded(),
                early: 0,
                missed: *missed,
                min_ns: counts.min(),
                max_ns: counts.max(),
                sum_ns: counts.sum(),
                histogram: counts.buckets(),
            }
        };
        Series {
            interval_ns: interval,
            dropped: 0,
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn late_periods_are_counted_in_blocks_of_two_seconds() {
        let late: &[i64] = &[10, 20_050];
        let all = series(
            Nanos::from_secs(1),
            &[
                (0, 1_000, late, 0),
                (1, 1_000, late, 9),
                (0, 2_000, late, 3),
                (0, 3_000, &[10], 0),
                (0, 4_000, late, 0),
                (0, 5_000, late, 7),
            ],
        );
        let found = |limit, seconds| {
            let measured = Nanos::from_secs(seconds);
            late_in_blocks(Some(&all), 0, Nanos(limit), measured).unwrap()
        };
        // The run ends within the third block, which is left out.
        let blocks = found(19_999, 5);
        assert_eq!((blocks.start, blocks.length), (Nanos::from_secs(1), BLOCK));
        assert_eq!(blocks.late, [vec![5, 1], vec![5, 1]]);
        assert_eq!(found(19_999, 6).late, [vec![5, 1, 8], vec![5, 1, 8]]);
        // The bucket from 20.0 to 20.1 µs contains the limit.
        assert_eq!(found(20_050, 5).late, [vec![3, 0], vec![5, 1]]);
        assert_eq!(found(20_099, 5).late, [vec![3, 0], vec![3, 0]]);
    }

    #[test]
    fn blocks_are_whole_intervals() {
        let of = |interval, measured| {
            let all = series(Nanos::from_millis(interval), &[(0, 0, &[], 1)]);
            let blocks = late_in_blocks(Some(&all), 0, Nanos(0), Nanos::from_secs(measured));
            let blocks = blocks.unwrap();
            (blocks.length, blocks.late[0].len())
        };
        assert_eq!(of(500, 10), (Nanos::from_secs(2), 5));
        assert_eq!(of(1_500, 10), (Nanos::from_secs(3), 3));
        assert_eq!(of(10_000, 100), (Nanos::from_secs(10), 10));
    }

    #[test]
    fn incomplete_series_has_no_blocks() {
        let why = |series: Option<&Series>| {
            late_in_blocks(series, 0, Nanos(0), Nanos::from_secs(9))
                .err()
                .unwrap()
        };
        assert_eq!(why(None), "the time series is missing");
        assert_eq!(
            why(Some(&series(Nanos::ZERO, &[]))),
            "the time series is missing"
        );
        let mut lacking = series(Nanos::from_secs(1), &[]);
        lacking.dropped = 2;
        assert_eq!(why(Some(&lacking)), "the time series lacks 2 samples");
        lacking.dropped = 0;
        let empty = late_in_blocks(Some(&lacking), 0, Nanos(0), Nanos::from_secs(4)).unwrap();
        assert_eq!(
            (empty.start, empty.late),
            (Nanos::ZERO, [vec![0, 0], vec![0, 0]])
        );
    }
}
