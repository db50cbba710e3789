use super::*;

#[path = "../../examples/simulate/counts.rs"]
mod counts;
#[path = "../../examples/simulate/wander.rs"]
mod wander;
use counts::{Kind, count};

const EXPOSURE: u64 = 7_200_000;
const NONE: [usize; 0] = [];

/// A series with the given mean in each segment.
fn made_up(kind: Kind, segments: &[(usize, f64)], seed: u64) -> Vec<(u64, u64)> {
    let mut random = Rng::with_seed(seed);
    let each = segments.iter().flat_map(|(runs, mean)| vec![*mean; *runs]);
    each.map(|mean| (count(kind, mean, &mut random), EXPOSURE))
        .collect()
}

fn points(counts: &[(u64, u64)], seed: u64) -> Vec<usize> {
    let steps = steps_of(Values::Counts(counts.to_vec()), seed);
    steps.iter().map(|step| step.at).collect()
}

/// Returns the steps of a single series.
fn steps_of(values: Values, seed: u64) -> Vec<Step> {
    courses_of(&[vec![values]], seed).remove(0).remove(0).steps
}

#[test]
fn a_series_without_a_change_has_none() {
    for kind in [Kind::Poisson, Kind::Mixed(1.0), Kind::Mixed(0.3)] {
        let found = (0..20).map(|seed| points(&made_up(kind, &[(224, 5.0)], seed), seed).len());
        assert_eq!(found.sum::<usize>(), 0, "{kind:?}");
    }
    let equal = vec![(3, EXPOSURE); 40];
    assert_eq!(points(&equal, 1), NONE);
    assert_eq!(points(&[], 1), NONE);
}

#[test]
fn a_step_is_found_where_it_is() {
    let kinds = [
        (Kind::Poisson, 20),
        (Kind::Mixed(1.0), 17),
        (Kind::Mixed(0.3), 5),
    ];
    for (kind, least) in kinds {
        let found = (0..20).filter(|seed| {
            let counts = made_up(kind, &[(112, 5.0), (112, 25.0)], *seed);
            points(&counts, *seed)
                .iter()
                .any(|at| at.abs_diff(112) <= 8)
        });
        let found = found.count();
        eprintln!("{kind:?}: {found} of 20");
        assert!(found >= least, "{kind:?}: {found}");
    }
}

#[test]
fn a_step_has_its_size_and_place() {
    let counts = made_up(Kind::Poisson, &[(60, 4.0), (60, 16.0)], 3);
    let steps = steps_of(Values::Counts(counts), 3);
    let [step] = steps.as_slice() else {
        panic!("{steps:?}");
    };
    assert!(step.earliest <= 60 && 60 <= step.latest, "{step:?}");
    assert!(step.interval.0 < 4.0 && 4.0 < step.interval.1, "{step:?}");
    assert!(step.p <= 0.001 && step.interval.0 > 2.0, "{step:?}");
}

#[test]
fn both_ends_of_a_period_are_found() {
    let segments = [(80, 6.0), (40, 0.5), (60, 6.0), (30, 0.5), (14, 6.0)];
    let found = points(&made_up(Kind::Poisson, &segments, 11), 11);
    let expected = [80usize, 120, 180, 210];
    assert_eq!(found.len(), 4, "{found:?}");
    let near = found
        .iter()
        .zip(expected)
        .all(|(at, truth)| at.abs_diff(truth) <= 2);
    assert!(near, "{found:?}");
}

#[test]
fn single_spiked_run_is_no_change() {
    for kind in [Kind::Poisson, Kind::Mixed(1.0)] {
        let mut counts = made_up(kind, &[(120, 2.0)], 5);
        counts[70].0 = 900;
        assert_eq!(points(&counts, 5), NONE, "{kind:?}");
        assert_eq!(spiked_counts(&counts), [70], "{kind:?}");
    }
    assert_eq!(
        spiked_counts(&made_up(Kind::Poisson, &[(200, 3.0)], 8)),
        NONE
    );
}

