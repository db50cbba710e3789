//! Block bootstrap: simulates further runs like the two that are compared.

use fastrand::Rng;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::blocks::Blocks;
use crate::counts::{Counts, Scale};
use crate::figure::Figure;
use crate::longrun::{self, LongRun};

/// The figures of each simulated pair of runs.
pub(crate) struct Drawn {
    /// Values of baseline and candidate, by figure.
    figures: Vec<[Vec<Option<f64>>; 2]>,
    /// The probability that the candidate is later.
    later: Vec<Option<f64>>,
    /// Variation of baseline and candidate over their whole length, by figure. The last entry is
    /// for the probability that the candidate is later.
    long_run: Vec<[LongRun; 2]>,
    /// For quantiles, by figure: the probability that the shares of samples later than the quantile
    /// differ this much by chance.
    shares: Vec<Option<f64>>,
}

/// The result of the draws for one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Judged {
    /// The 95% confidence interval of the difference.
    pub(crate) difference: (f64, f64),
    /// The interval of the ratio, if the baseline is not zero.
    pub(crate) ratio: Option<(f64, f64)>,
    /// The probability that such a difference occurs by chance.
    pub(crate) p: f64,
}

/// Reason why a figure is not judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Unjudged {
    /// The reason in words.
    pub(crate) why: String,
    /// Number of intervals of the time series that would be enough on each side, if more would
    /// help.
    pub(crate) intervals: [Option<usize>; 2],
}

impl Unjudged {
    pub(crate) fn because(why: &str) -> Self {
        Self {
            why: why.to_owned(),
            ..Self::default()
        }
    }
}

impl Judged {
    /// Combines the result with a second p-value. The larger p-value counts, and the interval must
    /// not claim more than that p-value.
    fn at_least(mut self, p: f64) -> Self {
        self.p = self.p.max(p);
        if p > 0.05 {
            let with = |(low, high): (f64, f64), none: f64| (low.min(none), high.max(none));
            self.difference = with(self.difference, 0.0);
            self.ratio = self.ratio.map(|ratio| with(ratio, 1.0));
        }
        self
    }
}

/// Draws as many blocks as each run has, with replacement, `replicates` times.
pub(crate) fn draw(
    scale: &Scale,
    figures: &[Figure],
    runs: [&Blocks; 2],
    replicates: usize,
    seed: u64,
) -> Drawn {
    let mut random = Rng::with_seed(seed);
    let mut drawn = Drawn {
        figures: vec![[const { Vec::new() }; 2]; figures.len()],
        later: Vec::with_capacity(replicates),
        long_run: longrun::of_all(scale, figures, runs),
        shares: longrun::quantile_p(scale, figures, runs),
    };
    let empty = Counts {
        each: vec![0; scale.len()],
        ..Counts::default()
    };
    let mut counts = [empty.clone(), empty];
    for _ in 0..replicates {
        for (side, run) in runs.iter().enumerate() {
            counts[side].clear();
            for _ in 0..run.each.len() {
                counts[side].add(&run.each[random.usize(..run.each.len())]);
            }
            for (figure, drawn) in figures.iter().zip(&mut drawn.figures) {
                drawn[side].push(figure.value(scale, &counts[side]));
            }
        }
        drawn.later.push(counts[0].later(&counts[1]));
    }
    drawn
}

