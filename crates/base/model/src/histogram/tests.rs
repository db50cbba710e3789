use super::*;
use crate::{DecodeError, MAX_TRACKABLE_NS};
use proptest::prelude::*;

fn histogram_of(values: &[i64]) -> Histogram {
    let mut histogram = Histogram::new();
    for value in values {
        histogram.record(SignedNanos(*value));
    }
    histogram
}

/// Realistic latencies: mostly microseconds, sometimes any value.
fn latencies() -> impl Strategy<Value = Vec<i64>> {
    let latency = prop_oneof![
        8 => 0i64..200_000,
        2 => 0i64..5_000_000_000,
        1 => -5_000i64..0,
        1 => (MAX_TRACKABLE_NS as i64 - 10)..(MAX_TRACKABLE_NS as i64 * 3),
    ];
    prop::collection::vec(latency, 0..200)
}

#[test]
fn an_empty_one_knows_nothing() {
    let empty = Histogram::new();
    assert_eq!(empty.min(), None);
    assert_eq!(empty.max(), None);
    assert_eq!(empty.mean(), None);
    assert_eq!(empty.quantile(0.5), None);
    assert_eq!(Histogram::decode(&empty.encode()), Ok(empty));
}

#[test]
fn early_and_overflow_are_counted_apart() {
    let histogram = histogram_of(&[-1, 5, MAX_TRACKABLE_NS as i64]);
    assert_eq!(histogram.recorded(), 3);
    assert_eq!(histogram.count(), 2);
    assert_eq!(histogram.early(), 1);
    assert_eq!(histogram.overflow(), 1);
    assert_eq!(histogram.max(), Some(Nanos(MAX_TRACKABLE_NS)));
    assert_eq!(histogram.quantile(1.0), Some(Nanos(MAX_TRACKABLE_NS)));
}

/// Rows of whole microseconds, with some samples in no row.
fn counted(rows: &[(u64, u64)], unplaced: u64) -> Histogram {
    let us = Nanos::from_micros(1);
    let mut histogram = Histogram::imported(us, us);
    for (row, count) in rows {
        histogram.add_row(Nanos(row * 1_000), *count);
    }
    let next = rows.last().map_or(0, |(row, _)| row + 1);
    histogram.add_unplaced(unplaced, Nanos(next * 1_000));
    histogram
}

#[test]
fn samples_in_no_row_make_no_percentile() {
    let mut histogram = counted(&[(10, 90), (12, 5)], 5);
    histogram.set_figures(None, Some(Nanos(3_000_000)), None);
    assert_eq!(histogram.recorded(), 100);
    assert_eq!(histogram.mean(), None);
    assert_eq!(histogram.quantile(0.5), Some(Nanos(10_000)));
    assert_eq!(histogram.quantile(0.95), Some(Nanos(12_000)));
    assert_eq!(histogram.quantile(0.99), None);
    assert_eq!(histogram.quantile(1.0), Some(Nanos(3_000_000)));
    let (rows, beyond) = histogram.micros(13);
    assert_eq!((rows[10], rows[12], beyond), (90, 5, 5));
    // After a merge with a histogram whose rows extend to larger latencies, only the lower rows are
    // used.
    let mut both = counted(&[(10, 10), (40, 10)], 0);
    both.merge(&histogram);
    assert_eq!(both.quantile(0.5), Some(Nanos(10_000)));
    assert_eq!(both.quantile(0.9), None);
    assert_eq!(both.unplaced_from(), Some(Nanos(13_000)));
}

