//! Determines the random order of the arms.

/// Returns the arms of a round in random order. The order depends only on the seed, the round and
/// the number of arms, so a resumed experiment keeps its original order.
pub(crate) fn round_order(seed: u64, round: u32, arms: usize) -> Vec<u32> {
    // Multiply by the golden ratio in 64 bits, so that the seeds of neighbouring rounds differ in
    // many bits.
    let mixed = seed ^ (u64::from(round) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut random = fastrand::Rng::with_seed(mixed);
    let mut order: Vec<u32> = (0..arms as u32).collect();
    random.shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_decides_arm_order_per_round() {
        let orders: Vec<Vec<u32>> = (0..200).map(|round| round_order(7, round, 2)).collect();
        assert_eq!(
            orders,
            (0..200)
                .map(|round| round_order(7, round, 2))
                .collect::<Vec<_>>()
        );
        assert!(
            orders
                .iter()
                .all(|order| order == &[0, 1] || order == &[1, 0])
        );
        let first = orders.iter().filter(|order| order[0] == 0).count();
        // 100 are expected, and three standard deviations are 21.
        assert!((79..=121).contains(&first), "{first}");
        let mut of_five = round_order(8, 3, 5);
        of_five.sort_unstable();
        assert_eq!(of_five, [0, 1, 2, 3, 4]);
        assert_ne!(
            orders,
            (0..200)
                .map(|round| round_order(8, round, 2))
                .collect::<Vec<_>>()
        );
    }
}