impl Drawn {
    /// Judges the `nth` figure, with the values `found` for baseline and candidate.
    ///
    /// # Errors
    /// Returns the reason in words if it cannot be judged.
    pub(crate) fn judge(&self, nth: usize, found: [f64; 2]) -> Result<Judged, Unjudged> {
        let [a, b] = &self.figures[nth];
        let every = |drawn: &[Option<f64>]| -> Option<Vec<f64>> { drawn.iter().copied().collect() };
        let Some((a, b)) = every(a).zip(every(b)) else {
            return Err(Unjudged::because("among samples of unknown latency"));
        };
        let slow = self.long_run[nth].iter().position(|side| side.too_slow);
        if let Some(side) = slow {
            return Err(Unjudged {
                why: format!(
                    "{} run too short, because this figure drifts slowly; measure longer, or after \
                     a longer warm-up",
                    ["baseline", "candidate"][side]
                ),
                intervals: [0, 1].map(|side| self.long_run[nth][side].intervals_needed),
            });
        }
        let spread = Spread::new([&a, &b], self.long_run[nth]);
        let pairs = || a.iter().zip(&b);
        let difference = found[1] - found[0];
        let differences = sorted(pairs().map(|(a, b)| b - a));
        let ratio = (found[0] > 0.0 && a.iter().all(|a| *a > 0.0)).then(|| {
            let ratios = sorted(pairs().map(|(a, b)| b / a));
            let (low, high) = spread.interval(&ratios, found[1] / found[0]);
            (low.max(0.0), high)
        });
        let judged = Judged {
            difference: spread.interval(&differences, difference),
            ratio,
            p: spread.p(&differences, difference),
        };
        Ok(match self.shares[nth] {
            Some(p) => judged.at_least(p),
            None => judged,
        })
    }