#[test]
fn a_lone_maximum_is_a_spike() {
    let mut random = Rng::with_seed(4);
    let mut maxima: Vec<f64> = (0..224).map(|_| 80.0 + 10.0 * random.f64()).collect();
    // There are no spikes at a lower level.
    maxima[150..].iter_mut().for_each(|max| *max /= 2.0);
    assert_eq!(spiked_maxima(&maxima, &[0, 150]), NONE);
    maxima[40] = 200.0;
    assert_eq!(spiked_maxima(&maxima, &[0, 150]), [40]);
    assert_eq!(spiked_maxima(&maxima[..7], &[]), NONE);
}

#[test]
fn exposure_is_no_change() {
    // The second half runs ten times as long, at the same rate.
    let mut random = Rng::with_seed(2);
    let counts: Vec<(u64, u64)> = (0..100)
        .map(|run| if run < 50 { 1 } else { 10 })
        .map(|times| {
            (
                count(Kind::Poisson, 3.0 * times as f64, &mut random),
                times * EXPOSURE,
            )
        })
        .collect();
    assert_eq!(points(&counts, 2), NONE);
}

#[test]
fn figures_are_judged_by_their_ranks() {
    let mut random = Rng::with_seed(9);
    let mut figures: Vec<f64> = (0..100).map(|_| 10.0 + random.f64()).collect();
    figures[50..].iter_mut().for_each(|figure| *figure += 2.0);
    // An extreme run does not affect the result.
    figures[20] = 1e9;
    let steps = steps_of(Values::Figures(figures.clone()), 1);
    let [step] = steps.as_slice() else {
        panic!("{steps:?}");
    };
    assert_eq!(step.at, 50);
    assert!((1.15..1.25).contains(&step.ratio), "{step:?}");
    assert!(steps_of(Values::Figures(vec![7.0; 60]), 1).is_empty());
}

#[test]
fn the_same_series_gives_the_same_answer() {
    let counts = Values::Counts(made_up(Kind::Mixed(1.0), &[(60, 2.0), (60, 12.0)], 6));
    let all = [
        vec![counts.clone()],
        vec![Values::Figures(vec![1.0; 30])],
        vec![counts],
    ];
    assert_eq!(courses_of(&all, 4), courses_of(&all, 4));
    assert_eq!(courses_of(&all, 4)[0], courses_of(&all, 4)[2]);
}

/// The table is correct: of new series without a step, the expected share reaches its values.
#[test]
fn critical_values_match_their_probabilities() {
    for (runs, phi) in [(16, 0.3), (64, 0.0), (64, 0.5), (180, 0.7)] {
        let mut random = Rng::with_seed(31);
        let series = 4_000;
        let mut below = 0;
        for _ in 0..series {
            let mut wander = wander::Wander::new(phi, &mut random);
            let levels: Vec<f64> = (0..runs).map(|_| wander.next(&mut random)).collect();
            let found = strongest(&levels).unwrap();
            below += u32::from(critical::p_of(found.statistic, runs, found.persistence) <= 0.05);
        }
        let share = f64::from(below) / f64::from(series);
        eprintln!("{runs} runs, phi {phi}: {share}");
        assert!(
            (0.002..0.08).contains(&share),
            "{runs} runs, phi {phi}: {share}"
        );
    }
}

#[test]
fn critical_values_hold_for_each_persistence() {
    let p = |statistic, persistence| critical::p_of(statistic, 224, persistence);
    for persistence in [0.0, 0.3, 0.7, 0.95] {
        assert!(p(3.0, persistence) > 0.05 && p(8.0, persistence) < 0.001);
    }
    assert!(p(4.0, 0.8) > p(4.0, 0.0));
    assert!(p(0.0, 0.0) == 1.0 && p(f64::INFINITY, 0.9) == 0.0);
    // For values beyond the table, the result is that of its edge.
    assert_eq!(p(6.0, 1.0), p(6.0, 2.0));
    assert_eq!(
        critical::p_of(5.0, 1_024, 0.5),
        critical::p_of(5.0, 9_000, 0.5)
    );
}

