//! Sums of the causes over a whole run.

use std::collections::BTreeMap;

use punctual_model::cause::Source;
use punctual_model::{Blame, CauseSummary, Nanos, Outlier, Period, Recording, ShareKind};

use crate::period::find_period;

/// Key that identifies a source over a run: its kind and its description without the IDs of
/// threads.
type Key = (ShareKind, String);

/// Maximum number of times per culprit that are searched for a period. Later times are ignored.
const TIMES: usize = 10_000;

/// Limit on distinct sources, because thread names are unbounded. Further ones are summed as
/// "others".
const SOURCES: usize = 1_000;

/// Minimum length of a period in wake-ups of the probe. A probe sees a source only at its own
/// wake-ups, so a shorter period may just as well come from the probe itself.
const BEATS: u64 = 8;

/// Sums causes over outliers in bounded memory.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    interval: Nanos,
    /// A latency up to this value is not an outlier. Zero if there is no such value.
    threshold: Nanos,
    causes: BTreeMap<Key, CauseSummary>,
    /// Times at which each source was the culprit.
    times: BTreeMap<Key, Vec<Nanos>>,
}

impl Tally {
    /// Creates an empty tally.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the interval of the probe's wake-ups.
    pub fn looking_each(self, interval: Nanos) -> Self {
        Self { interval, ..self }
    }

    /// Sets the threshold above which a latency is an outlier.
    pub fn above(self, threshold: Nanos) -> Self {
        Self { threshold, ..self }
    }

    /// Creates a tally of retained outliers above a threshold.
    pub fn from_outliers(outliers: &[Outlier], threshold: Nanos) -> Self {
        let mut tally = Self::new().above(threshold);
        for outlier in outliers {
            tally.add(outlier.number, outlier.monotonic_ns, &outlier.blame);
        }
        tally
    }

    /// Adds an outlier by its number, due time and causes.
    pub fn add(&mut self, number: u64, due: Nanos, blame: &Blame) {
        // Threads of the same name are one source, so sum their shares first.
        let mut sums: BTreeMap<Key, (Source, Nanos)> = BTreeMap::new();
        for share in &blame.shares {
            let source = share.cause.source.without_ids();
            let sum = sums.entry(key(&source)).or_insert((source, Nanos::ZERO));
            sum.1 += share.ns;
        }
        let latency = blame.latency();
        let culprit = blame.largest();
        let culprit = culprit.map(|share| key(&share.cause.source.without_ids()));
        for (key, (source, ns)) in sums {
            let is_culprit = culprit.as_ref() == Some(&key);
            // If the end time of the culprit is unknown, the due time is used instead, even though
            // due times are multiples of the probe's period.
            let at = blame.culprit_end_ns.unwrap_or(due);
            let counts = self.threshold > Nanos::ZERO && source.kind() != ShareKind::Unexplained;
            let is_only = counts && latency.saturating_sub(ns) <= self.threshold;
            let cause = self.count((key, source), ns, number, is_culprit.then_some(at));
            if counts {
                *cause.late_only_by.get_or_insert_default() += u64::from(is_only);
            }
        }
    }

    fn count(
        &mut self,
        (key, source): (Key, Source),
        ns: Nanos,
        number: u64,
        culprit_at: Option<Nanos>,
    ) -> &mut CauseSummary {
        let (key, source) = if self.causes.contains_key(&key) || self.causes.len() < SOURCES {
            (key, source)
        } else {
            let others = Source::Others(key.0);
            (self::key(&others), others)
        };
        let cause = self
            .causes
            .entry(key.clone())
            .or_insert_with(|| CauseSummary {
                source,
                count: 0,
                culprit_in: 0,
                late_only_by: None,
                total_ns: Nanos::ZERO,
                max_ns: Nanos::ZERO,
                max_outlier: number,
                words: None,
            });
        cause.count += 1;
        cause.total_ns += ns;
        if ns > cause.max_ns {
            (cause.max_ns, cause.max_outlier) = (ns, number);
        }
        if let Some(at) = culprit_at {
            cause.culprit_in += 1;
            let times = self.times.entry(key).or_default();
            if times.len() < TIMES {
                times.push(at);
            }
        }
        cause
    }

