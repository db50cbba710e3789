use punctual_model::{IntervalRow, Origin, Series, SignedNanos, testing};

use super::*;
use crate::{Comparison, compare, compare_runs};

/// A run of a second for each row, with these numbers of samples at latencies.
fn run(rows: usize, each: &[(i64, u64)]) -> Recording {
    let mut recording = testing::recording(1, 0);
    recording.id = punctual_model::RecordingId::new();
    let mut one = Histogram::new();
    for (latency, count) in each {
        (0..*count).for_each(|_| one.record(SignedNanos(*latency)));
    }
    let mut all = Histogram::new();
    let mut series = Vec::new();
    for second in 0..rows as u64 {
        series.push(IntervalRow::new(0, Nanos::from_secs(second), 0, &one));
        all.merge(&one);
    }
    recording.threads[0].accounting.recorded = all.recorded();
    recording.threads[0].histogram = all;
    recording.duration_ns = Nanos::from_secs(rows as u64);
    recording.series = Series {
        interval_ns: Nanos::from_secs(1),
        dropped: 0,
        rows: series,
    };
    recording
}

fn compared(a: &Recording, b: &Recording, quantiles: &[f64], threshold: Option<u64>) -> Comparison {
    let options = Options {
        quantiles: quantiles.to_vec(),
        threshold: threshold.map(Nanos),
        replicates: 200,
        seed: 1,
    };
    compare(a, b, &options).unwrap()
}

fn without(mut recording: Recording, fact: Unknown) -> Recording {
    recording.origin = Some(Origin {
        format: "cyclictest-hist".to_owned(),
        tool: "cyclictest".to_owned(),
        file: "-".to_owned(),
        unknown: [fact].into(),
    });
    recording
}

#[test]
fn quantiles_have_their_names_and_values() {
    // The buckets of 2 to 9 µs are 10 ns wide, and that of 30 µs is 100 ns wide.
    let a = run(20, &[(2_000, 80), (4_000, 15), (30_000, 5)]);
    let b = run(20, &[(3_000, 80), (4_000, 15), (30_050, 5)]);
    let found = &compared(&a, &b, &[0.5, 0.9, 0.96, 0.999, 0.999_999], None).channels[0];
    type Row<'a> = (&'a str, Option<u64>, Option<u64>, Option<i64>);
    let rows: Vec<Row<'_>> = (found.quantiles.iter())
        .map(|one| {
            let [a, b] = [one.baseline_ns, one.candidate_ns].map(|ns| ns.map(|ns| ns.0));
            (one.name.as_str(), a, b, one.difference_ns.map(|ns| ns.0))
        })
        .collect();
    // A quantile is never above the maximum, but the difference is that of the buckets.
    assert_eq!(
        rows,
        [
            ("p50", Some(2_009), Some(3_009), Some(1_000)),
            ("p90", Some(4_009), Some(4_009), Some(0)),
            ("p96", Some(30_000), Some(30_050), Some(0)),
            ("p99.9", Some(30_000), Some(30_050), Some(0)),
            ("p99.9999", None, None, None),
        ]
    );
    let ratio = found.quantiles[0].ratio.unwrap();
    assert!((ratio - 3_009.0 / 2_009.0).abs() < 1e-12, "{ratio}");
    assert_eq!((found.recorded, found.blocks), ([2_000; 2], Some([20; 2])));
    assert_eq!(
        (found.block_intervals, found.no_blocks.as_deref()),
        (Some([1; 2]), None)
    );
    assert_eq!(found.title, None);
    // All blocks are equal, so the difference is certain.
    let estimate = found.quantiles[0].estimate.unwrap();
    assert_eq!(
        (estimate.difference_low, estimate.difference_high),
        (1_000.0, 1_000.0)
    );
    assert_eq!(found.quantiles[0].change, Change::Worse);
    // 0.8 * 0.8 are later than 2 µs, 0.15 * (0.8 + 0.075) than 4 µs, and 0.05 * (0.95 + 0.025) than
    // 30 µs, with half of the ties.
    assert!(
        (found.later.probability.unwrap() - 0.82).abs() < 1e-12,
        "{:?}",
        found.later
    );
}

/// With ten samples above a quantile, it has an interval. With one, it has a value.
#[test]
fn samples_above_decide_what_is_said() {
    for (samples, quantile, is_supported, is_judged) in [
        (1_000, 0.99, true, true),
        (999, 0.99, true, false),
        (1_000, 0.999, true, false),
        (999, 0.999, false, false),
        (10_000, 0.999, true, true),
        (10, 0.0, true, true),
    ] {
        assert_eq!(
            super::is_supported(samples, quantile),
            is_supported,
            "{samples} {quantile}"
        );
        assert_eq!(
            has_samples_above(samples, quantile),
            is_judged,
            "{samples} {quantile}"
        );
    }
}

