use super::*;

const PAIRS: [PairCounts; 8] = [
    (3, 6),
    (5, 8),
    (2, 5),
    (6, 5),
    (4, 9),
    (3, 7),
    (7, 10),
    (2, 6),
];

/// scipy.stats.permutation_test((z,), np.sum, permutation_type='samples',
/// n_resamples=np.inf) with z = (b-a)/np.sqrt(a+b): 4 of 256. The wealth:
/// np.prod(1 + lam[:,None]*s, axis=1).mean(), lam = ±0.05 to ±0.95.
#[test]
fn tests_agree_with_scipy() {
    assert_eq!(sign_flip(&PAIRS, 1), 0.015_625);
    assert!((wealth(&PAIRS) - 1.818_446_671_9).abs() < 1e-9);
    let ratio = ratio(&PAIRS, 0.95).unwrap();
    assert!((ratio.found - 1.75).abs() < 1e-12 && ratio.dispersion == 1.0);
    // np.exp(±stats.t.ppf(.975, 7)*np.sqrt(1/32 + 1/56)) * 1.75
    assert!((ratio.low / 1.036_253_644 - 1.0).abs() < 1e-6, "{ratio:?}");
    assert!((ratio.high / 2.955_357_52 - 1.0).abs() < 1e-6, "{ratio:?}");
}

/// A block without events on one side is part of the spread: (b - found * a)^2 / (found * (a + b)) is
/// 4 for each of these six pairs, and there are five degrees of freedom.
#[test]
fn blocks_without_events_widen_the_interval() {
    let pairs = [(0, 4), (4, 0), (0, 4), (4, 0), (0, 4), (4, 0)];
    let ratio = ratio(&pairs, 0.95).unwrap();
    assert_eq!((ratio.found, ratio.dispersion), (1.0, 4.8));
}

/// One block in ten contains most of the events. An interval from the t distribution alone
/// contains the true ratio in 77% of the experiments. 142 of 150 are expected. The limit of 134
/// is three standard deviations below this number.
#[test]
fn interval_contains_each_accepted_ratio() {
    // One pair has most events, so no combination of signs is rare for many ratios.
    let pairs = [(2, 3), (1, 2), (80, 60), (3, 1), (2, 2), (1, 4)];
    assert_eq!(pairs.len(), LEAST_PAIRS);
    let interval = ratio(&pairs, 0.9).unwrap();
    for percent in 1..1_000 {
        let times = f64::from(percent) / 100.0;
        let is_inside = interval.low <= times && times <= interval.high;
        assert!(
            is_inside || !is_accepted(&pairs, times, 0.1),
            "{times} {interval:?}"
        );
    }
}

#[test]
fn interval_holds_with_concentrated_events() {
    let mut random = fastrand::Rng::with_seed(5);
    for times in [1.0, 2.0] {
        let mut covered = 0;
        for _ in 0..150 {
            let mut block = |mean: f64| {
                let rare = if random.f64() < 0.1 { 5.5 } else { 0.5 };
                poisson(mean * rare, &mut random)
            };
            let pairs: Vec<PairCounts> = (0..8).map(|_| (block(5.0), block(5.0 * times))).collect();
            let ratio = ratio(&pairs, 0.95).unwrap();
            covered += u32::from(ratio.low <= times && times <= ratio.high);
        }
        assert!(covered >= 132, "{covered} of 150 for {times}");
    }
}

#[test]
fn power_is_that_of_the_tables() {
    let needed = [2.0, 1.5, 3.0].map(|times| events_needed(times, 1.0));
    assert_eq!(needed, [Some(77), Some(210), Some(35)]);
    assert_eq!(events_needed(0.5, 1.0), Some(77));
    assert_eq!(events_needed(2.0, 3.0), Some(231));
    assert_eq!(
        (events_needed(1.0, 1.0), events_needed(-1.0, 1.0)),
        (None, None)
    );
}

/// 2 * min(scipy.stats.binom.cdf(k, n, p), scipy.stats.binom.sf(k - 1, n, p))
#[test]
fn tails_are_those_of_the_binomial_distribution() {
    for (count, all, share, known) in [
        (9, 9, 0.5, 0.003_906_25),
        (2, 12, 0.5, 0.038_574_218_75),
        (6, 12, 0.5, 1.0),
        (5, 10, 0.1, 0.003_269_874),
        (0, 0, 0.5, 1.0),
    ] {
        let found = binomial_p(count, all, share);
        assert!((found - known).abs() < 1e-8, "{count} of {all}: {found}");
    }
}

