//! Blocks: segments of a run that can be treated as independent of each other.

use std::collections::BTreeMap;

use punctual_model::{Nanos, Series};

use crate::counts::{Scale, Segment, add};

/// The smallest number of blocks from which an interval is calculated. With fewer blocks, their
/// spread itself is too uncertain.
pub const LEAST_BLOCKS: usize = 10;

/// The largest number of blocks. More would cost time without adding information.
const MOST_BLOCKS: usize = 240;

/// Quantiles at which neighbouring intervals are compared to find the length of a block. The bulk
/// and the tail of the latencies may vary independently.
const LOOKED_AT: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// A run divided into blocks.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    pub(crate) each: Vec<Segment>,
    /// Number of intervals of the time series in a block.
    pub(crate) length: usize,
    /// The intervals themselves.
    pub(crate) intervals: Vec<Segment>,
}

/// Reason why a run has no blocks. The caller adds the name of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoBlocks {
    #[error("has no time series")]
    NoSeries,
    #[error(
        "has {number} {} in its time series, but at least {LEAST_BLOCKS} are needed",
        rows(*number)
    )]
    FewRows { number: usize },
}

const fn rows(number: usize) -> &'static str {
    match number {
        1 => "row",
        _ => "rows",
    }
}

/// Desired value of [`inflation`]. Blocks are made long enough for this value if the run is long
/// enough.
const INFLATION_WANTED: f64 = 1.2;

/// Returns the intervals of the time series in order. Each combines all `threads`.
pub(crate) fn intervals(scale: &Scale, series: &Series, threads: &[u32]) -> Vec<Segment> {
    let mut by_start: BTreeMap<Nanos, Segment> = BTreeMap::new();
    for row in series
        .rows
        .iter()
        .filter(|row| threads.contains(&row.thread))
    {
        let segment = by_start.entry(row.start_ns).or_default();
        let measured = row.count.saturating_sub(row.early);
        let beyond = measured.saturating_sub(row.histogram.total());
        segment.add(scale, &row.histogram, beyond);
        add(&mut segment.early, row.early);
        add(&mut segment.missed, row.missed);
    }
    by_start
        .into_values()
        .map(|mut segment| {
            segment.tidy();
            segment
        })
        // An interval without due periods provides no evidence.
        .filter(|segment| segment.total().max(segment.early).max(segment.missed) > 0)
        .collect()
}

/// Joins intervals into the shortest possible blocks. The correlation of neighbouring intervals is
/// estimated from the run. From this, the required length is calculated for a process whose
/// correlation decays geometrically. `longrun` handles the correlation that remains between blocks,
/// for each figure.
///
/// # Errors
/// Fails if there are too few intervals.
pub(crate) fn join(intervals: Vec<Segment>) -> Result<Blocks, NoBlocks> {
    let number = intervals.len();
    match number {
        0 => return Err(NoBlocks::NoSeries),
        1..LEAST_BLOCKS => return Err(NoBlocks::FewRows { number }),
        _ => {}
    }
    let memory = memory(&intervals);
    let (least, most) = (number.div_ceil(MOST_BLOCKS), number / LEAST_BLOCKS);
    let length = (least..most)
        .find(|length| inflation(memory, *length) <= INFLATION_WANTED)
        .unwrap_or(most.max(least));
    Ok(Blocks {
        each: chunks(&intervals, length),
        length,
        intervals,
    })
}

/// Returns the ratio of the variance of a mean over a long run to the variance that blocks of
/// `length` show. Neighbouring intervals have the autocorrelation `memory`. The result is the sum
/// of all autocorrelations, divided by the weighted sum of those within a block.
pub(crate) fn inflation(memory: f64, length: usize) -> f64 {
    let whole = (1.0 + memory) / (1.0 - memory);
    let length = length as f64;
    let between = 2.0 * memory * (1.0 - memory.powf(length)) / (length * (1.0 - memory).powi(2));
    whole / (whole - between)
}

/// Returns blocks of `length` intervals. The last block also contains the remaining intervals.
fn chunks(intervals: &[Segment], length: usize) -> Vec<Segment> {
    let number = intervals.len() / length;
    (0..number)
        .map(|block| {
            let end = if block + 1 == number {
                intervals.len()
            } else {
                (block + 1) * length
            };
            let mut joined = Segment::default();
            (intervals[block * length..end].iter()).for_each(|interval| joined.join(interval));
            joined.tidy();
            joined
        })
        .collect()
}

