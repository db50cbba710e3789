use punctual_model::{Histogram, SignedNanos};

use super::*;
use crate::blocks::join;

fn centred(values: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let mean = values.clone().sum::<f64>() / values.clone().count() as f64;
    values.map(|value| value - mean).collect()
}

/// The more a figure is correlated, the longer its blocks must be. They are not longer than needed.
#[test]
fn correlated_figures_need_more_intervals() {
    let all = [0.0, 0.3, 0.6, 0.8, 0.9, 0.97].map(|memory| {
        let needed = intervals_needed(memory).unwrap();
        let length = needed / LEAST_BLOCKS - 2;
        assert_eq!((length + 2) * LEAST_BLOCKS, needed);
        assert!(inflation(memory, length) <= INFLATION_MOST);
        assert!(length == 1 || inflation(memory, length - 1) > INFLATION_MOST);
        length
    });
    assert_eq!(all[0], 1);
    assert!(all.is_sorted() && all[5] > 10 * all[2], "{all:?}");
    // Such a figure drifts, so no length is enough.
    assert_eq!([0.98, 0.99, 1.0].map(intervals_needed), [None; 3]);
}

#[test]
fn the_slowest_waves_are_what_counts() {
    // A single value contributes equally to each wave, like uncorrelated values.
    let spike = centred((0..64).map(|n| if n == 20 { 1.0 } else { 0.0 }));
    let (slow, waves) = long_run(&spike);
    assert!((0.5..2.0).contains(&slow) && waves == 3, "{slow}");
    // Alternating values form the fastest possible wave, and contribute almost nothing to the
    // slow waves.
    let fast = centred((0..64).map(|n| f64::from(n % 2)));
    assert!(long_run(&fast).0 < 0.1, "{:?}", long_run(&fast));
    // If all variation is in the sixth wave (a cosine of six half turns), six waves are used.
    // If it is in the first, two are used, with three times their excess over the rest.
    let wave =
        |nth: f64| move |n: i32| (std::f64::consts::PI * nth * (f64::from(n) + 0.5) / 64.0).cos();
    let (slow, waves) = long_run(&centred((0..64).map(wave(6.0))));
    assert!((slow - 63.0 / 6.0).abs() < 1e-9 && waves == 6, "{slow}");
    let (slow, waves) = long_run(&centred((0..64).map(wave(1.0))));
    let drift = 1.0 + 3.0 * (63.0 / 2.0 - 1.0);
    assert!((slow - drift).abs() < 1e-9 && waves == 2, "{slow}");
    assert_eq!(long_run(&[0.0; 12]), (1.0, 6));
}

/// A run of intervals with `each(n)` of 100 samples late.
fn run(number: usize, each: impl Fn(usize) -> usize) -> (Scale, Blocks) {
    let histograms = (0..number).map(|n| {
        let mut histogram = Histogram::new();
        (0..100).for_each(|k| {
            let late = k < each(n);
            histogram.record(SignedNanos(if late { 20_000 } else { 3_000 }));
        });
        histogram
    });
    let histograms: Vec<Histogram> = histograms.collect();
    let scale = Scale::from_histograms(histograms.iter());
    let segments = histograms.iter().map(|histogram| {
        let mut segment = Segment::default();
        segment.add(&scale, &histogram.buckets(), 0);
        segment
    });
    let blocks = join(segments.collect()).unwrap();
    (scale, blocks)
}

#[test]
fn one_burst_is_one_witness() {
    // 60 late samples in a minute: either one in each second, or all of them in six consecutive
    // seconds.
    let (scale, spread_out) = run(60, |n| 1 + n * 7 % 3 - n * 5 % 2);
    let (_, burst) = run(60, |n| if (30..36).contains(&n) { 10 } else { 0 });
    let (_, none) = run(60, |_| 0);
    let p99 = [Figure::Quantile(0.999)];
    let p = |run: &Blocks| quantile_p(&scale, &p99, [&none, run])[0].unwrap();
    assert!(p(&spread_out) < 0.01, "{}", p(&spread_out));
    assert!(p(&burst) > 0.05, "{}", p(&burst));
    assert_eq!(p(&none), 1.0);
}

