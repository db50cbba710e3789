//! Comparisons of simulated machines, for which the truth is known.

mod machine;
mod runs;

use proptest::prelude::*;
use punctual_model::{Histogram, IntervalRow, Nanos, Recording, SignedNanos, testing};
use punctual_stats::{Change, Comparison, Options, compare};

use machine::{Machine, USUAL};

fn options() -> Options {
    Options {
        quantiles: vec![0.5, 0.9, 0.99, 0.999],
        replicates: 200,
        ..Options::default()
    }
}

fn comparison_between(a: &Recording, b: &Recording) -> Comparison {
    compare(a, b, &options()).unwrap()
}

/// Returns the number of pairs of the same machine, out of `pairs`, that are reported to differ,
/// and the number that the median alone would report.
fn alarms(machine: Machine, pairs: u64) -> (u64, u64) {
    (0..pairs).fold((0, 0), |(alarms, of_median), pair| {
        let comparison = comparison_between(&machine.run(2 * pair), &machine.run(2 * pair + 1));
        let alarm = matches!(comparison.change, Change::Worse | Change::Better);
        let median = comparison.channels[0].quantiles[0].estimate;
        let by_itself = median.is_some_and(|estimate| estimate.p < 0.05);
        (alarms + u64::from(alarm), of_median + u64::from(by_itself))
    })
}

/// Of 60 pairs of equal machines, at most 3 (5%) may cause a false alarm. For one figure alone, 3
/// are expected, and 8 is three standard deviations above this number. The seeds are fixed, so the
/// result is always the same.
fn assert_rarely_said_to_differ(machines: &[(&str, Machine)]) {
    for (name, machine) in machines {
        let (alarms, of_median) = alarms(*machine, 60);
        let said = format!("{name}: {alarms} alarms, {of_median} at the median, of 60");
        assert!(alarms <= 3 && of_median <= 8, "{said}");
    }
}

#[test]
fn equal_machines_are_rarely_said_to_differ() {
    let one_by_one = Machine {
        memory: 0.0,
        ..USUAL
    };
    let more = Machine {
        memory: 0.7,
        seconds: 120,
        ..USUAL
    };
    let short = Machine {
        seconds: 20,
        memory: 0.2,
        ..USUAL
    };
    assert_rarely_said_to_differ(&[
        ("hangs together a little", USUAL),
        ("does not hang together", one_by_one),
        ("hangs together", more),
        ("is short", short),
    ]);
}

/// Late samples in a few bursts per run, and a level that wanders very slowly, hidden by the noise
/// of each second, so that a second hardly predicts the next.
#[test]
fn bursts_and_slow_waves_rarely_mislead() {
    let bursts = Machine {
        each: 1_000,
        spread: 0.0,
        bursts: (0.02, 0.1, 0.02),
        ..USUAL
    };
    // Ten seconds in rows of a fifth of a second, so that a correlation over a second covers five
    // rows.
    let ten_seconds = Machine {
        seconds: 45,
        each: 400,
        memory: 0.87,
        ..USUAL
    };
    let with_bursts = Machine {
        each: 400,
        bursts: (0.04, 0.2, 0.02),
        ..ten_seconds
    };
    let with_drift = Machine {
        memory: 0.0,
        slow: 150.0,
        ..ten_seconds
    };
    let slow = Machine {
        seconds: 400,
        each: 40,
        memory: 0.0,
        slow: 150.0,
        ..USUAL
    };
    assert_rarely_said_to_differ(&[
        ("comes in bursts", bursts),
        ("has slow waves", slow),
        ("lasts ten seconds", ten_seconds),
        ("lasts ten seconds, with bursts", with_bursts),
        ("lasts ten seconds, with a drift", with_drift),
    ]);
}

/// Avoiding false alarms must not hide real differences. In this test, 400 ns is five times the
/// standard error of the median. Some of the differences are missed, because a drift can be just as
/// large.
#[test]
fn clear_differences_are_found_nearly_always() {
    let shifted = Machine {
        shift: 400.0,
        ..USUAL
    };
    let found = (0..60).filter(|pair| {
        let comparison =
            comparison_between(&USUAL.run(5_000 + 2 * pair), &shifted.run(5_001 + 2 * pair));
        comparison.change == Change::Worse
    });
    let found = found.count();
    eprintln!("{found} of 60 shifts found");
    assert!(found >= 40, "{found}");
}