/// The direction is that of the statistic used in the test. With 19 pairs (0, 1) and one pair
/// (20, 0), the candidate has more events according to both, even though it has fewer in total.
#[test]
fn direction_and_proof_are_of_one_statistic() {
    let mut pairs = vec![(0, 1); 19];
    pairs.push((20, 0));
    assert!(sign_flip(&pairs, 1) < 0.05);
    assert_eq!(direction(&pairs), Ordering::Greater);
    assert_eq!(wealth_direction(&pairs), Ordering::Greater);
    assert_eq!(direction(&[(3, 1); 6]), Ordering::Less);
    assert_eq!(wealth_direction(&[(3, 1); 6]), Ordering::Less);
    for none in [&[][..], &[(4, 4)], &[(2, 3), (3, 2)]] {
        assert_eq!(direction(none), Ordering::Equal);
        assert_eq!(wealth_direction(none), Ordering::Equal);
    }
}

#[test]
fn nothing_seen_is_nothing_claimed() {
    assert_eq!(sign_flip(&[], 1), 1.0);
    assert_eq!(sign_flip(&[(0, 0), (3, 3)], 1), 1.0);
    assert_eq!(wealth(&[(0, 0)]), 1.0);
    assert_eq!(ratio(&[(0, 4), (0, 3)], 0.95), None);
    assert!(!equivalent(&PAIRS) && !equivalent(&[(400, 400); 5]));
    assert!(equivalent(&[
        (400, 400),
        (390, 401),
        (410, 402),
        (398, 399),
        (405, 400),
        (400, 397)
    ]));
    // Five pairs are not enough, because the smallest p-value is 2 of 32.
    assert!(sign_flip(&[(0, 9); 5], 1) > 0.05 && sign_flip(&[(0, 9); 6], 1) < 0.05);
}

fn poisson(mean: f64, random: &mut fastrand::Rng) -> u64 {
    let (mut count, mut left) = (0, mean);
    loop {
        left += (1.0 - random.f64()).ln();
        if left < 0.0 {
            return count;
        }
        count += 1;
    }
}

/// Experiments on simulated machines that drift from block to block, with random order within
/// each pair. Returns the number of false alarms of the sign-flip test, and of the wealth at
/// any time.
fn alarms(experiments: u32, pairs: usize, events: f64, times: f64) -> [u32; 2] {
    let mut random = fastrand::Rng::with_seed(11);
    let mut found = [0, 0];
    for _ in 0..experiments {
        let (mut level, mut rich) = (0.0f64, false);
        let mut seen = Vec::new();
        for _ in 0..pairs {
            let first = random.bool();
            let mut block = |candidate: bool, random: &mut fastrand::Rng| {
                level = 0.9 * level + 0.8 * (random.f64() - 0.5);
                let times = if candidate { times } else { 1.0 };
                poisson(events * times * (level + 0.02).exp(), random)
            };
            let one = block(first, &mut random);
            let other = block(!first, &mut random);
            seen.push(if first { (other, one) } else { (one, other) });
            rich |= wealth(&seen) >= WEALTH_DECIDES;
        }
        found[0] += u32::from(sign_flip(&seen, 1) < 0.05);
        found[1] += u32::from(rich);
    }
    found
}

#[test]
fn doubled_rate_alarms_but_drift_does_not() {
    // At 5%, 100 of 2,000 are expected. The limit of 130 is three standard deviations above
    // this number.
    let [signs, rich] = alarms(2_000, 12, 4.0, 1.0);
    eprintln!("{signs} alarms by signs, {rich} by wealth, of 2,000");
    assert!(signs <= 130 && rich <= 100, "{signs} {rich}");
    let [signs, rich] = alarms(200, 20, 4.0, 2.0);
    eprintln!("{signs} found by signs, {rich} by wealth, of 200");
    assert!(signs >= 160, "{signs}");
}

/// The probability of each count of `all`, by its recurrence.
fn binomial(all: u64, share: f64) -> Vec<f64> {
    let mut each = (1.0 - share).powi(all as i32);
    let odds = share / (1.0 - share);
    (0..=all)
        .map(|count| {
            let here = each;
            each *= odds * (all - count) as f64 / (count + 1) as f64;
            here
        })
        .collect()
}

/// Each count is rare if it and all counts farther from half have at most 2.5% on their side.
#[test]
fn power_is_the_probability_of_rare_counts() {
    for events in [1, 4, 5, 6, 7, 8, 11, 20, 33, 64] {
        let even = binomial(events, 0.5);
        let mut beyond = 0.0;
        let rare = even.iter().take_while(|each| {
            beyond += **each;
            beyond <= 0.025
        });
        let rare = rare.count();
        for share in [0.5, 0.6, 0.25, 0.9] {
            let each = binomial(events, share);
            let low: f64 = each.iter().take(rare).sum();
            let high: f64 = each.iter().rev().take(rare).sum();
            let found = power(events, share);
            assert!(
                (found - low - high).abs() < 1e-9,
                "{events} {share}: {found}"
            );
        }
    }
}

