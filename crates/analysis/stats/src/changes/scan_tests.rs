use super::*;

/// The log likelihood of gamma-Poisson counts with the shape r at the mean exposure has the term
/// (n + r) ln(1 + n/r), and r grows with the exposure.
#[test]
fn excess_lowers_the_likelihood() {
    let excess = Excess {
        shape: 2.0,
        exposure: 2.0,
    };
    let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found}");
    close(excess.lower((3.0, 2.0)), 5.0 * 2.5_f64.ln());
    close(excess.lower((3.0, 3.0)), 6.0 * 2.0_f64.ln());
    close(excess.lower((0.0, 3.0)), 0.0);
    close(excess.lower((3.0, 0.0)), 0.0);
}

fn near(found: f64, expected: f64) {
    let apart = (found - expected).abs();
    assert!(
        apart < 1e-9 * expected.abs().max(1.0),
        "{found} is not {expected}"
    );
}

/// Equal exposures.
fn counts(events: &[u64]) -> Pairs {
    let counts: Vec<(u64, u64)> = events.iter().map(|events| (*events, 1)).collect();
    Pairs::of_counts(&counts)
}

#[test]
fn ranks_are_centred_and_ties_share_one() {
    // The ranks 3, 0, 1.5, 1.5 and 4, minus their mean of 2. Their variance is 9.5/5.
    let ranks = Pairs::of_ranks(&[30.0, 10.0, 20.0, 20.0, 50.0]).each;
    let unit = 1.9f64.sqrt();
    for ((rank, one), expected) in ranks.iter().zip([1.0, -2.0, -0.5, -0.5, 2.0]) {
        near(*rank, expected / unit);
        assert_eq!(*one, 1.0);
    }
    assert_eq!(Pairs::of_ranks(&[7.0; 3]).each, [(0.0, 1.0); 3]);
}

/// Chi-squared by hand, divided by the number of runs minus two.
#[test]
fn dispersion_is_chi_squared_of_both_sides() {
    // Rate 5: 16/5 twice. Rate 6: 4/12, 64/12 and 36/6. Three degrees of freedom.
    let [a, b] = [[(1.0, 1.0), (9.0, 1.0)], [(0.0, 1.0), (0.0, 1.0)]];
    let later = [(10.0, 2.0), (20.0, 2.0), (0.0, 1.0)];
    near(dispersion(&a, &later), (6.4 + 35.0 / 3.0) / 3.0);
    near(dispersion(&later, &a), (6.4 + 35.0 / 3.0) / 3.0);
    // A side without events does not show variation.
    near(dispersion(&a, &b), 3.2);
    near(dispersion(&b, &a), 3.2);
    // Nor is a run without exposure.
    near(dispersion(&[a[0], a[1], (0.0, 0.0)], &[]), 6.4);
    // Less variation than that of Poisson counts does not narrow an interval.
    assert_eq!(dispersion(&[(5.0, 1.0); 4], &[(5.0, 1.0); 4]), 1.0);
    assert_eq!(dispersion(&b, &b), 1.0);
}

#[test]
fn only_counts_beyond_poisson_are_spread() {
    // Mean 5, four degrees of freedom: squares of 24 are a dispersion of 1.2, of 26 one of 1.3.
    assert!(!counts(&[9, 3, 3, 5, 5, 5]).is_spread());
    assert!(counts(&[9, 2, 4, 5, 5, 5]).is_spread());
    assert!(!Pairs::of_ranks(&[9.0, 2.0, 4.0, 5.0, 5.0, 50.0]).is_spread());
}

/// The pairs of neighbours 4, 8 and 8, 2 have squares of 8 and 18 about their means. Poisson counts
/// explain 6 and 5 of these. The products 32 and 16 and the squared mean estimate the squared rate.
#[test]
fn excess_is_estimated_from_neighbours() {
    let mean = 14.0 / 3.0;
    let found = Excess::new(&counts(&[4, 8, 2]).each).unwrap();
    near(found.shape, (mean * mean + 32.0 + 16.0) / (2.0 + 13.0));
    assert_eq!(found.exposure, 1.0);
    // Rate 4 over the exposures 2 and 1: squares of 16 twice, less 4 * 2 * 2 / 3.
    let found = Excess::new(&[(4.0, 2.0), (8.0, 1.0)]).unwrap();
    near(found.shape, (36.0 + 32.0) / (32.0 - 16.0 / 3.0));
    assert_eq!(found.exposure, 1.5);
    assert!(Excess::new(&counts(&[5, 5, 5]).each).is_none());
    assert!(Excess::new(&[(0.0, 0.0), (0.0, 0.0)]).is_none());
    // A run without exposure says nothing about its neighbours.
    let gap = [(4.0, 2.0), (8.0, 1.0), (0.0, 0.0), (0.0, 0.0)];
    near(Excess::new(&gap).unwrap().exposure, 0.75);
}

/// Poisson log likelihood of one rate over some runs, without terms of single runs.
fn poisson(runs: &[(f64, f64)]) -> f64 {
    let (events, exposure) = sum(runs);
    let rate = events / exposure;
    runs.iter()
        .filter(|_| rate > 0.0)
        .map(|run| run.0 * rate.ln() - rate * run.1)
        .sum()
}