/// 20 s with 2,000 samples. p99.9 needs 10,000 for ten samples above it: 100 s and 5%.
#[test]
fn required_length_is_that_of_enough_samples() {
    let each = [(2_000, 60), (2_100, 40)];
    let (a, b) = (run(20, &each), run(20, &each));
    let found = compared(&a, &b, &[0.5, 0.999], None);
    let [middle, high] = found.channels[0].quantiles.as_slice() else {
        panic!("two quantiles");
    };
    assert_eq!(
        (middle.measure_ns, middle.not_known.as_deref()),
        (None, None)
    );
    assert_eq!(high.not_known.as_deref(), Some("too few samples above it"));
    let seconds = high.measure_ns.unwrap().as_secs_f64();
    assert!((seconds - 105.0).abs() < 1e-6, "{seconds}");
    // The side that needs longer decides.
    let sparse = run(20, &[(2_000, 6), (2_100, 4)]);
    for (a, b) in [(&a, &sparse), (&sparse, &b)] {
        let found = compared(a, b, &[0.99], None);
        let seconds = found.channels[0].quantiles[0]
            .measure_ns
            .unwrap()
            .as_secs_f64();
        assert!((seconds - 105.0).abs() < 1e-6, "{seconds}");
    }
    // An unknown duration cannot be extended.
    let found = compared(&a, &without(b.clone(), Unknown::Duration), &[0.999], None);
    assert_eq!(found.channels[0].quantiles[0].measure_ns, None);
    // Several runs need one sample above the quantile in each.
    let options = Options {
        quantiles: vec![0.999_9],
        ..Options::default()
    };
    let found = compare_runs(&[&a, &a], &[&b, &b], &options).unwrap();
    let seconds = found.channels[0].quantiles[0]
        .measure_ns
        .unwrap()
        .as_secs_f64();
    assert!((seconds - 105.0).abs() < 1e-6, "{seconds}");
}

/// Twenty rows are asked for, after the start of the first one.
#[test]
fn required_length_is_that_of_enough_rows() {
    let each = [(2_000, 60), (2_100, 40)];
    let long = run(20, &each);
    let mut short = run(6, &each);
    for row in &mut short.series.rows {
        row.start_ns = Nanos(row.start_ns.0 + 3_000_000_000);
    }
    let found = compared(&long, &short, &[0.5], None);
    let channel = &found.channels[0];
    let why = "candidate has 6 rows in its time series, but at least 10 are needed";
    assert_eq!(channel.no_blocks.as_deref(), Some(why));
    assert_eq!((channel.blocks, channel.block_intervals), (None, None));
    assert_eq!(channel.quantiles[0].measure_ns, Some(Nanos::from_secs(23)));
    assert_eq!(channel.quantiles[0].not_known.as_deref(), Some(why));
    let back = compared(&short, &long, &[0.5], None);
    assert_eq!(
        back.channels[0].quantiles[0].measure_ns,
        Some(Nanos::from_secs(23))
    );
    let why = back.channels[0].no_blocks.as_deref().unwrap();
    assert!(why.starts_with("baseline has 6 rows"), "{why}");
    // Longer rows need longer.
    short.series.interval_ns = Nanos::from_secs(10);
    let found = compared(&long, &short, &[0.5], None);
    assert_eq!(
        found.channels[0].quantiles[0].measure_ns,
        Some(Nanos::from_secs(203))
    );
    // Without rows, or without their length, nothing is known.
    short.series.rows.clear();
    let found = compared(&long, &short, &[0.5], None);
    assert_eq!(found.channels[0].quantiles[0].measure_ns, None);
    let why = found.channels[0].no_blocks.as_deref();
    assert_eq!(why, Some("candidate has no time series"));
}

