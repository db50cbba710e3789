//! Bounds from runs at random times.

use super::dispersion::{chance_limit, variance_by_mean};
use super::{DAY, Decision, quantile};
use crate::Nanos;

/// The late seconds of runs at random times, one run in each of many equal parts of a period
/// ([`Sampling`](crate::Sampling)). The unit is the run: late seconds of one run depend on each
/// other, but the times of the runs are drawn independently. The bounds are therefore valid for the
/// whole period, however slowly the machine changes.
///
/// A run that is missing counts against each claim: as late in all its seconds for an upper bound,
/// and as late in none of them for a lower bound. A machine that was off whenever it was hot must
/// not get a bound of its cool hours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampledRuns {
    /// Number of seconds of the shortest run, which makes an upper bound larger.
    seconds: u64,
    /// Number of seconds of the longest run, which makes a lower bound smaller.
    longest: u64,
    /// Number of seconds of each run that were late for certain, and of those that may have been
    /// late.
    late: Vec<[u64; 2]>,
    /// Number of runs that are missing.
    missing: u64,
}

impl SampledRuns {
    /// Minimum number of runs for a bound. With fewer, their differences say too little about the
    /// parts of the period between them (docs/simulation.md).
    pub const LEAST: usize = 20;

    /// Creates an empty sample of runs with lengths between these two.
    pub fn new(shortest: Nanos, longest: Nanos) -> Self {
        let seconds = |length: Nanos| length.0.div_ceil(Nanos::from_secs(1).0).max(1);
        Self {
            seconds: seconds(shortest),
            longest: seconds(longest.max(shortest)),
            ..Self::default()
        }
    }

    /// Adds a run, with the number of seconds that were late for certain, and of those that may
    /// have been late.
    pub fn add(&mut self, at_least: u64, at_most: u64) {
        // A run of 60 s touches 61 seconds of a clock.
        let least = at_least.min(self.longest);
        self.late
            .push([least, at_most.min(self.seconds).max(least)]);
    }

    /// Adds a run that is missing.
    pub fn miss(&mut self) {
        self.missing += 1;
    }

    /// Returns the number of measured runs.
    pub fn measured(&self) -> usize {
        self.late.len()
    }

    /// Returns the number of missing runs.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Returns the number of late seconds that are certain, and of those that may be late. Missing
    /// runs do not count.
    pub fn late(&self) -> [u64; 2] {
        [0, 1].map(|which| self.late.iter().map(|late| late[which]).sum())
    }

    /// Returns the counts of all runs. `at_most` selects those for an upper bound.
    fn counts(&self, at_most: bool) -> Vec<u64> {
        let missing = if at_most { self.seconds } else { 0 };
        let own = self.late.iter().map(|late| late[usize::from(at_most)]);
        own.chain((0..self.missing).map(|_| missing)).collect()
    }

    /// Returns the upper bound of the late seconds per day. `error` is the probability that it is
    /// wrong. `None` if there are too few runs.
    pub fn per_day_at_most(&self, error: f64) -> Option<f64> {
        let counts = self.counts(true);
        let bound = |count| quantile::upper(count, dispersion(&counts), error);
        self.bound(&counts, self.seconds, bound)
    }

    /// Returns the lower bound of the late seconds per day, like
    /// [`per_day_at_most`](Self::per_day_at_most).
    pub fn per_day_at_least(&self, error: f64) -> Option<f64> {
        let counts = self.counts(false);
        let bound = |count| quantile::lower(count, dispersion(&counts), error);
        self.bound(&counts, self.longest, bound)
    }

    /// `seconds`: length of each run, including the missing ones.
    fn bound(&self, counts: &[u64], seconds: u64, bound: impl Fn(u64) -> f64) -> Option<f64> {
        let all = seconds.saturating_mul(counts.len() as u64) as f64;
        (self.late.len() >= Self::LEAST).then(|| bound(counts.iter().sum()).min(all) * DAY / all)
    }

