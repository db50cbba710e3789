//! The causes of a whole run.

use std::collections::BTreeMap;

use punctual_model::{Blame, Cause, Nanos, Outlier, Period, Recording, Share, ShareKind};

use crate::blame::largest;
use crate::period::find_period;

/// Key of a source over a run.
type Source = (ShareKind, String);

/// Number of times per culprit that are searched for a period: the first ones.
const TIMES: usize = 10_000;

/// Limit on distinct sources, because thread names are unbounded. Further ones are summed as
/// "others".
const SOURCES: usize = 1_000;

/// A probe sees a source only at its own wake-ups. A period shorter than this many wake-ups may
/// just as well come from the probe's own period.
const BEATS: u64 = 8;

/// Sums causes over outliers in bounded memory.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    interval: Nanos,
    causes: BTreeMap<Source, Cause>,
    /// Times at which each source was the culprit.
    times: BTreeMap<Source, Vec<Nanos>>,
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

    /// Creates a tally of retained outliers.
    pub fn of(outliers: &[Outlier]) -> Self {
        let mut tally = Self::new();
        for outlier in outliers {
            tally.add(outlier.number, outlier.monotonic_ns, &outlier.blame);
        }
        tally
    }

    /// Adds an outlier by its number, due time and causes.
    pub fn add(&mut self, number: u64, due: Nanos, blame: &Blame) {
        // Threads of the same name are one source, so sum their shares first.
        let mut sums: BTreeMap<Source, Nanos> = BTreeMap::new();
        for share in &blame.shares {
            *sums.entry(source(share)).or_default() += share.ns;
        }
        let culprit = largest(&blame.shares).map(source);
        for (key, ns) in sums {
            let is_culprit = culprit.as_ref() == Some(&key);
            // Due times are multiples of the probe's period; end times are not.
            let at = blame.culprit_end_ns.unwrap_or(due);
            self.count(key, ns, number, is_culprit.then_some(at));
        }
    }

    fn count(&mut self, key: Source, ns: Nanos, number: u64, culprit_at: Option<Nanos>) {
        let key = match self.causes.contains_key(&key) || self.causes.len() < SOURCES {
            true => key,
            false => (key.0, "others".to_owned()),
        };
        let cause = self.causes.entry(key.clone()).or_insert_with(|| Cause {
            kind: key.0,
            who: key.1.clone(),
            count: 0,
            culprit_in: 0,
            total_ns: Nanos::ZERO,
            worst_ns: Nanos::ZERO,
            worst_outlier: number,
        });
        cause.count += 1;
        cause.total_ns += ns;
        if ns > cause.worst_ns {
            (cause.worst_ns, cause.worst_outlier) = (ns, number);
        }
        if let Some(at) = culprit_at {
            cause.culprit_in += 1;
            let times = self.times.entry(key).or_default();
            if times.len() < TIMES {
                times.push(at);
            }
        }
    }

    /// Returns the causes in descending order of total time.
    pub fn causes(&self) -> Vec<Cause> {
        let mut causes: Vec<Cause> = self.causes.values().cloned().collect();
        causes.sort_by_key(|cause| (std::cmp::Reverse(cause.total_ns), cause.worst_outlier));
        causes
    }

    /// Returns the periodic main causes, most frequent first.
    pub fn periods(&self) -> Vec<Period> {
        let mut periods: Vec<Period> = self
            .times
            .iter()
            .filter_map(|((kind, who), times)| {
                let found = find_period(times)
                    .filter(|found| found.period_ns.0 >= self.interval.0.saturating_mul(BEATS))?;
                Some(Period {
                    kind: *kind,
                    who: who.clone(),
                    ..found
                })
            })
            .collect();
        periods.sort_by_key(|period| std::cmp::Reverse(period.count));
        periods
    }
}

/// Returns the key of a share over a run: thread names without their IDs.
fn source(share: &Share) -> Source {
    let who = share.who.as_str();
    if who.contains(", ") && is_chain(share.kind) {
        return (share.kind, without_ids(who));
    }
    let who = match who.rsplit_once('-') {
        Some((comm, pid)) if is_number(pid) && !comm.is_empty() => comm,
        _ => who,
    };
    (share.kind, who.to_owned())
}

/// Returns whether a share of this kind may name several threads.
const fn is_chain(kind: ShareKind) -> bool {
    matches!(
        kind,
        ShareKind::LockHolder | ShareKind::Waiting | ShareKind::PageFault
    )
}

/// Turns `low-12, preempted by mid-13 (nice 0)` into `low, preempted by mid (nice 0)`.
fn without_ids(who: &str) -> String {
    let without = |word: &str| {
        let (name, comma) = match word.strip_suffix(',') {
            Some(name) => (name, ","),
            None => (word, ""),
        };
        match name.rsplit_once('-') {
            Some((comm, pid)) if is_number(pid) && !comm.is_empty() => format!("{comm}{comma}"),
            _ => word.to_owned(),
        }
    };
    let words: Vec<String> = who.split(' ').map(without).collect();
    words.join(" ")
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
/// Fills in the causes of an interrupted run: they follow from the outliers that were kept.
pub fn complete(recording: &mut Recording) {
    let interval = recording.duration_parameter("interval_ns");
    if let Some(explanation) = &mut recording.explanation
        && explanation.causes.is_empty()
        && !explanation.outliers.is_empty()
    {
        let tally = Tally::of(&explanation.outliers).looking_each(interval.unwrap_or_default());
        explanation.causes = tally.causes();
        explanation.periods = tally.periods();
    }
}
