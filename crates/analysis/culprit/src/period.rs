//! Detects periodic events.

use punctual_model::cause::Source;
use punctual_model::{Nanos, Period};

/// Minimum number of intervals that can show a period.
const FEWEST: usize = 3;

/// An interval fits a period if it differs from a multiple of the period by at most a fiftieth of
/// the period. The kernel rounds its own timers to ticks.
const NEAR: u64 = 50;

/// Percentage of intervals that must fit, because the same source may cause other events in
/// between.
const FITTING: usize = 75;

/// Percentage of the multiples at which an event must have occurred. If fewer were enough, any
/// short period would fit.
const FILLED: u64 = 50;

/// A period counts only if the probability that random intervals fit equally well is less than 1
/// divided by this number.
const CHANCE: f64 = 1_000.0;

/// Number of intervals that are tried as the period. Half and a third of each are also tried.
const TRIED: usize = 64;

/// Returns the period of a source at these times, if there is one. Some events may be missing, and
/// unrelated ones may occur in between.
pub fn find_period(source: &Source, times: &[Nanos]) -> Option<Period> {
    // Limit of 146 years on each time, so that no sum overflows.
    let mut times: Vec<u64> = times.iter().map(|time| time.0.min(u64::MAX / 4)).collect();
    times.sort_unstable();
    let intervals: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if intervals.len() < FEWEST {
        return None;
    }
    candidates(&intervals)
        .into_iter()
        .filter_map(|candidate| Fit::from_candidate(candidate, &times))
        .max_by_key(|fit| (fit.count, fit.period))
        .map(|fit| Period {
            source: source.clone(),
            period_ns: Nanos(fit.period),
            tolerance_ns: Nanos(fit.tolerance),
            count: fit.count as u64,
            missing: fit.missing,
            words: None,
        })
}

/// Returns intervals that occur, with their halves and thirds. If every second event is missing,
/// the period is half of the interval.
fn candidates(intervals: &[u64]) -> Vec<u64> {
    let mut sorted = intervals.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let step = sorted.len().div_ceil(TRIED);
    let tried = sorted.iter().step_by(step.max(1));
    tried
        .flat_map(|interval| [*interval, interval / 2, interval / 3])
        .filter(|interval| *interval > 0)
        .collect()
}

/// Measure of how well a period fits.
struct Fit {
    period: u64,
    tolerance: u64,
    /// Number of events that fit.
    count: usize,
    missing: u64,
}

impl Fit {
    fn from_candidate(candidate: u64, times: &[u64]) -> Option<Self> {
        // Two passes are made, because the period from the first pass is more precise than a single
        // interval.
        let first = Chain::from_candidate(candidate, times);
        let chain = Chain::from_candidate(first.period()?, times);
        let period = chain.period()?;
        let enough = chain.steps.len() * 100 >= FITTING * (times.len() - 1);
        let steps = chain.steps.iter();
        let multiples = steps.fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
        let filled = chain.steps.len() as u64 * 100 >= FILLED.saturating_mul(multiples);
        if !enough || !filled || chain.steps.len() < FEWEST {
            return None;
        }
        let tolerance = chain
            .steps
            .iter()
            .map(|(length, n)| length.abs_diff(n.saturating_mul(period)))
            .max()?;
        if by_chance(&chain, period, tolerance) {
            return None;
        }
        Some(Self {
            period,
            tolerance,
            count: chain.steps.len() + 1,
            missing: multiples - chain.steps.len() as u64,
        })
    }
}

/// Returns whether random intervals would fit equally well. A random interval falls within the
/// tolerance of a multiple with a probability of twice the tolerance divided by the period. One
/// interval always fits, because the period is derived from it.
fn by_chance(chain: &Chain, period: u64, tolerance: u64) -> bool {
    // Times have a limited precision, so a spread of zero would overstate the certainty.
    let spread = tolerance.saturating_mul(2).max(period / 1_000) as f64 / period as f64;
    let free = chain.steps.len() as i32 - 1;
    let tried = 3.0 * TRIED as f64;
    spread.powi(free) * tried.min(3.0 * chain.steps.len() as f64) > 1.0 / CHANCE
}

