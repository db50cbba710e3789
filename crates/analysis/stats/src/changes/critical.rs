//! Critical values of the step statistic for correlated runs without a step.

/// Numbers of runs.
const RUNS: [usize; 13] = [8, 10, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1_024];

/// Estimated persistence of the noise. Each value stands for all estimates that are closest to it.
const PERSISTENCE: [f64; 13] = [
    0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0,
];

/// The share of series without a step that reach a critical value.
const SHARES: [f64; 3] = [0.1, 0.01, 0.001];

/// Returns the probability that the strongest step in `runs` runs has at least this statistic if
/// there is no step.
///
/// The table is for AR(1) levels with normal errors, with an autocorrelation drawn evenly from 0 to 1.
/// Half of the series have independent noise on top. The table contains the quantiles for series with
/// the same estimated persistence, and so includes the error of the estimate. The logarithm of the probability is interpolated linearly over the logarithm of
/// the statistic.
pub(super) fn p_of(statistic: f64, runs: usize, persistence: f64) -> f64 {
    if !statistic.is_finite() {
        return 0.0;
    }
    let values = at(runs, persistence);
    let upper = usize::from(statistic > values[1]);
    let [low, high] = [upper, upper + 1];
    let falls = (SHARES[high] / SHARES[low]).ln() / (values[high] / values[low]).ln();
    let p = SHARES[low] * (statistic.max(f64::MIN_POSITIVE) / values[low]).powf(falls);
    p.min(1.0)
}

/// Returns the critical values for this number of runs and this estimate.
fn at(runs: usize, persistence: f64) -> [f64; SHARES.len()] {
    let (row, down) = between(&RUNS.map(|runs| (runs as f64).ln()), (runs as f64).ln());
    let (column, across) = between(&PERSISTENCE, persistence);
    let mut values = [0.0; SHARES.len()];
    for (share, value) in values.iter_mut().enumerate() {
        let of = |row: usize| {
            let [left, right] = [column, column + 1].map(|column| TABLE[row][column][share].ln());
            left + across * (right - left)
        };
        *value = (of(row) + down * (of(row + 1) - of(row))).exp();
    }
    values
}

/// Returns the index before a value in an ascending grid, and the position between that index and
/// the next one, from 0 to 1.
fn between(grid: &[f64], value: f64) -> (usize, f64) {
    let place = grid
        .partition_point(|one| *one <= value)
        .clamp(1, grid.len() - 1)
        - 1;
    let share = (value - grid[place]) / (grid[place + 1] - grid[place]);
    (place, share.clamp(0.0, 1.0))
}