/// The interval contains the true value in about 95 of 100 pairs, or a few more.
#[test]
fn intervals_hold_the_truth() {
    let shifted = Machine {
        shift: 300.0,
        ..USUAL
    };
    let held = (0..100).filter(|pair| {
        let comparison =
            comparison_between(&USUAL.run(1_000 + 2 * pair), &shifted.run(1_001 + 2 * pair));
        // A run whose level changes all the time gets no estimate.
        let Some(estimate) = comparison.channels[0].quantiles[0].estimate else {
            return true;
        };
        // The scale has steps of 10 ns.
        (estimate.difference_low - 10.0..=estimate.difference_high + 10.0).contains(&300.0)
    });
    let held = held.count();
    eprintln!("{held} of 100 intervals hold the truth");
    assert!(held >= 89, "{held}");
}

#[test]
fn shift_is_found_with_sign_and_size() {
    let a = USUAL.run(1);
    let b = Machine {
        shift: 800.0,
        ..USUAL
    }
    .run(2);
    let comparison = comparison_between(&a, &b);
    assert_eq!(comparison.change, Change::Worse);
    assert!(
        comparison.summary.starts_with("candidate: p50 higher by"),
        "{}",
        comparison.summary
    );
    let back = comparison_between(&b, &a);
    assert_eq!(back.change, Change::Better);
    assert!(back.summary.contains("p50 lower by"), "{}", back.summary);
}

/// Only the tail is longer: the median stays the same, and p99 changes.
#[test]
fn longer_tail_changes_only_the_tail() {
    let machine = Machine {
        spread: 60.0,
        each: 400,
        ..USUAL
    };
    let a = machine.run(1);
    let mut b = machine.run(2);
    let thread = &mut b.threads[0].histogram;
    for row in &mut b.series.rows {
        let mut more = Histogram::new();
        more.add_interval(row);
        (0..6).for_each(|_| more.record(SignedNanos(40_000)));
        row.count = more.recorded();
        row.histogram = more.buckets();
        (0..6).for_each(|_| thread.record(SignedNanos(40_000)));
    }
    let comparison = comparison_between(&a, &b);
    let changes: Vec<Change> = comparison.channels[0]
        .quantiles
        .iter()
        .map(|one| one.change)
        .collect();
    assert_eq!(changes[2], Change::Worse, "{}", comparison.summary);
    assert_ne!(changes[0], Change::Worse, "{}", comparison.summary);
    let later = comparison.channels[0].later.probability.unwrap();
    assert!((0.45..0.55).contains(&later), "{later}");
}

#[test]
fn missed_periods_are_found() {
    let comparison = comparison_between(&USUAL.run(1), &Machine { missed: 3, ..USUAL }.run(2));
    let missed = &comparison.channels[0].rates[0];
    assert_eq!(missed.change, Change::Worse, "{missed:?}");
    assert_eq!(
        (
            missed.baseline.unwrap().count,
            missed.candidate.unwrap().count
        ),
        (0, 90)
    );
    assert!(
        comparison.summary.contains("missed"),
        "{}",
        comparison.summary
    );
}

#[test]
fn samples_from_a_limit_on_are_counted() {
    let slower = Machine {
        scale: 2.0,
        ..USUAL
    };
    let options = Options {
        threshold: Some(Nanos(6_000)),
        ..options()
    };
    let comparison = compare(&USUAL.run(1), &slower.run(2), &options).unwrap();
    let late = &comparison.channels[0].rates[1];
    assert_eq!(late.what, "from 6.00 µs on");
    assert_eq!(late.change, Change::Worse, "{late:?}");
    let counted = |machine: Machine, seed| {
        let histogram = machine.run(seed).threads.remove(0).histogram;
        let late = histogram.buckets();
        let late = late.iter().filter(|(lower, ..)| *lower >= 6_000);
        late.map(|(.., count)| count).sum::<u64>()
    };
    assert_eq!(late.baseline.unwrap().count, counted(USUAL, 1));
    assert_eq!(late.candidate.unwrap().count, counted(slower, 2));
}

