//! Carry-over: the effect of a block on the next one. The tests in [`pairs`](crate::pairs) assume
//! that there is none.
//!
//! The random order determines both the arm of a block and the arm of the previous block. Counts
//! are therefore modelled as a product of two shares within their round: one for the arm, and one
//! for the previous arm. The first share is then removed from the counts, and the order is drawn
//! again many times. This shows by how much the second share varies by chance.

use std::cmp::Ordering;

use fastrand::Rng;

use crate::pairs::LEAST_PAIRS;

/// Number of random orders.
const DRAWS: usize = 199;

/// Number of steps of the fit. The two shares are nearly independent, so few are enough.
const STEPS: usize = 10;

/// Amount that is added to observed and expected counts, so that a share without events stays
/// finite.
const PRIOR: f64 = 0.5;

/// Carry-over is proven below this p-value.
const SHOWN: f64 = 0.05;

/// Below this p-value, carry-over is taken into account if it would reverse an effect.
const LIKELY: f64 = 0.25;

/// Carry-over may be assumed absent only above this p-value.
const NOT_EXCLUDED: f64 = 0.10;

/// Effect of the previous block's arm on the events of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CarryOver {
    /// Ratio of events after a block of the arm to events after a baseline block.
    pub found: f64,
    /// Lower end of its 95% confidence interval.
    pub low: f64,
    /// Upper end of its 95% confidence interval.
    pub high: f64,
    /// Probability of a ratio this far from 1 if there is no carry-over.
    pub p: f64,
    /// Combined effect of the arm on its own block and on the next.
    pub total: f64,
}

impl CarryOver {
    /// Returns whether carry-over is proven.
    pub fn is_shown(self) -> bool {
        self.p < SHOWN
    }

    /// Returns whether an arm that seems to have more (`Greater`) or fewer events may in fact have
    /// the opposite effect, hidden by carry-over.
    pub fn may_contradict(self, seems: Ordering) -> bool {
        self.p < LIKELY && self.total.total_cmp(&1.0) == seems.reverse()
    }

    /// Returns whether carry-over is proven to be small: its ratio is between 0.8 and 1.25 and not
    /// significantly different from 1, and it is also small together with the effect of the arm on
    /// its own block. This does not detect effects that take many blocks, because their state
    /// hardly changes between blocks.
    pub fn is_excluded(self) -> bool {
        let small = |ratio: f64| (0.8..=1.25).contains(&ratio);
        self.p >= NOT_EXCLUDED && small(self.low) && small(self.high) && small(self.total)
    }
}

/// A block: its arm and its number of events.
pub type Counted = (u32, u64);

struct Block {
    round: usize,
    arm: usize,
    before: usize,
    count: f64,
}

/// Estimates the carry-over of each arm except the baseline, arm 0. In each of the `rounds`, every
/// arm was measured once in random order, and the blocks are listed in that order. The block before
/// the first one, such as a pilot, counts as a baseline block. Returns nothing if there are fewer
/// than [`LEAST_PAIRS`] rounds.
pub fn carry_over(rounds: &[Vec<Counted>], seed: u64) -> Vec<CarryOver> {
    let last = rounds.iter().flatten().map(|one| one.0 as usize).max();
    let arms = last.map_or(0, |last| last + 1);
    if rounds.len() < LEAST_PAIRS {
        return Vec::new();
    }
    let counted = (rounds.iter()).map(|round| {
        let each = round.iter();
        each.map(|(arm, count)| (*arm as usize, *count as f64))
            .collect()
    });
    let mut rounds: Vec<Vec<(usize, f64)>> = counted.collect();
    let (own, before) = fit(&blocks(&rounds), rounds.len(), arms);
    // The remainder must not depend on the arm, because the order of the arms is drawn again.
    for (arm, count) in rounds.iter_mut().flatten() {
        *count /= own[*arm];
    }
    let mut random = Rng::with_seed(seed);
    let mut drawn: Vec<(u32, f64)> = vec![(1, 0.0); arms];
    for _ in 0..DRAWS {
        for round in &mut rounds {
            let mut order: Vec<usize> = round.iter().map(|one| one.0).collect();
            random.shuffle(&mut order);
            for (block, arm) in round.iter_mut().zip(order) {
                block.0 = arm;
            }
        }
        let by_chance = fit(&blocks(&rounds), rounds.len(), arms).1;
        for ((as_far, squares), (chance, found)) in
            drawn.iter_mut().zip(by_chance.iter().zip(&before))
        {
            *squares += chance.ln().powi(2);
            *as_far += u32::from(chance.ln().abs() >= found.ln().abs() - 1e-9);
        }
    }
    let of = |arm: usize| {
        let (as_far, squares) = drawn[arm];
        let wide = (1.96 * (squares / DRAWS as f64).sqrt()).exp();
        CarryOver {
            found: before[arm],
            low: before[arm] / wide,
            high: before[arm] * wide,
            p: f64::from(as_far) / (DRAWS + 1) as f64,
            total: own[arm] * before[arm],
        }
    };
    (1..arms).map(of).collect()
}