    /// Decides whether there are more than `per_day` late seconds a day. `period` is the time that
    /// the runs stand for. If the runs alone contain more late seconds than the limit allows for
    /// the whole period, it is broken without statistics.
    pub fn decide(&self, per_day: f64, period: Nanos, error: f64) -> Decision {
        let allowed = per_day * period.as_secs_f64() / DAY;
        match (self.per_day_at_least(error), self.per_day_at_most(error)) {
            _ if self.late()[0] as f64 > allowed => Decision::Broken,
            (Some(least), _) if least > per_day => Decision::Broken,
            (_, Some(most)) if most <= per_day => Decision::Held,
            _ => Decision::Open,
        }
    }

    /// Returns the largest share of the period that a disturbance can take without being seen: with
    /// a probability of more than `error`, none of the measured runs meets it.
    pub fn unseen_share(&self, error: f64) -> f64 {
        match self.late.len() {
            0 => 1.0,
            runs => 1.0 - error.powf(1.0 / runs as f64),
        }
    }

    /// Returns the number of runs of this length that prove a limit of `per_day` late seconds a
    /// day, if none of them has a late second. `None` if no number does.
    pub fn needed(&self, per_day: f64, error: f64) -> Option<u64> {
        let runs = quantile::upper(0, 1.0, error) * DAY / per_day / self.seconds as f64;
        let least = Self::LEAST as f64;
        (runs < 1e9).then(|| runs.max(least).ceil() as u64)
    }
}

