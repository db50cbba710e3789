//! Bounds of rates on simulated machines: a smaller version of `cargo xtask simulate --only rates`,
//! with fixed seeds.

use crate::rates::{KINDS, count, until_proven};

/// Number of machines of each kind.
const MACHINES: u64 = 100;

/// 5 wrong bounds of 100 are expected. The limit of 12 is three standard deviations above this
/// number.
#[test]
fn bounds_hold_for_long_enough_runs() {
    for (name, late, change) in KINDS {
        for seconds in [60, 600, 3_600]
            .into_iter()
            .filter(|run| change * 10.0 < *run as f64)
        {
            let found = count(late, seconds, MACHINES);
            assert!(
                found.upper + 12 >= found.printed && found.lower + 12 >= found.printed,
                "{name} {seconds} s: {found:?}"
            );
            assert!(found.above.held <= 12, "{name} {seconds} s: {found:?}");
            assert!(found.within.broken <= 12, "{name} {seconds} s: {found:?}");
        }
    }
}

/// The bound of independent late seconds is not much above the true value.
#[test]
fn independent_seconds_bound_is_near_truth() {
    let found = count(KINDS[0].1, 600, MACHINES);
    assert!(found.width < 1.6 && found.printed >= 80, "{found:?}");
}

/// A machine that changes for good during the run gets no bound.
#[test]
fn lasting_changes_have_no_bound() {
    for wanted in ["warming up", "throttling after 8 to 25 min"] {
        let (_, late, _) = KINDS.into_iter().find(|kind| kind.0 == wanted).unwrap();
        let found = count(late, 3_600, MACHINES);
        assert!(found.printed <= 20, "{wanted}: {found:?}");
    }
}

#[test]
fn until_proven_is_rarely_wrong() {
    for (name, late, change) in KINDS {
        let [above, within] = until_proven(late, MACHINES);
        // The guarantee applies only if the time between changes is less than a tenth of the
        // longest time.
        if change < 360.0 {
            assert!(above.held <= 12, "{name}: {above:?}");
            assert!(within.broken <= 12, "{name}: {within:?}");
        }
    }
}
