//! The causes of a whole run.

use std::collections::BTreeMap;

use punctual_model::{Blame, Cause, Nanos, Outlier, Period, Share, ShareKind};

use crate::blame::largest;
use crate::period::find_period;

/// What a source is known by over a run.
type Source = (ShareKind, String);

/// How many times of one culprit are looked at for a period: the first ones.
const TIMES: usize = 10_000;

/// Sources beyond this are summed up as one: thread names can be any number.
const SOURCES: usize = 1_000;

/// A probe sees a source at its own wake-ups only. A period below so many of
/// them is as likely the probe's own beat.
const BEATS: u64 = 8;

/// Sums causes up, outlier by outlier, in bounded memory.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    interval: Nanos,
    causes: BTreeMap<Source, Cause>,
    /// When each was the culprit.
    times: BTreeMap<Source, Vec<Nanos>>,
}

impl Tally {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Of a probe that looks each `interval`.
    pub fn looking_each(self, interval: Nanos) -> Self {
        Self { interval, ..self }
    }

    /// Of outliers that are kept.
    pub fn of(outliers: &[Outlier]) -> Self {
        let mut tally = Self::new();
        for outlier in outliers {
            tally.add(outlier.number, outlier.monotonic_ns, &outlier.blame);
        }
        tally
    }

    /// Adds an outlier: its number, when it was due, its causes.
    pub fn add(&mut self, number: u64, due: Nanos, blame: &Blame) {
        // Threads of one name are one source: their shares come first together.
        let mut sums: BTreeMap<Source, Nanos> = BTreeMap::new();
        for share in &blame.shares {
            *sums.entry(source(share)).or_default() += share.ns;
        }
        let culprit = largest(&blame.shares).map(source);
        for (key, ns) in sums {
            let is_culprit = culprit.as_ref() == Some(&key);
            // Due times lie on the probe's beat, ends do not.
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

    /// The causes, by falling total.
    pub fn causes(&self) -> Vec<Cause> {
        let mut causes: Vec<Cause> = self.causes.values().cloned().collect();
        causes.sort_by_key(|cause| (std::cmp::Reverse(cause.total_ns), cause.worst_outlier));
        causes
    }

    /// The periodic main causes, the most frequent first.
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

/// What a share is known by over a run: of threads their names without their IDs.
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

/// Whether a share of this kind may name several threads.
const fn is_chain(kind: ShareKind) -> bool {
    matches!(
        kind,
        ShareKind::LockHolder | ShareKind::Waiting | ShareKind::PageFault
    )
}

/// `low-12, preempted by mid-13 (nice 0)` as `low, preempted by mid (nice 0)`.
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