/// Returns the correlation of an interval with the next one, which is the maximum over the
/// quantiles.
fn memory(intervals: &[Segment]) -> f64 {
    let mut all = Segment::default();
    intervals.iter().for_each(|interval| all.join(interval));
    all.tidy();
    let of_quantile = |quantile: &f64| {
        let place = place_of(&all, *quantile);
        let shares = intervals.iter().filter_map(|one| one.share_above(place));
        memory_of(&shares.collect::<Vec<f64>>())
    };
    LOOKED_AT.iter().map(of_quantile).fold(0.0, f64::max)
}

/// Returns the correlation of each value with the next one, from 0 to just below 1, corrected for
/// the bias of small samples (Kendall, Biometrika 41, 1954).
pub(crate) fn memory_of(values: &[f64]) -> f64 {
    let number = values.len() as f64;
    let seen = |lag: usize| {
        let seen = correlation(values, lag)?;
        Some(seen + (1.0 + 3.0 * seen.max(0.0)) / number)
    };
    let next = seen(1).unwrap_or(0.0);
    // Independent noise in each interval hides the correlation with the next interval. The
    // correlation with the interval after that shows how slowly the remaining correlation decays.
    let after = if next > 1.0 / number.sqrt() {
        seen(2).unwrap_or(0.0).max(0.0).sqrt()
    } else {
        0.0
    };
    next.max(after).clamp(0.0, 0.99)
}

fn place_of(segment: &Segment, quantile: f64) -> usize {
    let rank = (quantile * segment.total() as f64).ceil() as u64;
    let mut seen = 0;
    let place = segment.filled.iter().find(|(_, count)| {
        add(&mut seen, *count);
        seen >= rank
    });
    place.map_or(0, |(place, _)| *place as usize)
}

/// Returns the correlation of each value with the one `lag` later. `None` if all values are equal.
fn correlation(values: &[f64], lag: usize) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let apart = |value: &f64| value - mean;
    let spread: f64 = values.iter().map(|value| apart(value).powi(2)).sum();
    let together: f64 = (values.iter().zip(values.iter().skip(lag)))
        .map(|(one, later)| apart(one) * apart(later))
        .sum();
    (spread > 1e-12).then(|| together / spread)
}

#[cfg(test)]
mod tests {
    use punctual_model::{Histogram, SignedNanos};

    use super::*;

    fn segments(values: &[i64]) -> Vec<Segment> {
        let histograms: Vec<Histogram> = (values.iter())
            .map(|value| {
                let mut histogram = Histogram::new();
                // The samples are spread around the value, so that shares are neither 0 nor 1.
                (-5..=5).for_each(|off| histogram.record(SignedNanos(value + 10 * off)));
                histogram
            })
            .collect();
        let scale = Scale::from_histograms(histograms.iter());
        histograms
            .iter()
            .map(|histogram| {
                let mut segment = Segment::default();
                segment.add(&scale, &histogram.buckets(), 0);
                segment
            })
            .collect()
    }

    #[test]
    fn correlation_is_what_it_is_by_hand() {
        // Mean 2, deviations -1, 0, 1, 0: products 0, 0, 0 over 2.
        assert_eq!(correlation(&[1.0, 2.0, 3.0, 2.0], 1), Some(0.0));
        // Mean 2.5, deviations -1.5, -0.5, 0.5, 1.5: 0.75 - 0.25 + 0.75 over 5.
        assert_eq!(correlation(&[1.0, 2.0, 3.0, 4.0], 1), Some(0.25));
        assert_eq!(correlation(&[1.0, 1.0], 1), None);
        assert_eq!(correlation(&[], 1), None);
    }

    #[test]
    fn what_blocks_do_not_show_is_known() {
        // With a correlation of one half, the whole sum is 1 + 2 (1/2 + 1/4 + ...) = 3. Blocks of 2
        // contain 1 + 2 * 1/2 * 1/2 = 1.5 of this sum, and blocks of 4 contain 1 + 2 (3/8 + 2/16 +
        // 1/32) = 2.0625.
        assert_eq!(inflation(0.5, 1), 3.0);
        assert!((inflation(0.5, 2) - 2.0).abs() < 1e-12);
        assert!((inflation(0.5, 4) - 3.0 / 2.0625).abs() < 1e-12);
        assert_eq!(inflation(0.0, 1), 1.0);
    }