#[test]
fn needed_events_are_enough_from_there_on() {
    for times in [1.4, 2.5, 5.0, 12.0, 0.6, 0.1] {
        let share = times / (1.0 + times);
        let needed = events_needed(times, 1.0).unwrap();
        assert!(power(needed - 1, share) < 0.8, "{times}: {needed}");
        assert!(
            (needed..needed + 300).all(|events| power(events, share) >= 0.8),
            "{times}: {needed}"
        );
        // A rate divided by the factor needs as many as one multiplied by it.
        assert_eq!(events_needed(1.0 / times, 1.0), Some(needed));
    }
    // Independent events are the best case.
    assert_eq!(events_needed(2.0, 0.1), Some(77));
    assert_eq!(events_needed(2.0, 1.5), Some(116));
    for none in [1.0, 1.019, 0.99, 0.0, -2.0, f64::NAN, f64::INFINITY] {
        assert_eq!(events_needed(none, 1.0), None, "{none}");
    }
    // (1.96 + 0.84)^2 (1 + 1.1)^2 / 1.1 / ln(1.1)^2.
    let small = events_needed(1.1, 1.0).unwrap();
    assert!((3_300..3_700).contains(&small), "{small}");
}

/// More pairs than are enumerated: 21 of 2^21 combinations of signs are a binomial distribution.
#[test]
fn drawn_signs_are_those_of_the_binomial_distribution() {
    let pairs = |up: usize, down: usize| -> Vec<PairCounts> {
        [vec![(0, 1); up], vec![(1, 0); down]].concat()
    };
    // 2 * sum(C(21, k) for k from 15 to 21) / 2^21
    let p = sign_flip(&pairs(15, 6), 1);
    assert!((p - 0.078_354).abs() < 0.004, "{p}");
    assert!((sign_flip(&pairs(6, 15), 1) - 0.078_354).abs() < 0.004);
    assert_eq!(sign_flip(&pairs(15, 15), 1), 1.0);
    assert_eq!(sign_flip(&pairs(40, 0), 1), 1.0 / 100_001.0);
    // Up to 20 pairs, the result is exact: 2 * sum(C(20, k) for k from 15 to 20) / 2^20.
    assert_eq!(sign_flip(&pairs(15, 5), 1), 43_400.0 / 1_048_576.0);
    // The interval uses all combinations of up to 11 pairs, and draws from those of 12.
    assert!(is_accepted(&pairs(9, 2), 1.0, 134.0 / 2_048.0));
    assert!(!is_accepted(&pairs(9, 2), 1.0, 135.0 / 2_048.0));
    let of_twelve = |chance| is_accepted(&pairs(9, 3), 1.0, chance);
    // 2 * sum(C(12, k) for k from 9 to 12) / 2^12 = 0.1460.
    assert!(of_twelve(0.11) && !of_twelve(0.18));
    assert!(!is_accepted(&pairs(12, 0), 1.0, 0.01));
}

/// For a ratio of 1, the interval uses the same test.
#[test]
fn interval_accepts_what_the_test_accepts() {
    let p = sign_flip(&PAIRS, 1);
    assert!(is_accepted(&PAIRS, 1.0, p) && !is_accepted(&PAIRS, 1.0, p + 0.001));
    // Twice as many events in each block: the scores at this ratio are zero.
    assert!(is_accepted(
        &[(2, 4), (3, 6), (5, 10), (1, 2), (4, 8), (6, 12)],
        2.0,
        1.0
    ));
    assert!(!is_accepted(
        &[(2, 4), (3, 6), (5, 10), (1, 2), (4, 8), (6, 12)],
        4.0,
        0.05
    ));
    // Pairs without events count for nothing.
    let with_none = [&PAIRS[..], &[(0, 0); 3]].concat();
    assert!(!is_accepted(&with_none, 1.0, p + 0.001));
}

