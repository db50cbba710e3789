//! Several runs of a machine, with the run as the unit.

use punctual_model::Recording;
use punctual_stats::{Change, Comparison, Options, Unit, compare_runs};

use super::machine::{Machine, USUAL, normal};
use super::options;

/// Several runs of a machine whose level differs after each start.
fn started(machine: Machine, runs: u64, seed: u64) -> Vec<Recording> {
    let one = |nth: u64| {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(7_919) ^ (nth << 32));
        random.u64(..);
        let shift = machine.shift + 400.0 * normal(&mut random);
        let mut run = Machine { shift, ..machine }.run(seed.wrapping_mul(1_000) + nth);
        // The runs of both sides alternate.
        run.started += jiff::SignedDuration::from_mins(2 * nth as i64 + (seed % 2) as i64);
        run
    };
    (0..runs).map(one).collect()
}

fn of_runs(a: &[Recording], b: &[Recording]) -> Comparison {
    let options = Options {
        quantiles: vec![0.5, 0.9, 0.99],
        ..options()
    };
    compare_runs(
        &a.iter().collect::<Vec<_>>(),
        &b.iter().collect::<Vec<_>>(),
        &options,
    )
    .unwrap()
}

const SHORT: Machine = Machine {
    seconds: 12,
    each: 60,
    ..USUAL
};

/// Differences between starts mislead a comparison of two runs. With several runs per side, the run
/// is the unit.
#[test]
fn start_differences_rarely_mislead_comparison() {
    let alarms = |runs: u64| {
        let pairs = (0..60).filter(|pair| {
            let side = |nth: u64| started(SHORT, runs, 20_000 + 2 * pair + nth);
            let comparison = of_runs(&side(0), &side(1));
            matches!(comparison.change, Change::Worse | Change::Better)
        });
        pairs.count()
    };
    // At 5%, 3 of 60 are expected. The limit of 8 is three standard deviations above this number.
    let (four, six) = (alarms(4), alarms(6));
    eprintln!("{four} alarms of 4 runs a side, {six} of 6, of 60");
    assert!(four <= 8 && six <= 8, "{four} {six}");
}

#[test]
fn runs_show_difference_too_few_claim_nothing() {
    let shifted = Machine {
        shift: 2_500.0,
        ..SHORT
    };
    let comparison = of_runs(&started(SHORT, 4, 2), &started(shifted, 4, 3));
    assert_eq!(comparison.change, Change::Worse, "{}", comparison.summary);
    assert_eq!((comparison.unit, comparison.replicates), (Unit::Run, 70));
    assert!(comparison.cautions.is_empty(), "{:?}", comparison.cautions);
    let median = &comparison.channels[0].quantiles[0];
    let estimate = median.estimate.unwrap();
    assert!((estimate.p - 2.0 / 70.0).abs() < 1e-12, "{estimate:?}");
    assert!(estimate.difference_low < 2_500.0 && estimate.difference_high > 2_000.0);
    let runs = median.runs_ns.as_ref().unwrap();
    assert_eq!((runs[0].len(), runs[1].len()), (4, 4));
    assert_eq!(comparison.candidate.runs.len(), 4);
    // With three runs per side, 2 of 20 permutations are as extreme, however far apart the sides
    // are.
    let comparison = of_runs(&started(SHORT, 3, 2), &started(shifted, 3, 3));
    assert_eq!(comparison.change, Change::Unknown);
    let short = &comparison.shortfalls;
    assert_eq!((short.len(), short[0].runs), (1, Some(4)), "{short:?}");
    assert!(
        comparison.summary.contains("p50 (x "),
        "{}",
        comparison.summary
    );
    // If one side was measured completely before the other, a warning appears.
    let first = started(SHORT, 4, 2);
    let mut second = started(shifted, 4, 3);
    for run in &mut second {
        run.started += jiff::SignedDuration::from_hours(1);
    }
    let said = of_runs(&first, &second).cautions;
    assert!(said.iter().any(|one| one.contains("alternate")), "{said:?}");
    assert!(compare_runs(&[], &[&first[0]], &options()).is_err());
}
