//! Levels that wander, drift or follow seasons: false alarms, and detections of a real step.

use fastrand::Rng;
use punctual_stats::changes::{Course, LEAST_RUNS, Values, courses_of};

use super::wander::{Wander, normal};

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

/// The noise of a series.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Noise {
    /// An autoregression with this autocorrelation.
    Wanders(f64),
    /// An autoregression with this autocorrelation, and independent noise of equal size.
    HiddenWander(f64),
    /// Long memory: the sum of autoregressions over many time scales, whose spectrum falls with the
    /// frequency (1/f).
    LongMemory,
    /// A new level at each boot, after 10 to 40 runs, and independent noise of the same size.
    Boots,
}

impl Noise {
    /// Returns the noise of each run, with variance 1, or 2 with independent noise.
    fn each(self, runs: usize, random: &mut Rng) -> Vec<f64> {
        let wandering = |phi: f64, random: &mut Rng| -> Vec<f64> {
            let mut wander = Wander::new(phi, random);
            (0..runs).map(|_| wander.next(random)).collect()
        };
        match self {
            Self::Wanders(phi) => wandering(phi, random),
            Self::HiddenWander(phi) => {
                let levels = wandering(phi, random);
                levels.iter().map(|level| level + normal(random)).collect()
            }
            Self::LongMemory => {
                let scales = [2.0, 6.0, 18.0, 54.0, 162.0, 486.0];
                let mut sum = vec![0.0; runs];
                for scale in scales {
                    let part = wandering((-1.0_f64 / scale).exp(), random);
                    let share = (scales.len() as f64).sqrt();
                    sum.iter_mut()
                        .zip(part)
                        .for_each(|(sum, one)| *sum += one / share);
                }
                sum
            }
            Self::Boots => {
                let (mut level, mut left) = (0.0, 0);
                let each = (0..runs).map(|_| {
                    if left == 0 {
                        (level, left) = (normal(random), random.usize(10..=40));
                    }
                    left -= 1;
                    level + normal(random)
                });
                each.collect()
            }
        }
    }
}

/// Returns the figures of a series: the level plus noise with this autocorrelation.
pub(crate) fn figures(moves: Moves, phi: f64, seed: u64) -> Values {
    figures_of(moves, Noise::Wanders(phi), seed)
}

/// Returns the figures of a series: the level plus noise.
pub(crate) fn figures_of(moves: Moves, noise: Noise, seed: u64) -> Values {
    Values::Figures(figures_of_runs(RUNS, moves, noise, seed))
}

/// Returns the figures of this many runs.
pub(crate) fn figures_of_runs(runs: usize, moves: Moves, noise: Noise, seed: u64) -> Vec<f64> {
    let mut random = Rng::with_seed(seed ^ 0x5eed);
    let noise = noise.each(runs, &mut random);
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
    let each = (0..runs).map(|run| level(run) + SPREAD * noise[run]);
    each.map(|log| USUAL * log.exp()).collect()
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

/// Returns the counts of a series: rare late periods, independent of each other. Their rate becomes
/// `by` times as high at run 112.
pub(crate) fn rare(by: f64, seed: u64) -> Values {
    let mut random = Rng::with_seed(seed ^ 0xaaaa);
    let mut poisson = |rate: f64| {
        let (limit, mut product, mut count) = ((-rate).exp(), random.f64(), 0);
        while product > limit {
            product *= random.f64();
            count += 1;
        }
        count
    };
    let each = (0..RUNS).map(|run| (poisson(if run < STEP { 0.5 } else { 0.5 * by }), 60_000));
    Values::Counts(each.collect())
}

/// Prints how often a machine without a change gets a step or a drift, for kinds of noise that the
/// method does not assume, and how often a step is found in them.
pub(crate) fn print_noise(series: u64) {
    println!("\n## trend: {series} series of {RUNS} runs with noise that is not assumed\n");
    println!("| noise | false step | false drift | step of x2 | step of x4 | also a drift |");
    println!("|---|---|---|---|---|---|");
    let rows = [
        ("independent", Noise::Wanders(0.0)),
        ("φ = 0.5", Noise::Wanders(0.5)),
        ("φ = 0.9", Noise::Wanders(0.9)),
        ("φ = 0.9 under noise", Noise::HiddenWander(0.9)),
        ("φ = 0.95 under noise", Noise::HiddenWander(0.95)),
        ("long memory", Noise::LongMemory),
        ("a level per boot", Noise::Boots),
    ];
    let share = |count: u64| format!("{:.1}%", 100.0 * count as f64 / series as f64);
    for (name, noise) in rows {
        let judged = |moves: Moves| -> Vec<Course> {
            let each = (0..series).map(|seed| course(figures_of(moves, noise, seed), seed));
            each.collect()
        };
        let count = |courses: &[Course], is: &dyn Fn(&Course) -> bool| {
            courses.iter().filter(|course| is(course)).count() as u64
        };
        let (none, two, four) = (
            judged(Moves::Nothing),
            judged(Moves::Step(2.0)),
            judged(Moves::Step(4.0)),
        );
        println!(
            "| {name} | {} | {} | {} | {} | {} |",
            share(count(&none, &|one| !one.steps.is_empty())),
            share(count(&none, &|one| one.drift.is_some())),
            share(count(&two, &is_found)),
            share(count(&four, &is_found)),
            share(count(&four, &|one| is_found(one) && one.drift.is_some())),
        );
    }
    let found = |by| {
        let each = (0..series).filter(|seed| {
            let course = course(rare(by, *seed), *seed);
            if by > 1.0 {
                is_found(&course)
            } else {
                !course.steps.is_empty()
            }
        });
        each.count() as u64
    };
    println!(
        "\nrare late periods: false step {}, step of x6 {}",
        share(found(1.0)),
        share(found(6.0))
    );
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