#[test]
fn imported_rows_stay_unchanged() {
    let rows = [(999, 1), (1_234, 2), (1_235, 3), (40_001, 1)];
    let histogram = counted(&rows, 0);
    let found: Vec<_> = histogram.rows().map(|row| (row.0 / 1_000, row.2)).collect();
    assert_eq!(found, rows);
    assert_eq!(Histogram::decode(&histogram.encode()).unwrap(), histogram);
    let json = serde_json::to_string(&histogram).unwrap();
    assert_eq!(serde_json::from_str::<Histogram>(&json).unwrap(), histogram);
    // After a merge with punctual's own counts, the buckets contain both.
    let mut both = histogram_of(&[1_500_000]);
    both.merge(&histogram);
    assert_eq!(both.rows().map(|row| row.2).sum::<u64>(), 8);
    let bytes = counted(&rows, 1).encode();
    for end in 0..bytes.len() {
        assert!(Histogram::decode(&bytes[..end]).is_err(), "{end}");
    }
    // In wide rows, a quantile is the upper end of its row.
    let mut wide = Histogram::imported(Nanos(1_000), Nanos(50_000));
    wide.add_row(Nanos(50_000), 3);
    wide.set_figures(None, Some(Nanos(120_000)), None);
    assert_eq!(wide.quantile(0.5), Some(Nanos(99_000)));
}

#[test]
fn rows_of_powers_of_two_bound_each_figure() {
    // Rows [0, 2), [2, 4), [4, 8) and [8, 16) µs.
    let us = |us: u64| Nanos(us * 1_000);
    let mut histogram = Histogram::imported_by_octaves(us(1), us(2), 1);
    for (lower, count) in [(0, 2), (2, 3), (4, 4), (8, 1)] {
        histogram.add_row(us(lower), count);
    }
    assert_eq!(
        (histogram.min(), histogram.max(), histogram.mean()),
        (None, None, None)
    );
    let quantiles = [0.2, 0.5, 0.9, 1.0].map(|quantile| histogram.quantile(quantile).unwrap());
    assert_eq!(quantiles, [us(1), us(3), us(7), us(15)]);
    // A limit inside a row leaves its samples undecided.
    let above = histogram.above_limit(us(5));
    assert_eq!((above.at_least, above.at_most), (1, 5));
    let above = histogram.above_limit(us(16));
    assert_eq!((above.at_least, above.at_most), (0, 0));
    assert_eq!(Histogram::decode(&histogram.encode()).unwrap(), histogram);
    let json = serde_json::to_string(&histogram).unwrap();
    assert_eq!(serde_json::from_str::<Histogram>(&json).unwrap(), histogram);
    let mut both = histogram.clone();
    both.merge(&histogram);
    assert_eq!(both.quantile(0.5), Some(us(3)));
    assert_eq!(both.rows().last(), Some((8_000, 8_000, 2)));
    // With two rows for each power of two: [8, 12) and [12, 16).
    let mut finer = Histogram::imported_by_octaves(us(1), us(1), 2);
    finer.add_row(us(8), 1);
    finer.add_row(us(12), 1);
    assert_eq!(finer.quantile(0.5), Some(us(11)));
    assert_eq!(
        finer.rows().collect::<Vec<_>>(),
        [(8_000, 4_000, 1), (12_000, 4_000, 1)]
    );
}

#[test]
fn the_largest_counts_can_be_merged() {
    let json = format!(
        r#"{{"count": {max}, "sum_ns": {max}, "min_ns": null, "max_ns": null,
            "early": {max}, "overflow": 0, "buckets": [[5, {max}]]}}"#,
        max = u64::MAX
    );
    let full: Histogram = serde_json::from_str(&json).unwrap();
    let mut merged = full.clone();
    merged.merge(&full);
    assert_eq!(merged, full);
    assert_eq!(merged.recorded(), u64::MAX);
    assert_eq!(merged.buckets().total(), u64::MAX);
    // The histogram has samples, but neither minimum nor maximum.
    assert_eq!((merged.min(), merged.max()), (None, None));
    assert_eq!(merged.quantile(0.5), Some(Nanos(5)));
    assert_eq!(merged.micros(3), (vec![u64::MAX, 0, 0], 0));
}