/// The limits are just beyond the ratios that the test accepts.
#[test]
fn widened_limits_are_the_first_rejected_ratios() {
    let pairs = [
        (9, 14),
        (8, 12),
        (70, 90),
        (9, 15),
        (11, 12),
        (10, 16),
        (8, 15),
        (12, 13),
    ];
    let chance = 0.05;
    let accepts = |times| is_accepted(&pairs, times, chance);
    assert!(accepts(1.3) && !accepts(1.0) && !accepts(3.0));
    // Of 0.4 in the logarithm, six halvings leave 0.4/64.
    let step = (0.4f64 / 64.0 * 1.001).exp();
    for from in [1.25, 1.3] {
        let high = widened(&pairs, from, 1.0, chance);
        assert!(
            high > from && !accepts(high) && accepts(high / step),
            "{high}"
        );
        let low = widened(&pairs, from, -1.0, chance);
        assert!(low < from && !accepts(low) && accepts(low * step), "{low}");
    }
    // A limit that is already rejected stays, and so does one of too few pairs.
    assert_eq!(widened(&pairs, 3.0, 1.0, chance), 3.0);
    assert_eq!(widened(&pairs[..5], 1.3, 1.0, chance), 1.3);
}

/// The limits are exp(± t sqrt(1/a + 1/b)) times the ratio.
#[test]
fn interval_is_that_of_the_t_distribution() {
    // Each pair has the ratio 1.5 exactly, so the events are as good as independent. The point of
    // the t distribution with 9 degrees of freedom is 2.262157 at 95%, and 1.833113 at 90%.
    let pairs = [(4, 6); 10];
    for (confidence, point) in [(0.95, 2.262_157), (0.9, 1.833_113)] {
        let found = ratio(&pairs, confidence).unwrap();
        let wide = point * (1.0f64 / 40.0 + 1.0 / 60.0).sqrt();
        assert_eq!((found.found, found.dispersion), (1.5, 1.0));
        assert!(
            (found.low / (1.5 * (-wide).exp()) - 1.0).abs() < 1e-6,
            "{found:?}"
        );
        assert!(
            (found.high / (1.5 * wide.exp()) - 1.0).abs() < 1e-6,
            "{found:?}"
        );
    }
    // Two pairs are the least. A side without events has no ratio.
    assert!(ratio(&[(4, 6); 2], 0.95).is_some());
    for none in [&[(4, 6)][..], &[], &[(0, 3), (0, 2)], &[(3, 0), (2, 0)]] {
        assert_eq!(ratio(none, 0.95), None);
    }
    // Pairs that differ: 12^2/12 for each of the first four, over four degrees of freedom.
    let found = ratio(&[(12, 0), (0, 12), (12, 0), (0, 12), (6, 6)], 0.95).unwrap();
    assert_eq!((found.found, found.dispersion), (1.0, 12.0));
}

/// The wealth is a mean of products: with one pair that has all events on one side, the stakes on it
/// and against it cancel.
#[test]
fn wealth_is_a_mean_of_bets() {
    assert!((wealth(&[(0, 5)]) - 1.0).abs() < 1e-12);
    let [fewer, more] = bets(&[(0, 5)]);
    assert!(
        (fewer - 0.5).abs() < 1e-12 && (more - 1.5).abs() < 1e-12,
        "{fewer} {more}"
    );
    // 1 ± stake/3 twice, for 19 stakes whose mean is 0.5 and mean square 0.325.
    let [fewer, more] = bets(&[(1, 2), (2, 4)]);
    let of = |sign: f64| 1.0 + sign / 3.0 + 0.325 / 9.0;
    assert!(
        (fewer - of(-1.0)).abs() < 1e-12 && (more - of(1.0)).abs() < 1e-12,
        "{fewer} {more}"
    );
    assert!((wealth(&[(1, 2), (2, 4)]) - (1.0 + 0.325 / 9.0)).abs() < 1e-12);
    assert_eq!(wealth_direction(&[(2, 1), (0, 0)]), Ordering::Less);
    assert_eq!(direction(&[(0, 1), (2, 0)]), Ordering::Less);
    // The difference is divided by the root of the sum: 2/sqrt(2) is more than 3/sqrt(5), and
    // 3/sqrt(9) is less than 2/sqrt(2).
    assert_eq!(direction(&[(0, 2), (4, 1)]), Ordering::Greater);
    assert_eq!(direction(&[(0, 2), (6, 3)]), Ordering::Greater);
    assert_eq!(direction(&[(2, 0), (3, 6)]), Ordering::Less);
}

/// Limits of 0.8 and 1.25 on both sides.
#[test]
fn equal_rates_are_proven_within_limits() {
    let of = |each: u64, other: u64| equivalent(&[(each, other); 8]);
    assert!(of(1_000, 1_000) && of(1_000, 1_180) && of(1_180, 1_000));
    assert!(!of(1_000, 1_240) && !of(1_240, 1_000) && !of(10, 10));
    assert!(!equivalent(&[]) && !equivalent(&[(9_000, 9_000); 5]));
    assert!(equivalent(&[(9_000, 9_000); 6]));
}
