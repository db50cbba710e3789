//! The data for judging a requirement, and the answer for one thread.

use super::blocks::{Blocks, late_in_blocks};
use super::rate::Rate;
use super::{Bound, Late, LimitResult, follows};
use crate::{Due, Metric, Nanos, PowerPoint, Series, Suspension, ThreadRecord, TopSample};

/// Minimum number of blocks, and of latencies above p99, for detecting a change during a run. A
/// single burst may contain all latencies of a smaller number.
const LEAST_BLOCKS: usize = 16;
const LEAST_LATE: u64 = 20;

/// The data for judging a requirement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grounds<'a> {
    pub(crate) threads: &'a [ThreadRecord],
    /// Measuring time of each thread. Empty if unknown.
    pub(crate) measured: Vec<Option<Nanos>>,
    pub(crate) series: Option<&'a Series>,
    /// Name of the measured quantity; `None` for a latency.
    pub(crate) quantity: Option<&'static str>,
    /// Whether the number of missed periods is unknown.
    pub(crate) missed_unknown: bool,
    /// Whether all threads measure the same thing.
    pub(crate) alike: bool,
    /// The break threshold, and whether it ended the run.
    pub(crate) break_value: Option<(Nanos, bool)>,
    /// Times during which measuring was suspended.
    pub(crate) suspensions: &'a [Suspension],
    pub(crate) largest: &'a [TopSample],
    /// Temperature and frequency during the run.
    pub(crate) readings: &'a [PowerPoint],
    /// The phases of the run, if it has several.
    pub(crate) phases: Vec<&'a str>,
}

impl Grounds<'_> {
    /// Returns the largest latency above `limit` outside all suspensions.
    fn above_outside(&self, limit: Nanos) -> Option<&TopSample> {
        let above = self
            .largest
            .iter()
            .filter(|sample| sample.latency_ns > limit);
        let outside = above.filter(|sample| !sample.is_suspended(self.suspensions));
        outside.max_by_key(|sample| sample.latency_ns)
    }

    /// Withdraws results that a suspension leaves open. Samples from the time of a suspension prove
    /// nothing, but only for the largest samples is it known whether they belong to that time.
    pub(super) fn suspend(&self, due: &[Due], result: &mut LimitResult) {
        let Some(longest) = self.suspensions.iter().max_by_key(|one| one.length_ns) else {
            return;
        };
        let broken = result.held == Some(false);
        if broken
            && matches!(
                result.limit.metric,
                Metric::Max | Metric::Warn | Metric::Break
            )
            && let Some(sample) = self.above_outside(Nanos(result.limit.at_most))
        {
            result.measured = Some(sample.latency_ns.0);
            result.thread = Some(sample.thread);
            result.periods = due.get(sample.thread as usize).map(Due::periods);
            return;
        }
        if result.held.is_some() {
            (result.held, result.lacking) = (None, Some(longest.lacking()));
        }
    }

    pub(super) fn measured(&self, place: usize) -> Option<Nanos> {
        self.measured.get(place).copied().flatten()
    }

    /// Returns an upper bound on how often the largest latency of all threads is exceeded. If the
    /// threads measure different things, only the thread with the maximum counts. If there are
    /// several phases, only the phase of that thread counts. The time of other threads or phases is
    /// no evidence for it.
    pub(super) fn bound(&self, due: &[Due]) -> Option<Bound> {
        let largest = (0..due.len()).max_by_key(|place| due[*place].max())?;
        let max = due[largest].max()?;
        let phase = self.phase(largest);
        let together: Vec<usize> = (0..due.len())
            .filter(|place| due[*place].periods() > 0 && self.phase(*place) == phase)
            .collect();
        let bound = if !self.alike && together.len() > 1 {
            let title = self.threads[largest].title();
            Bound::new(
                max,
                self.measured(largest)?,
                undecided(&due[largest]),
                Some(title),
            )?
        } else {
            let times = together.iter().map(|place| self.measured(*place));
            let times: Option<Vec<Nanos>> = times.collect();
            let unknown = together.iter().map(|place| undecided(&due[*place]));
            let unknown = unknown.fold(0, u64::saturating_add);
            Bound::new(max, times?.into_iter().min()?, unknown, None)?
        };
        Some(Bound {
            phase: phase.map(str::to_owned),
            doubt: together.iter().find_map(|place| self.doubt(*place, due)),
            ..bound
        })
    }

    /// Returns the reason why the tail of a thread cannot be extended to the rest of the day: the
    /// latencies above p99 became more frequent or rarer during the run, or change more slowly than
    /// the run can show. `None` if nothing indicates this, or if there is no time series.
    fn doubt(&self, place: usize, due: &[Due]) -> Option<String> {
        let measured = self.measured(place)?;
        let limit = due[place].quantile(0.99)?.at_least;
        let Blocks {
            late: [late, _],
            start,
            length,
        } = late_in_blocks(self.series, place, limit, measured).ok()?;
        let count = late.iter().copied().fold(0, u64::saturating_add);
        if late.len() < LEAST_BLOCKS || count < LEAST_LATE {
            return None;
        }
        let found = blocks_of(&late, start, length);
        let rate = Rate::of_blocks(count, late, measured);
        let name = "latencies above p99";
        match rate.doubt() {
            Some(doubt) => Some(doubt.sentence(name)),
            None => follows(
                self.readings,
                &found,
                (start, measured),
                rate.local_dispersion(),
                name,
            ),
        }
    }

    /// Returns the phase of a thread.
    fn phase(&self, place: usize) -> Option<&str> {
        let label = self.threads[place].label.as_deref()?;
        let of = |phase: &&&str| {
            label
                .strip_prefix(**phase)
                .is_some_and(|rest| rest.starts_with(": "))
        };
        self.phases.iter().find(of).copied()
    }
}