    /// Returns the causes in descending order of total time.
    pub fn causes(&self) -> Vec<CauseSummary> {
        let mut causes: Vec<CauseSummary> = self.causes.values().cloned().collect();
        causes.sort_by_key(|cause| (std::cmp::Reverse(cause.total_ns), cause.max_outlier));
        causes
    }

    /// Returns the periodic main causes, most frequent first.
    pub fn periods(&self) -> Vec<Period> {
        let mut periods: Vec<Period> = self
            .times
            .iter()
            .filter_map(|(key, times)| find_period(&self.causes.get(key)?.source, times))
            .filter(|found| found.period_ns.0 >= self.interval.0.saturating_mul(BEATS))
            .collect();
        periods.sort_by_key(|period| std::cmp::Reverse(period.count));
        periods
    }
}

fn key(source: &Source) -> Key {
    (source.kind(), source.who())
}

/// Adds the missing summary of causes to an interrupted run. It is computed from the kept outliers.
pub fn complete(recording: &mut Recording) {
    let interval = recording.duration_parameter("interval_ns");
    if let Some(explanation) = &mut recording.explanation
        && explanation.causes.is_empty()
        && !explanation.outliers.is_empty()
    {
        let tally = Tally::from_outliers(&explanation.outliers, explanation.threshold_ns)
            .looking_each(interval.unwrap_or_default());
        explanation.causes = tally.causes();
        explanation.periods = tally.periods();
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::cause::{Name, Role, Unknown};
    use punctual_model::{Comm, Explanation, Share, testing};

    use super::*;

    const NET: Source = Source::Softirq(3);
    const BLOCK: Source = Source::Softirq(4);

    fn blame(shares: &[(Source, u64)]) -> Blame {
        let share = |(source, us): &(Source, u64)| {
            let cause = punctual_model::cause::Cause::new(source.clone());
            Share::new(cause, Nanos::from_micros(*us), 1)
        };
        testing::blame(shares.iter().map(share).collect())
    }

    fn thread(pid: u32, name: &str) -> Source {
        Source::Thread {
            role: Role::Blocking,
            thread: Name {
                pid: Some(pid),
                comm: Comm::new(name.as_bytes()),
            },
        }
    }

    /// Adds outliers with one cause at these times in ms.
    fn add(tally: &mut Tally, source: &Source, times_ms: impl IntoIterator<Item = u64>) {
        for at in times_ms {
            tally.add(at, Nanos::from_millis(at), &blame(&[(source.clone(), 50)]));
        }
    }

    #[test]
    fn shares_of_a_source_add_up() {
        let mut tally = Tally::new();
        tally.add(1, Nanos(1), &blame(&[(NET, 90), (BLOCK, 40)]));
        tally.add(2, Nanos(2), &blame(&[(NET, 20), (BLOCK, 300), (NET, 30)]));
        let sums = tally.causes().into_iter().map(|cause| {
            let us = |ns: Nanos| ns.0 / 1_000;
            let sums = (us(cause.total_ns), us(cause.max_ns), cause.max_outlier);
            (cause.source, (cause.count, cause.culprit_in), sums)
        });
        let sums: Vec<_> = sums.collect();
        // The source with the longest total time comes first.
        assert_eq!(
            sums,
            [(BLOCK, (2, 1), (340, 300, 2)), (NET, (2, 1), (140, 90, 1))]
        );
        assert!(tally.causes().iter().all(|one| one.late_only_by.is_none()));
    }

    #[test]
    fn threads_of_one_name_are_one_source() {
        let mut tally = Tally::new();
        tally.add(
            1,
            Nanos(1),
            &blame(&[(thread(7, "cc1"), 60), (thread(8, "cc1"), 50), (NET, 80)]),
        );
        tally.add(
            2,
            Nanos(2),
            &blame(&[(thread(9, "cc1"), 10), (thread(9, "ld"), 5)]),
        );
        let causes = tally.causes();
        let numbers = causes.iter().map(|one| (one.count, one.total_ns.0 / 1_000));
        assert_eq!(numbers.collect::<Vec<_>>(), [(2, 120), (1, 80), (1, 5)]);
        assert_eq!(causes[0].source, thread(7, "cc1").without_ids());
    }

    #[test]
    fn outlier_may_be_late_only_by_one_source() {
        let mut tally = Tally::new().above(Nanos::from_micros(100));
        // Without either of them, 100 µs or less are left.
        tally.add(1, Nanos(1), &blame(&[(NET, 100), (BLOCK, 60)]));
        // Without the block softirq, 101 µs are left.
        tally.add(2, Nanos(2), &blame(&[(NET, 101), (BLOCK, 60)]));
        let unknown = Source::Unexplained(Unknown::NoWaker);
        tally.add(3, Nanos(3), &blame(&[(unknown, 500)]));
        let causes = tally.causes();
        let alone = |of: &Source| causes.iter().find(|one| one.source == *of)?.late_only_by;
        assert_eq!((alone(&NET), alone(&BLOCK)), (Some(2), Some(1)));
        assert_eq!(causes[0].late_only_by, None);
    }

    #[test]
    fn periods_are_those_of_main_causes() {
        let mut tally = Tally::new().looking_each(Nanos::from_millis(10));
        add(&mut tally, &NET, (0..12).map(|n| 5 + n * 1_000));
        add(&mut tally, &BLOCK, (0..30).map(|n| 7 + n * 80));
        // A source that recurs with fewer than eight wake-ups of the probe may be the probe's own.
        add(&mut tally, &thread(7, "cc1"), (0..30).map(|n| 3 + n * 70));
        let periods = tally.periods();
        let found = periods
            .iter()
            .map(|one| (&one.source, one.period_ns.0 / 1_000_000, one.count));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [(&BLOCK, 80, 30), (&NET, 1_000, 12)]
        );
    }

    /// A cause that is never the largest one has no period, and the time of a cause is the end of its
    /// share, if it is known.
    #[test]
    fn period_is_that_of_ends() {
        let mut tally = Tally::new();
        for n in 0..12u64 {
            let mut both = blame(&[(NET, 50), (BLOCK, 10)]);
            both.culprit_end_ns = Some(Nanos::from_millis(n * 1_000));
            let due = Nanos::from_millis(n * n * 1_000);
            tally.add(n, due, &both);
        }
        let periods = tally.periods();
        assert_eq!(periods.len(), 1, "{periods:?}");
        assert_eq!(periods[0].source, NET);
        assert_eq!(periods[0].period_ns, Nanos::from_secs(1));
    }

    #[test]
    fn further_sources_are_others() {
        let mut tally = Tally::new();
        let names = SOURCES as u64 + 5;
        for n in 0..names {
            let source = thread(1, &format!("worker {n}"));
            tally.add(n, Nanos(n), &blame(&[(source, 10)]));
        }
        // A known source is still counted on its own.
        tally.add(names, Nanos(names), &blame(&[(thread(2, "worker 0"), 10)]));
        let causes = tally.causes();
        assert_eq!(causes.len(), SOURCES + 1);
        let others = causes
            .iter()
            .find(|one| matches!(one.source, Source::Others(_)));
        let others = others.unwrap();
        assert_eq!(others.source, Source::Others(ShareKind::Blocking));
        assert_eq!((others.count, others.total_ns), (5, Nanos::from_micros(50)));
        let known = thread(2, "worker 0").without_ids();
        let known = causes.iter().find(|one| one.source == known);
        assert_eq!(known.unwrap().count, 2);
    }

    /// Only an interrupted run lacks the summary.
    #[test]
    fn interrupted_run_gets_its_summary() {
        let mut recording = testing::recording(1, 1);
        let outliers = (0..12).map(|n| Outlier {
            number: n,
            time: recording.started,
            monotonic_ns: Nanos::from_secs(n),
            cpu: Some(0),
            thread: 0,
            latency_ns: Nanos::from_micros(50),
            blame: blame(&[(NET, 50)]),
            light_stage: false,
        });
        recording.explanation = Some(Explanation {
            threshold_ns: Nanos::from_micros(20),
            outliers: outliers.collect(),
            ..Explanation::default()
        });
        complete(&mut recording);
        let explanation = recording.explanation.as_mut().unwrap();
        assert_eq!(explanation.causes.len(), 1);
        assert_eq!(explanation.causes[0].late_only_by, Some(12));
        assert_eq!(explanation.periods[0].period_ns, Nanos::from_secs(1));
        explanation.outliers.truncate(3);
        let before = explanation.causes.clone();
        complete(&mut recording);
        assert_eq!(recording.explanation.unwrap().causes, before);
    }
}