#[test]
fn damaged_bytes_are_refused() {
    let bytes = histogram_of(&[5, 5_000, 70_000]).encode();
    for end in 0..bytes.len() {
        assert!(Histogram::decode(&bytes[..end]).is_err(), "{end}");
    }
    assert_eq!(
        Histogram::decode(&[0, 0, 0, 0, 0, 0, 0xff, 0xff, 0x7f, 1]),
        Err(DecodeError::NoSuchBucket(0x1f_ffff))
    );
}

proptest! {
    #[test]
    fn nothing_is_lost(values in latencies()) {
        let histogram = histogram_of(&values);
        prop_assert_eq!(histogram.recorded(), values.len() as u64);
        prop_assert_eq!(
            histogram.buckets().total() + histogram.overflow() + histogram.early(),
            values.len() as u64
        );
    }

    #[test]
    fn merging_is_recording_both(a in latencies(), b in latencies()) {
        let mut merged = histogram_of(&a);
        merged.merge(&histogram_of(&b));
        prop_assert_eq!(merged, histogram_of(&[a, b].concat()));
    }

    #[test]
    fn quantiles_are_within_one_percent_of_sorting(
        values in prop::collection::vec(0i64..5_000_000_000, 1..300),
        quantile in 0.0f64..=1.0,
    ) {
        let histogram = histogram_of(&values);
        let mut sorted = values;
        sorted.sort_unstable();
        let rank = rank_of(quantile, sorted.len() as u64).unwrap();
        let exact = sorted[rank as usize - 1] as u64;
        let Nanos(found) = histogram.quantile(quantile).unwrap();
        prop_assert!(found >= exact, "{} understates {}", found, exact);
        prop_assert!(found <= exact + exact / 100 + 1, "{} overstates {}", found, exact);
    }

    #[test]
    fn microsecond_bins_are_exact_below_a_millisecond(values in prop::collection::vec(0i64..2_000_000, 0..300)) {
        let (rows, beyond) = histogram_of(&values).micros(1_000);
        let mut exact = vec![0u64; 1_000];
        for value in values.iter().filter(|v| **v < 1_000_000) {
            exact[(value / 1_000) as usize] += 1;
        }
        prop_assert_eq!(rows, exact);
        prop_assert_eq!(beyond, values.iter().filter(|v| **v >= 1_000_000).count() as u64);
    }

    #[test]
    fn recorded_run_equals_single_latencies(
        largest in prop_oneof![0u64..100_000, 0u64..5_000_000_000, any::<u32>().prop_map(|n| u64::from(n) * 1_000)],
        step in prop_oneof![0u64..50, 0u64..2_000_000],
        count in 0u64..500,
    ) {
        let mut run = Histogram::new();
        run.record_run(Nanos(largest), Nanos(step), count);
        let each = (0..count).map(|n| largest.saturating_sub(n * step) as i64);
        prop_assert_eq!(run, histogram_of(&each.collect::<Vec<i64>>()));
    }

    #[test]
    fn both_forms_read_back(values in latencies()) {
        let histogram = histogram_of(&values);
        let json = serde_json::to_string(&histogram).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Histogram>(&json).unwrap(), &histogram);
        prop_assert_eq!(&Histogram::decode(&histogram.encode()).unwrap(), &histogram);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = Histogram::decode(&bytes);
    }
}

proptest! {
    #[test]
    fn range_of_counters_does_not_change_figures(values in latencies(), more in latencies()) {
        let grown = histogram_of(&values);
        let mut preallocated = Histogram::preallocated();
        for value in &values {
            preallocated.record(SignedNanos(*value));
        }
        prop_assert_eq!(&grown, &preallocated);
        prop_assert_eq!(grown.encode(), preallocated.encode());
        let other = histogram_of(&more);
        let (mut one, mut two) = (grown, other.clone());
        one.merge(&other);
        two.merge(&preallocated);
        prop_assert_eq!(&one, &two);
        let all = values.iter().chain(&more).copied().collect::<Vec<_>>();
        prop_assert_eq!(one, histogram_of(&all));
    }
}

