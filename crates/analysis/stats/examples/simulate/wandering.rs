//! Levels that wander, drift or follow seasons: false alarms, and detections of a real step.

use fastrand::Rng;
use punctual_stats::changes::{Course, LEAST_RUNS, Values, courses_of};

use super::wander::Wander;

/// Runs of a series: 112 days, twice a day.
const RUNS: usize = 224;
/// The first run of the new level.
const STEP: usize = 112;
/// The standard deviation of the logarithm of a figure.
const SPREAD: f64 = 0.3;
/// A usual figure, in ns.
const USUAL: f64 = 50_000.0;

/// Movement of the level of a series, in standard deviations of its noise.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moves {
    Nothing,
    /// A straight line that rises by this much from the first run to the last.
    Line(f64),
    /// A wave with this amplitude and this period in runs.
    Wave(f64, f64),
    /// A step to this multiple of the level, at run 112.
    Step(f64),
}

/// Returns the figures of a series: the level plus noise with this autocorrelation.
pub(crate) fn figures(moves: Moves, phi: f64, seed: u64) -> Values {
    let mut random = Rng::with_seed(seed ^ 0x5eed);
    let mut wander = Wander::new(phi, &mut random);
    let phase = std::f64::consts::TAU * random.f64();
    let level = |run: usize| match moves {
        Moves::Nothing => 0.0,
        Moves::Line(by) => by * SPREAD * run as f64 / RUNS as f64,
        Moves::Wave(amplitude, runs) => {
            amplitude * SPREAD * (phase + std::f64::consts::TAU * run as f64 / runs).sin()
        }
        Moves::Step(by) if run >= STEP => by.ln(),
        Moves::Step(_) => 0.0,
    };
    let each = (0..RUNS).map(|run| level(run) + SPREAD * wander.next(&mut random));
    Values::Figures(each.map(|log| USUAL * log.exp()).collect())
}

/// Judges a single series.
pub(crate) fn course(values: Values, seed: u64) -> Course {
    let judged = courses_of(&[vec![values]], seed);
    judged.into_iter().flatten().next().unwrap_or_default()
}

/// Returns whether a step is found near the true one.
pub(crate) fn is_found(course: &Course) -> bool {
    let mut steps = course.steps.iter();
    steps.any(|step| step.at.abs_diff(STEP) <= 2 * LEAST_RUNS)
}

pub(crate) fn print(series: u64) {
    println!(
        "\n## trend: {series} series of {RUNS} runs with levels that wander, drift or follow seasons\n"
    );
    println!("| level | 0 | 0.3 | 0.5 | 0.7 | 0.9 |");
    println!("|---|---|---|---|---|---|");
    let rows = [
        ("nothing", Moves::Nothing),
        ("step of x1.3", Moves::Step(1.3)),
        ("step of x2", Moves::Step(2.0)),
        ("drift by x1.8", Moves::Line(2.0)),
        ("drift by x3.3", Moves::Line(4.0)),
        ("waves of 56 runs", Moves::Wave(1.5, 56.0)),
        ("waves of 112 runs", Moves::Wave(1.5, 112.0)),
        ("waves of 224 runs", Moves::Wave(1.5, 224.0)),
        ("waves of 730 runs", Moves::Wave(4.0, 730.0)),
    ];
    for (name, moves) in rows {
        let cells = [0.0, 0.3, 0.5, 0.7, 0.9].map(|phi| {
            let (mut steps, mut drifts) = (0u64, 0u64);
            for seed in 0..series {
                let course = course(figures(moves, phi, seed), seed);
                steps += u64::from(match moves {
                    Moves::Step(_) => is_found(&course),
                    _ => !course.steps.is_empty(),
                });
                drifts += u64::from(course.drift.is_some());
            }
            let share = |count: u64| 100.0 * count as f64 / series as f64;
            format!("{:.1}% ({:.1}%)", share(steps), share(drifts))
        });
        println!("| {name} | {} |", cells.join(" | "));
    }
}