#[test]
fn too_little_is_unknown_and_said_why() {
    let short = Machine {
        seconds: 5,
        ..USUAL
    };
    let comparison = comparison_between(&USUAL.run(1), &short.run(2));
    assert_eq!(comparison.change, Change::Unknown);
    let channel = &comparison.channels[0];
    let why = channel.no_blocks.as_deref().unwrap();
    assert!(
        why.contains("candidate has 5 rows") && why.contains("10 are needed"),
        "{why}"
    );
    // The shortfall is reported once for all figures, with the length that would be enough.
    let short = &comparison.shortfalls;
    assert_eq!(short[0].why, why);
    assert_eq!(short[0].measure_ns, Some(Nanos::from_secs(20)));
    assert!(short[0].figures.is_empty());
    let of_whole = short.iter().filter(|one| one.figures.is_empty());
    assert_eq!(of_whole.count(), 1, "{short:?}");
    // The figures themselves are still present.
    assert!(channel.quantiles[0].difference_ns.is_some());
    assert!(channel.later.probability.is_some() && channel.later.low.is_none());
    assert!(
        comparison.summary.starts_with("inconclusive: p50"),
        "{}",
        comparison.summary
    );

    let mut other = USUAL.run(2);
    other.probe.name = "signal".to_owned();
    assert!(compare(&USUAL.run(1), &other, &options()).is_err());
    let empty = Machine {
        seconds: 0,
        ..USUAL
    }
    .run(1);
    assert!(compare(&empty, &USUAL.run(1), &options()).is_err());
}

/// A figure that rises all the time is neither judged nor reported as equal.
#[test]
fn what_is_too_slow_is_unknown() {
    let machine = Machine {
        spread: 0.0,
        ..USUAL
    };
    let mut rising = machine.run(1);
    let mut all = Histogram::new();
    for (row, second) in rising.series.rows.iter_mut().zip(0..) {
        let mut one = Histogram::new();
        (0..120).for_each(|sample| one.record(SignedNanos(3_000 + 40 * second + sample)));
        row.histogram = one.buckets();
        all.merge(&one);
    }
    rising.threads[0].histogram = all;
    let options = Options {
        quantiles: vec![0.5],
        ..options()
    };
    let comparison = compare(&machine.run(2), &rising, &options).unwrap();
    assert_eq!(comparison.change, Change::Unknown, "{}", comparison.summary);
    let median = &comparison.channels[0].quantiles[0];
    let why = median.not_known.as_deref().unwrap();
    assert!(why.starts_with("candidate run too short"), "{why}");
    assert!(median.estimate.is_none() && comparison.channels[0].later.low.is_none());
}

#[test]
fn unknown_latency_is_no_lack_of_samples() {
    let with_unknown = |seed| {
        let mut run = USUAL.run(seed);
        let histogram = &mut run.threads[0].histogram;
        histogram.add_unplaced(histogram.recorded() / 4, Nanos::from_secs(1));
        run
    };
    let options = Options {
        quantiles: vec![0.5, 0.9, 0.999_999_999],
        ..options()
    };
    let comparison = compare(&with_unknown(1), &with_unknown(2), &options).unwrap();
    let quantiles = &comparison.channels[0].quantiles;
    let why = |place: usize| quantiles[place].not_known.as_deref().unwrap_or_default();
    assert!(quantiles[0].baseline_ns.is_some());
    assert!(
        why(1).contains("among samples of unknown latency"),
        "{}",
        why(1)
    );
    assert!(why(2).contains("too few samples above it"), "{}", why(2));
}

#[test]
fn quantile_claim_needs_samples_above() {
    let machine = Machine {
        seconds: 60,
        each: 10,
        ..USUAL
    };
    let options = Options {
        quantiles: vec![0.5, 0.99, 0.999],
        ..options()
    };
    let comparison = compare(&machine.run(1), &machine.run(2), &options).unwrap();
    let quantiles = &comparison.channels[0].quantiles;
    assert!(quantiles[0].estimate.is_some());
    // With six samples above the quantile, there is a value but no interval.
    assert!(quantiles[1].baseline_ns.is_some() && quantiles[1].estimate.is_none());
    assert!(quantiles[2].baseline_ns.is_none());
}

