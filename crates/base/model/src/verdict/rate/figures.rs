//! Tests of the figures of a rate against known values.

use super::*;

const MINUTE: Nanos = Nanos::from_secs(60);

fn is(found: f64, known: f64) {
    assert!(
        (found - known).abs() < 1e-6 * known.abs().max(1.0),
        "{found} is not {known}"
    );
}

#[test]
fn rate_of_a_day_is_proportional_to_the_time() {
    let rate = Rate::plain(3, MINUTE);
    assert_eq!(rate.per_day(1.0), Some(1_440.0));
    assert_eq!(
        Rate::plain(3, Nanos::from_secs(172_800)).per_day(3.0),
        Some(1.5)
    );
    // A day has no more late seconds than seconds, but more events.
    assert_eq!(rate.per_day(100.0), Some(144_000.0));
    let mut late = LateSeconds::default();
    late.add(Nanos(1));
    assert_eq!(late.rate(MINUTE).per_day(100.0), Some(86_400.0));
    assert_eq!(rate.local_dispersion(), 1.0);
    is(Rate::plain(0, MINUTE).at_most(0.05), 2.995_732_3);
    is(Rate::plain(1, MINUTE).at_least(0.05), 0.051_293_29);
    assert_eq!(Rate::plain(0, MINUTE).at_least(0.05), 0.0);
}

#[test]
fn chance_of_so_many_in_a_part_is_binomial() {
    let ten = Rate::plain(10, MINUTE);
    is(ten.as_many(10, 0.5, 1.0), 1.0 / 1_024.0);
    is(ten.as_many(5, 0.5, 1.0), 0.623_046_875);
    is(ten.as_many(1, 0.1, 1.0), 1.0 - 0.9f64.powi(10));
    is(ten.as_many(10, 0.5, 2.0), 1.0 / 32.0);
    is(ten.as_many(0, 0.5, 1.0), 1.0);
}

#[test]
fn trend_is_the_mean_place_of_the_events() {
    is(laplace(&[0, 0, 0, 4]), 0.375 * 48f64.sqrt());
    is(laplace(&[4, 0, 0, 0]), -0.375 * 48f64.sqrt());
    is(laplace(&[0, 1, 0, 3]), 0.25 * 48f64.sqrt());
    for counts in [vec![], vec![0; 4], vec![2; 5]] {
        is(laplace(&counts), 0.0);
    }
}

#[test]
fn blocks_show_the_first_half_and_the_first_tenth() {
    let mut counts = vec![1; 20];
    (counts[0], counts[1], counts[9]) = (5, 4, 3);
    let events = counts.iter().sum();
    let rate = Rate::of_blocks(events, counts.clone(), MINUTE);
    assert_eq!((rate.events, rate.parts), (events, [19, 9]));
    // More events may be in the blocks than are counted.
    assert_eq!(Rate::of_blocks(7, counts, MINUTE).parts, [7, 7]);
    assert_eq!(Rate::of_blocks(3, Vec::new(), MINUTE).parts, [0, 0]);
}

#[test]
fn length_for_a_share_grows_until_the_bound_fits() {
    let clean = Rate::plain(0, MINUTE);
    let times = |allowed: f64, unseen: f64| {
        let length = clean.likely_share(allowed, unseen, 0.05)?;
        Some(length.as_secs_f64() / 60.0)
    };
    // The bound is 3.00 in any run, and the allowed number grows with the run, in steps of 5%.
    for (allowed, unseen, least) in [
        (1.0, 0.0, 2.995_73),
        (2.0, 1.0, 1.997_87),
        (0.5, 1.0, 7.991_46),
    ] {
        let found = times(allowed, unseen).unwrap();
        assert!(
            (least..least * 1.05).contains(&found),
            "{allowed} {unseen}: {found}"
        );
    }
    is(times(9.0, 0.0).unwrap(), 1.05);
    assert_eq!(times(0.0, 0.0), None);
    // Ten events and 20 allowed: soon enough. Ten allowed: never.
    let some = Rate::plain(10, MINUTE);
    assert!(some.likely_share(20.0, 0.0, 0.05).unwrap() < Nanos::from_secs(100));
    assert_eq!(some.likely_share(10.0, 0.0, 0.05), None);
}

#[test]
fn doubts_are_said() {
    let events = "late seconds";
    for (doubt, text) in [
        (
            Doubt::Slow,
            "the rate changes more slowly than this run can show; measure at least 8 times as long",
        ),
        (
            Doubt::Halves(1_000, 2_000),
            "the halves of the run differ: 1,000 of 2,000 late seconds in the first half",
        ),
        (
            Doubt::Trend(true),
            "late seconds become more frequent during the run, so it says nothing about the rest of \
             the day; measure longer",
        ),
        (
            Doubt::Trend(false),
            "late seconds become rarer during the run, so it says nothing about the rest of the day; \
             measure longer",
        ),
        (
            Doubt::WarmUp(9, 10),
            "the machine had not settled after the warm-up: 9 of 10 late seconds in the first tenth of \
             the run",
        ),
    ] {
        assert_eq!(doubt.sentence(events), text);
    }
    let shares = [0.95, 0.9999, 0.999_999, 1.0].map(percent);
    assert_eq!(shares, ["95%", "99.99%", "99.9999%", "100%"]);
}