/// Returns the variance divided by the mean of the counts of runs (its upper 90% limit), at least
/// 1. Differences between the parts of the period only raise it, so the bounds are not too narrow.
fn dispersion(counts: &[u64]) -> f64 {
    match counts.len() {
        // Without late seconds, their clustering is unknown.
        _ if counts.iter().all(|count| *count == 0) => 1.0,
        1 => 1.0,
        number => chance_limit(variance_by_mean(counts), number).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ERROR;

    const MINUTE: Nanos = Nanos::from_secs(60);
    const WEEK: Nanos = Nanos::from_secs(604_800);

    fn runs(late: &[u64], missing: u64) -> SampledRuns {
        let mut runs = SampledRuns::new(MINUTE, MINUTE);
        late.iter().for_each(|late| runs.add(*late, *late));
        (0..missing).for_each(|_| runs.miss());
        runs
    }

    /// 60 clean minutes prove at most 72 late seconds a day, and 432 prove 10.
    #[test]
    fn clean_runs_bound_the_week() {
        let clean = runs(&[0; 60], 0);
        let bound = clean.per_day_at_most(ERROR).unwrap();
        assert!((bound - 71.9).abs() < 0.1, "{bound}");
        assert_eq!(clean.per_day_at_least(ERROR), Some(0.0));
        assert_eq!(clean.decide(72.0, WEEK, ERROR), Decision::Held);
        assert_eq!(clean.decide(71.0, WEEK, ERROR), Decision::Open);
        assert_eq!(clean.needed(72.0, ERROR), Some(60));
        assert_eq!(clean.needed(10.0, ERROR), Some(432));
        assert_eq!(clean.needed(0.0, ERROR), None);
        let enough = runs(&[0; 432], 0);
        assert_eq!(enough.decide(10.0, WEEK, ERROR), Decision::Held);
    }

    #[test]
    fn always_late_machine_is_late_all_day() {
        let always = runs(&[61; 60], 0);
        assert_eq!(always.per_day_at_most(ERROR), Some(86_400.0));
        assert!(always.per_day_at_least(ERROR).unwrap() > 80_000.0);
        assert_eq!(always.decide(20_000.0, WEEK, ERROR), Decision::Broken);
    }

    /// One missing run of 60 may hide 1,440 late seconds a day.
    #[test]
    fn missing_runs_count_against_each_claim() {
        let all = runs(&[0; 60], 0).per_day_at_most(ERROR).unwrap();
        let one = runs(&[0; 59], 1).per_day_at_most(ERROR).unwrap();
        assert!(all < 100.0 && one > 1_440.0, "{all} {one}");
        assert_eq!(runs(&[0; 59], 1).decide(72.0, WEEK, ERROR), Decision::Open);
        // They do not break a limit either.
        let late = runs(&[1; 59], 0).per_day_at_least(ERROR).unwrap();
        let fewer = runs(&[1; 59], 59).per_day_at_least(ERROR).unwrap();
        assert!(fewer < late * 0.6, "{fewer} {late}");
    }

    /// Late seconds of long runs are not divided by the length of a shorter one, nor the other way
    /// round.
    #[test]
    fn lengths_of_runs_widen_the_bounds() {
        let bounds = |shortest: u64| {
            let mut runs = SampledRuns::new(Nanos::from_secs(shortest), MINUTE);
            (0..60).for_each(|_| runs.add(20, 20));
            [runs.per_day_at_least(ERROR), runs.per_day_at_most(ERROR)].map(Option::unwrap)
        };
        let [low, high] = bounds(60);
        assert_eq!(bounds(57)[0], low);
        assert!(bounds(57)[1] > high);
    }

    #[test]
    fn few_runs_have_no_bound() {
        let few = runs(&[0; SampledRuns::LEAST - 1], 0);
        assert_eq!(few.per_day_at_most(ERROR), None);
        assert_eq!(few.decide(86_000.0, WEEK, ERROR), Decision::Open);
        // Ten a day are 70 a week, and these runs alone have more.
        let late = runs(&[60, 11], 0);
        assert_eq!(late.decide(10.0, WEEK, ERROR), Decision::Broken);
        assert_eq!(late.decide(11.0, WEEK, ERROR), Decision::Open);
    }

    /// The unit is the run: 60 late seconds in one run prove less than one in each of 60 runs.
    #[test]
    fn late_seconds_of_one_run_depend_on_each_other() {
        let mut one = [0; 60];
        one[7] = 60;
        let bounds = [runs(&one, 0), runs(&[1; 60], 0)]
            .map(|runs| [runs.per_day_at_least(ERROR), runs.per_day_at_most(ERROR)]);
        let [[low, high], [own_low, own_high]] = bounds;
        assert!(high.unwrap() > 3.0 * own_high.unwrap(), "{bounds:?}");
        assert!(low.unwrap() < own_low.unwrap() / 3.0, "{bounds:?}");
    }

    #[test]
    fn rare_disturbances_can_be_unseen() {
        let share = runs(&[0; 60], 5).unseen_share(ERROR);
        assert!((share - 0.0487).abs() < 1e-3, "{share}");
        assert_eq!(runs(&[], 5).unseen_share(ERROR), 1.0);
    }

    /// The bounds enclose the measured rate, and more lateness never lowers the upper bound of the
    /// same dispersion.
    #[test]
    fn bounds_enclose_the_measured_rate() {
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..300 {
            let number = random.usize(SampledRuns::LEAST..100);
            let most = random.u64(1..=60);
            let late: Vec<u64> = (0..number).map(|_| random.u64(0..=most)).collect();
            let runs = runs(&late, random.u64(0..4));
            let [low, high] = [runs.per_day_at_least(ERROR), runs.per_day_at_most(ERROR)];
            let seconds = 60 * (runs.measured() as u64 + runs.missing());
            let own = late.iter().sum::<u64>() as f64 / seconds as f64 * DAY;
            let (low, high) = (low.unwrap(), high.unwrap());
            assert!((0.0..=own).contains(&low), "{runs:?}: {low} {own}");
            assert!(high >= own && high <= DAY, "{runs:?}: {high} {own}");
            let mut worse = runs.clone();
            worse.late[0] = [0, 0];
            let mut missing = worse.clone();
            missing.late.remove(0);
            missing.miss();
            if missing.measured() >= SampledRuns::LEAST {
                assert!(missing.per_day_at_most(ERROR) >= worse.per_day_at_most(ERROR));
            }
        }
    }

    #[test]
    fn late_seconds_of_a_run_are_at_most_its_length() {
        let mut all = SampledRuns::new(Nanos::from_millis(59_500), Nanos::from_millis(60_001));
        assert_eq!((all.seconds, all.longest), (60, 61));
        for (least, most) in [(1, 2), (70, 90), (61, 61), (5, 3)] {
            all.add(least, most);
        }
        all.miss();
        assert_eq!(all.late, [[1, 2], [61, 61], [61, 61], [5, 5]]);
        assert_eq!(
            (all.measured(), all.missing(), all.late()),
            (4, 1, [128, 129])
        );
        assert_eq!(all.counts(false), [1, 61, 61, 5, 0]);
        assert_eq!(all.counts(true), [2, 61, 61, 5, 60]);
        let short = SampledRuns::new(Nanos(1), Nanos::ZERO);
        assert_eq!((short.seconds, short.longest), (1, 1));
    }

    #[test]
    fn dispersion_of_runs_is_at_least_that_of_chance() {
        for (counts, known) in [
            (vec![], 1.0),
            (vec![0; 9], 1.0),
            (vec![7], 1.0),
            (vec![2; 9], 1.0),
        ] {
            assert_eq!(dispersion(&counts), known, "{counts:?}");
        }
        let counts = [0, 0, 0, 0, 0, 0, 0, 16];
        // The variance is 32, and the mean is 2.
        assert_eq!(variance_by_mean(&counts), 16.0);
        assert_eq!(dispersion(&counts), chance_limit(16.0, 8));
    }

    #[test]
    fn bounds_of_runs_are_those_of_their_time() {
        // One late second in 20 runs of a minute. The dispersion is 1 by chance.
        let mut late = vec![0; 20];
        late[3] = 1;
        let some = runs(&late, 0);
        let counts = some.counts(true);
        let factor = dispersion(&counts);
        let most = some.per_day_at_most(ERROR).unwrap();
        let known = quantile::upper(1, factor, ERROR) * DAY / 1_200.0;
        assert!((most - known).abs() < 1e-9, "{most} {known}");
        let least = some.per_day_at_least(ERROR).unwrap();
        let known = quantile::lower(1, factor, ERROR) * DAY / 1_200.0;
        assert!(
            (least - known).abs() < 1e-9 && least > 0.0,
            "{least} {known}"
        );
        assert_eq!(runs(&late[1..], 0).per_day_at_most(ERROR), None);
        // Never more than all seconds of a day.
        assert_eq!(runs(&[60; 20], 0).per_day_at_most(ERROR), Some(DAY));
        assert_eq!(runs(&[60; 20], 500).per_day_at_most(ERROR), Some(DAY));
    }

    /// More late seconds in the runs alone than are allowed in the whole period.
    #[test]
    fn few_runs_break_what_they_exceed() {
        for (late, decision) in [(7, Decision::Open), (8, Decision::Broken)] {
            // One second a day is seven in a week.
            assert_eq!(runs(&[late], 0).decide(1.0, WEEK, ERROR), decision);
        }
        assert_eq!(runs(&[], 0).unseen_share(ERROR), 1.0);
        let one = runs(&[0], 0).unseen_share(ERROR);
        assert!((one - 0.95).abs() < 1e-12, "{one}");
        let two = runs(&[0, 0], 0).unseen_share(ERROR);
        assert!((two - (1.0 - 0.05f64.sqrt())).abs() < 1e-12, "{two}");
        assert_eq!(
            runs(&[], 0).needed(86_400.0, ERROR),
            Some(20),
            "at least so many"
        );
    }
}