/// Two runs of ten seconds with rows of the usual length. The tail of one run is five times as
/// long. The result must not be just "unknown".
#[test]
fn ten_seconds_reveal_fivefold_tail() {
    let run = Machine {
        seconds: 45,
        each: 400,
        memory: 0.5,
        ..USUAL
    };
    let late = Machine {
        bursts: (0.8, 0.2, 0.03),
        ..run
    };
    let found = (0..40).filter(|pair| {
        let comparison =
            comparison_between(&run.run(9_000 + 2 * pair), &late.run(9_001 + 2 * pair));
        let p99 = &comparison.channels[0].quantiles[2];
        assert!(p99.ratio.unwrap() > 2.0, "{}", comparison.summary);
        p99.change == Change::Worse
    });
    let found = found.count();
    eprintln!("{found} of 40 tails found");
    assert!(found >= 25, "{found}");
    // If there are too few rows, the sentence still reports the observed ratio.
    let short = Machine { seconds: 9, ..late };
    let comparison = comparison_between(&run.run(1), &short.run(2));
    assert!(
        comparison.summary.contains("p99 (x "),
        "{}",
        comparison.summary
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_same_recording_differs_in_nothing(seed in any::<u64>(), seconds in 1u64..50) {
        let machine = Machine { seconds, each: 40, missed: seed % 3, ..USUAL };
        let recording = machine.run(seed);
        let comparison = comparison_between(&recording, &recording);
        prop_assert!(matches!(comparison.change, Change::NoneFound | Change::Unknown));
        for one in &comparison.channels[0].quantiles {
            prop_assert!(one.difference_ns.is_none_or(|ns| ns.0 == 0));
            prop_assert!(one.estimate.is_none_or(|estimate| estimate.p == 1.0));
        }
        prop_assert!((comparison.channels[0].later.probability.unwrap() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn swapping_swaps_the_signs(seed in any::<u64>(), shift in -2_000f64..2_000.0) {
        let a = Machine { each: 60, ..USUAL }.run(seed);
        let b = Machine { each: 60, shift, ..USUAL }.run(!seed);
        let (there, back) = (comparison_between(&a, &b), comparison_between(&b, &a));
        let channels = there.channels[0].quantiles.iter().zip(&back.channels[0].quantiles);
        for (there, back) in channels {
            prop_assert_eq!(there.difference_ns.map(|ns| ns.0), back.difference_ns.map(|ns| -ns.0));
            prop_assert_eq!((there.baseline_ns, there.candidate_ns), (back.candidate_ns, back.baseline_ns));
        }
        let later = |comparison: &Comparison| comparison.channels[0].later.probability.unwrap();
        prop_assert!((later(&there) + later(&back) - 1.0).abs() < 1e-9);
        // If the two machines are far apart, no draw has the wrong sign. Another test counts with
        // fixed seeds how often the difference is found (`shift_is_found_with_sign_and_size`).
        if shift.abs() > 1_000.0 {
            let wrong = if shift > 0.0 {
(Change::Better, Change::Worse)
} else {
(Change::Worse, Change::Better)
};
            prop_assert!(there.change != wrong.0 && back.change != wrong.1);
        }
    }

    #[test]
    fn no_recording_panics(
        latencies in prop::collection::vec(any::<i64>(), 1..60),
        rows in prop::collection::vec((0u32..3, 0u64..20, any::<u64>(), any::<u64>()), 0..60),
        quantiles in prop::collection::vec(0.0..1.0f64, 0..4),
        threshold in any::<u64>(),
    ) {
        let mut recording = testing::recording(2, 2);
        for ns in &latencies {
            recording.threads[0].histogram.record(SignedNanos(*ns));
        }
        for (thread, start, count, missed) in rows {
            let row = recording.series.rows[0].clone();
            // Counts that a file may contain. Their sum must not overflow.
            let (count, missed) = (count >> 8, missed >> 8);
            recording.series.rows.push(IntervalRow {
                thread,
                start_ns: Nanos(start),
                count,
                missed,
                ..row
            });
        }
        let options = Options {
            quantiles,
            threshold: Some(Nanos(threshold)),
            replicates: 20,
            ..Options::default()
        };
        let other = testing::recording(2, 30);
        for (a, b) in [(&recording, &other), (&other, &recording)] {
            let comparison = compare(a, b, &options).unwrap();
            let json = serde_json::to_string(&comparison).unwrap();
            prop_assert_eq!(serde_json::from_str::<Comparison>(&json).unwrap(), comparison);
        }
    }
}
