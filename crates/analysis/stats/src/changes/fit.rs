//! Least-squares fits of columns.

/// Returns a step at this run.
pub(super) fn step_column(runs: usize, at: usize) -> Vec<f64> {
    let each = (0..runs).map(|run| f64::from(u8::from(run >= at)));
    each.collect()
}

/// Returns the residual sum of squares after a least-squares fit of the columns.
pub(super) fn left(values: &[f64], columns: &[Vec<f64>]) -> f64 {
    let (rest, _) = rest_of(values, columns);
    dot(&rest, &rest)
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns the residuals after a least-squares fit of the columns (Gram and Schmidt), and the length
/// of the part of each column that the columns before it do not explain.
pub(super) fn rest_of(values: &[f64], columns: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>) {
    let mut rest = values.to_vec();
    let mut lengths = Vec::new();
    let mut known: Vec<Vec<f64>> = Vec::new();
    let take = |from: &mut [f64], what: &[f64]| {
        let share = dot(from, what);
        from.iter_mut()
            .zip(what)
            .for_each(|(from, what)| *from -= share * what);
    };
    for column in columns {
        let mut own = column.clone();
        known.iter().for_each(|other| take(&mut own, other));
        let length = dot(&own, &own).sqrt();
        if length <= 1e-9 {
            continue;
        }
        own.iter_mut().for_each(|one| *one /= length);
        take(&mut rest, &own);
        known.push(own);
        lengths.push(length);
    }
    (rest, lengths)
}

/// Returns a power of the position of a run, which ranges from -0.5 to 0.5.
pub(super) fn power(runs: usize, power: i32) -> impl Fn(usize) -> f64 {
    move |run| (run as f64 / runs as f64 - 0.5).powi(power)
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