#[test]
fn quantile_of_buckets_is_the_end_of_its_bucket() {
    let counts = histogram_of(&[10, 20, 30, 40, 20_050, 20_060]).buckets();
    for (quantile, ns) in [
        (0.1, 10),
        (1.0 / 6.0, 10),
        (0.34, 30),
        (0.5, 30),
        (0.67, 20_099),
        (0.84, 20_099),
        (1.0, 20_099),
    ] {
        assert_eq!(counts.quantile(quantile), Some(ns), "{quantile}");
    }
    assert!(!counts.is_empty());
    assert_eq!(counts.total(), 6);
    let rows: Vec<_> = counts.iter().collect();
    assert_eq!(rows[0], (10, 1, 1));
    assert_eq!(rows[4], (20_000, 100, 2));
    let empty = Buckets::default();
    assert!(empty.is_empty());
    assert_eq!((empty.quantile(0.5), empty.total()), (None, 0));
    let small = histogram_of(&[3, 7, 7]).buckets();
    assert_eq!(format!("{small:?}"), "[(3, 1), (7, 2)]");
}

#[test]
fn figures_of_an_interval_are_those_of_its_samples() {
    let row = |latencies: &[i64]| {
        let all = histogram_of(latencies);
        IntervalRow {
            thread: 0,
            start_ns: Nanos(0),
            count: all.recorded(),
            early: all.early(),
            missed: 0,
            min_ns: all.min(),
            max_ns: all.max(),
            sum_ns: all.sum(),
            histogram: all.buckets(),
        }
    };
    let all = row(&[-5, 20_010, 20_020, 20_070]);
    assert_eq!(
        all.mean(),
        Some(Nanos(20_033)),
        "of those that are not early"
    );
    assert_eq!(
        all.quantile(1.0),
        Some(Nanos(20_070)),
        "never above the maximum"
    );
    let apart = row(&[100, 30_000]);
    assert_eq!(
        [0.5, 0.51].map(|at| apart.quantile(at)),
        [100, 30_000].map(|ns| Some(Nanos(ns)))
    );
    let early = row(&[-5]);
    assert_eq!((early.mean(), early.quantile(0.5)), (None, None));
    let mut removed = apart;
    removed.histogram = Buckets::default();
    assert_eq!(removed.quantile(0.5), Some(Nanos(30_000)));
}

#[test]
fn cleared_histogram_is_empty() {
    let mut all = counted(&[(10, 90)], 5);
    all.add_early(3);
    all.record(SignedNanos(MAX_TRACKABLE_NS as i64));
    assert_eq!((all.early(), all.overflow(), all.recorded()), (3, 1, 99));
    all.clear();
    assert_eq!(all, Histogram::new());
    all.record(SignedNanos(7));
    assert_eq!(all, histogram_of(&[7]));
    let mut before = Histogram::preallocated();
    assert_eq!(before, Histogram::new());
    before.record(SignedNanos(7));
    assert_eq!(before, all);
}

/// The last row of a tool may contain all later samples.
#[test]
fn samples_of_the_last_row_are_at_least_so_late() {
    let us = Nanos::from_micros;
    let mut all = counted(&[(10, 90), (99, 10)], 0);
    all.unplace_row(us(99), 4);
    assert_eq!(
        (all.count(), all.unplaced(), all.unplaced_from()),
        (100, 4, Some(us(99)))
    );
    assert_eq!((all.max(), all.mean()), (None, None));
    let above = all.above_limit(us(50));
    assert_eq!((above.at_least, above.at_most), (10, 10));
    let above = all.above_limit(us(200));
    assert_eq!((above.at_least, above.at_most), (0, 4));
    // Not more than the row has.
    all.unplace_row(us(99), 100);
    assert_eq!((all.count(), all.unplaced()), (100, 10));
    all.unplace_row(Nanos(MAX_TRACKABLE_NS), 1);
    assert_eq!((all.count(), all.unplaced()), (100, 10));
    all.unplaced_begin(us(120));
    assert_eq!(all.unplaced_from(), Some(us(120)));
    let above = all.above_limit(us(110));
    assert_eq!((above.at_least, above.at_most), (10, 10));
    let mut own = histogram_of(&[7]);
    own.unplaced_begin(us(1));
    assert_eq!(own.unplaced_from(), None);
}