/// A step that only another figure shows is not a slow rise of this one.
#[test]
fn step_of_another_figure_is_no_drift() {
    let noise = |number: usize| 1.0 + 0.02 * ((number * 37 % 11) as f64 - 5.0);
    let stepped: Vec<f64> = (0..80)
        .map(|number| noise(number) * if number < 40 { 1_000.0 } else { 1_300.0 })
        .collect();
    let values = Values::Figures(stepped);
    let course = Course {
        steps: Vec::new(),
        drift: drift::since(&values, &values.levels(), 0, 1.0),
        level: 0.05,
    };
    assert!(course.drift.is_some_and(|drift| drift.may_be_step));
    assert_eq!(course.drift_since(&values, 40), None);
    // A rise that goes on after the step is still reported.
    let rising: Vec<f64> = (0..80)
        .map(|number| noise(number) * 1_000.0 * (1.0 + number as f64 / 40.0))
        .collect();
    let values = Values::Figures(rising);
    let drift = drift::since(&values, &values.levels(), 0, 0.05);
    let course = Course {
        steps: Vec::new(),
        drift,
        level: 0.05,
    };
    assert_eq!(course.drift_since(&values, 0), drift);
    let later = course.drift_since(&values, 40).unwrap();
    assert!(later.from == 40 && later.ratio > 1.2, "{later:?}");
}

/// Runs of 100 and 200 periods at the same rate: the mean exposure is 150.
#[test]
fn level_of_poisson_counts_is_a_square_root() {
    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
    let values = Values::Counts(vec![(10, 100), (20, 200)]);
    let levels = values.levels();
    near(levels[0], (10.375f64 * 1.5).sqrt());
    near(levels[1], (20.375f64 * 0.75).sqrt());
    near(values.at_level(15.375f64.sqrt()), 100_000.0);
    assert_eq!(
        [0.0, -3.0, 0.5].map(|level| values.at_level(level)),
        [0.0; 3]
    );
    let figures = Values::Figures(vec![20.0, 0.5]);
    near(figures.levels()[0], 20f64.ln());
    assert_eq!(figures.levels()[1], 0.0);
    near(figures.at_level(20f64.ln()), 20.0);
    // An empty series has no scale.
    assert!(Values::Counts(Vec::new()).levels().is_empty());
    near(Values::Counts(Vec::new()).at_level(1.0), 625_000.0);
}

/// Counts 4, 8 and 2 in one period each vary with the shape that the scan estimates from them.
#[test]
fn level_of_spread_counts_depends_on_their_shape() {
    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
    let mean = 14.0f64 / 3.0;
    let shape = (mean * mean + 48.0) / 15.0;
    let values = Values::Counts(vec![(4, 1), (8, 1), (2, 1)]);
    for (level, count) in values.levels().into_iter().zip([4.0, 8.0, 2.0]) {
        near(level.sinh().powi(2), (count + 0.375) / shape);
        // The level leads back to the count.
        assert!((values.at_level(level) / (1e6 * count) - 1.0).abs() < 1e-9);
    }
}

#[test]
fn range_of_a_step_ends_at_its_neighbours() {
    let of = |index: usize| ends(&[10, 20, 30], index, 40);
    assert_eq!([of(0), of(1), of(2)], [(0, 20), (10, 30), (20, 40)]);
    assert_eq!(ends(&[7], 0, 9), (0, 9));
    let enough = |runs: usize| Values::Figures(vec![1.0; runs]).is_enough();
    assert!(enough(8) && !enough(7));
    let values = |runs: usize| Values::Counts(vec![(1, 1); runs]);
    assert!(values(0).is_empty() && !values(1).is_empty() && values(3).len() == 3);
}

