//! False alarms of `compare`: a smaller version of `cargo xtask simulate`.

use crate::machines::{Kind, Machine, machine};
use punctual_model::Nanos;
use punctual_stats::{Change, Options, compare};

/// Returns the number of pairs that are reported to differ.
fn found(baseline: Machine, candidate: Machine, pairs: u64) -> usize {
    let options = Options {
        quantiles: vec![0.5, 0.9, 0.99, 0.999],
        threshold: Some(Nanos::from_micros(6)),
        replicates: 200,
        ..Options::default()
    };
    let differs = |pair: &u64| {
        let (a, b) = (baseline.run(2 * pair), candidate.run(2 * pair + 1));
        let comparison = compare(&a, &b, &options).unwrap();
        matches!(comparison.change, Change::Worse | Change::Better)
    };
    (0..pairs).filter(differs).count()
}

/// A level with a correlation time of half of the run, in rows of 50 ms. When only the plain mean
/// of the slowest waves was used, there were 10% of false alarms or more.
#[test]
fn half_run_drift_is_no_difference() {
    let each = [40.0, 80.0, 150.0, 300.0].map(|by| {
        let equal = machine(Kind::Drift(by), 2_500, 50);
        found(equal, equal, 100)
    });
    eprintln!("alarms by drift, of 100: {each:?}");
    assert!(each.iter().sum::<usize>() <= 20, "{each:?}");
}

#[test]
fn equal_machines_of_each_kind_rarely_differ() {
    for kind in [Kind::Independent, Kind::Bursts, Kind::Scale, Kind::Rare] {
        let equal = machine(kind, 2_500, 50);
        let alarms = found(equal, equal, 100);
        eprintln!("{kind:?}: {alarms} alarms of 100");
        assert!(alarms <= 5, "{kind:?}: {alarms}");
    }
}

/// In a run of ten seconds, the part of the latency above the minimum is doubled.
#[test]
fn ten_seconds_reveal_doubled_noise() {
    for (kind, least) in [
        (Kind::Independent, 29),
        (Kind::Drift(80.0), 28),
        (Kind::Rare, 29),
    ] {
        let usual = machine(kind, 10_000, 200);
        let worse = Machine { tail: 2.0, ..usual };
        let found = found(usual, worse, 30);
        eprintln!("{kind:?}: {found} of 30 found");
        assert!(found >= least, "{kind:?}: {found}");
    }
}
