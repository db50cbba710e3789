//! Comparisons with several runs per side, in which the run is the unit.
//!
//! Wake-ups of one run share the conditions since its start, so two runs per side are only two
//! observations, however long the runs are. If there is no difference, each choice of the
//! baseline's runs among all runs is equally probable. The test is an exact rank test over all
//! choices (Fisher; Pitman, Supplement to the Journal of the Royal Statistical Society 4, 1937),
//! and assumes nothing about the distribution of figures. All figures are judged together by the
//! largest of their statistics in each permutation (Westfall and Young, Resampling-Based Multiple
//! Testing, 1993, 2.6).

use fastrand::Rng;

/// The values of a figure in each run: first those of the baseline, then those of the candidate.
pub(crate) type ByRun = [Vec<f64>; 2];

/// Maximum number of permutations. If there are no more than this, all are enumerated; otherwise,
/// this many are drawn.
const MOST: u64 = 50_000;

/// Significance level: p-values below it are significant.
pub(crate) const CHANCE: f64 = 0.05;

/// The results of all permutations for the figures.
#[derive(Debug, PartialEq)]
pub(crate) struct Permuted {
    /// The probability that such a difference occurs by chance, for each figure.
    pub(crate) p: Vec<Option<f64>>,
    /// The same p-values, adjusted for all figures.
    pub(crate) adjusted: Vec<Option<f64>>,
    /// Number of permutations.
    pub(crate) arrangements: u64,
}

/// Returns the number of ways to choose `few` of `all`. Saturates.
pub(crate) fn ways(all: u64, few: u64) -> u64 {
    (0..few.min(all - few.min(all))).fold(1u64, |ways, step| {
        let next = u128::from(ways) * u128::from(all - step) / u128::from(step + 1);
        u64::try_from(next).unwrap_or(u64::MAX)
    })
}

/// Returns the smallest two-sided p-value that this number of runs can give.
pub(crate) fn smallest_p([a, b]: [usize; 2]) -> f64 {
    (2.0 / ways((a + b) as u64, a as u64) as f64).min(1.0)
}

/// Returns the smallest number of runs per side that can give a p-value below [`CHANCE`].
pub(crate) fn enough_runs() -> usize {
    (1..)
        .find(|runs| smallest_p([*runs; 2]) < CHANCE)
        .unwrap_or(4)
}

/// Tests each known figure, and all of them together.
pub(crate) fn test(figures: &[Option<ByRun>], runs: [usize; 2], seed: u64) -> Permuted {
    let scores: Vec<Option<Vec<f64>>> = (figures.iter())
        .map(|figure| figure.as_ref().map(scores))
        .collect();
    let statistic = |scores: &[f64], chosen: &[usize]| -> f64 {
        chosen.iter().map(|place| scores[*place]).sum::<f64>().abs()
    };
    let all = runs[0] + runs[1];
    let first: Vec<usize> = (0..runs[0]).collect();
    let seen: Vec<Option<f64>> = (scores.iter())
        .map(|scores| scores.as_ref().map(|scores| statistic(scores, &first)))
        .collect();
    let mut counts = vec![[0u64; 2]; figures.len()];
    let mut look = |chosen: &[usize]| {
        let here: Vec<Option<f64>> = (scores.iter())
            .map(|scores| scores.as_ref().map(|scores| statistic(scores, chosen)))
            .collect();
        let largest = here.iter().flatten().copied().fold(0.0, f64::max);
        for ((count, seen), here) in counts.iter_mut().zip(&seen).zip(here) {
            if let (Some(seen), Some(here)) = (seen, here) {
                // The sum of the same ranks may differ in the last digit if they are added in
                // another order.
                count[0] += u64::from(here >= seen - 1e-9);
                count[1] += u64::from(largest >= seen - 1e-9);
            }
        }
    };
    let exact = ways(all as u64, runs[0] as u64);
    let arrangements = if exact <= MOST {
        each_choice(all, runs[0], &mut look);
        exact
    } else {
        let mut random = Rng::with_seed(seed);
        let mut places: Vec<usize> = (0..all).collect();
        // The observed order is one of the permutations.
        look(&first);
        for _ in 1..MOST {
            random.shuffle(&mut places);
            look(&places[..runs[0]]);
        }
        MOST
    };
    let share = |which: usize| {
        let known = seen.iter().zip(&counts);
        known
            .map(|(seen, count)| seen.map(|_| count[which] as f64 / arrangements as f64))
            .collect()
    };
    Permuted {
        p: share(0),
        adjusted: share(1),
        arrangements,
    }
}

