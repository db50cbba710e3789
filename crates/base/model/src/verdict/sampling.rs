//! Random times of the runs of a series.

use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::length;
use crate::Nanos;

/// Runs at random times: the period is divided into parts of equal length, and one run begins at a
/// random time in each part (stratified sampling). So no time of day or of week is left out, and
/// the runs together stand for the whole period. Written as `60 x 1min in 7d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    /// Number of runs in each period.
    pub runs: u32,
    /// Length of a run.
    pub length_ns: Nanos,
    /// The period, which repeats from the start of the series.
    pub period_ns: Nanos,
}

/// Maximum number of runs in a period.
const MOST_RUNS: u32 = 10_000;

impl Sampling {
    /// Minimum length of a run: one second, which is the unit of the verdict.
    pub const SHORTEST: Nanos = Nanos::from_secs(1);

    /// Maximum length of a run. The time series of longer runs has rows of more than a second, so
    /// it does not show which seconds were late.
    pub const LONGEST: Nanos = Nanos::from_secs(900);

    /// Creates a sampling. `None` if the runs are too many, too short or too long, or if they take
    /// more than half of the period.
    pub fn new(runs: u32, length: Nanos, period: Nanos) -> Option<Self> {
        let fits = (1..=MOST_RUNS).contains(&runs)
            && (Self::SHORTEST..=Self::LONGEST).contains(&length)
            && length.0.checked_mul(2 * u64::from(runs))? <= period.0;
        fits.then_some(Self {
            runs,
            length_ns: length,
            period_ns: period,
        })
    }

    /// Returns the length of a part of the period.
    pub fn part(&self) -> Nanos {
        Nanos(self.period_ns.0 / u64::from(self.runs.max(1)))
    }

    /// Returns the due time of a run. Runs are numbered from 0 across all periods since `begun`.
    /// A seed always gives the same times. `None` if the time is out of range.
    pub fn due(&self, seed: u64, begun: Timestamp, number: u64) -> Option<Timestamp> {
        let spare = self.part().0.checked_sub(self.length_ns.0)?;
        let offset = (u128::from(mix(seed, number)) * u128::from(spare)) >> 64;
        let since = self
            .start(number)?
            .checked_add(u64::try_from(offset).ok()?)?;
        after(begun, since)
    }

    /// Returns the number of the run in whose part of the period `time` lies. `None` before
    /// `begun`.
    pub fn number_at(&self, begun: Timestamp, time: Timestamp) -> Option<u64> {
        let since = u128::try_from(time.as_nanosecond() - begun.as_nanosecond()).ok()?;
        let (period, runs) = (u128::from(self.period_ns.0), u128::from(self.runs));
        let within = since % period * runs / period;
        u64::try_from(since / period * runs + within).ok()
    }

    /// Returns the start and the end of the period with this number, from 0.
    pub fn period(&self, begun: Timestamp, number: u64) -> Option<(Timestamp, Timestamp)> {
        let edge = |number: u64| after(begun, self.period_ns.0.checked_mul(number)?);
        Some((edge(number)?, edge(number.checked_add(1)?)?))
    }

    /// Returns the start of a run's part, in ns since the first period.
    fn start(&self, number: u64) -> Option<u64> {
        let (period, runs) = (u128::from(self.period_ns.0), u128::from(self.runs));
        let (periods, place) = (u128::from(number) / runs, u128::from(number) % runs);
        // Round up, as `number_at` expects.
        u64::try_from(periods * period + (place * period).div_ceil(runs)).ok()
    }
}

fn after(begun: Timestamp, nanos: u64) -> Option<Timestamp> {
    begun
        .checked_add(SignedDuration::from_nanos(i64::try_from(nanos).ok()?))
        .ok()
}

