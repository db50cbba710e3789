//! Event rates and their bounds. All statements "at most N a day (95%)" are computed here.
//!
//! [`LateSeconds`] counts the seconds with late periods. Late seconds cluster, because machines have
//! bad phases and because one disturbance causes another. The bounds of the Poisson distribution are
//! therefore widened by the dispersion: the variance divided by the mean of the counts in blocks of
//! time (its upper 90% limit at the worst block length), or the mean size of a cluster if that is
//! larger. `cargo xtask simulate` counts how often the bounds hold (docs/simulation.md).

mod dispersion;
mod late_seconds;
mod looks;
mod quantile;
mod sampled;

use statrs::function::beta::checked_beta_reg;

use crate::{Nanos, grouped};
use dispersion::Dispersion;
pub use late_seconds::LateSeconds;
pub use looks::Looks;
pub use sampled::SampledRuns;

/// Maximum probability that a one-sided bound is wrong.
pub const ERROR: f64 = 0.05;

/// How many times as long a longer run has to be. If the rate changes more slowly than the run can
/// show, it may change over the length of the whole run. A run that is this many times as long
/// contains enough blocks of that length.
pub const TIMES_AS_LONG: u64 = dispersion::LEAST_BLOCKS as u64;

const DAY: f64 = 86_400.0;

/// The number of events in a measured time, and their clustering.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// Number of events.
    pub events: u64,
    /// The measured time.
    pub measured: Nanos,
    /// Maximum number of events in the measured time: that of its seconds, if events are late
    /// seconds.
    most: f64,
    /// Divisor for the number of events, because clustered events prove less than independent ones.
    /// 1 if the events are independent.
    pub dispersion: f64,
    /// Number of events that may be the second part of another one, which crossed the edge between
    /// two seconds. If events are as regular as the seconds, all of them cross an edge, or none.
    split: u64,
    /// Whether the dispersion is still rising at the longest blocks.
    rises: bool,
    /// Number of events in the first half, and in the first tenth.
    parts: [u64; 2],
    /// The dispersion without the first tenth.
    settled: f64,
    /// Dispersion within short parts of the run, which a change over the whole run hardly raises.
    local: f64,
    /// Statistic of the Laplace test for a trend (Cox and Lewis, "The Statistical Analysis of Series
    /// of Events", 1966): normal with variance 1 without a trend, positive if the rate rises.
    trend: f64,
}

/// Reason why a run proves nothing about a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The rate changes more slowly than the run can show, so there is no bound.
    Slow,
    /// The halves differ by more than chance can explain. Contains the number of events in the
    /// first half, and in total.
    Halves(u64, u64),
    /// The rate rises during the run (`true`) or falls.
    Trend(bool),
    /// The warm-up was too short: the first tenth contains more events than chance can explain.
    /// Contains the number of events in the first tenth, and in total.
    WarmUp(u64, u64),
}

impl Doubt {
    /// Returns the reason in words. `events` is the name of the events.
    pub fn sentence(self, events: &str) -> String {
        let of = |count, all| format!("{} of {} {events}", grouped(count), grouped(all));
        match self {
            Self::Slow => format!(
                "the rate changes more slowly than this run can show; measure at least \
                 {TIMES_AS_LONG} times as long"
            ),
            Self::Halves(count, all) => format!(
                "the halves of the run differ: {} in the first half",
                of(count, all)
            ),
            Self::Trend(rises) => format!(
                "{events} become {} during the run, so it says nothing about the rest of the day; \
                 measure longer",
                if rises { "more frequent" } else { "rarer" }
            ),
            Self::WarmUp(count, all) => format!(
                "the machine had not settled after the warm-up: {} in the first tenth of the run",
                of(count, all)
            ),
        }
    }
}

/// Returns a confidence or another share as it was given: `95%`, `99.99%`.
pub fn percent(share: f64) -> String {
    // 0.9999 * 100 is 99.99000000000001 in floating point.
    let rounded = (share * 1e8).round() / 1e6;
    format!("{rounded}%")
}