    /// Returns the 95% confidence interval of the probability that the candidate is later, which
    /// was `found`.
    pub(crate) fn later(&self, found: f64) -> Option<(f64, f64)> {
        let later: Vec<f64> = self.later.iter().copied().collect::<Option<_>>()?;
        let sides = self.long_run.last()?;
        if sides.iter().any(|side| side.too_slow) {
            return None;
        }
        let spread = Spread {
            error: 0.0,
            wider: (sides.iter().map(|side| side.wider).fold(1.0, f64::max)).sqrt(),
            freedom: sides
                .iter()
                .map(|side| side.freedom)
                .fold(f64::MAX, f64::min),
        };
        let (low, high) = spread.interval(&sorted(later.into_iter()), found);
        Some((low.max(0.0), high.min(1.0)))
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Minimum number of draws on the other side of zero. With fewer, the p-value is not derived from
/// their number.
const FEW_CROSSING: usize = 20;

/// The spread of a difference, and the reliability of this spread. Percentiles of draws are too
/// narrow for two reasons: blocks do not show all of the variation, and the t distribution is wider
/// than the normal one (Hesterberg, The American Statistician 69, 2015, section 5.4).
struct Spread {
    /// The standard error of the difference.
    error: f64,
    /// Ratio of that error to the standard error of the draws.
    wider: f64,
    /// Degrees of freedom (Welch, Biometrika 34, 1947).
    freedom: f64,
}

impl Spread {
    fn new(sides: [&[f64]; 2], long_run: [LongRun; 2]) -> Self {
        let drawn = sides.map(variance);
        let freedom = long_run.map(|side| side.freedom);
        let true_to = [0, 1].map(|side| drawn[side] * long_run[side].wider);
        let sum = true_to[0] + true_to[1];
        if sum > 0.0 {
            Self {
                error: sum.sqrt(),
                wider: (sum / (drawn[0] + drawn[1])).sqrt(),
                freedom: longrun::welch(true_to, freedom),
            }
        } else {
            Self {
                error: 0.0,
                wider: 1.0,
                freedom: freedom[0].min(freedom[1]),
            }
        }
    }

    /// Returns the interval that contains 95% of the draws around `found`.
    fn interval(&self, sorted: &[f64], found: f64) -> (f64, f64) {
        let last = sorted.len() - 1;
        let from = self.laws().map_or(0, |(t, normal)| {
            let tail = normal.cdf(t.inverse_cdf(0.025));
            (tail * last as f64).floor() as usize
        });
        let apart = |drawn: f64| found + self.wider * (drawn - found);
        (
            apart(sorted[from]).min(found),
            apart(sorted[last - from]).max(found),
        )
    }

    /// Returns the two-sided probability that such a `difference` occurs by chance.
    fn p(&self, sorted: &[f64], difference: f64) -> f64 {
        let number = sorted.len() as f64;
        // Value that a draw must have to become zero when the spread is widened.
        let zero = difference - difference / self.wider;
        let crossing = match difference > 0.0 {
            _ if difference == 0.0 => return 1.0,
            true => sorted.partition_point(|value| *value <= zero),
            false => sorted.len() - sorted.partition_point(|value| *value < zero),
        };
        let share = (2.0 * (crossing as f64 + 1.0) / (number + 1.0)).min(1.0);
        // If all draws are equal, they show no spread, so the second test decides.
        let Some((t, normal)) = self.laws().filter(|_| self.error > 0.0) else {
            return share;
        };
        let beyond = |distance: f64| (2.0 * t.cdf(-distance.abs())).min(1.0);
        // If few draws cross zero, the distance in standard errors is more reliable. Using the
        // smaller of the two probabilities would give too many false alarms.
        if crossing < FEW_CROSSING {
            beyond(difference / self.error)
        } else {
            beyond(normal.inverse_cdf(share / 2.0))
        }
    }

    fn laws(&self) -> Option<(StudentsT, Normal)> {
        let t = StudentsT::new(0.0, 1.0, self.freedom).ok()?;
        Some((t, Normal::new(0.0, 1.0).ok()?))
    }
}

/// Returns the variance of the draws.
fn variance(values: &[f64]) -> f64 {
    let number = values.len() as f64;
    let mean = values.iter().sum::<f64>() / number;
    values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>()
        / number
}

#[cfg(test)]
mod tests {
    use punctual_model::{Histogram, SignedNanos};

    use super::*;
    use crate::counts::Segment;

    /// A run whose blocks each contain one value, 100 times.
    fn run(scale: &Scale, values: &[i64]) -> Blocks {
        let each = values.iter().map(|value| {
            let mut histogram = Histogram::new();
            (0..100).for_each(|_| histogram.record(SignedNanos(*value)));
            let mut segment = Segment::default();
            segment.add(scale, &histogram.buckets(), 0);
            segment
        });
        let each: Vec<Segment> = each.collect();
        Blocks {
            intervals: each.clone(),
            each,
            length: 1,
        }
    }

    fn scale_of(values: &[i64]) -> Scale {
        let mut all = Histogram::new();
        values
            .iter()
            .for_each(|value| all.record(SignedNanos(*value)));
        Scale::from_histograms([&all].into_iter())
    }

    // The values are not in ascending order, because a steady rise is too slow to be judged.
    const SPREAD: [i64; 12] = [340, 410, 320, 390, 300, 380, 350, 310, 400, 330, 370, 360];

    #[test]
    fn the_spread_between_blocks_is_what_counts() {
        let shifted: Vec<i64> = SPREAD.iter().map(|value| value + 20).collect();
        let scale = scale_of(&[&SPREAD[..], &shifted].concat());
        let figures = [Figure::Quantile(0.5)];
        let runs = [run(&scale, &SPREAD), run(&scale, &shifted)];
        let drawn = draw(&scale, &figures, [&runs[0], &runs[1]], 1_000, 1);
        let judged = drawn.judge(0, [345.0, 365.0]).unwrap();
        // With 1200 independent samples per side, a difference would be found. With 12 blocks and a
        // spread of 110 ns, it cannot be found.
        assert!(judged.p > 0.1, "{judged:?}");
        assert!(
            judged.difference.0 < 0.0 && judged.difference.1 > 20.0,
            "{judged:?}"
        );
        let (low, high) = drawn.later(0.55).unwrap();
        assert!(low < 0.5 && high > 0.5, "{low} {high}");
    }

    #[test]
    fn a_shift_beyond_the_spread_is_found() {
        let shifted: Vec<i64> = SPREAD.iter().map(|value| value + 300).collect();
        let scale = scale_of(&[&SPREAD[..], &shifted].concat());
        let figures = [Figure::Quantile(0.5), Figure::Missed];
        let runs = [run(&scale, &SPREAD), run(&scale, &shifted)];
        let drawn = draw(&scale, &figures, [&runs[0], &runs[1]], 1_000, 1);
        let judged = drawn.judge(0, [345.0, 645.0]).unwrap();
        assert!(judged.p < 1e-3, "{judged:?}");
        let (low, high) = judged.difference;
        assert!(
            (200.0..300.0).contains(&low) && (300.0..400.0).contains(&high),
            "{judged:?}"
        );
        let (low, high) = judged.ratio.unwrap();
        assert!(low > 1.5 && high < 2.2, "{judged:?}");
        // Neither side missed periods, so the difference is zero and the ratio is unknown.
        let missed = drawn.judge(1, [0.0, 0.0]).unwrap();
        assert_eq!(
            (missed.difference, missed.ratio, missed.p),
            ((0.0, 0.0), None, 1.0)
        );
    }

    #[test]
    fn the_seed_decides() {
        let scale = scale_of(&SPREAD);
        let runs = [run(&scale, &SPREAD), run(&scale, &SPREAD[..10])];
        let judge = |seed| {
            let drawn = draw(
                &scale,
                &[Figure::Quantile(0.5)],
                [&runs[0], &runs[1]],
                300,
                seed,
            );
            drawn.judge(0, [355.0, 345.0])
        };
        assert_eq!(judge(5), judge(5));
    }

    fn near(found: f64, expected: f64) {
        let apart = (found - expected).abs();
        assert!(
            apart < 1e-3 * expected.abs().max(1.0),
            "{found} is not {expected}"
        );
    }

    fn spread(error: f64, wider: f64, freedom: f64) -> Spread {
        Spread {
            error,
            wider,
            freedom,
        }
    }

    #[test]
    fn variance_is_the_mean_square() {
        assert_eq!(variance(&[1.0, 2.0, 3.0, 6.0]), 3.5);
        assert_eq!(variance(&[4.0; 3]), 0.0);
        assert_eq!(sorted([3.0, -1.0, 2.0].into_iter()), [-1.0, 2.0, 3.0]);
    }

    /// The variances are 1.25 and 5. In the long run they are 4 and 2 times as large: 5 + 10.
    #[test]
    fn both_sides_contribute_to_the_spread() {
        let sides: [&[f64]; 2] = [&[1.0, 2.0, 3.0, 4.0], &[2.0, 4.0, 6.0, 8.0]];
        let long_run = [LongRun::made_up(4.0, 3.0), LongRun::made_up(2.0, 8.0)];
        let found = Spread::new(sides, long_run);
        near(found.error, 15f64.sqrt());
        near(found.wider, (15f64 / 6.25).sqrt());
        // Welch: 15^2 / (5^2/3 + 10^2/8).
        near(found.freedom, 225.0 / (25.0 / 3.0 + 12.5));
        let none = Spread::new([&[7.0; 4], &[9.0; 4]], long_run);
        assert_eq!((none.error, none.wider, none.freedom), (0.0, 1.0, 3.0));
        let one = Spread::new([sides[0], &[9.0; 4]], long_run);
        near(one.error, 5f64.sqrt());
        near(one.wider, 2.0);
        near(one.freedom, 3.0);
    }

    /// With 8 degrees of freedom, the t distribution has 2.5% beyond 2.306, where the normal one has
    /// 1.055%: 10 of 1,000. With 3, the point is 3.182, and the normal distribution has 0.073%.
    #[test]
    fn interval_is_that_of_the_t_distribution() {
        let draws: Vec<f64> = (0..=1_000).map(f64::from).collect();
        let of = |wider, freedom, found| spread(1.0, wider, freedom).interval(&draws, found);
        assert_eq!(of(1.0, 8.0, 500.0), (10.0, 990.0));
        assert_eq!(of(1.0, 3.0, 500.0), (0.0, 1_000.0));
        assert_eq!(of(2.0, 8.0, 500.0), (-480.0, 1_480.0));
        assert_eq!(of(2.0, 8.0, 400.0), (-380.0, 1_580.0));
        // The interval contains the observed value.
        assert_eq!(of(1.0, 8.0, 5.0), (5.0, 990.0));
        assert_eq!(of(1.0, 8.0, 999.0), (10.0, 999.0));
    }

    /// Two-sided points of the t distribution with 8 degrees of freedom: 5% at 2.306, 1% at 3.355.
    #[test]
    fn probability_of_a_rare_difference_is_by_its_distance() {
        let above: Vec<f64> = (1..=999).map(f64::from).collect();
        for (distance, p) in [(2.306, 0.05), (3.355, 0.01), (1.397, 0.2)] {
            let law = spread(10.0, 1.0, 8.0);
            let found = law.p(&above, 10.0 * distance);
            assert!((found / p - 1.0).abs() < 2e-3, "{found} is not {p}");
            let below: Vec<f64> = above.iter().rev().map(|one| -one).collect();
            assert!((law.p(&below, -10.0 * distance) - found).abs() < 1e-12);
        }
        assert_eq!(spread(10.0, 1.0, 8.0).p(&above, 0.0), 1.0);
        // Without spread, the number of draws is the limit: 2/1,000.
        assert_eq!(spread(0.0, 1.0, 8.0).p(&above, 5.0), 0.002);
    }

    /// 24 of 999 draws cross zero, which is 5% on both sides, or 1.96 standard deviations. The t
    /// distribution with 8 degrees of freedom has 8.57% beyond them.
    #[test]
    fn probability_of_a_common_difference_is_by_its_draws() {
        let draws: Vec<f64> = (0..999).map(|n| f64::from(n) - 23.0).collect();
        let law = spread(1e6, 1.0, 8.0);
        for difference in [400.0, 3.0] {
            near(law.p(&draws, difference), 0.0857);
        }
        let mirrored: Vec<f64> = draws.iter().rev().map(|one| -one).collect();
        near(law.p(&mirrored, -400.0), 0.0857);
        // A spread that is twice as wide crosses zero from 200 on: 224 of the draws.
        let wide = spread(1e6, 2.0, 8.0).p(&draws, 400.0);
        let share = 2.0 * 225.0 / 1_000.0;
        assert!(wide > share && wide < share + 0.03, "{wide}");
        let wide_mirrored = spread(1e6, 2.0, 8.0).p(&mirrored, -400.0);
        assert!((wide - wide_mirrored).abs() < 1e-9);
        // All draws on the other side.
        near(law.p(&mirrored[..100], 1.0), 1.0);
        // Up to 19 crossings, the distance counts, and from 20 on the draws.
        let crossing =
            |number: i32| -> Vec<f64> { (0..999).map(|n| f64::from(n - number) + 0.5).collect() };
        let far = spread(1.0, 1.0, 8.0);
        assert!(far.p(&crossing(19), 400.0) < 1e-6);
        assert!(far.p(&crossing(20), 400.0) > 0.03);
    }

    #[test]
    fn second_test_widens_what_it_does_not_support() {
        let judged = Judged {
            difference: (2.0, 5.0),
            ratio: Some((1.2, 1.5)),
            p: 0.01,
        };
        assert_eq!(judged.at_least(0.05), Judged { p: 0.05, ..judged });
        assert_eq!(judged.at_least(0.001), judged);
        let doubted = judged.at_least(0.3);
        assert_eq!(
            (doubted.difference, doubted.ratio, doubted.p),
            ((0.0, 5.0), Some((1.0, 1.5)), 0.3)
        );
        let lower = Judged {
            difference: (-5.0, -2.0),
            ratio: Some((0.5, 0.8)),
            p: 0.4,
        };
        let doubted = lower.at_least(0.06);
        assert_eq!(
            (doubted.difference, doubted.ratio, doubted.p),
            ((-5.0, 0.0), Some((0.5, 1.0)), 0.4)
        );
    }

    /// Shares of late samples that vary between blocks: each of the 12 blocks of one run is drawn as
    /// often as the others.
    #[test]
    fn draws_have_the_mean_and_spread_of_the_blocks() {
        let scale = scale_of(&SPREAD);
        let runs = [run(&scale, &SPREAD), run(&scale, &SPREAD[..6])];
        let from = scale.from(punctual_model::Nanos(350));
        let drawn = draw(
            &scale,
            &[Figure::From(from)],
            [&runs[0], &runs[1]],
            4_000,
            9,
        );
        for (side, (late, blocks)) in [(7.0, 12.0), (3.0, 6.0)].into_iter().enumerate() {
            let values: Vec<f64> = drawn.figures[0][side]
                .iter()
                .map(|one| one.unwrap())
                .collect();
            assert_eq!(values.len(), 4_000);
            let share: f64 = late / blocks;
            let mean = values.iter().sum::<f64>() / 4_000.0;
            assert!((mean - share).abs() < 0.02, "{mean} is not {share}");
            let expected = share * (1.0 - share) / blocks;
            assert!(
                (variance(&values) / expected - 1.0).abs() < 0.1,
                "{expected}"
            );
        }
    }

    #[test]
    fn figure_that_drifts_says_which_side() {
        let rising: Vec<i64> = (0..40).map(|n| 300 + 10 * n).collect();
        let steady: Vec<i64> = (0..40).map(|n| 300 + 10 * (n * 7 % 11)).collect();
        let scale = scale_of(&[&rising[..], &steady].concat());
        let runs = [run(&scale, &steady), run(&scale, &rising)];
        let figures = [Figure::Quantile(0.5)];
        for (pair, name) in [([0, 1], "candidate"), ([1, 0], "baseline")] {
            let pair = pair.map(|side: usize| &runs[side]);
            let drawn = draw(&scale, &figures, pair, 100, 1);
            let why = drawn.judge(0, [300.0, 400.0]).unwrap_err().why;
            assert!(why.starts_with(&format!("{name} run too short")), "{why}");
            assert_eq!(drawn.later(0.5), None);
        }
        let drawn = draw(&scale, &figures, [&runs[0], &runs[0]], 100, 1);
        assert!(drawn.judge(0, [300.0, 300.0]).is_ok() && drawn.later(0.5).is_some());
    }

    /// Draws of one figure by hand: all values, and a variation without surprises.
    fn by_hand(
        a: &[Option<f64>],
        b: &[Option<f64>],
        later: &[Option<f64>],
        p: Option<f64>,
    ) -> Drawn {
        let usual = [LongRun::made_up(1.0, 8.0); 2];
        let wide = [LongRun::made_up(4.0, 8.0), LongRun::made_up(0.5, 3.0)];
        Drawn {
            figures: vec![[a.to_vec(), b.to_vec()]],
            later: later.to_vec(),
            long_run: vec![usual, wide],
            shares: vec![p],
        }
    }

    #[test]
    fn probability_of_being_later_has_the_wider_interval() {
        let later: Vec<Option<f64>> = (0..=100)
            .map(|n| Some(0.4 + f64::from(n) / 500.0))
            .collect();
        let of = |later: &[Option<f64>], found: f64| by_hand(&[], &[], later, None).later(found);
        // Twice as wide, because one side varies four times as much. All draws count, because the
        // other side has only three degrees of freedom.
        let (low, high) = of(&later, 0.5).unwrap();
        near(low, 0.3);
        near(high, 0.7);
        // A probability is between 0 and 1.
        let far: Vec<Option<f64>> = (0..=100).map(|n| Some(f64::from(n) / 100.0)).collect();
        assert_eq!(of(&far, 0.5), Some((0.0, 1.0)));
        assert_eq!(of(&[Some(0.5), None, Some(0.5)], 0.5), None);
    }

    #[test]
    fn ratio_needs_a_baseline_above_zero() {
        let some = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
        let judge =
            |a: &[f64], b: &[f64], found| by_hand(&some(a), &some(b), &[], None).judge(0, found);
        let judged = judge(&[2.0, 4.0, 2.0], &[4.0, 4.0, 2.0], [2.0, 3.0]).unwrap();
        // Differences of 2, 0 and 0, and ratios of 2, 1 and 1.
        assert_eq!(judged.difference, (0.0, 2.0));
        assert_eq!(judged.ratio, Some((1.0, 2.0)));
        assert_eq!(
            judge(&[0.0, 4.0], &[4.0, 4.0], [2.0, 3.0]).unwrap().ratio,
            None
        );
        assert_eq!(
            judge(&[1.0, 4.0], &[4.0, 4.0], [0.0, 3.0]).unwrap().ratio,
            None
        );
        let unknown = by_hand(&[Some(1.0), None], &[Some(1.0); 2], &[], None).judge(0, [1.0, 1.0]);
        assert_eq!(unknown.unwrap_err().why, "among samples of unknown latency");
        // The second test has the last word.
        let doubted =
            by_hand(&[Some(1.0); 9], &[Some(3.0); 9], &[], Some(0.5)).judge(0, [1.0, 3.0]);
        assert_eq!(
            (doubted.clone().unwrap().p, doubted.unwrap().difference),
            (0.5, (0.0, 2.0))
        );
    }
}