/// Returns the `number`th output of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). The times of
/// runs must stay the same in later versions, so they do not depend on a library.
fn mix(seed: u64, number: u64) -> u64 {
    let step = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut value = seed.wrapping_add(step);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Prints `60 runs of 60 s at random times in each 7 days`.
impl fmt::Display for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [run, period] = [self.length_ns, self.period_ns].map(|time| length(time.as_secs_f64()));
        f.pad(&format!(
            "{} runs of {run} at random times in each {period}",
            self.runs
        ))
    }
}

/// A text that cannot be read as a sampling.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not RUNS x LENGTH in PERIOD: use the form '60 x 1min in 7d', with 1 to {MOST_RUNS} runs \
     of 1 s to 15 min that take at most half of the period"
)]
pub struct SamplingError(String);

impl FromStr for Sampling {
    type Err = SamplingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (runs, rest) = text.split_once('x')?;
            let (length, period) = rest.split_once(" in ")?;
            let runs = runs.trim().parse().ok()?;
            Self::new(runs, length.parse().ok()?, period.parse().ok()?)
        };
        read().ok_or_else(|| SamplingError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn week() -> Sampling {
        "60 x 1min in 7d".parse().unwrap()
    }

    #[test]
    fn impossible_samplings_are_refused() {
        assert_eq!(week().part(), Nanos::from_secs(10_080));
        assert_eq!(
            week().to_string(),
            "60 runs of 60 s at random times in each 7 days"
        );
        for text in [
            "",
            "60",
            "0 x 1min in 7d",
            "-1 x 1min in 7d",
            "60 x 1min",
            "60 x 0.5s in 7d",
            "60 x 1h in 30d",
            "60 x 1min in 1h",
            "10001 x 1s in 365d",
            "60 x 1 in 7d",
            "4000000000 x 1s in 584y",
        ] {
            let error = text.parse::<Sampling>().unwrap_err().to_string();
            assert!(error.contains("60 x 1min in 7d"), "{text}: {error}");
        }
    }

    #[test]
    fn each_part_has_one_run_inside_it() {
        let begun: Timestamp = "2026-11-02T09:30:00.25Z".parse().unwrap();
        for (sampling, seed) in [
            (week(), 7),
            ("7 x 1s in 20s".parse().unwrap(), 8),
            ("3 x 900s in 90min".parse().unwrap(), 9),
        ] {
            let mut offsets = 0.0;
            for number in 0..1_000 {
                let due = sampling.due(seed, begun, number).unwrap();
                assert_eq!(sampling.number_at(begun, due), Some(number));
                let last = due + SignedDuration::from_nanos(sampling.length_ns.0 as i64 - 1);
                assert_eq!(sampling.number_at(begun, last), Some(number));
                let start = sampling.start(number).unwrap() as i128;
                let offset = due.as_nanosecond() - begun.as_nanosecond() - start;
                let spare = sampling.part().0 - sampling.length_ns.0;
                offsets += offset as f64 / spare.max(1) as f64;
            }
            assert!((offsets / 1_000.0 - 0.5).abs() < 0.05, "{offsets}");
            let (start, end) = sampling.period(begun, 1).unwrap();
            assert_eq!(sampling.number_at(begun, start), Some(sampling.runs.into()));
            let before = end - SignedDuration::from_nanos(1);
            let last = u64::from(sampling.runs) * 2 - 1;
            assert_eq!(sampling.number_at(begun, before), Some(last));
        }
        let before = begun - SignedDuration::from_nanos(1);
        assert_eq!(week().number_at(begun, before), None);
        assert_eq!(week().due(1, begun, u64::MAX), None);
    }

    /// The times are part of stored series, so they must not change.
    #[test]
    fn seed_always_gives_the_same_times() {
        // The first outputs of the reference implementation with the seed 1234567.
        let first = [0, 1].map(|number| mix(1_234_567, number));
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
        let begun = Timestamp::UNIX_EPOCH;
        assert_eq!(week().due(1, begun, 5), week().due(1, begun, 5));
        assert_ne!(week().due(1, begun, 5), week().due(2, begun, 5));
    }
}