/// Rates are per million, with the interval for independent events.
#[test]
fn counts_have_their_rate_and_interval() {
    let mut a = run(20, &[(2_000, 100)]);
    let b = run(20, &[(2_000, 95), (50_000, 5)]);
    (a.threads[0].accounting.missed, a.series.rows[4].missed) = (6, 6);
    let found = compared(&a, &b, &[0.5], Some(50_000));
    let [missed, late] = found.channels[0].rates.as_slice() else {
        panic!("{:?}", found.channels[0].rates);
    };
    assert_eq!((missed.what.as_str(), missed.from_ns), ("missed", None));
    assert_eq!(
        (late.what.as_str(), late.from_ns),
        ("from 50.0 µs on", Some(Nanos(50_000)))
    );
    let [a_missed, b_missed] = [missed.baseline, missed.candidate].map(Option::unwrap);
    assert_eq!(
        (a_missed.count, a_missed.of, b_missed.count, b_missed.of),
        (6, 2_006, 0, 2_000)
    );
    assert!(
        (a_missed.per_million - 6e6 / 2_006.0).abs() < 1e-6,
        "{a_missed:?}"
    );
    let (low, high) = exact_interval(6, 2_006).unwrap();
    assert!((a_missed.low / low - 1e6).abs() < 1.0 && (a_missed.high / high - 1e6).abs() < 1.0);
    let [a_late, b_late] = [late.baseline, late.candidate].map(Option::unwrap);
    assert_eq!((a_late.count, b_late.count, b_late.of), (0, 100, 2_000));
    assert!(
        (b_late.per_million - 50_000.0).abs() < 1e-6
            && b_late.low < 50_000.0
            && b_late.high > 50_000.0
    );
    // The estimates are per million. One burst of missed periods proves nothing.
    let estimate = late.estimate.unwrap();
    assert!(
        (estimate.difference_low - 50_000.0).abs() < 1e-6,
        "{estimate:?}"
    );
    assert!(
        (estimate.difference_high - 50_000.0).abs() < 1e-6,
        "{estimate:?}"
    );
    assert_eq!((estimate.ratio_low, late.change), (None, Change::Worse));
    assert_eq!(missed.change, Change::NoneFound);
    // Without events on both sides, there is nothing to test.
    let found = compared(&b, &b, &[0.5], Some(60_000));
    for one in &found.channels[0].rates {
        assert_eq!(
            (one.estimate, one.change, one.not_known.as_deref()),
            (None, Change::NoneFound, None)
        );
    }
    // An import that does not know missed periods has no rate of them.
    let found = compared(&a, &without(b.clone(), Unknown::Missed), &[0.5], None);
    let one = &found.channels[0].rates[0];
    assert!(one.baseline.is_some() && one.candidate.is_none() && one.estimate.is_none());
    assert_eq!(one.not_known.as_deref(), Some("not in every source"));
    assert_eq!(
        (one.change, found.channels[0].rates.len()),
        (Change::Unknown, 1)
    );
}

/// Above the lower bound of samples of unknown latency, nothing can be counted.
#[test]
fn samples_of_unknown_latency_limit_the_threshold() {
    let a = run(20, &[(2_000, 95), (8_000, 5)]);
    let mut b = a.clone();
    b.threads[0].histogram.add_unplaced(3, Nanos(20_000));
    let late = |limit| compared(&a, &b, &[0.5], Some(limit)).channels[0].rates[1].candidate;
    assert_eq!(late(20_000).unwrap().count, 3);
    assert_eq!(late(20_001), None);
    assert_eq!(late(8_000).unwrap().count, 103);
}

/// The values of each run, and their medians.
#[test]
fn several_runs_have_their_values() {
    let at = |ns: i64| run(12, &[(ns, 100)]);
    let a = [2_000, 2_300, 2_100, 2_200].map(at);
    let b = [4_000, 4_400, 4_100, 4_200].map(at);
    let options = Options {
        quantiles: vec![0.5, 0.999_99],
        threshold: Some(Nanos(3_000)),
        ..Options::default()
    };
    let of = |a: &[Recording], b: &[Recording]| {
        let [a, b] = [a, b].map(|side| side.iter().collect::<Vec<_>>());
        compare_runs(&a, &b, &options).unwrap()
    };
    let found = of(&a, &b);
    let channel = &found.channels[0];
    let one = &channel.quantiles[0];
    let values = [[2_009, 2_309, 2_109, 2_209], [4_009, 4_409, 4_109, 4_209]];
    let values = values.map(|side| side.map(|ns| Some(Nanos(ns))).to_vec());
    assert_eq!(one.runs_ns, Some(values));
    assert_eq!(
        (one.baseline_ns, one.candidate_ns),
        (Some(Nanos(2_159)), Some(Nanos(4_159)))
    );
    assert_eq!(
        (one.difference_ns, one.change),
        (Some(SignedNanos(2_000)), Change::Worse)
    );
    // The differences of all pairs of runs, and their ratios.
    let estimate = one.estimate.unwrap();
    assert_eq!(
        (estimate.difference_low, estimate.difference_high),
        (1_700.0, 2_400.0)
    );
    let ratios = [estimate.ratio_low, estimate.ratio_high].map(Option::unwrap);
    for (found, known) in ratios
        .into_iter()
        .zip([4_009.0 / 2_309.0, 4_409.0 / 2_009.0])
    {
        assert!((found - known).abs() < 1e-12, "{ratios:?}");
    }
    assert!(
        (estimate.p - 2.0 / 70.0).abs() < 1e-12 && (estimate.p_adjusted - 2.0 / 70.0).abs() < 1e-12
    );
    // All samples of the candidate are late.
    let late = &channel.rates[1];
    let estimate = late.estimate.unwrap();
    assert_eq!(
        (
            estimate.difference_low,
            estimate.difference_high,
            estimate.ratio_low
        ),
        (1e6, 1e6, None)
    );
    assert_eq!(
        (late.change, channel.rates[0].change),
        (Change::Worse, Change::NoneFound)
    );
    assert_eq!(
        (found.replicates, found.change, channel.blocks),
        (70, Change::Worse, None)
    );
    let none = &channel.quantiles[1];
    assert_eq!((none.baseline_ns, none.estimate), (None, None));
    let back = of(&b, &a);
    assert_eq!(back.channels[0].quantiles[0].change, Change::Better);
    let estimate = back.channels[0].quantiles[0].estimate.unwrap();
    assert_eq!(
        (estimate.difference_low, estimate.difference_high),
        (-2_400.0, -1_700.0)
    );
    // With two runs on both sides, nothing can be proven.
    let few = of(&a[..2], &b[..2]);
    let one = &few.channels[0].quantiles[0];
    assert_eq!(
        (one.change, one.not_known.as_deref()),
        (Change::Unknown, Some("too few runs"))
    );
    assert_eq!((few.replicates, few.shortfalls[0].runs), (6, Some(4)));
    // A run without the fact takes it from all of them.
    let mut others = b.clone();
    others[2] = without(others[2].clone(), Unknown::Missed);
    let found = of(&a, &others);
    assert_eq!(found.channels[0].rates[0].candidate, None);
    assert_eq!(found.channels[0].quantiles[0].change, Change::Worse);
}

