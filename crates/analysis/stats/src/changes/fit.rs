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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_steps_and_powers_of_the_position() {
        assert_eq!(step_column(5, 2), [0.0, 0.0, 1.0, 1.0, 1.0]);
        assert_eq!(step_column(3, 0), [1.0; 3]);
        let column = |by: i32| (0..4).map(power(4, by)).collect::<Vec<f64>>();
        assert_eq!(column(0), [1.0; 4]);
        assert_eq!(column(1), [-0.5, -0.25, 0.0, 0.25]);
        assert_eq!(column(2), [0.25, 0.0625, 0.0, 0.0625]);
        assert_eq!((0..2).map(power(2, 3)).collect::<Vec<f64>>(), [-0.125, 0.0]);
        assert_eq!((mean(&[1.0, 2.0, 6.0]), mean(&[])), (3.0, 0.0));
    }

    /// 1, 2, 4, 3: squares of 5 about the mean. The line with the slope 4/5 explains 3.2 of them.
    #[test]
    fn fits_leave_what_least_squares_leave() {
        let values = [1.0, 2.0, 4.0, 3.0];
        let (ones, line) = (vec![1.0; 4], vec![0.0, 1.0, 2.0, 3.0]);
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
        near(left(&values, &[]), 30.0);
        near(left(&values, std::slice::from_ref(&ones)), 5.0);
        near(left(&values, &[ones.clone(), line.clone()]), 1.8);
        // The order of the columns does not matter, and neither does one that adds nothing.
        near(left(&values, &[line.clone(), ones.clone()]), 1.8);
        let twice: Vec<f64> = line.iter().map(|one| 3.0 + 2.0 * one).collect();
        let (rest, lengths) = rest_of(&values, &[ones, line, twice]);
        for (rest, known) in rest.iter().zip([-0.3, -0.1, 1.1, -0.7]) {
            near(*rest, known);
        }
        // Deviations of -1.5, -0.5, 0.5 and 1.5 remain of the line.
        assert_eq!(lengths.len(), 2);
        near(lengths[0], 2.0);
        near(lengths[1], 5f64.sqrt());
    }
}