#[test]
fn rows_of_another_tool_widen_with_the_latency() {
    let us = Nanos::from_micros;
    let mut rows = Resolution::new(Nanos(1), us(1));
    assert_eq!(rows.widest_row(), us(1));
    rows.rows_per_octave = Some(4);
    assert_eq!(rows.widest_row(), us(1), "no sample");
    for (lower, width) in [
        (0, 1),
        (1, 1),
        (7, 1),
        (8, 2),
        (15, 2),
        (16, 4),
        (64, 16),
        (100, 16),
    ] {
        assert_eq!(rows.row_at(us(lower).0), us(width).0, "{lower}");
    }
    rows.add_row(us(8).0, 1);
    rows.add_row(us(64).0, 1);
    assert_eq!(rows.widest_row(), us(16));
    // Whole units: a tool that counts in microseconds says 15 for all of 15.
    let whole = Resolution::new(us(1), us(4));
    assert_eq!(
        [0, 3_999, 4_000].map(|ns| whole.upper(ns)),
        [3_000, 3_000, 7_000]
    );
    assert_eq!(Resolution::new(Nanos(0), Nanos(0)).upper(5), 5);
}

#[test]
fn coarser_resolution_remains_after_a_merge() {
    let mut fine = Resolution::new(Nanos(1), Nanos(10));
    let mut coarse = Resolution::new(Nanos(1_000), Nanos(2_000));
    fine.rows = vec![(1, 1), (3, 1), (5, 1)];
    coarse.rows = vec![(0, 1), (3, 2), (9, 1)];
    (coarse.unplaced, coarse.unplaced_from_ns, coarse.max_unknown) = (2, Nanos(50), true);
    (fine.rows_per_octave, coarse.rows_per_octave) = (Some(8), Some(4));
    let (mut one, mut other) = (fine.clone(), coarse.clone());
    one.merge(&coarse);
    other.merge(&fine);
    assert_eq!(one, other);
    assert_eq!(
        (one.unit_ns, one.row_ns, one.rows_per_octave),
        (Nanos(1_000), Nanos(2_000), Some(4))
    );
    assert_eq!(one.rows, [(0, 1), (1, 1), (3, 3), (5, 1), (9, 1)]);
    assert_eq!((one.unplaced, one.unplaced_from_ns), (2, Nanos(50)));
    assert_eq!((one.max_unknown, one.mean_unknown), (true, false));
    fine.add_unplaced(1, Nanos(70));
    fine.add_unplaced(1, Nanos(60));
    one.merge(&fine);
    assert_eq!((one.unplaced, one.unplaced_from_ns), (4, Nanos(50)));
    fine.rows_per_octave = None;
    let mut bytes = Vec::new();
    for resolution in [&one, &fine, &coarse] {
        resolution.encode(&mut bytes);
    }
    let mut rest = bytes.as_slice();
    for resolution in [&one, &fine, &coarse] {
        assert_eq!(Resolution::decode(&mut rest).as_ref(), Some(resolution));
    }
    assert_eq!((rest.len(), Resolution::decode(&mut rest)), (0, None));
}

#[test]
fn extrapolation_is_called_an_estimate() {
    let tail = TailRemark {
        threshold_ns: Nanos(1),
        above: 1,
        shape: 0.1,
        times: 10,
        level_ns: Nanos(20_000),
        low_ns: Nanos(15_000),
        high_ns: Nanos(30_000),
    };
    assert_eq!(
        tail.sentence(),
        "if the tail continues as observed, a run 10 times as long is expected to have one wake-up \
         above 20.0 µs (95%: 15.0 µs to 30.0 µs); this is an estimate, not a verdict"
    );
}