/// Returns the late periods of each block, with its start.
pub(super) fn blocks_of(counts: &[u64], start: Nanos, length: Nanos) -> Vec<Late> {
    let late = (0..).zip(counts).map(|(place, count)| Late {
        at: start + Nanos(length.0.saturating_mul(place)),
        count: *count,
    });
    late.filter(|late| late.count > 0).collect()
}

/// The result of a limit on one thread.
pub(super) struct Single {
    pub(super) measured: Option<u64>,
    pub(super) held: Option<bool>,
    pub(super) lacking: Option<String>,
    /// Number of periods that are known to exceed the limit.
    pub(super) above: Option<u64>,
}

impl Single {
    pub(super) fn nothing() -> Self {
        Self {
            measured: None,
            held: None,
            lacking: None,
            above: None,
        }
    }

    pub(super) fn new(measured: u64, held: Option<bool>, lacking: impl FnOnce() -> String) -> Self {
        Self {
            measured: Some(measured),
            ..Self::nothing()
        }
        .with_ground(held, lacking)
    }

    /// Returns this value with a different result.
    pub(super) fn with_ground(self, held: Option<bool>, lacking: impl FnOnce() -> String) -> Self {
        Self {
            held,
            lacking: held.is_none().then(lacking),
            ..self
        }
    }

    /// Marks the result as open if it was met.
    pub(super) fn open_if_held(self, lacking: impl FnOnce() -> String) -> Self {
        match self.held {
            Some(true) => self.with_ground(None, lacking),
            _ => self,
        }
    }

    /// Returns the sort key: exceeded, then open, then met; then the larger value.
    pub(super) fn order(&self) -> (u8, Option<u64>) {
        let class = match self.held {
            Some(false) => 2,
            None => 1,
            Some(true) => 0,
        };
        (class, self.measured)
    }
}

pub(super) fn missed_unknown() -> String {
    "the number of missed periods is unknown".to_owned()
}

/// Returns the number of periods that may be later than all known latencies.
pub(super) fn undecided(due: &Due) -> u64 {
    due.unknown().saturating_add(due.open())
}