/// Returns ranks relative to their mean, in units of their spread. Equal values share a rank.
fn scores(figure: &ByRun) -> Vec<f64> {
    let values: Vec<f64> = figure.iter().flatten().copied().collect();
    let number = values.len() as f64;
    let rank = |value: f64| {
        let below = values.iter().filter(|other| **other < value).count() as f64;
        let equal = values.iter().filter(|other| **other == value).count() as f64;
        below + (equal + 1.0) / 2.0
    };
    let mean = (number + 1.0) / 2.0;
    let apart: Vec<f64> = values.iter().map(|value| rank(*value) - mean).collect();
    let spread = apart.iter().map(|rank| rank * rank).sum::<f64>().sqrt();
    let unit = if spread > 0.0 { spread } else { 1.0 };
    apart.into_iter().map(|rank| rank / unit).collect()
}

/// Enumerates the choices of `few` of `all` indexes, in ascending order.
fn each_choice(all: usize, few: usize, look: &mut impl FnMut(&[usize])) {
    let mut chosen: Vec<usize> = (0..few).collect();
    loop {
        look(&chosen);
        let Some(place) = (0..few)
            .rev()
            .find(|place| chosen[*place] < all - few + place)
        else {
            return;
        };
        chosen[place] += 1;
        for later in place + 1..few {
            chosen[later] = chosen[later - 1] + 1;
        }
    }
}

/// Returns the interval that contains the true shift with at least 95% confidence. Its ends are two
/// of the differences (or ratios) between the candidate runs and the baseline runs (Hodges and
/// Lehmann, Annals of Mathematical Statistics 34, 1963). `None` if there are too few runs.
pub(crate) fn interval(figure: &ByRun, apart: impl Fn(f64, f64) -> f64) -> Option<(f64, f64)> {
    let [a, b] = figure;
    let mut each: Vec<f64> = (a.iter())
        .flat_map(|a| b.iter().map(|b| apart(*a, *b)))
        .collect();
    each.sort_by(f64::total_cmp);
    let left_out = left_out(a.len(), b.len())?;
    Some((each[left_out], each[each.len() - 1 - left_out]))
}

