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