    #[test]
    fn uncorrelated_intervals_make_short_blocks() {
        // Values alternate, so that neighbours differ.
        let values: Vec<i64> = (0..60).map(|n| 500 + 40 * (n * 7 % 5)).collect();
        let blocks = join(segments(&values)).unwrap();
        assert_eq!((blocks.length, blocks.each.len()), (1, 60));
        let total: u64 = blocks.each.iter().map(Segment::total).sum();
        assert_eq!(total, 60 * 11, "an interval was lost");
    }

    #[test]
    fn what_wanders_makes_long_blocks() {
        // Values rise for 100 intervals and fall for 100, many times.
        let wave = |n: i64| 400 + 4 * (n % 200 - 100).abs();
        let values: Vec<i64> = (0..6_000).map(wave).collect();
        let blocks = join(segments(&values)).unwrap();
        assert!(blocks.length >= 100, "{}", blocks.length);
    }

    #[test]
    fn few_intervals_are_too_few() {
        let why = |values: &[i64]| join(segments(values)).unwrap_err().to_string();
        assert_eq!(why(&[]), "has no time series");
        let few = "in its time series, but at least 10 are needed";
        assert_eq!(why(&[500]), format!("has 1 row {few}"));
        assert_eq!(why(&[500; 9]), format!("has 9 rows {few}"));
        assert_eq!(join(segments(&[500; 10])).unwrap().each.len(), 10);
    }

    /// Segments with this share of 100 samples at the second value.
    fn shares(each: impl IntoIterator<Item = u64>) -> Vec<Segment> {
        let segment = |late: u64| Segment {
            filled: vec![(0, 100 - late), (1, late)],
            ..Segment::default()
        };
        each.into_iter().map(segment).collect()
    }

    #[test]
    fn last_block_has_the_rest_of_the_intervals() {
        let all = shares(1..=25);
        let blocks = chunks(&all, 4);
        let late: Vec<u64> = blocks.iter().map(|block| block.from(1)).collect();
        assert_eq!(late, [10, 26, 42, 58, 74, 21 + 22 + 23 + 24 + 25]);
        let totals: Vec<u64> = blocks.iter().map(Segment::total).collect();
        assert_eq!(totals, [400, 400, 400, 400, 400, 500]);
        assert_eq!(blocks[0].filled, [(0, 390), (1, 10)]);
        assert_eq!(
            (
                chunks(&all, 25).len(),
                chunks(&all, 1).len(),
                chunks(&all, 13).len()
            ),
            (1, 25, 1)
        );
    }

    #[test]
    fn long_runs_have_at_most_240_blocks() {
        for (number, length, blocks) in [
            (240, 1, 240),
            (241, 2, 120),
            (2_400, 10, 240),
            (2_450, 11, 222),
        ] {
            let found = join(shares((0..number).map(|n| 20 + n * 7 % 5))).unwrap();
            assert_eq!(
                (found.length, found.each.len()),
                (length, blocks),
                "{number}"
            );
            assert_eq!(found.intervals.len() as u64, number);
        }
        // At least 10 blocks remain, however correlated the intervals are.
        for number in [10, 19, 20, 57] {
            let found = join(shares(0..number)).unwrap();
            assert_eq!(found.each.len() as u64, number / (number / 10), "{number}");
        }
        // Levels that last for four intervals need longer blocks than independent intervals.
        let lasting = join(shares((0..400).map(|n| 30 + 20 * (n / 4 % 2)))).unwrap();
        assert!((4..=16).contains(&lasting.length), "{}", lasting.length);
    }

    /// The textbook variance of a mean of `length` values with geometric correlation.
    #[test]
    fn inflation_is_the_ratio_of_variances() {
        for (memory, length) in [(0.0, 1), (0.3, 4), (0.9, 1), (0.9, 25), (0.99, 100)] {
            let lags =
                |most: i32| (1..most).map(move |lag| (f64::from(lag), f64::powi(memory, lag)));
            let whole = 1.0 + 2.0 * lags(5_000).map(|(_, one)| one).sum::<f64>();
            let weight = |lag: f64| 1.0 - lag / f64::from(length);
            let within = 1.0
                + 2.0
                    * lags(length)
                        .map(|(lag, one)| weight(lag) * one)
                        .sum::<f64>();
            let found = inflation(memory, length as usize);
            assert!(
                (found / (whole / within) - 1.0).abs() < 1e-9,
                "{memory} {length}: {found}"
            );
        }
    }