/// Log likelihood of counts whose rate has a gamma distribution with this shape for an exposure
/// of 1: each is negative binomial.
fn gamma_poisson(runs: &[(f64, f64)], shape: f64) -> f64 {
    let (events, exposure) = sum(runs);
    let odds = events / exposure / shape;
    runs.iter()
        .filter(|_| events > 0.0)
        .map(|run| run.0 * (odds / (1.0 + odds)).ln() - shape * run.1 * (1.0 + odds).ln())
        .sum()
}

#[test]
fn ratios_are_those_of_the_distributions() {
    let runs = [
        (3, 2),
        (0, 1),
        (4, 2),
        (2, 1),
        (1, 1),
        (9, 2),
        (30, 3),
        (8, 1),
        (0, 1),
        (22, 2),
        (11, 1),
    ];
    let pairs = Pairs::of_counts(&runs);
    let excess = Excess::new(&pairs.each).unwrap();
    let shape = excess.shape / excess.exposure;
    let all = &pairs.each;
    let found: Vec<(usize, [f64; 2])> = pairs.ratios(1, Some(excess)).collect();
    let places: Vec<usize> = found.iter().map(|one| one.0).collect();
    assert_eq!(places, [4, 5, 6, 7]);
    for (at, [plain, spread]) in found {
        let (before, after) = all.split_at(at);
        near(plain, poisson(before) + poisson(after) - poisson(all));
        let of = |runs: &[(f64, f64)]| gamma_poisson(runs, shape);
        near(spread, of(before) + of(after) - of(all));
    }
    // Without an estimate, there is only one likelihood.
    assert!(pairs.ratios(1, None).all(|(_, [a, b])| a == b));
    let every_third: Vec<usize> = pairs.ratios(3, None).map(|one| one.0).collect();
    assert_eq!(every_third, [6]);
}

/// Ranks have the variance 1, so the ratio is half of the squares that two means explain.
#[test]
fn ratio_of_ranks_is_that_of_two_means() {
    let pairs = Pairs::of_ranks(&[5.0, 3.0, 8.0, 1.0, 9.0, 12.0, 7.0, 20.0, 15.0, 16.0]);
    for (at, [plain, _]) in pairs.ratios(1, None) {
        let explained = |side: &[(f64, f64)]| {
            let sum = side.iter().map(|one| one.0).sum::<f64>();
            sum * sum / side.len() as f64
        };
        let (before, after) = pairs.each.split_at(at);
        near(plain, (explained(before) + explained(after)) / 2.0);
    }
}

#[test]
fn best_split_leaves_enough_runs_on_both_sides() {
    let step = counts(&[1, 2, 1, 2, 1, 9, 8, 9, 8, 9, 8]);
    assert_eq!(
        (step.best(By::Plain), step.best(By::Spread)),
        (Some(5), Some(5))
    );
    // The first level has only two runs, and so has the last one.
    assert_eq!(
        counts(&[9, 9, 1, 1, 1, 1, 1, 1, 1, 1]).best(By::Plain),
        Some(4)
    );
    assert_eq!(
        counts(&[1, 1, 1, 1, 1, 1, 1, 1, 9, 9]).best(By::Plain),
        Some(6)
    );
    assert_eq!(counts(&[3; 20]).best(By::Plain), None);
    assert_eq!(counts(&[1, 1, 1, 9, 9, 9, 9]).best(By::Plain), None);
}

#[test]
fn probability_of_a_split_is_that_of_permutations() {
    let p = |mut pairs: Pairs, most| pairs.p_of(most, &mut Rng::with_seed(1));
    // All runs are equal, so each of the first ten permutations is as good.
    assert_eq!(p(counts(&[3; 12]), 999), (1.0, By::Plain));
    // Of the 12,870 permutations, 2 have this split.
    let (clear, by) = p(
        counts(&[5, 5, 5, 5, 5, 5, 5, 5, 9, 9, 9, 9, 9, 9, 9, 9]),
        999,
    );
    assert!(
        (0.001..=0.003).contains(&clear) && by == By::Plain,
        "{clear}"
    );
    let ranks = (0..16).map(f64::from).collect::<Vec<_>>();
    let (clear, by) = p(Pairs::of_ranks(&ranks), 999);
    assert!(
        (0.001..=0.003).contains(&clear) && by == By::Plain,
        "{clear}"
    );
    // Without an equally good permutation, the observed order is the only one.
    let many: Vec<f64> = (0..60).map(f64::from).collect();
    assert_eq!(p(Pairs::of_ranks(&many), 399).0, 1.0 / 400.0);
    let spread = [2, 0, 5, 1, 9, 0, 3, 1, 60, 20, 99, 35, 80, 18, 70, 44];
    assert!(counts(&spread).is_spread());
    let (clear, _) = p(counts(&spread), 1_999);
    assert!(clear < 0.005, "{clear}");
    let mixed = [2, 60, 0, 20, 5, 99, 1, 35, 9, 80, 0, 18, 3, 70, 1, 44];
    assert!(p(counts(&mixed), 1_999).0 > 0.1);
}

