//! What a trend needs of each run.

use std::sync::Arc;

use jiff::Timestamp;
use punctual_model::{
    Completion, CpuClass, MAX_TRACKABLE_NS, Nanos, RecordingId, RunGroup, SeriesRun,
};

use super::Facts;

/// The periods of one run with one load on one class of CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The recording.
    pub recording: RecordingId,
    /// When it began.
    pub started: Timestamp,
    /// The load: `idle`, `cpu+disk`.
    pub load: String,
    /// The class of CPUs.
    pub cpus: CpuClass,
    /// Latencies of the due periods: lower edge in ns and count, rising.
    pub rows: Vec<(u64, u64)>,
    /// Periods that came due.
    pub due: u64,
    /// Of those, missed periods of unknown latency.
    pub unknown: u64,
    /// 50% were not later.
    pub p50: Option<Nanos>,
    /// 99% were not later.
    pub p99: Option<Nanos>,
    /// The largest latency.
    pub max: Option<Nanos>,
    /// The largest latency that the requirement allows.
    pub limit: Option<Nanos>,
    /// Whether the recording came to its end.
    pub complete: bool,
    /// What was so on the machine, and how it was measured.
    pub facts: Arc<Facts>,
}

impl Run {
    /// How many due periods are known to exceed `limit`; those in its bucket are not.
    pub fn above(&self, limit: Nanos) -> u64 {
        let first = self.rows.partition_point(|(lower, _)| *lower <= limit.0);
        let counts = self.rows[first..].iter().map(|(_, count)| *count);
        counts.fold(0, u64::saturating_add)
    }

    /// The lower edge of the bucket that holds the period with this place from the
    /// latest on.
    pub(super) fn nth_highest(&self, place: u64) -> Option<u64> {
        let mut seen = 0u64;
        let reached = self.rows.iter().rev().find(|(_, count)| {
            seen = seen.saturating_add(*count);
            seen >= place
        });
        reached.map(|(lower, _)| *lower)
    }
}

/// What the runs of a series have in common for a time.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The load of runs without phases.
    pub load: String,
    /// The largest latency that the requirement allows.
    pub limit: Option<Nanos>,
    /// What was so on the machine, and how it was measured.
    pub facts: Arc<Facts>,
}

/// The groups of a run that hold periods.
pub fn runs_of(run: &SeriesRun, setup: &Setup) -> Vec<Run> {
    let filled = run.groups.iter().filter(|group| group.due > 0);
    filled.map(|group| of_group(run, group, setup)).collect()
}

fn of_group(run: &SeriesRun, group: &RunGroup, setup: &Setup) -> Run {
    let buckets = group.latencies.iter();
    let mut rows: Vec<(u64, u64)> = buckets.map(|(lower, _, count)| (lower, count)).collect();
    let beyond = group.above(Nanos(MAX_TRACKABLE_NS));
    if beyond > 0 {
        rows.push((MAX_TRACKABLE_NS, beyond));
    }
    Run {
        recording: run.recording,
        started: run.started,
        load: group.phase.clone().unwrap_or_else(|| setup.load.clone()),
        cpus: group.class.unwrap_or(CpuClass::General),
        rows,
        due: group.due,
        unknown: group.unknown,
        p50: group.quantile(0.5),
        p99: group.quantile(0.99),
        max: group.max_ns,
        limit: setup.limit,
        complete: run.completion == Completion::Finished,
        facts: Arc::clone(&setup.facts),
    }
}
