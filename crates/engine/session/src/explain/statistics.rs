//! Numbers the outliers, chooses those that are explained, and counts them.

use punctual_culprit::Tally;
use punctual_model::{Blame, Explanation, Nanos};

use super::raw_outlier::RawOutlier;

/// Maximum number of outliers that are explained per poll. The largest are explained, and the
/// others are only counted, because explaining more would keep this thread from its other work.
const AT_ONCE: usize = 200;

/// Time limit for explanations per poll. It ensures that each outlier is explained within 50 ms,
/// including the time until a poll detects it.
const TURN: Nanos = Nanos::from_millis(30);

/// Assumed time to explain one outlier, until this time has been measured.
const USUAL_COST: Nanos = Nanos::from_millis(1);

/// Counts the outliers of a run.
pub(crate) struct OutlierStatistics {
    seen: u64,
    /// Number of outliers among `seen` that cannot be explained.
    pub(crate) beyond: u64,
    explained: u64,
    /// Number of explained outliers whose largest share was caused by this program.
    pub(crate) by_observer: u64,
    /// Longest time from an outlier to its explanation.
    within: Option<Nanos>,
    /// Time that it recently took to explain one outlier.
    cost: Nanos,
    tally: Tally,
    threshold: Nanos,
    /// How much the events raised the probe's median, and how long measuring this took.
    overhead: Option<Nanos>,
    overhead_took: Option<Nanos>,
}

impl OutlierStatistics {
    /// Creates statistics of outliers above a threshold.
    pub(crate) fn new(threshold: Nanos) -> Self {
        Self {
            seen: 0,
            beyond: 0,
            explained: 0,
            by_observer: 0,
            within: None,
            cost: USUAL_COST,
            tally: Tally::new().above(threshold),
            threshold,
            overhead: None,
            overhead_took: None,
        }
    }

    pub(crate) const fn threshold(&self) -> Nanos {
        self.threshold
    }

    /// Sets how much the events raised the probe's median, and how long measuring this took.
    pub(crate) const fn set_overhead(&mut self, overhead: Option<Nanos>, took: Nanos) {
        (self.overhead, self.overhead_took) = (overhead, Some(took));
    }

    /// Sets the wake-up interval of the probe.
    pub(crate) fn looking_each(&mut self, interval: Nanos) {
        self.tally = std::mem::take(&mut self.tally).looking_each(interval);
    }

    /// Counts outliers that are not explained.
    pub(crate) const fn pass_over(&mut self, count: u64) {
        self.seen += count;
    }

    /// Numbers the outliers by time. Returns the largest of them with their numbers, as many as can
    /// be explained in one poll.
    pub(crate) fn choose(&mut self, mut seen: Vec<RawOutlier>) -> Vec<(u64, RawOutlier)> {
        seen.sort_by_key(|outlier| outlier.expected);
        let first = self.seen + 1;
        self.seen += seen.len() as u64;
        let mut numbered: Vec<(u64, RawOutlier)> = (first..).zip(seen).collect();
        numbered.sort_by_key(|(_, outlier)| std::cmp::Reverse(outlier.latency));
        let fit = TURN.0 / self.cost.0.max(1);
        numbered.truncate((fit as usize).clamp(1, AT_ONCE));
        numbered.sort_by_key(|(number, _)| *number);
        numbered
    }

    /// Notes how long it took to explain this number of outliers.
    pub(crate) fn took(&mut self, count: u64, time: Nanos) {
        // Averages the old value and the new one, because a single value is unreliable.
        self.cost = Nanos(self.cost.0.midpoint(time.0 / count.max(1)));
    }

    /// Counts an explained outlier. `after`: the time from the outlier until now.
    pub(crate) fn explained(&mut self, number: u64, expected: Nanos, after: Nanos, blame: &Blame) {
        self.explained += 1;
        self.by_observer += u64::from(blame.by_observer);
        self.within = self.within.max(Some(after));
        self.tally.add(number, expected, blame);
    }

    /// Returns the counts as part of an explanation.
    pub(crate) fn explanation(&self) -> Explanation {
        Explanation {
            threshold_ns: self.threshold,
            rise_ns: self.overhead,
            rise_took_ns: self.overhead_took,
            seen: self.seen,
            explained: self.explained,
            explained_within_ns: self.within,
            causes: self.tally.causes(),
            periods: self.tally.periods(),
            ..Explanation::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{Comm, Delay, Policy, Scheduling, Victim};

    use super::*;

    /// Outliers with these due times and latencies in µs.
    fn outliers(all: &[(u64, u64)]) -> Vec<RawOutlier> {
        let outlier = |(expected, latency): &(u64, u64)| RawOutlier {
            thread: 0,
            tid: 7,
            cpu: Some(1),
            scheduling: Scheduling {
                policy: Policy::Other,
                priority: 0,
            },
            expected: Nanos::from_micros(*expected),
            latency: Nanos::from_micros(*latency),
            story_from: Nanos::from_micros(*expected),
            delay: None,
            period: None,
        };
        all.iter().map(outlier).collect()
    }

    fn numbers(chosen: &[(u64, RawOutlier)]) -> Vec<u64> {
        chosen.iter().map(|(number, _)| *number).collect()
    }

    #[test]
    fn outliers_are_numbered_by_time() {
        let mut statistics = OutlierStatistics::new(Nanos::ZERO);
        statistics.pass_over(2);
        let chosen = statistics.choose(outliers(&[(30, 5), (10, 9), (20, 7)]));
        assert_eq!(numbers(&chosen), [3, 4, 5]);
        let latencies = chosen.iter().map(|(_, outlier)| outlier.latency);
        assert!(latencies.eq([9, 7, 5].map(Nanos::from_micros)));
        let chosen = statistics.choose(outliers(&[(40, 1)]));
        assert_eq!(numbers(&chosen), [6]);
        assert_eq!(statistics.explanation().seen, 6);
    }

    #[test]
    fn largest_outliers_that_fit_are_chosen() {
        let mut statistics = OutlierStatistics::new(Nanos::ZERO);
        let all: Vec<(u64, u64)> = (0..1_000).map(|n| (n, 10_000 - n)).collect();
        // At 1 ms each, 30 fit into a poll, and they are those with the largest latencies.
        let chosen = statistics.choose(outliers(&all));
        assert_eq!(numbers(&chosen), (1..=30).collect::<Vec<_>>());
        statistics.took(1, Nanos::from_secs(1));
        assert_eq!(statistics.choose(outliers(&all)).len(), 1);
        for _ in 0..60 {
            statistics.took(10, Nanos(10));
        }
        assert_eq!(statistics.choose(outliers(&all)).len(), AT_ONCE);
    }

    #[test]
    fn explained_outliers_are_counted() {
        let mut statistics = OutlierStatistics::new(Nanos::ZERO);
        for (number, after, by_observer) in [(1, 20, false), (2, 50, true), (3, 30, false)] {
            let blame = Blame {
                victim: Victim {
                    tid: 7,
                    comm: Comm::new(b"t"),
                    scheduling: None,
                    cpu: 1,
                },
                delay: Delay::Wakeup,
                moved: None,
                culprit_end_ns: None,
                events_lost: 0,
                clock_error_ns: Nanos::ZERO,
                by_observer,
                shares: Vec::new(),
                words: None,
            };
            statistics.explained(number, Nanos(number), Nanos(after), &blame);
        }
        let explanation = statistics.explanation();
        assert_eq!(explanation.explained, 3);
        assert_eq!(explanation.explained_within_ns, Some(Nanos(50)));
        assert_eq!(statistics.by_observer, 1);
    }
}
