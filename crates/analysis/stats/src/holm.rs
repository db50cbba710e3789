//! Corrections for many tests.

/// Adjusts the p-values of several tests (Holm 1979). If no test has a real effect, the chance that
/// any adjusted value is below `p` is at most `p`. The smallest value is multiplied by the number
/// of tests, the next one by that number minus one, and so on. No adjusted value is less than its
/// predecessor. Unknown values are ignored.
pub fn adjust(values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> = (values.iter().enumerate())
        .filter_map(|(place, value)| value.map(|value| (place, value)))
        .collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut adjusted = vec![None; values.len()];
    let mut least: f64 = 0.0;
    for (rank, (place, value)) in order.iter().enumerate() {
        let times = (order.len() - rank) as f64;
        least = least.max((value * times).min(1.0));
        adjusted[*place] = Some(least);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_are_those_of_the_paper() {
        // Sorted 0.01, 0.03, 0.04, times 3, 2, 1: 0.03, 0.06, 0.04 raised to 0.06.
        let adjusted = adjust(&[Some(0.03), None, Some(0.01), Some(0.04)]);
        assert_eq!(adjusted, [Some(0.06), None, Some(0.03), Some(0.06)]);
        assert_eq!(adjust(&[Some(0.6), Some(0.9)]), [Some(1.0), Some(1.0)]);
        assert!(adjust(&[]).is_empty());
    }
}