/// The decision about a limit on a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The rate is not above the limit.
    Held,
    /// The rate is above the limit.
    Broken,
    /// Neither is proven.
    Open,
}

impl Rate {
    /// Creates a rate of late seconds. The shortest blocks are two seconds long.
    pub(super) fn from_late_seconds(late: &LateSeconds, measured: Nanos) -> Self {
        let second = Nanos::from_secs(1).0;
        // Seconds after the last whole block are counted in the total, but belong to no block.
        let mut counts = vec![0; (measured.0 / (2 * second)).min(MOST_BLOCKS) as usize];
        let mut parts = [0; 2];
        for number in late.seconds() {
            if let Some(count) = counts.get_mut((number / 2) as usize) {
                *count += 1;
            }
            for (part, parts_of) in parts.iter_mut().zip([2, 10]) {
                *part += u64::from(number.saturating_mul(second) < measured.0 / parts_of);
            }
        }
        let most_regular = Dispersion::from_counts(counts.clone()).most_regular;
        let mut rate = Self::new(late.count(), measured, counts, parts);
        rate.most = measured.0.div_ceil(second).max(late.count()) as f64;
        // The counts of independent late seconds are binomial.
        if most_regular < 1.0 - late.count() as f64 / rate.most {
            rate.split = late.split();
        }
        let clustering = late.clustering(measured);
        rate.dispersion = rate.dispersion.max(clustering);
        rate.trend /= clustering.max(1.0).sqrt();
        rate.local *= clustering.max(1.0);
        rate
    }

    /// Creates a rate from the number of events and their counts in consecutive blocks of equal
    /// length, which cover the whole time.
    pub(crate) fn of_blocks(events: u64, counts: Vec<u64>, measured: Nanos) -> Self {
        let sum = |counts: &[u64]| counts.iter().copied().fold(0, u64::saturating_add);
        let parts = [2, 10].map(|parts| sum(&counts[..counts.len() / parts]).min(events));
        Self::new(events, measured, counts, parts)
    }

    /// Creates a rate of events whose times are unknown.
    pub(crate) fn plain(events: u64, measured: Nanos) -> Self {
        Self::new(events, measured, Vec::new(), [0; 2])
    }

    fn new(events: u64, measured: Nanos, counts: Vec<u64>, parts: [u64; 2]) -> Self {
        let settled = Dispersion::from_counts(counts[counts.len() / 10..].to_vec()).factor;
        let laplace = laplace(&counts);
        let Dispersion {
            factor,
            rises,
            local,
            ..
        } = Dispersion::from_counts(counts);
        Self {
            events,
            measured,
            most: f64::INFINITY,
            dispersion: factor,
            split: 0,
            rises,
            parts,
            settled,
            local,
            trend: laplace / local.sqrt(),
        }
    }

    /// Returns the divisor for the number of events in tests for a change during the run.
    pub const fn local_dispersion(&self) -> f64 {
        self.local
    }

    /// Returns the upper bound of the number of events in the measured time. `error` is the
    /// probability that the bound is wrong.
    pub fn at_most(&self, error: f64) -> f64 {
        quantile::upper(self.events, self.dispersion, error).min(self.most)
    }

    /// Returns the lower bound of the number of events in the measured time. `error` is the
    /// probability that the bound is wrong.
    pub fn at_least(&self, error: f64) -> f64 {
        quantile::lower(self.events - self.split, self.dispersion, error)
    }

    /// Converts a number of events in the measured time to a number per day. `None` if the time is
    /// zero.
    pub fn per_day(&self, events: f64) -> Option<f64> {
        // The run may end within a second, which counts as a whole one, but a day has no more
        // seconds than it has.
        let most = if self.most.is_finite() {
            DAY
        } else {
            f64::INFINITY
        };
        let rate = || (events * DAY / self.measured.as_secs_f64()).min(most);
        (self.measured > Nanos::ZERO).then(rate)
    }