#[test]
fn what_only_rises_is_too_slow() {
    let (scale, rising) = run(60, |n| n);
    let found = of_all(&scale, &[Figure::Quantile(0.7)], [&rising, &rising]);
    assert_eq!(found.len(), 2);
    assert!(
        found.iter().flatten().all(|side| side.too_slow),
        "{found:?}"
    );
    let (scale, steady) = run(60, |n| 40 + n * 7 % 5);
    let found = of_all(&scale, &[Figure::Quantile(0.7)], [&steady, &steady]);
    assert!(
        !found.iter().flatten().any(|side| side.too_slow),
        "{found:?}"
    );
}

#[test]
fn halves_that_differ_are_a_drift() {
    let noise = |n: usize| (n * 7 % 5) as f64;
    let steady: Vec<f64> = (0..40).map(noise).collect();
    let stepped: Vec<f64> = (0..40)
        .map(|n| noise(n) + if n < 20 { 0.0 } else { 3.0 })
        .collect();
    assert!(!halves_differ(&steady, 0.0) && halves_differ(&stepped, 0.0));
    // Strong correlation makes the halves differ.
    assert!(!halves_differ(&stepped, 0.9));
    assert!(!halves_differ(&[], 0.0) && !halves_differ(&[1.0], 0.0));
}

#[test]
fn degrees_of_freedom_follow_varying_side() {
    assert_eq!(welch([1.0, 1.0], [8.0, 8.0]), 16.0);
    assert!((welch([1.0, 0.0], [4.0, 8.0]) - 4.0).abs() < 1e-12);
    assert_eq!(welch([0.0, 0.0], [4.0, 8.0]), 4.0);
}

impl LongRun {
    /// A variation with this variance ratio and these degrees of freedom.
    pub(crate) fn made_up(wider: f64, freedom: f64) -> Self {
        Self {
            wider,
            freedom,
            too_slow: false,
            intervals_needed: None,
            share: 0.0,
            variance: 0.0,
        }
    }
}

fn near(found: f64, expected: f64) {
    let apart = (found - expected).abs();
    assert!(
        apart < 1e-9 * expected.abs().max(1.0),
        "{found} is not {expected}"
    );
}

/// 64 values whose squares are divided among waves in these parts of 63. The mean of all waves is
/// then 1.
fn waves(parts: &[(u32, f64)]) -> Vec<f64> {
    let all: f64 = parts.iter().map(|(_, part)| part).sum();
    assert!((all - 63.0).abs() < 1e-9, "{all}");
    let value = |place: u32| -> f64 {
        let of_wave = |(nth, part): &(u32, f64)| {
            let turn = std::f64::consts::PI * f64::from(*nth) / 64.0;
            (part / 32.0).sqrt() * (turn * (f64::from(place) + 0.5)).cos()
        };
        parts.iter().map(of_wave).sum()
    };
    (0..64).map(value).collect()
}

/// The widest interval of 3 to 8 waves, and of the first two waves with three times their excess.
#[test]
fn widest_interval_decides_the_number_of_waves() {
    let equal: Vec<(u32, f64)> = (1..64).map(|nth| (nth, 1.0)).collect();
    type Case<'a> = (&'a [(u32, f64)], f64, usize);
    let cases: [Case<'_>; 10] = [
        (&equal, 1.0, 3),
        // The mean of the first two is 2: 2 + 2 * (2 - 1), with three degrees of freedom.
        (&[(1, 2.0), (2, 2.0), (40, 59.0)], 4.0, 3),
        // Their mean is 2.6, which is a plain drift.
        (&[(1, 3.0), (2, 2.2), (40, 57.8)], 5.8, 2),
        (&[(1, 1.0), (2, 3.8), (40, 58.2)], 5.2, 3),
        (&[(3, 63.0)], 21.0, 3),
        (&[(4, 63.0)], 15.75, 4),
        (&[(5, 63.0)], 12.6, 5),
        (&[(7, 63.0)], 9.0, 7),
        (&[(8, 63.0)], 7.875, 8),
        (&[(8, 24.0), (3, 3.0), (30, 36.0)], 3.375, 8),
    ];
    for (parts, slow, number) in cases {
        let (found, waves) = long_run(&waves(parts));
        near(found, slow);
        assert_eq!(waves, number, "{parts:?}");
    }
    let (fast, _) = long_run(&waves(&[(9, 63.0)]));
    assert!(fast < 1e-12, "{fast}");
}