/// Of a family, only the series with the step has it, wherever the series is.
#[test]
fn steps_are_those_of_their_series() {
    let flat = |seed| Values::Counts(made_up(Kind::Poisson, &[(80, 9.0)], seed));
    let stepped = Values::Counts(made_up(Kind::Poisson, &[(30, 4.0), (50, 30.0)], 2));
    let families = [
        vec![flat(1)],
        vec![flat(3), stepped.clone(), Values::Figures(Vec::new())],
        Vec::new(),
        vec![stepped, flat(4)],
    ];
    let found: Vec<Vec<Vec<usize>>> = (courses_of(&families, 1).iter())
        .map(|family| {
            let places = |course: &Course| course.steps.iter().map(|step| step.at).collect();
            family.iter().map(places).collect()
        })
        .collect();
    let expected: [&[&[usize]]; 4] = [&[&[]], &[&[], &[30], &[]], &[], &[&[30], &[]]];
    assert_eq!(found, expected);
}

/// A few runs with high counts, which the Poisson likelihood takes for another level.
#[test]
fn burst_of_high_counts_does_not_hide_a_step() {
    let mut found = 0;
    for seed in 0..10 {
        let mut counts = made_up(Kind::Mixed(1.0), &[(70, 3.0), (70, 24.0)], seed);
        counts[20..23].iter_mut().for_each(|one| one.0 = 60);
        let places = points(&counts, seed);
        found += u32::from(places.iter().any(|at| at.abs_diff(70) <= 6));
    }
    assert!(found >= 7, "{found} of 10");
}

/// Permutations cannot show a smaller probability than one in their number: 1,000 for each family,
/// and twice as many if there are two likelihoods.
#[test]
fn number_of_permutations_limits_the_probability() {
    let flat = |seed: u64| {
        let mut random = Rng::with_seed(seed);
        Values::Figures((0..60).map(|_| 100.0 + random.f64()).collect())
    };
    let mut stepped: Vec<f64> = (0..60)
        .map(|run| 100.0 + (run * 7 % 11) as f64 / 10.0)
        .collect();
    stepped[30..].iter_mut().for_each(|one| *one *= 2.0);
    let stepped = Values::Figures(stepped);
    let p = |families: &[Vec<Values>]| courses_of(families, 1)[0][0].steps[0].p;
    let one = |values: Values| vec![values];
    assert_eq!(p(&[one(stepped.clone())]), 1.0 / 1_000.0);
    let four = [
        one(stepped.clone()),
        one(flat(1)),
        one(flat(2)),
        one(flat(3)),
    ];
    assert_eq!(p(&four), 1.0 / 4_000.0);
    let counts: Vec<(u64, u64)> = (0..60)
        .map(|run| (run * 7 % 11 + if run < 30 { 0 } else { 4_000 }, 100_000))
        .collect();
    assert!(Pairs::of_counts(&counts).is_spread());
    assert_eq!(p(&[one(Values::Counts(counts))]), 1.0 / 2_000.0);
    // The families share the error probability, and the series of a family share its part. At least
    // three families are assumed.
    let level = |families: &[Vec<Values>]| courses_of(families, 1)[0][0].level;
    assert!((level(&four[..1]) - 0.01).abs() < 1e-12 && (level(&four) - 0.0075).abs() < 1e-12);
    assert!((level(&[vec![stepped, flat(1)]]) - 0.005).abs() < 1e-12);
}

/// Permutations accept splits of levels that only wander. The second test refuses them, and leaves
/// the large step in the middle.
#[test]
fn wandering_levels_have_no_other_steps() {
    let (mut splits, mut found) = (0, [0, 0]);
    for seed in 0..12 {
        let mut random = Rng::with_seed(seed);
        let mut wander = wander::Wander::new(0.9, &mut random);
        let mut level = |run: usize, random: &mut Rng| {
            0.1 * wander.next(random) + if run < 60 { 0.0 } else { 2.0 }
        };
        let levels: Vec<f64> = (0..120)
            .map(|run| 1_000.0 * level(run, &mut random).exp())
            .collect();
        let stepped = vec![Values::Figures(levels)];
        splits += candidates_of(std::slice::from_ref(&stepped), 1, seed)[0][0].len();
        let steps = steps_of(stepped[0].clone(), seed);
        found[0] += usize::from(steps.iter().any(|step| step.at == 60));
        found[1] += steps.len();
    }
    assert!(splits >= 24 && found[0] >= 11, "{splits} {found:?}");
    assert!(found[1] <= 13, "{splits} {found:?}");
}
