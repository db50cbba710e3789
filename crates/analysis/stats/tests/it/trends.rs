//! Steps in series that wander, drift or follow seasons: a smaller version of
//! `cargo xtask simulate --only wandering`.

use crate::wandering::{Moves, course, figures, is_found};

/// Number of series of each kind.
const SERIES: u64 = 30;

/// Returns the number of series whose course satisfies `is_so`.
fn seen(moves: Moves, phi: f64, is_so: fn(&punctual_stats::changes::Course) -> bool) -> usize {
    let of = |seed: &u64| is_so(&course(figures(moves, phi, *seed), *seed));
    (0..SERIES).filter(of).count()
}

/// Permutations alone found a step in 66% of the series with an autocorrelation of 0.7, and in
/// nearly all series with 0.9.
#[test]
fn levels_that_wander_have_no_steps() {
    for phi in [0.0, 0.3, 0.5, 0.7, 0.9] {
        let alarms = seen(Moves::Nothing, phi, |course| !course.steps.is_empty());
        eprintln!("phi {phi}: {alarms} of {SERIES}");
        assert!(alarms <= 2, "phi {phi}: {alarms}");
    }
}

/// Permutations alone found a step in 86% of the series that drift.
#[test]
fn slow_drift_is_no_step() {
    for phi in [0.0, 0.5] {
        let steps = seen(Moves::Line(4.0), phi, |course| !course.steps.is_empty());
        let drifts = seen(Moves::Line(4.0), phi, |course| {
            course
                .drift
                .is_some_and(|drift| drift.from == 0 && drift.interval.0 > 1.0)
        });
        eprintln!("phi {phi}: {steps} steps, {drifts} drifts of {SERIES}");
        assert!(steps <= 3, "phi {phi}: {steps}");
        assert!(drifts >= 25, "phi {phi}: {drifts}");
    }
    let level = seen(Moves::Nothing, 0.5, |course| course.drift.is_some());
    assert!(level <= 2, "{level}");
}

#[test]
fn seasons_have_no_steps() {
    // The series covers a third of the last wave, which looks like drift, and sometimes like a
    // step.
    for (runs, most) in [(14.0, 3), (56.0, 3), (112.0, 3), (224.0, 3), (730.0, 12)] {
        let steps = seen(Moves::Wave(2.0, runs), 0.3, |course| {
            !course.steps.is_empty()
        });
        eprintln!("waves of {runs} runs: {steps} of {SERIES}");
        assert!(steps <= most, "{runs}: {steps}");
    }
}

#[test]
fn a_step_is_found_although_levels_wander() {
    for (by, phi, least) in [
        (2.0, 0.0, 30),
        (2.0, 0.5, 26),
        (2.0, 0.7, 20),
        (1.3, 0.0, 16),
    ] {
        let found = seen(Moves::Step(by), phi, is_found);
        eprintln!("x{by}, phi {phi}: {found} of {SERIES}");
        assert!(found >= least, "x{by}, phi {phi}: {found}");
    }
}