    /// Kendall's correction adds (1 + 3 r)/n.
    #[test]
    fn memory_is_the_corrected_correlation() {
        let near = |found: f64, known: f64| assert!((found - known).abs() < 1e-12, "{found}");
        // 0.25 at lag 1. At lag 2 it is -0.3 + 1/4, which shows no persistence.
        near(memory_of(&[1.0, 2.0, 3.0, 4.0]), 0.25 + 1.75 / 4.0);
        // Deviations -1.5, 1.5, -0.5, 0.5: -3.25 of 5.
        near(memory_of(&[1.0, 4.0, 2.0, 3.0]), 0.0);
        assert_eq!(
            (memory_of(&[2.0; 9]), memory_of(&[]), memory_of(&[5.0])),
            (0.0, 0.0, 0.0)
        );
        let rising: Vec<f64> = (0..400).map(f64::from).collect();
        assert_eq!(memory_of(&rising), 0.99);
        // Two levels for 50 values each. Alternating noise lowers the correlation with the next
        // value, but not that with the one after it.
        let level = |n: usize| {
            if (n / 50).is_multiple_of(2) {
                1.0
            } else {
                -1.0
            }
        };
        let noise = |n: usize| if n.is_multiple_of(2) { 0.5 } else { -0.5 };
        let hidden: Vec<f64> = (0..400).map(|n| level(n) + noise(n)).collect();
        let [next, after] = [1, 2].map(|lag| correlation(&hidden, lag).unwrap());
        assert!(next < 0.6 && after > 0.9, "{next} {after}");
        near(
            memory_of(&hidden),
            (after + (1.0 + 3.0 * after) / 400.0).sqrt(),
        );
        // Noise alone has no persistence, even if the values after the next are equal.
        let alone: Vec<f64> = (0..400).map(noise).collect();
        assert_eq!(memory_of(&alone), 0.0);
    }

    #[test]
    fn quantile_of_a_segment_is_the_nearest_rank() {
        let segment = Segment {
            filled: vec![(1, 2), (4, 1), (9, 1)],
            ..Segment::default()
        };
        let places = [0.0, 0.5, 0.51, 0.75, 0.76, 1.0].map(|quantile| place_of(&segment, quantile));
        assert_eq!(places, [1, 1, 4, 4, 9, 9]);
        assert_eq!(place_of(&Segment::default(), 0.5), 0);
    }

    /// Two threads in two intervals, a third thread that is not selected, and an empty interval.
    #[test]
    fn intervals_combine_the_selected_threads() {
        use punctual_model::IntervalRow;
        let histogram = |values: &[i64]| {
            let mut histogram = Histogram::new();
            values
                .iter()
                .for_each(|ns| histogram.record(SignedNanos(*ns)));
            histogram
        };
        let row = |thread, second, missed, values: &[i64]| {
            IntervalRow::new(thread, Nanos::from_secs(second), missed, &histogram(values))
        };
        let mut series = Series {
            interval_ns: Nanos::from_secs(1),
            dropped: 0,
            rows: vec![
                row(1, 2, 1, &[20, -4]),
                row(0, 1, 0, &[10, 20]),
                row(1, 1, 2, &[20, -1, -2]),
                row(2, 1, 50, &[10, 10, 10]),
                row(0, 3, 0, &[]),
                row(0, 4, 5, &[]),
                row(0, 5, 0, &[-9]),
            ],
        };
        // Two samples of the first row are in no bucket.
        series.rows[0].count += 2;
        let scale = Scale::from_histograms([&histogram(&[10, 20])].into_iter());
        let segment = |filled: &[(u32, u64)], early, missed| Segment {
            filled: filled.to_vec(),
            early,
            missed,
        };
        assert_eq!(
            intervals(&scale, &series, &[0, 1]),
            [
                segment(&[(0, 1), (1, 2)], 2, 2),
                segment(&[(1, 1), (2, 2)], 1, 1),
                segment(&[], 0, 5),
                segment(&[], 1, 0),
            ]
        );
        assert_eq!(intervals(&scale, &series, &[7]), []);
    }
}