/// Four values have two waves. 1, -1, -1, 1 is the second of them.
#[test]
fn short_runs_have_few_waves() {
    let (found, waves) = long_run(&[1.0, -1.0, -1.0, 1.0]);
    near(found, 2.5);
    assert_eq!(waves, 3);
    assert_eq!(long_run(&[1.0, -2.0, 1.0]), (1.0, 1));
    assert_eq!(long_run(&[]), (1.0, 1));
}

/// The shift `s` of the second half is a drift if s^2 > 0.4 (40/39) (1 + s^2/4) times the
/// correlation's factor, with the noise 1, -1 and so on in 40 values.
#[test]
fn least_shift_of_a_half_is_known() {
    let drifts = |shift: f64, memory: f64| {
        let noise = |n: usize| if n.is_multiple_of(2) { 1.0 } else { -1.0 };
        let value = |n: usize| noise(n) + if n < 20 { 0.0 } else { shift };
        halves_differ(&(0..40).map(value).collect::<Vec<f64>>(), memory)
    };
    for (least, memory) in [(0.676_12, 0.0), (1.333_33, 0.5)] {
        for sign in [-1.0, 1.0] {
            assert!(!drifts(sign * least * 0.999, memory), "{least}");
            assert!(drifts(sign * least * 1.001, memory), "{least}");
        }
    }
    // The value in the middle of an odd number belongs to no half, but to the variance.
    let middle = |value| halves_differ(&[-1.0, -1.0, -1.0, value, 1.0, 1.0, 1.0], 0.0);
    assert!(middle(0.0) && !middle(10.0));
}

/// Baseline samples: two early ones, then 1, 2, 0 and 1 at the values.
#[test]
fn share_of_earlier_samples_is_that_of_pairs() {
    let other = Counts {
        each: vec![1, 2, 0, 1],
        early: 2,
        missed: 9,
    };
    let (early, each) = later_than(&other);
    near(early, 1.0 / 6.0);
    for (found, known) in each.iter().zip([2.5, 4.0, 5.0, 5.5]) {
        near(*found, known / 6.0);
    }
    let segment = Segment {
        filled: vec![(0, 3), (3, 2)],
        early: 1,
        missed: 0,
    };
    near(weigh(&segment, &each), (3.0 * 2.5 + 2.0 * 5.5) / 6.0);
}

/// A run of these blocks: samples at three values, early samples and missed periods.
fn blocks(each: &[([u64; 3], u64, u64)]) -> Blocks {
    let segment = |(filled, early, missed): &([u64; 3], u64, u64)| Segment {
        filled: (0..).zip(*filled).collect(),
        early: *early,
        missed: *missed,
    };
    let each: Vec<Segment> = each.iter().map(segment).collect();
    Blocks {
        intervals: each.clone(),
        each,
        length: 1,
    }
}

fn three_values() -> Scale {
    let mut histogram = Histogram::new();
    for ns in [10, 20, 30] {
        histogram.record(SignedNanos(ns));
    }
    Scale::from_histograms([&histogram].into_iter())
}