    /// Decides whether the rate is above a limit of `per_day` events per day. `error` is the
    /// probability that each bound is wrong. A run in [doubt](Self::doubt) proves nothing, with one
    /// exception: if a run of at most one day has more events than the limit allows for a day, the
    /// limit is broken, however much the events cluster.
    pub fn decide(&self, per_day: f64, error: f64) -> Decision {
        if self.measured == Nanos::ZERO {
            return Decision::Open;
        }
        let is_above = |events: f64| self.per_day(events).is_some_and(|rate| rate > per_day);
        let doubt = self.doubt();
        let settled = match doubt {
            Some(Doubt::WarmUp(count, all)) => all - count,
            _ => self.events,
        };
        match doubt {
            _ if self.measured.as_secs_f64() <= DAY && settled as f64 > per_day => Decision::Broken,
            Some(_) => Decision::Open,
            None if is_above(self.at_least(error)) => Decision::Broken,
            None if !is_above(self.at_most(error)) => Decision::Held,
            None => Decision::Open,
        }
    }

    /// Returns whether the run can support bounds for a day: it is long enough, and nothing
    /// indicates that the rest of the day differs from it.
    pub fn supports_bounds(&self) -> bool {
        self.measured.as_secs_f64() > quantile::upper(0, 1.0, ERROR) && self.doubt().is_none()
    }

    /// Returns the reason why the run proves nothing, or `None` if it can prove something.
    pub fn doubt(&self) -> Option<Doubt> {
        let [half, tenth] = self.parts;
        let other = self.events.saturating_sub(half);
        match () {
            () if self.as_many(tenth, 0.1, self.settled) < ERROR => {
                Some(Doubt::WarmUp(tenth, self.events))
            }
            () if self.rises => Some(Doubt::Slow),
            () if self.as_many(half.max(other), 0.5, self.dispersion) * 2.0 < ERROR => {
                Some(Doubt::Halves(half, self.events))
            }
            () if self.trend.abs() > TREND => Some(Doubt::Trend(self.trend > 0.0)),
            () => None,
        }
    }

    /// Returns the probability of at least `count` events in a part of the run that is as long as
    /// this share of the time.
    fn as_many(&self, count: u64, share: f64, dispersion: f64) -> f64 {
        let [count, all] = [count, self.events].map(|events| events as f64 / dispersion);
        if count > 0.0 {
            checked_beta_reg(count, all - count + 1.0, share).unwrap_or(1.0)
        } else {
            1.0
        }
    }

    /// Returns the length of a new run that proves a limit of `per_day` events per day with a
    /// probability of 80%, if the machine goes on as it did in this run. `None` if no run does,
    /// because the machine is not better than the limit.
    pub fn likely(&self, per_day: f64, error: f64) -> Option<Nanos> {
        let mean = self.events as f64 / self.measured.as_secs_f64();
        let mut count = 0u64;
        while count < MOST_COUNTED {
            // The shortest run that proves the limit with this number of events.
            let seconds = quantile::upper(count, self.dispersion, error) * DAY / per_day;
            if seconds.is_nan() || seconds >= LONGEST {
                return None;
            }
            let chance = quantile::at_most(count, mean * seconds, self.dispersion);
            if chance >= LIKELY {
                return Some(Nanos((seconds * 1e9) as u64));
            }
            count += 1 + count / 20;
        }
        None
    }

    /// Returns the length of a run that proves with a probability of 80% that at most `allowed`
    /// events happen in a time as long as this run, if `unseen` events are added to the bound.
    pub(super) fn likely_share(&self, allowed: f64, unseen: f64, error: f64) -> Option<Nanos> {
        let mean = self.events as f64;
        let longest = LONGEST / self.measured.as_secs_f64();
        let mut times = 1.0;
        while times < longest {
            times *= 1.05;
            let expected = mean * times;
            let high = expected + 0.84 * (self.dispersion * expected).sqrt();
            let bound = quantile::upper(high.ceil() as u64, self.dispersion, error);
            if bound + unseen <= allowed * times {
                return Some(Nanos((self.measured.0 as f64 * times) as u64));
            }
        }
        None
    }

