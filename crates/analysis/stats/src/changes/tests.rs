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