/// Events at multiples of the period after their predecessors.
struct Chain {
    /// Time since the previous event, and the number of periods in that time.
    steps: Vec<(u64, u64)>,
}

impl Chain {
    /// Collects the events that fit `candidate`. An event that does not fit is skipped, and the
    /// next one is compared with the last that did. If no event fits the first one, the chain
    /// begins with a later event.
    fn from_candidate(candidate: u64, times: &[u64]) -> Self {
        let from = |first: usize| {
            let mut steps = Vec::new();
            let mut last = times[first];
            for time in &times[first + 1..] {
                let length = time - last;
                let rest = length % candidate;
                let n = length / candidate + u64::from(rest >= candidate.div_ceil(2));
                let off = length.abs_diff(n.saturating_mul(candidate));
                if n > 0 && off <= candidate / NEAR {
                    steps.push((length, n));
                    last = *time;
                }
            }
            steps
        };
        let starts = times.len().min(4);
        let steps = (0..starts).map(from).max_by_key(Vec::len);
        Self {
            steps: steps.unwrap_or_default(),
        }
    }

    fn period(&self) -> Option<u64> {
        let length: u64 = self.steps.iter().map(|(length, _)| length).sum();
        let n: u64 = self.steps.iter().map(|(_, n)| n).sum();
        (n > 0)
            .then(|| (length + n / 2) / n)
            .filter(|period| *period > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    fn period_of(times: impl IntoIterator<Item = u64>) -> Option<Period> {
        let times: Vec<Nanos> = times.into_iter().map(Nanos).collect();
        find_period(&Source::Gap, &times)
    }

    /// Returns a pseudo-random number, always the same for the same seed.
    fn noise(seed: u64) -> u64 {
        let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    #[test]
    fn each_second_is_found_to_the_microsecond() {
        let found = period_of((0..20).map(|n| 7 + n * SECOND)).unwrap();
        assert_eq!(found.period_ns, Nanos(SECOND));
        assert_eq!(
            (found.tolerance_ns, found.count, found.missing),
            (Nanos(0), 20, 0)
        );
    }

    #[test]
    fn jitter_widens_tolerance_but_not_period() {
        let jitter = |n| noise(n) % 4_000_000;
        let found = period_of((0..60).map(|n| n * SECOND + jitter(n))).unwrap();
        assert!(found.period_ns.0.abs_diff(SECOND) < 100_000, "{found:?}");
        assert!(found.tolerance_ns <= Nanos::from_millis(5), "{found:?}");
        assert!(found.tolerance_ns >= Nanos::from_micros(500), "{found:?}");
    }

    #[test]
    fn rearmed_timer_may_drift() {
        // Each event follows the previous one after 1 s plus up to 10 ms.
        let mut at = 0;
        let times: Vec<u64> = (0..100)
            .map(|n| {
                at += SECOND + noise(n) % 10_000_000;
                at
            })
            .collect();
        let found = period_of(times).unwrap();
        assert!(
            found.period_ns.0.abs_diff(SECOND + 5_000_000) < 1_000_000,
            "{found:?}"
        );
    }

    #[test]
    fn a_third_of_them_may_be_missing() {
        let there = (0..60).filter(|n| !noise(*n).is_multiple_of(3));
        let times: Vec<u64> = there.map(|n| n * SECOND).collect();
        let count = times.len() as u64;
        let found = period_of(times).unwrap();
        assert_eq!((found.period_ns, found.count), (Nanos(SECOND), count));
        assert!(found.missing > 5, "{found:?}");
    }

    #[test]
    fn strangers_between_do_not_hide_it() {
        let strangers = (0..8).map(|n| noise(n) % (50 * SECOND));
        let found = period_of((0..50).map(|n| n * SECOND).chain(strangers)).unwrap();
        assert_eq!(found.period_ns.0.abs_diff(SECOND) / 1_000, 0, "{found:?}");
    }

    #[test]
    fn few_or_random_times_have_none() {
        assert_eq!(period_of([0, SECOND, 2 * SECOND]), None);
        assert_eq!(period_of([5; 40]), None);
        assert_eq!(period_of([]), None);
        // Poisson-like: none of 200 seeds gives a period.
        for seed in 0..200 {
            let times = (0..30).map(|n| noise(seed * 1_000 + n) % (60 * SECOND));
            assert_eq!(period_of(times), None, "seed {seed}");
        }
    }

    /// Three random intervals have this jitter of 1% in more than one of 1,000 cases, eleven do not.
    #[test]
    fn jitter_needs_many_events() {
        let times = |count| (0..count).map(|n| n * SECOND + n % 2 * (SECOND / 100));
        assert_eq!(period_of(times(4)), None);
        let found = period_of(times(12)).unwrap();
        assert!(
            found.period_ns.0.abs_diff(SECOND) < SECOND / 500,
            "{found:?}"
        );
        // Without jitter, four events are enough.
        assert!(period_of((0..4).map(|n| n * SECOND)).is_some());
    }

    /// The kernel rounds its own timers to ticks.
    #[test]
    fn event_may_be_off_by_a_fiftieth_of_the_period() {
        let off = |ns: u64| {
            let times = (0..12).map(|n| 7 + n * 50_000 + if n == 6 { ns } else { 0 });
            let found = period_of(times).unwrap();
            assert_eq!(found.period_ns, Nanos(50_000));
            (found.count, found.missing, found.tolerance_ns)
        };
        assert_eq!(off(1_000), (12, 0, Nanos(1_000)));
        assert_eq!(off(1_001), (11, 1, Nanos(0)));
        let early = (0..12).map(|n| 5_000 + n * 50_000 - if n == 6 { 1_000 } else { 0 });
        assert_eq!(period_of(early).unwrap().count, 12);
    }

    #[test]
    fn half_of_the_multiples_must_have_an_event() {
        // Events at these multiples of a millisecond.
        let of = |multiples: &[u64]| {
            let found = period_of(multiples.iter().map(|n| n * 1_000_000));
            found.map(|found| (found.period_ns.0 / 1_000_000, found.count, found.missing))
        };
        assert_eq!(of(&[0, 1, 2, 3, 4, 5, 6, 7]), Some((1, 8, 0)));
        assert_eq!(of(&[0, 1, 3, 4, 6, 7, 9, 10]), Some((1, 8, 3)));
        // Every second one is missing, so the period is longer.
        assert_eq!(of(&[0, 2, 4, 6, 8, 10]), Some((2, 6, 0)));
        assert_eq!(of(&[0, 5, 7, 16, 17, 29]), None);
    }

    #[test]
    fn times_need_not_be_in_order() {
        let times = [4, 1, 3, 0, 2, 5].map(|n| n * SECOND);
        assert_eq!(period_of(times).unwrap().period_ns, Nanos(SECOND));
    }

    proptest! {
        #[test]
        fn any_times_are_fine(times in proptest::collection::vec(prop_oneof![any::<u64>(), 0u64..100], 0..50)) {
            if let Some(found) = period_of(times.iter().copied()) {
                prop_assert!(found.count as usize <= times.len());
                prop_assert!(found.period_ns > Nanos::ZERO);
            }
        }

        #[test]
        fn any_period_is_found(period in 1_000u64..100 * SECOND, start in 0..SECOND) {
            let found = period_of((0..12).map(|n| start + n * period)).unwrap();
            prop_assert_eq!(found.period_ns, Nanos(period));
        }
    }
}