    /// Returns the total time needed to prove a limit of `per_day` events per day, if no more
    /// events happen. `None` if no time suffices.
    pub fn needed(&self, per_day: f64, error: f64) -> Option<Nanos> {
        let at_most = quantile::upper(self.events, self.dispersion, error);
        let seconds = at_most * DAY / per_day;
        let least = if self.rises {
            Nanos(self.measured.0.saturating_mul(TIMES_AS_LONG))
        } else {
            Nanos::ZERO
        };
        (seconds < LONGEST).then(|| Nanos((seconds * 1e9) as u64).max(least))
    }
}

/// The statistic of the Laplace test that chance exceeds in 5% of the runs, in either direction.
const TREND: f64 = 1.96;

/// Returns the statistic of the Laplace test for independent events: the mean of their times, in
/// standard deviations from the middle of the run.
fn laplace(counts: &[u64]) -> f64 {
    let (mut all, mut sum) = (0.0, 0.0);
    for (place, count) in counts.iter().enumerate() {
        all += *count as f64;
        sum += *count as f64 * (place as f64 + 0.5);
    }
    if all == 0.0 {
        return 0.0;
    }
    (sum / all / counts.len() as f64 - 0.5) * (12.0 * all).sqrt()
}

/// The longest useful measurement: 300 years, in seconds.
const LONGEST: f64 = 1e10;

/// Probability that a run of the advised length is long enough.
const LIKELY: f64 = 0.8;

/// Maximum number of events in a planned proof.
const MOST_COUNTED: u64 = 10_000_000;

/// Maximum number of blocks, which is enough for a year.
const MOST_BLOCKS: u64 = 1 << 24;