/// Created by `cargo xtask simulate --only critical`. Indexed by runs, persistence and share.
#[allow(clippy::approx_constant)] // 3.14 is a simulated value.
const TABLE: [[[f64; 3]; 13]; 13] = [
    // 8 runs
    [
        [2.83, 5.66, 8.50],
        [2.67, 5.43, 7.85],
        [2.55, 5.23, 7.65],
        [2.34, 4.64, 6.94],
        [2.16, 4.16, 6.23],
        [2.08, 4.01, 5.97],
        [2.00, 3.81, 5.76],
        [1.98, 3.67, 5.80],
        [2.08, 3.81, 6.38],
        [2.26, 4.28, 7.30],
        [2.45, 4.85, 8.03],
        [2.63, 4.92, 7.62],
        [2.74, 4.52, 6.50],
    ],
    // 10 runs
    [
        [3.22, 6.02, 8.77],
        [3.09, 5.76, 8.01],
        [2.98, 5.55, 7.60],
        [2.76, 5.03, 7.13],
        [2.60, 4.62, 6.86],
        [2.53, 4.51, 6.76],
        [2.43, 4.24, 6.25],
        [2.38, 4.05, 6.11],
        [2.49, 4.25, 6.75],
        [2.67, 4.76, 7.62],
        [2.84, 5.26, 8.22],
        [3.00, 5.26, 7.77],
        [3.14, 4.85, 6.61],
    ],
    // 12 runs
    [
        [3.53, 6.35, 9.25],
        [3.49, 6.13, 8.54],
        [3.41, 5.91, 8.00],
        [3.21, 5.41, 7.41],
        [3.05, 5.00, 7.14],
        [2.97, 4.83, 7.10],
        [2.85, 4.53, 6.58],
        [2.78, 4.32, 6.26],
        [2.87, 4.53, 6.79],
        [3.03, 5.07, 7.70],
        [3.15, 5.48, 8.25],
        [3.28, 5.44, 7.76],
        [3.48, 5.10, 6.63],
    ],
    // 16 runs
    [
        [3.57, 6.32, 9.55],
        [3.61, 6.32, 9.15],
        [3.61, 6.24, 8.70],
        [3.47, 5.73, 7.84],
        [3.32, 5.25, 7.26],
        [3.24, 4.98, 7.04],
        [3.12, 4.66, 6.52],
        [3.04, 4.43, 6.14],
        [3.09, 4.57, 6.52],
        [3.19, 5.00, 7.45],
        [3.25, 5.31, 7.97],
        [3.36, 5.29, 7.47],
        [3.60, 5.10, 6.52],
    ],
    // 24 runs
    [
        [3.46, 5.92, 9.25],
        [3.54, 6.11, 9.32],
        [3.60, 6.19, 9.20],
        [3.56, 5.89, 8.37],
        [3.50, 5.50, 7.58],
        [3.43, 5.19, 7.11],
        [3.34, 4.85, 6.49],
        [3.26, 4.56, 6.01],
        [3.24, 4.54, 6.17],
        [3.28, 4.76, 6.81],
        [3.29, 4.91, 7.14],
        [3.36, 4.91, 6.79],
        [3.59, 4.92, 6.20],
    ],
    // 32 runs
    [
        [3.33, 5.43, 8.41],
        [3.40, 5.61, 8.72],
        [3.47, 5.75, 8.96],
        [3.49, 5.73, 8.53],
        [3.52, 5.57, 7.83],
        [3.51, 5.34, 7.26],
        [3.48, 5.05, 6.63],
        [3.42, 4.72, 6.06],
        [3.35, 4.53, 5.89],
        [3.33, 4.55, 6.09],
        [3.32, 4.58, 6.19],
        [3.37, 4.60, 6.04],
        [3.51, 4.69, 5.78],
    ],
    // 48 runs
    [
        [3.21, 5.04, 7.53],
        [3.26, 5.15, 7.71],
        [3.32, 5.29, 8.00],
        [3.37, 5.40, 8.10],
        [3.44, 5.42, 7.78],
        [3.49, 5.35, 7.31],
        [3.53, 5.19, 6.84],
        [3.52, 4.89, 6.22],
        [3.44, 4.58, 5.80],
        [3.37, 4.45, 5.68],
        [3.36, 4.44, 5.62],
        [3.40, 4.45, 5.50],
        [3.45, 4.47, 5.34],
    ],
    // 64 runs
    [
        [3.13, 4.77, 7.07],
        [3.16, 4.85, 7.20],
        [3.21, 4.98, 7.46],
        [3.27, 5.09, 7.63],
        [3.36, 5.17, 7.50],
        [3.44, 5.22, 7.22],
        [3.52, 5.21, 6.98],
        [3.57, 5.04, 6.47],
        [3.52, 4.71, 5.91],
        [3.42, 4.46, 5.60],
        [3.42, 4.40, 5.42],
        [3.45, 4.40, 5.21],
        [3.45, 4.32, 4.94],
    ],
    // 96 runs
    [
        [3.08, 4.56, 6.77],
        [3.11, 4.60, 6.96],
        [3.15, 4.72, 7.22],
        [3.20, 4.79, 7.24],
        [3.29, 4.91, 7.13],
        [3.38, 5.04, 7.01],
        [3.47, 5.12, 6.96],
        [3.57, 5.11, 6.72],
        [3.56, 4.84, 6.13],
        [3.49, 4.52, 5.61],
        [3.49, 4.40, 5.37],
        [3.52, 4.37, 5.11],
        [3.48, 4.24, 4.78],
    ],
    // 128 runs
    [
        [3.04, 4.30, 6.36],
        [3.05, 4.31, 6.48],
        [3.07, 4.38, 6.74],
        [3.13, 4.48, 6.78],
        [3.23, 4.65, 6.83],
        [3.33, 4.84, 6.78],
        [3.43, 4.96, 6.72],
        [3.55, 5.04, 6.69],
        [3.59, 4.92, 6.24],
        [3.58, 4.66, 5.72],
        [3.59, 4.50, 5.40],
        [3.59, 4.39, 5.07],
        [3.54, 4.25, 4.77],
    ],
    // 256 runs
    [
        [3.02, 4.07, 6.16],
        [3.02, 4.06, 5.92],
        [3.02, 4.08, 5.96],
        [3.08, 4.19, 6.01],
        [3.19, 4.41, 6.31],
        [3.29, 4.62, 6.48],
        [3.38, 4.73, 6.34],
        [3.50, 4.86, 6.26],
        [3.62, 4.94, 6.15],
        [3.70, 4.89, 6.07],
        [3.73, 4.70, 5.81],
        [3.70, 4.47, 5.24],
        [3.66, 4.33, 4.75],
    ],
    // 512 runs
    [
        [3.02, 3.94, 5.81],
        [3.02, 3.95, 5.36],
        [3.03, 3.96, 5.15],
        [3.08, 4.02, 5.13],
        [3.17, 4.23, 5.46],
        [3.26, 4.45, 5.83],
        [3.34, 4.52, 5.81],
        [3.47, 4.66, 5.73],
        [3.62, 4.86, 5.92],
        [3.77, 4.97, 6.43],
        [3.85, 4.88, 6.56],
        [3.84, 4.63, 5.68],
        [3.82, 4.48, 4.81],
    ],
    // 1024 runs
    [
        [3.02, 3.90, 5.09],
        [3.05, 3.95, 4.96],
        [3.06, 3.96, 4.83],
        [3.09, 3.95, 4.75],
        [3.17, 4.13, 5.02],
        [3.27, 4.34, 5.32],
        [3.34, 4.39, 5.27],
        [3.45, 4.55, 5.41],
        [3.61, 4.76, 5.89],
        [3.77, 4.91, 6.66],
        [3.90, 4.99, 6.99],
        [3.96, 4.85, 5.94],
        [3.97, 4.71, 4.96],
    ],
];

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        let apart = (found / expected - 1.0).abs();
        assert!(apart < 1e-9, "{found} is not {expected}");
    }

    /// At each value of the table, the probability is the share of the simulated series.
    #[test]
    fn table_holds_at_each_of_its_values() {
        for (runs, rows) in RUNS.into_iter().zip(TABLE) {
            for (persistence, values) in PERSISTENCE.into_iter().zip(rows) {
                for (value, share) in values.into_iter().zip(SHARES) {
                    near(p_of(value, runs, persistence), share);
                }
            }
        }
    }

    /// Straight lines between the logarithms of statistics, numbers of runs and probabilities.
    #[test]
    fn values_between_are_interpolated() {
        let [low, middle, high] = TABLE[3][4];
        let half = |a: f64, b: f64| (a * b).sqrt();
        near(p_of(half(low, middle), 16, 0.4), half(0.1, 0.01));
        near(p_of(half(middle, high), 16, 0.4), half(0.01, 0.001));
        // The lines go on beyond the table.
        near(p_of(high * high / middle, 16, 0.4), 0.000_1);
        near(p_of(low * (low / middle).sqrt(), 16, 0.4), half(0.1, 1.0));
        assert_eq!(p_of(low * low / middle * 0.999, 16, 0.4), 1.0);
        for (place, share) in SHARES.into_iter().enumerate() {
            near(
                p_of(half(TABLE[3][4][place], TABLE[3][5][place]), 16, 0.45),
                share,
            );
        }
        // By their logarithms, 9 runs are 0.5278 of the way from 8 to 10.
        let way = (9f64 / 8.0).ln() / (10f64 / 8.0).ln();
        for (place, share) in SHARES.into_iter().enumerate() {
            let [few, more] = [TABLE[0][2][place], TABLE[1][2][place]];
            near(p_of(few * (more / few).powf(way), 9, 0.2), share);
        }
    }

    #[test]
    fn edges_of_the_table_hold_beyond_it() {
        for (place, share) in SHARES.into_iter().enumerate() {
            near(p_of(TABLE[0][0][place], 3, -0.5), share);
            near(p_of(TABLE[12][12][place], 50_000, 1.5), share);
            near(p_of(TABLE[0][12][place], 1, 9.0), share);
        }
        assert_eq!((p_of(f64::NAN, 20, 0.1), p_of(0.0, 20, 0.1)), (0.0, 1.0));
    }

    #[test]
    fn grid_is_searched_for_neighbours() {
        let grid = [1.0, 2.0, 4.0];
        for (value, place, share) in [
            (1.0, 0, 0.0),
            (1.25, 0, 0.25),
            (2.0, 1, 0.0),
            (3.0, 1, 0.5),
            (4.0, 1, 1.0),
            (9.0, 1, 1.0),
            (0.0, 0, 0.0),
        ] {
            assert_eq!(between(&grid, value), (place, share), "{value}");
        }
    }
}