/// The share of each figure is the figure itself, and the last one is the probability that the
/// other side is earlier.
#[test]
fn shares_are_the_figures() {
    let runs = [
        blocks(&[
            ([5, 3, 2], 1, 4),
            ([7, 2, 1], 0, 0),
            ([4, 3, 3], 2, 1),
            ([6, 2, 2], 1, 0),
        ]),
        blocks(&[
            ([2, 3, 5], 0, 1),
            ([1, 2, 7], 3, 0),
            ([3, 3, 4], 0, 2),
            ([2, 2, 6], 1, 5),
        ]),
    ];
    let scale = three_values();
    let counts = [0, 1].map(|side| counted(&scale, runs[side].each.iter()));
    assert_eq!(counts[0].each, [22, 10, 8, 0]);
    let figures = [
        Figure::Missed,
        Figure::From(1),
        Figure::From(2),
        Figure::Quantile(0.5),
    ];
    let found = of_all(&scale, &figures, [&runs[0], &runs[1]]);
    for side in [0, 1] {
        for (figure, found) in figures[..3].iter().zip(&found) {
            near(
                found[side].share,
                figure.value(&scale, &counts[side]).unwrap(),
            );
        }
    }
    // The median of the first run is the first value, and that of the second the last one.
    near(found[3][0].share, 1.0);
    near(found[3][1].share, 22.0 / 40.0);
    near(found[4][1].share, counts[0].later(&counts[1]).unwrap());
    near(found[4][0].share, counts[1].later(&counts[0]).unwrap());
    // Without samples, no share is above zero.
    let none = blocks(&[([0, 0, 0], 0, 3); 12]);
    let found = of_all(&scale, &figures, [&none, &none]);
    assert_eq!(
        (found[0][0].share, found[1][0].share, found[3][1].share),
        (1.0, 0.0, 0.0)
    );
}

/// Shares of 40 and 42 of 100 in turn: no slow wave, so the variance is that of the 60 blocks,
/// each 1 from the mean.
#[test]
fn variance_is_that_of_the_blocks() {
    let each: Vec<([u64; 3], u64, u64)> = (0..60)
        .map(|n| ([60 - 2 * (n % 2), 40 + 2 * (n % 2), 0], 0, 0))
        .collect();
    let found = of_parts(&blocks(&each), above(1));
    near(found.share, 0.41);
    near(found.wider, 60.0 / 59.0);
    near(1e6 * found.variance, 60.0 / 59.0 * 60.0 / 36.0);
    assert!(!found.too_slow && found.intervals_needed.is_none());
    let flat = of_parts(&blocks(&[([1, 1, 0], 0, 0); 12]), above(1));
    assert_eq!((flat.share, flat.variance, flat.freedom), (0.5, 0.0, 6.0));
}

/// Levels that last for three intervals: a correlation of a third. Its error makes 36 of them too
/// few, and 120 enough.
#[test]
fn few_intervals_leave_the_correlation_uncertain() {
    let levels = |number: u64, lasting: u64| {
        let each: Vec<([u64; 3], u64, u64)> = (0..number)
            .map(|n| ([50, 40 + 20 * (n / lasting % 2), 0], 0, 0))
            .collect();
        of_parts(&blocks(&each), above(1))
    };
    let few = levels(36, 3);
    assert!(few.too_slow && few.intervals_needed.is_some(), "{few:?}");
    let enough = levels(120, 3);
    assert!(
        !enough.too_slow && enough.intervals_needed.is_none(),
        "{enough:?}"
    );
    // Blocks of one interval show only a third of the variance of such levels.
    let long = levels(120, 6);
    assert!(long.too_slow, "{long:?}");
    let needed = [few, long].map(|one| one.intervals_needed.unwrap());
    assert!(needed[0] < needed[1], "{needed:?}");
    let alternating = levels(120, 1);
    assert!(!alternating.too_slow && alternating.wider < enough.wider);
}

