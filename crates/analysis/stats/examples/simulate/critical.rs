//! The critical values of a step under AR(1). Prints the table in `src/changes/critical.rs`.

use fastrand::Rng;
use punctual_stats::changes::strongest;

use crate::wander::Wander;

/// Numbers of runs.
const RUNS: [usize; 13] = [8, 10, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1_024];
/// Estimated autocorrelations. Each represents the values closest to it.
const PHIS: [f64; 13] = [
    0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0,
];
/// The probability that a series without a step reaches the value.
const LEVELS: [f64; 3] = [0.1, 0.01, 0.001];
/// Number of runs drawn for one row, and the largest number of series.
const EFFORT: u64 = 1_000_000_000;
const SERIES: u64 = 8_000_000;

/// Returns the index of the nearest of [`PHIS`].
fn nearest(phi: f64) -> usize {
    let far = |at: &usize| (PHIS[*at] - phi).abs();
    (0..PHIS.len())
        .min_by(|a, b| far(a).total_cmp(&far(b)))
        .unwrap_or(0)
}

/// Prints the quantiles of the statistic for series without a step, grouped by estimated
/// autocorrelation. The true autocorrelation is drawn evenly from 0 to 1, so the quantiles include
/// the error of the estimate.
pub(crate) fn print() {
    println!("// By `cargo xtask simulate --only critical`.");
    println!(
        "const TABLE: [[[f64; {}]; {}]; {}] = [",
        LEVELS.len(),
        PHIS.len(),
        RUNS.len()
    );
    for runs in RUNS {
        let series = (EFFORT / runs as u64).min(SERIES);
        let mut random = Rng::with_seed(runs as u64);
        let mut seen: Vec<Vec<f32>> = vec![Vec::new(); PHIS.len()];
        let mut levels = vec![0.0; runs];
        for _ in 0..series {
            let mut wander = Wander::new(random.f64(), &mut random);
            levels
                .iter_mut()
                .for_each(|level| *level = wander.next(&mut random));
            if let Some(found) = strongest(&levels) {
                seen[nearest(found.phi)].push(found.statistic as f32);
            }
        }
        println!("    // {runs} runs");
        println!("    [");
        for statistics in &mut seen {
            statistics.sort_by(f32::total_cmp);
            let of = |level: &f64| {
                let place = (statistics.len() as f64 * (1.0 - level)) as usize;
                let value = statistics.get(place).copied().unwrap_or(f32::INFINITY);
                format!("{value:.2}")
            };
            let row: Vec<String> = LEVELS.iter().map(of).collect();
            println!("        [{}],", row.join(", "));
        }
        println!("    ],");
    }
    println!("];");
}