#[test]
fn median_of_runs_is_in_the_middle() {
    let of = |values: &[u64]| median(&values.iter().map(|ns| Some(Nanos(*ns))).collect::<Vec<_>>());
    assert_eq!(
        [of(&[]), of(&[5]), of(&[9, 4])],
        [None, Some(Nanos(5)), Some(Nanos(6))]
    );
    assert_eq!(
        [of(&[9, 1, 4]), of(&[8, 1, 4, 6])],
        [Some(Nanos(4)), Some(Nanos(5))]
    );
    assert_eq!(median(&[Some(Nanos(1)), None]), None);
    let names = [0.5, 0.999, 0.999_99, 0.1, 1.0].map(name);
    assert_eq!(names, ["p50", "p99.9", "p99.999", "p10", "p100"]);
    assert_eq!(rate_of(0, 0), None);
}

/// Threads that measure different mechanisms are compared by name.
#[test]
fn channels_are_those_of_both_sides() {
    let named = |names: &[&str]| {
        let mut recording = testing::recording(names.len() as u32, 3);
        recording.probe.alike = false;
        for (thread, name) in recording.threads.iter_mut().zip(names) {
            thread.label = Some((*name).to_owned());
        }
        recording
    };
    let titles = |a: &Recording, b: &Recording| -> Vec<(String, [u64; 2])> {
        let found = compared(a, b, &[0.5], None);
        (found.channels.into_iter())
            .map(|channel| (channel.title.unwrap(), channel.recorded))
            .collect()
    };
    let (a, b) = (
        named(&["futex", "pipe", "signal"]),
        named(&["signal", "socket", "futex", "signal"]),
    );
    assert_eq!(
        titles(&a, &b),
        [
            ("futex".to_owned(), [3_000, 3_000]),
            ("signal".to_owned(), [3_000, 6_000])
        ]
    );
    let error = compare(&a, &named(&["socket"]), &Options::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("futex, pipe, signal") && error.contains("socket"),
        "{error}"
    );
    // Threads that are alike are combined.
    let (a, b) = (testing::recording(2, 3), testing::recording(3, 3));
    let found = compared(&a, &b, &[0.5], None);
    assert_eq!(
        (found.channels.len(), found.channels[0].recorded),
        (1, [6_000, 9_000])
    );
    assert_eq!(found.channels[0].title, None);
}

/// A quarter of the samples is of unknown latency, so the median is known and p90 is not.
#[test]
fn quantile_among_unknown_latencies_says_so() {
    let mut a = run(20, &[(2_000, 60), (2_100, 40)]);
    a.threads[0].histogram.add_unplaced(700, Nanos(50_000));
    let found = compared(&a, &a, &[0.5, 0.9, 0.999_99], None);
    let why = |place: usize| found.channels[0].quantiles[place].not_known.as_deref();
    assert_eq!(why(0), None);
    assert_eq!(why(1), Some("among samples of unknown latency"));
    assert_eq!(why(2), Some("too few samples above it"));
}