/// Returns the number of sorted differences outside the interval on each side, from the
/// distribution of the Mann-Whitney count, which is calculated by its recurrence.
fn left_out(a: usize, b: usize) -> Option<usize> {
    // Calculates, row by row, the number of ways to get each count, for 0 to `a` and 1 to `b` runs.
    let mut ways: Vec<Vec<f64>> = vec![vec![1.0]; a + 1];
    for other in 1..=b {
        for one in 1..=a {
            // The largest value belongs either to one side or to the other.
            let mut sum = vec![0.0; one * other + 1];
            for (count, ways) in ways[one].iter().enumerate() {
                sum[count + one] += ways;
            }
            for (count, ways) in ways[one - 1].iter().enumerate() {
                sum[count] += ways;
            }
            ways[one] = sum;
        }
    }
    let all: f64 = ways[a].iter().sum();
    let mut below = 0.0;
    let within = ways[a].iter().take_while(|ways| {
        below += *ways;
        below / all <= CHANCE / 2.0
    });
    within.count().checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(a: &[f64], b: &[f64]) -> Option<ByRun> {
        Some([a.to_vec(), b.to_vec()])
    }

    #[test]
    fn p_is_that_of_the_table() {
        // Fully separated: 2 of all permutations. R: wilcox.test(1:4, 5:8)$p.value.
        let found = test(&[figure(&[1., 2., 3., 4.], &[5., 6., 7., 8.])], [4, 4], 1);
        assert_eq!((found.p[0], found.arrangements), (Some(2.0 / 70.0), 70));
        assert_eq!(found.adjusted, found.p);
        // wilcox.test(c(1.1,2.2,3.3,0.4), c(2.5,3.6,4.1,5.2,1.9)) gives W = 3, 0.1111.
        let mixed = figure(&[1.1, 2.2, 3.3, 0.4], &[2.5, 3.6, 4.1, 5.2, 1.9]);
        let found = test(&[mixed], [4, 5], 1);
        assert!(
            (found.p[0].unwrap() - 14.0 / 126.0).abs() < 1e-12,
            "{found:?}"
        );
        let same = test(&[figure(&[1.; 4], &[1.; 4]), None], [4, 4], 1);
        assert_eq!(same.p, [Some(1.0), None]);
    }

    #[test]
    fn figures_are_judged_together() {
        // If a second figure ranks the runs in the same order, the p-value does not change. If it
        // ranks them differently, the p-value doubles.
        let one = figure(&[1., 2., 3., 4.], &[5., 6., 7., 8.]);
        let found = test(&[one.clone(), one.clone()], [4, 4], 1);
        assert_eq!(found.adjusted, [Some(2.0 / 70.0); 2]);
        let other = figure(&[1., 3., 5., 7.], &[2., 4., 6., 8.]);
        let found = test(&[one, other], [4, 4], 1);
        assert_eq!(found.p[0], Some(2.0 / 70.0));
        assert_eq!(found.adjusted[0], Some(4.0 / 70.0));
    }

    #[test]
    fn the_fewest_runs_are_known() {
        assert_eq!((ways(6, 3), ways(8, 4), ways(2, 0)), (20, 70, 1));
        assert_eq!(ways(200, 100), u64::MAX);
        assert!((smallest_p([3, 3]) - 0.1).abs() < 1e-12);
        assert_eq!(smallest_p([1, 1]), 1.0);
        assert_eq!(enough_runs(), 4);
    }

    #[test]
    fn the_interval_leaves_out_what_it_may() {
        // With three runs per side, no difference can be excluded, and the confidence of the
        // interval is only 90%.
        assert_eq!(left_out(3, 3), None);
        assert_eq!(left_out(4, 4), Some(0));
        // From the table of the two-sided Mann-Whitney test at 5%: 2 for 5 and 5 values, 23 for 10
        // and 10.
        assert_eq!(left_out(5, 5), Some(2));
        assert_eq!(left_out(10, 10), Some(23));
        let shifted = figure(&[1., 2., 3., 4.], &[11., 12., 13., 14.]).unwrap();
        assert_eq!(interval(&shifted, |a, b| b - a), Some((7.0, 13.0)));
    }

    #[test]
    fn many_runs_are_drawn_from() {
        let a: Vec<f64> = (0..20).map(f64::from).collect();
        let b: Vec<f64> = a.iter().map(|value| value + 30.0).collect();
        let found = test(&[figure(&a, &b)], [20, 20], 7);
        assert_eq!(found.arrangements, MOST);
        assert_eq!(found.p[0], Some(1.0 / MOST as f64));
        assert_eq!(found, test(&[figure(&a, &b)], [20, 20], 7));
    }

    #[test]
    fn choices_are_counted_and_listed() {
        for (all, few, number) in [
            (5, 2, 10),
            (10, 3, 120),
            (10, 7, 120),
            (52, 5, 2_598_960),
            (9, 9, 1),
        ] {
            assert_eq!(ways(all, few), number, "{few} of {all}");
        }
        let mut listed = Vec::new();
        each_choice(4, 2, &mut |chosen: &[usize]| listed.push(chosen.to_vec()));
        assert_eq!(listed, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]);
        let mut number = 0;
        each_choice(9, 4, &mut |chosen: &[usize]| {
            assert!(chosen.is_sorted_by(|a, b| a < b) && chosen[3] < 9);
            number += 1;
        });
        assert_eq!(number, ways(9, 4));
        for ([a, b], p) in [
            ([1, 1], 1.0),
            ([2, 2], 1.0 / 3.0),
            ([3, 4], 2.0 / 35.0),
            ([1, 60], 2.0 / 61.0),
        ] {
            assert!((smallest_p([a, b]) - p).abs() < 1e-12, "{a} {b}");
        }
    }

    /// Ranks 1, 2.5, 2.5 and 4, minus their mean of 2.5. Their squares add up to 4.5.
    #[test]
    fn equal_values_share_a_rank() {
        let found = scores(&[vec![1.0, 2.0], vec![2.0, 5.0]]);
        let unit = 4.5f64.sqrt();
        for (score, rank) in found.iter().zip([-1.5, 0.0, 0.0, 1.5]) {
            assert!((score - rank / unit).abs() < 1e-12, "{found:?}");
        }
        let found = scores(&[vec![30.0], vec![10.0, 20.0]]);
        for (score, rank) in found.iter().zip([1.0, -1.0, 0.0]) {
            assert!((score - rank / 2f64.sqrt()).abs() < 1e-12, "{found:?}");
        }
        assert_eq!(scores(&[vec![7.0; 2], vec![7.0; 2]]), [0.0; 4]);
    }

    /// Critical values of U for a two-sided test at 5% (Zar, Biostatistical Analysis, table B.11).
    #[test]
    fn interval_leaves_out_the_critical_value_of_the_table() {
        for (a, b, critical) in [
            (2, 8, 0),
            (3, 5, 0),
            (3, 6, 1),
            (3, 8, 2),
            (4, 5, 1),
            (4, 7, 3),
            (5, 6, 3),
            (5, 8, 6),
            (6, 6, 5),
            (6, 9, 10),
            (7, 8, 10),
            (8, 8, 13),
            (9, 9, 17),
        ] {
            assert_eq!(left_out(a, b), Some(critical), "{a} {b}");
            assert_eq!(left_out(b, a), Some(critical), "{b} {a}");
        }
        assert_eq!([left_out(2, 7), left_out(1, 38), left_out(3, 4)], [None; 3]);
        // Of 25 sorted differences, the third from both ends are the limits.
        let values = figure(&[1., 2., 4., 8., 16.], &[100., 200., 300., 400., 500.]).unwrap();
        let mut all: Vec<f64> = (values[1].iter())
            .flat_map(|b| values[0].iter().map(move |a| b - a))
            .collect();
        all.sort_by(f64::total_cmp);
        assert_eq!(interval(&values, |a, b| b - a), Some((all[2], all[22])));
        let (low, high) = interval(&values, |a, b| b / a).unwrap();
        assert_eq!((low, high), (100.0 / 8.0, 300.0));
        assert_eq!(
            interval(&figure(&[1.; 3], &[2.; 3]).unwrap(), |a, b| b - a),
            None
        );
    }

    /// Each choice of the baseline's runs, counted directly.
    #[test]
    fn probabilities_are_shares_of_all_choices() {
        let figures = [
            figure(&[3., 1., 4., 1.5], &[9., 2., 6.]),
            None,
            figure(&[8., 8., 2., 7.], &[1., 8., 2.]),
            figure(&[1., 2., 3., 5.], &[6., 7., 4.]),
        ];
        let found = test(&figures, [4, 3], 1);
        assert_eq!(found.arrangements, 35);
        let known: Vec<Vec<f64>> = figures.iter().flatten().map(scores).collect();
        let mut sums: Vec<Vec<f64>> = Vec::new();
        for bits in 0..1u32 << 7 {
            if bits.count_ones() == 4 {
                let own = |scores: &Vec<f64>| {
                    let chosen = scores
                        .iter()
                        .enumerate()
                        .filter(|(at, _)| bits >> at & 1 == 1);
                    chosen.map(|(_, score)| score).sum::<f64>().abs()
                };
                sums.push(known.iter().map(own).collect());
            }
        }
        // The first four bits are the observed order.
        let seen = sums[0].clone();
        for (nth, place) in [0, 2, 3].into_iter().enumerate() {
            let count = |is: &dyn Fn(&Vec<f64>) -> bool| {
                Some(sums.iter().filter(|sums| is(sums)).count() as f64 / 35.0)
            };
            let far = seen[nth] - 1e-9;
            assert_eq!(found.p[place], count(&|sums| sums[nth] >= far), "{place}");
            let any = count(&|sums| sums.iter().any(|sum| *sum >= far));
            assert_eq!(found.adjusted[place], any, "{place}");
        }
        assert_eq!((found.p[1], found.adjusted[1]), (None, None));
    }

    /// With 11 runs on both sides, 50,000 of 705,432 choices are drawn. Of the pairs, 7 + 6 + ... + 1
    /// are in the wrong order. The p-value of the normal approximation is 0.0328, and 0.0356 with the
    /// correction for whole numbers.
    #[test]
    fn drawn_choices_give_nearly_the_same_probability() {
        let a: Vec<f64> = (0..11).map(f64::from).collect();
        let b: Vec<f64> = a.iter().map(|one| one + 3.25).collect();
        let found = [3, 4].map(|seed| test(&[figure(&a, &b)], [11, 11], seed));
        assert_eq!(found[0].arrangements, 50_000);
        let [p, again] = found.map(|one| one.p[0].unwrap());
        assert!((0.030..0.038).contains(&p), "{p}");
        assert!(p != again && (again - p).abs() < 0.005, "{p} {again}");
    }
}