fn blocks(rounds: &[Vec<(usize, f64)>]) -> Vec<Block> {
    let mut before = 0;
    let mut all = Vec::new();
    for (round, each) in rounds.iter().enumerate() {
        for (arm, count) in each {
            all.push(Block {
                round,
                arm: *arm,
                before: std::mem::replace(&mut before, *arm),
                count: *count,
            });
        }
    }
    all
}

/// Fits the share of each arm and of each previous arm by iterative proportional fitting (Deming
/// and Stephan, Annals of Mathematical Statistics 11, 1940). The baseline's share is 1.
fn fit(blocks: &[Block], rounds: usize, arms: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut own, mut before) = (vec![1.0; arms], vec![1.0; arms]);
    let mut all = vec![0.0; rounds];
    for block in blocks {
        all[block.round] += block.count;
    }
    for step in 0..2 * STEPS {
        let mut shares = vec![0.0; rounds];
        for block in blocks {
            shares[block.round] += own[block.arm] * before[block.before];
        }
        let mut sums = vec![(PRIOR, PRIOR); arms];
        for block in blocks {
            let share = own[block.arm] * before[block.before] / shares[block.round];
            let place = if step % 2 == 0 {
                block.arm
            } else {
                block.before
            };
            sums[place].0 += block.count;
            sums[place].1 += all[block.round] * share;
        }
        let factors = if step % 2 == 0 { &mut own } else { &mut before };
        for (factor, (counted, expected)) in factors.iter_mut().zip(sums) {
            *factor *= counted / expected;
        }
        let first = factors[0];
        factors.iter_mut().for_each(|factor| *factor /= first);
    }
    (own, before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poisson(mean: f64, random: &mut Rng) -> u64 {
        let (mut count, mut left) = (0, mean);
        loop {
            left += (1.0 - random.f64()).ln();
            if left < 0.0 {
                return count;
            }
            count += 1;
        }
    }

    /// Rounds on a machine that drifts. Events are multiplied by `own` in blocks of the arm, and by
    /// `before` in blocks after the arm.
    fn rounds(number: usize, mean: f64, [own, before]: [f64; 2], seed: u64) -> Vec<Vec<Counted>> {
        let random = &mut Rng::with_seed(seed);
        let (mut level, mut last) = (0.0f64, 0);
        let mut block = |arm: u32, random: &mut Rng| {
            level = 0.9 * level + 0.8 * (random.f64() - 0.5);
            let factor = |on: u32, by: f64| if on == 1 { by } else { 1.0 };
            let rate = factor(arm, own) * factor(std::mem::replace(&mut last, arm), before);
            (arm, poisson(mean * rate * level.exp(), random))
        };
        (0..number)
            .map(|_| {
                let first = u32::from(random.bool());
                vec![block(first, random), block(1 - first, random)]
            })
            .collect()
    }

    fn shown(number: u64, of: impl Fn(u64) -> Vec<Vec<Counted>>) -> u64 {
        let found = (0..number).filter_map(|seed| carry_over(&of(seed), seed).pop());
        found.filter(|one| one.is_shown()).count() as u64
    }

    #[test]
    fn carry_over_is_separated_from_own_effect() {
        // At 5%, 10 of 200 are expected. The limit of 19 is three standard deviations above this
        // number.
        let none = shown(200, |seed| rounds(12, 12.0, [1.0, 1.0], seed));
        assert!(none <= 19, "{none} of 200");
        let own = shown(200, |seed| rounds(12, 12.0, [3.0, 1.0], seed));
        assert!(own <= 19, "{own} of 200");
        // Nearly all events belong to one arm.
        let one = shown(200, |seed| rounds(12, 0.2, [100.0, 1.0], seed));
        assert!(one <= 19, "{one} of 200");
        let late = shown(60, |seed| rounds(20, 30.0, [1.0, 2.0], seed));
        assert!(late >= 54, "{late} of 60");
        let one = carry_over(&rounds(60, 200.0, [0.5, 2.0], 1), 1)[0];
        assert!((1.6..2.5).contains(&one.found), "{one:?}");
        assert!(
            one.low < 2.0 && one.high > 2.0 && !one.is_excluded(),
            "{one:?}"
        );
    }

    #[test]
    fn it_is_excluded_only_with_many_events() {
        let excluded = |mean| {
            let of = |seed| carry_over(&rounds(12, mean, [1.0, 1.0], seed), seed)[0];
            (0..20).filter(|seed| of(*seed).is_excluded()).count()
        };
        assert_eq!(excluded(5.0), 0);
        let one = vec![vec![(0, 400), (1, 401)], vec![(1, 399), (0, 400)]];
        let many: Vec<Vec<Counted>> = one.into_iter().cycle().take(20).collect();
        assert!(carry_over(&many, 1)[0].is_excluded());
    }

    /// An arm that halves its own events and doubles those of the next block changes nothing in
    /// total.
    #[test]
    fn total_is_both_effects_together() {
        let one = carry_over(&rounds(60, 200.0, [0.5, 2.0], 1), 1)[0];
        assert!((0.8..1.25).contains(&one.total), "{one:?}");
        let one = carry_over(&rounds(60, 200.0, [2.0, 2.0], 1), 1)[0];
        assert!((3.2..5.0).contains(&one.total), "{one:?}");
    }

    /// An arm that seems to have fewer events may have more, if those of the next block count.
    #[test]
    fn likely_carry_over_may_reverse_an_effect() {
        use Ordering::{Greater, Less};
        let may_contradict = |p, total, seems| {
            let one = CarryOver {
                found: 1.5,
                low: 0.9,
                high: 2.5,
                p,
                total,
            };
            one.may_contradict(seems)
        };
        assert!(may_contradict(0.1, 1.2, Less));
        assert!(may_contradict(0.1, 0.8, Greater));
        // The total has the same direction.
        assert!(!may_contradict(0.1, 1.2, Greater));
        assert!(!may_contradict(0.1, 0.8, Less));
        // Chance explains the carry-over.
        assert!(!may_contradict(0.3, 1.2, Less));
    }

    #[test]
    fn few_rounds_and_no_events_say_nothing() {
        let few = vec![vec![(0, 5), (1, 9)]; 5];
        assert_eq!(carry_over(&few, 1), []);
        assert_eq!(carry_over(&[], 1), []);
        let empty = carry_over(&vec![vec![(0, 0), (1, 0)]; 6], 1)[0];
        assert!(!empty.is_shown(), "{empty:?}");
    }

    /// Rounds whose counts are exact products: of `level` of the round, of `own` of the arm and of
    /// `before` of the arm before it. Each order of the arms occurs, in a mixed sequence.
    fn exact(number: usize, own: &[f64], before: &[f64]) -> Vec<Vec<Counted>> {
        let random = &mut Rng::with_seed(4);
        let mut last = 0;
        (0..number)
            .map(|round| {
                let mut arms: Vec<usize> = (0..own.len()).collect();
                random.shuffle(&mut arms);
                let level = 1e6 * (1 + round % 3) as f64;
                let count = |arm: usize| {
                    let product = own[arm] * before[std::mem::replace(&mut last, arm)];
                    (arm as u32, (level * product) as u64)
                };
                arms.into_iter().map(count).collect()
            })
            .collect()
    }

    #[test]
    fn exact_products_are_taken_apart() {
        let [one] = carry_over(&exact(40, &[1.0, 2.0], &[1.0, 3.0]), 1)[..] else {
            panic!("one arm besides the baseline");
        };
        assert!((one.found / 3.0 - 1.0).abs() < 0.1, "{one:?}");
        assert!((one.total / 6.0 - 1.0).abs() < 0.1, "{one:?}");
        // No random order gives as much.
        assert_eq!(one.p, 1.0 / 200.0);
        assert!(
            (one.low * one.high / one.found.powi(2) - 1.0).abs() < 1e-9,
            "{one:?}"
        );
        assert!(1.0 < one.low && one.low < one.found && one.is_shown() && !one.is_excluded());
        let three = carry_over(&exact(60, &[1.0, 2.0, 0.5], &[1.0, 1.0, 4.0]), 1);
        assert_eq!(three.len(), 2);
        for (one, (found, total)) in three.iter().zip([(1.0, 2.0), (4.0, 2.0)]) {
            assert!((one.found / found - 1.0).abs() < 0.1, "{one:?}");
            assert!((one.total / total - 1.0).abs() < 0.1, "{one:?}");
        }
    }

    /// The interval is as wide as the shares that random orders give: 1.96 of their spread.
    #[test]
    fn interval_is_the_spread_of_random_orders() {
        let rounds = exact(40, &[1.0, 1.0], &[1.0, 1.5]);
        let one = carry_over(&rounds, 1)[0];
        let mut drawn: Vec<f64> = Vec::new();
        let mut random = Rng::with_seed(77);
        for _ in 0..400 {
            let again: Vec<Vec<(usize, f64)>> = (rounds.iter())
                .map(|round| {
                    let mut arms = [0, 1];
                    random.shuffle(&mut arms);
                    arms.into_iter()
                        .zip(round)
                        .map(|(arm, one)| (arm, one.1 as f64))
                        .collect()
                })
                .collect();
            drawn.push(fit(&blocks(&again), 40, 2).1[1].ln());
        }
        let spread = (drawn.iter().map(|one| one * one).sum::<f64>() / 400.0).sqrt();
        let wide = (one.high / one.found).ln() / spread;
        assert!((1.7..2.2).contains(&wide), "{wide}");
    }

    #[test]
    fn fit_is_that_of_the_margins() {
        let rounds: Vec<Vec<(usize, f64)>> = (exact(30, &[1.0, 3.0], &[1.0, 0.5]).iter())
            .map(|round| {
                round
                    .iter()
                    .map(|one| (one.0 as usize, one.1 as f64))
                    .collect()
            })
            .collect();
        let all = blocks(&rounds);
        assert_eq!((all.len(), all[0].before, all[7].round), (60, 0, 3));
        assert!(all.windows(2).all(|pair| pair[1].before == pair[0].arm));
        let (own, before) = fit(&all, 30, 2);
        for (found, known) in [(own, [1.0, 3.0]), (before, [1.0, 0.5])] {
            assert_eq!(found[0], 1.0);
            assert!((found[1] / known[1] - 1.0).abs() < 0.1, "{found:?}");
        }
        // Without events, nothing differs.
        let none = vec![vec![(0, 0.0), (1, 0.0)]; 8];
        assert_eq!(fit(&blocks(&none), 8, 2), (vec![1.0; 2], vec![1.0; 2]));
    }

    #[test]
    fn equal_counts_exclude_carry_over() {
        let one = carry_over(&exact(6, &[1.0, 1.0], &[1.0, 1.0]), 1)[0];
        assert_eq!(
            (one.p, one.is_shown(), one.is_excluded()),
            (1.0, false, true)
        );
        assert!(
            (one.found - 1.0).abs() < 1e-6 && (one.high - 1.0).abs() < 1e-6,
            "{one:?}"
        );
        assert_eq!(carry_over(&exact(5, &[1.0, 1.0], &[1.0, 1.0]), 1), []);
    }

    /// All limits of the 80% to 125% band, and of the p-values.
    #[test]
    fn small_carry_over_is_within_all_limits() {
        let one = CarryOver {
            found: 1.0,
            low: 0.8,
            high: 1.25,
            p: 0.1,
            total: 1.25,
        };
        assert!(one.is_excluded());
        let others = [
            CarryOver { low: 0.79, ..one },
            CarryOver { high: 1.26, ..one },
            CarryOver { total: 1.26, ..one },
            CarryOver { total: 0.79, ..one },
            CarryOver { p: 0.099, ..one },
        ];
        assert!(others.iter().all(|other| !other.is_excluded()));
        let shown = [0.049, 0.05, 0.3].map(|p| CarryOver { p, ..one }.is_shown());
        assert_eq!(shown, [true, false, false]);
        let contradicts = |p| CarryOver { p, ..one }.may_contradict(Ordering::Less);
        assert_eq!([0.249, 0.25].map(contradicts), [true, false]);
        let equal = CarryOver {
            p: 0.1,
            total: 1.0,
            ..one
        };
        assert!(!equal.may_contradict(Ordering::Less) && !equal.may_contradict(Ordering::Greater));
    }
}