/// Probabilities of the t distribution for the difference of two shares.
#[test]
fn probability_of_a_quantile_is_that_of_the_shares() {
    let late = |shift: u64| {
        let each: Vec<([u64; 3], u64, u64)> = (0..60)
            .map(|n| {
                let late = 10 + n * 7 % 5 + shift;
                ([100 - late, late, 0], 0, 0)
            })
            .collect();
        blocks(&each)
    };
    let scale = three_values();
    let p = |a: &Blocks, b: &Blocks| {
        let figures = [Figure::Quantile(0.9), Figure::Missed, Figure::From(1)];
        let all = quantile_p(&scale, &figures, [a, b]);
        assert_eq!(all[1..], [None, None]);
        all[0].unwrap()
    };
    let runs = [0, 1, 2, 3].map(late);
    let found: Vec<f64> = runs.iter().map(|run| p(&runs[0], run)).collect();
    assert_eq!(found[0], 1.0);
    assert!(found.is_sorted_by(|a, b| a > b), "{found:?}");
    // The order of the sides does not matter.
    near(p(&runs[1], &runs[0]), found[1]);
    let [a, b] = [&runs[0], &runs[1]].map(|run| of_parts(run, above(1)));
    let distance = (b.share - a.share) / (a.variance + b.variance).sqrt();
    // Both sides vary equally, so their degrees of freedom add up.
    assert_eq!(a.freedom, b.freedom);
    let law = StudentsT::new(0.0, 1.0, 2.0 * a.freedom).unwrap();
    near(found[1], 2.0 * (1.0 - law.cdf(distance)));
    // Without variation, each difference is certain, and equal runs do not differ.
    let flat = |late: u64| blocks(&[([100 - late, late, 0], 0, 0); 12]);
    assert_eq!(
        (p(&flat(25), &flat(50)), p(&flat(25), &flat(25))),
        (0.0, 1.0)
    );
}

#[test]
fn degrees_of_freedom_are_those_of_welch() {
    near(
        welch([5.0, 10.0], [3.0, 8.0]),
        225.0 / (25.0 / 3.0 + 100.0 / 8.0),
    );
    near(
        welch([10.0, 5.0], [8.0, 3.0]),
        225.0 / (25.0 / 3.0 + 100.0 / 8.0),
    );
    near(welch([2.0, 2.0], [5.0, 5.0]), 10.0);
    near(welch([0.0, 3.0], [4.0, 8.0]), 8.0);
}

/// Many samples are equal to a quantile. The samples above it or those below it may drift.
#[test]
fn quantile_varies_as_the_samples_on_both_sides() {
    let of = |each: &dyn Fn(u64) -> [u64; 3]| {
        let each: Vec<([u64; 3], u64, u64)> = (0..40).map(|n| (each(n), 0, 0)).collect();
        let run = blocks(&each);
        let found = of_figure(
            Figure::Quantile(0.5),
            &run,
            &counted(&three_values(), run.each.iter()),
        );
        (found, of_parts(&run, above(1)), of_parts(&run, above(2)))
    };
    let (found, below, above) = of(&|n| [20, 80 - n, n]);
    assert!(found.too_slow && above.too_slow && !below.too_slow);
    assert_eq!(
        (found.share, found.wider),
        (0.8, below.wider.max(above.wider))
    );
    let (found, below, above) = of(&|n| [n, 80 - n, 20]);
    assert!(found.too_slow && !above.too_slow && below.too_slow);
    assert_eq!(
        (found.share, found.wider),
        (below.share, below.wider.max(above.wider))
    );
    // Levels of five intervals on one side make its blocks too short.
    let (found, below, _) = of(&|n| [20 + 10 * (n / 5 % 2), 50 - 10 * (n / 5 % 2), 30]);
    assert!(found.too_slow && below.intervals_needed.is_some());
    assert_eq!(found.intervals_needed, below.intervals_needed);
    let (found, _, above) = of(&|n| [30, 50 - 10 * (n / 5 % 2), 20 + 10 * (n / 5 % 2)]);
    assert_eq!(found.intervals_needed, above.intervals_needed);
    let (found, ..) = of(&|n| [20 + n * 7 % 5, 60 - n * 7 % 5, 20]);
    assert!(!found.too_slow && found.intervals_needed.is_none());
}