/// Ranks by the first ratio 3, 1, 2, 5, 4, and by the second 1, 5, 4, 2, 3.
#[test]
fn smaller_probability_is_corrected_for_the_choice() {
    let all = [[3.0, 9.0], [5.0, 1.0], [4.0, 2.0], [1.0, 8.0], [2.0, 3.0]];
    let first = |place: usize| {
        let mut drawn = all.to_vec();
        drawn.swap(0, place);
        smaller(&drawn)
    };
    assert_eq!(first(0), (0.4, By::Spread));
    assert_eq!(first(1), (0.4, By::Plain));
    assert_eq!(first(2), (0.8, By::Plain));
    assert_eq!(first(3), (0.8, By::Spread));
    assert_eq!(first(4), (1.0, By::Spread));
    // With equal ranks, the plain likelihood is enough.
    assert_eq!(smaller(&[[3.0, 3.0], [2.0, 2.0]]), (0.5, By::Plain));
    assert_eq!(smaller(&[[2.0, 2.0], [2.0, 2.0]]), (1.0, By::Plain));
    assert_eq!(smaller(&[]), (1.0, By::Plain));
}

/// All places whose likelihood is at most exp(1.92) times smaller than that of the best one.
#[test]
fn range_of_a_split_contains_the_likely_places() {
    let range = |pairs: &Pairs, at: usize, spread: f64| {
        let ratio = |place: usize| {
            let (before, after) = pairs.each.split_at(place);
            poisson(before) + poisson(after)
        };
        let likely = |place: &usize| ratio(*place) >= ratio(at) - 1.92 * spread;
        let all: Vec<usize> = (4..=pairs.each.len() - 4).filter(likely).collect();
        (all[0], all[all.len() - 1])
    };
    let slow = counts(&[3, 2, 4, 3, 2, 5, 4, 6, 5, 7, 6, 8, 7, 9, 8, 7, 9, 8]);
    let at = slow.best(By::Plain).unwrap();
    let found = slow.where_about(at);
    assert_eq!(found, range(&slow, at, 1.0));
    assert!(found.0 < at && at < found.1, "{found:?}");
    let clear = counts(&[3, 2, 4, 3, 2, 3, 90, 98, 91, 95, 93, 97]);
    assert_eq!(clear.where_about(6), (6, 6));
    // Counts that vary more make the range wider.
    let spread = counts(&[1, 9, 2, 8, 1, 9, 12, 40, 15, 33, 10, 45]);
    let wide = dispersion(&spread.each[..6], &spread.each[6..]);
    assert!(wide > 3.0);
    assert_eq!(spread.where_about(6), range(&spread, 6, wide));
}

#[test]
fn ratio_of_rates_has_its_interval() {
    let close = |found: (f64, (f64, f64)), expected: [f64; 3]| {
        let found = [found.0, found.1.0, found.1.1];
        for (one, known) in found.iter().zip(expected) {
            assert!((one / known - 1.0).abs() < 1e-4, "{found:?}");
        }
    };
    // 9.5 events in 100 periods, then 39.5 in 200: exp(1.96 sqrt(1/9.5 + 1/39.5)) = 2.03046.
    let found = ratio_of_rates(&[(4, 50), (5, 50)], &[(20, 100), (19, 100)]);
    close(found, [2.078_947, 1.023_880, 4.221_220]);
    // A dispersion of (6.4 + 5)/2 widens it to exp(1.96 sqrt(5.7 (1/10.5 + 1/80.5))) = 4.64319.
    let found = ratio_of_rates(&[(1, 10), (9, 10)], &[(30, 10), (50, 10)]);
    close(found, [7.666_667, 1.651_164, 35.597_8]);
    // Without events, there is still a ratio.
    assert!((ratio_of_rates(&[], &[(3, 10)]).0 - 0.7).abs() < 1e-12);
    assert_eq!(ratio_of_rates(&[(0, 10)], &[(0, 20)]).0, 0.5);
}

#[test]
fn ratio_of_figures_is_that_of_medians() {
    let found = ratio_of_figures(&[4.0, 1.0, 3.0, 2.0], &[10.0, 40.0, 20.0, 30.0]);
    assert_eq!(found, (10.0, (2.5, 40.0)));
    // With three runs on both sides, no ratio can be excluded.
    let (ratio, interval) = ratio_of_figures(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]);
    assert_eq!((ratio, interval), (2.0, (0.0, f64::INFINITY)));
    // Many runs are thinned out evenly, in the order of their figures.
    let many: Vec<f64> = (0..300).map(|n| f64::from(1_000 + n * 7 % 300)).collect();
    let twice: Vec<f64> = many.iter().rev().map(|one| 2.0 * one).collect();
    let (ratio, (low, high)) = ratio_of_figures(&many, &twice);
    assert!((ratio - 2.0).abs() < 1e-12);
    assert!(
        1.85 < low && low < 1.99 && 2.01 < high && high < 2.15,
        "{low} {high}"
    );
}