#[cfg(test)]
mod figures;

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Nanos = Nanos::from_secs(3_600);

    fn rate(seconds: impl IntoIterator<Item = u64>, measured: Nanos) -> Rate {
        let mut late = LateSeconds::default();
        seconds
            .into_iter()
            .for_each(|second| late.add(Nanos::from_secs(second)));
        late.rate(measured)
    }

    /// A minute without events gives a bound of 4,314 a day. Proving 1,000 a day takes 4.3 min, and
    /// proving one a day takes 72 h.
    #[test]
    fn clean_minute_bounds_the_daily_rate() {
        let clean = rate([], Nanos::from_secs(60));
        let bound = clean.per_day(clean.at_most(ERROR)).unwrap();
        assert!((bound - 4_313.85).abs() < 0.1, "{bound}");
        for (per_day, minutes) in [(1_000.0, 4.3), (100.0, 43.1), (10.0, 431.4), (1.0, 4_314.0)] {
            let needed = clean.needed(per_day, ERROR).unwrap().as_secs_f64() / 60.0;
            assert!((needed / minutes - 1.0).abs() < 0.01, "{per_day}: {needed}");
        }
        assert_eq!(clean.needed(0.0, ERROR), None);
        assert_eq!(clean.decide(4_314.0, ERROR), Decision::Held);
        assert_eq!(clean.decide(4_313.0, ERROR), Decision::Open);
        let nothing = rate([], Nanos::ZERO);
        assert_eq!(nothing.decide(1e9, ERROR), Decision::Open);
        assert_eq!(nothing.per_day(3.0), None);
    }

    /// A burst each 10 s makes 360 late seconds an hour, or 720 if each burst crosses the edge between
    /// two seconds. Nothing in the run shows which of them is true on average.
    #[test]
    fn edges_of_seconds_do_not_raise_the_lower_bound() {
        let split = rate((0..360).flat_map(|n| [n * 10, n * 10 + 1]), HOUR);
        assert!(split.at_least(ERROR) <= 360.0, "{split:?}");
        // Late seconds at random times are not regular, even if some are adjacent.
        let mut random = fastrand::Rng::with_seed(5);
        let chance = rate((0..3_600).filter(|_| random.u64(..10) == 0), HOUR);
        assert_eq!(chance.split, 0);
        let always = rate(0..3_600, HOUR);
        assert_eq!((always.split, always.at_least(ERROR) > 3_400.0), (0, true));
    }

    #[test]
    fn no_day_has_more_late_seconds_than_seconds() {
        let always = rate(0..5, Nanos::from_millis(4_500));
        assert_eq!(always.per_day(always.at_most(ERROR)), Some(86_400.0));
    }

    #[test]
    fn impossible_daily_count_is_too_many() {
        assert_eq!(rate([9], HOUR).decide(0.0, ERROR), Decision::Broken);
        // An event every 20 s in every other quarter of an hour, and none in the rest.
        let slow = rate((0..3_600).step_by(20).filter(|at| at / 900 % 2 == 0), HOUR);
        assert_eq!(slow.doubt(), Some(Doubt::Slow), "{slow:?}");
        assert_eq!(slow.decide(89.0, ERROR), Decision::Broken);
        assert_eq!(slow.decide(20_000.0, ERROR), Decision::Open);
        assert_eq!(slow.needed(20_000.0, ERROR), Some(Nanos(8 * HOUR.0)));
        // The rule for a single day does not apply to a run of three days.
        let days = rate([1], Nanos::from_secs(259_200));
        assert_eq!(days.decide(0.9, ERROR), Decision::Open);
    }

    /// The advice is the length at which most runs of such a machine are long enough.
    #[test]
    fn advice_states_the_likely_length() {
        let clean = rate([], HOUR);
        assert_eq!(clean.likely(10.0, ERROR), clean.needed(10.0, ERROR));
        assert_eq!(clean.likely(0.0, ERROR), None);
        // 24 late seconds a day, and 100 are allowed: a run needs more than 43 min.
        let mut some = rate([1_800], HOUR);
        some.dispersion = 1.0;
        let likely = some.likely(100.0, ERROR).unwrap();
        assert!(likely > some.likely(200.0, ERROR).unwrap());
        let hours = likely.as_secs_f64() / 3_600.0;
        assert!((1.0..3.0).contains(&hours), "{hours}");
        // A machine at the limit never proves it.
        assert_eq!(some.likely(24.0, ERROR), None);
    }

    #[test]
    fn short_runs_support_no_bound() {
        assert!(!rate([], Nanos::from_millis(2_900)).supports_bounds());
        assert!(rate([], Nanos::from_millis(3_100)).supports_bounds());
    }

    /// A rate that rises or falls during the run has no bound.
    #[test]
    fn trends_are_seen() {
        let rising = (0..60u64).map(|n| ((n * 60_000) as f64).sqrt() as u64 * 3_600 / 1_900);
        let found = rate(rising.clone(), HOUR);
        assert!(found.trend > 2.5 && !found.supports_bounds(), "{found:?}");
        let falling = rate(rising.map(|at| 3_599 - at.min(3_599)), HOUR);
        assert!(falling.trend < -2.5, "{falling:?}");
        let even = rate((0..3_600).step_by(40), HOUR);
        assert!(even.trend.abs() < 0.5, "{even:?}");
        assert_eq!(rate([], HOUR).trend, 0.0);
    }

    #[test]
    fn parts_that_differ_are_seen() {
        let even = rate((0..3_600).step_by(40), HOUR);
        assert_eq!(even.doubt(), None);
        let front = rate((0..1_350).step_by(90), HOUR);
        assert!(front.doubt().is_some(), "{front:?}");
        // The run is too short for a stronger statement.
        let front = rate((0..30).step_by(3), Nanos::from_secs(60));
        assert_eq!(front.doubt(), Some(Doubt::Halves(10, 10)));
        // A second that begins at the middle belongs to the second half.
        let back = rate((30..60).step_by(3), Nanos::from_secs(60));
        assert_eq!(back.parts, [0, 0]);
        // A single cluster of late seconds counts as one event, which has to be somewhere.
        let cluster = rate((0..14).step_by(2), Nanos::from_secs(30));
        assert_eq!(cluster.doubt(), None);
        assert_eq!(
            Doubt::Halves(9, 9).sentence("late seconds"),
            "the halves of the run differ: 9 of 9 late seconds in the first half"
        );
        let warm_up = (0..360).step_by(30).chain((500..3_600).step_by(500));
        assert_eq!(rate(warm_up, HOUR).doubt(), Some(Doubt::WarmUp(12, 19)));
        assert_eq!(rate([], HOUR).doubt(), None);
    }
}
