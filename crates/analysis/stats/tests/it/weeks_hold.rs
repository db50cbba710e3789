//! Bounds from runs at random times of a week: a smaller version of `cargo xtask simulate --only
//! weeks`, with fixed seeds.

use crate::weeks::{KINDS, MET, count};

/// Number of weeks of each kind.
const WEEKS: u64 = 60;

/// At least 94% of the bounds are correct, for slow changes of any length. 3 wrong bounds of 60 are
/// expected, and one standard deviation is 1.7.
#[test]
fn bounds_cover_the_whole_week() {
    let mut correct = 0;
    for (name, kind) in &KINDS[..MET] {
        let found = count(*kind, 60, WEEKS);
        assert!(
            found.upper + 8 >= WEEKS && found.lower + 8 >= WEEKS,
            "{name}: {found:?}"
        );
        assert!(found.held <= 8 && found.broken <= 8, "{name}: {found:?}");
        correct += found.upper;
    }
    let all = WEEKS * MET as u64;
    assert!(correct as f64 >= 0.94 * all as f64, "{correct} of {all}");
}

/// A disturbance that the runs are unlikely to meet is not covered. The condition of the claim
/// names its length.
#[test]
fn rare_disturbance_is_missed() {
    let (name, rare) = KINDS[KINDS.len() - 1];
    let found = count(rare, 60, WEEKS);
    assert!(found.upper < WEEKS / 2, "{name}: {found:?}");
}
