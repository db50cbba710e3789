//! What a trend needs of each recording.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use punctual_model::{
    Completion, CpuSet, Due, Metric, Nanos, Recording, RecordingId, ThreadRecord,
};

use super::{Facts, facts};

/// More threads than these are followed together where they measure different things.
const FOLLOWED_APART: usize = 16;

/// The periods of one recording with one load on one class of CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The recording.
    pub recording: RecordingId,
    /// When it began.
    pub started: Timestamp,
    /// The load: `idle`, `cpu+disk`.
    pub load: String,
    /// The class of CPUs: `all`, `isolated`, `other`, or a thread's name.
    pub cpus: String,
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

    /// The lower edge of the highest bucket that holds a period.
    pub(super) fn highest(&self) -> Option<u64> {
        self.rows.last().map(|(lower, _)| *lower)
    }
}

/// The runs that a recording holds: one for each load and class of CPUs. None, where it
/// still runs or holds no periods.
pub fn runs_of(recording: &Recording) -> Vec<Run> {
    if recording.completion == Completion::Running {
        return Vec::new();
    }
    let mut groups: BTreeMap<(String, String), Due> = BTreeMap::new();
    let phases = phases(recording);
    let apart =
        !recording.probe.alike && phases.is_empty() && recording.threads.len() <= FOLLOWED_APART;
    for thread in &recording.threads {
        let load = load_of(recording, thread, &phases);
        let cpus = match apart {
            true => thread.title(),
            false => class_of(recording, thread).to_owned(),
        };
        groups.entry((load, cpus)).or_default().merge(&thread.due());
    }
    let known = Arc::new(facts::facts_and_settings(recording));
    let limits = recording.requirement.limits.iter();
    let limit = limits
        .filter(|limit| limit.metric == Metric::Max)
        .map(|limit| Nanos(limit.at_most));
    let limit = limit.min();
    (groups.into_iter())
        .filter(|(_, due)| due.periods() > 0)
        .map(|((load, cpus), due)| run(recording, (load, cpus), &due, limit, &known))
        .collect()
}

fn run(
    recording: &Recording,
    (load, cpus): (String, String),
    due: &Due,
    limit: Option<Nanos>,
    facts: &Arc<Facts>,
) -> Run {
    let least = due.at_least();
    let mut rows: Vec<(u64, u64)> = least
        .rows()
        .map(|(lower, _, count)| (lower, count))
        .collect();
    let overflow = least.overflow();
    if overflow > 0 {
        rows.push((punctual_model::MAX_TRACKABLE_NS, overflow));
    }
    let quantile = |share: f64| due.quantile(share).map(|bounds| bounds.at_least);
    Run {
        recording: recording.id,
        started: recording.started,
        load,
        cpus,
        rows,
        due: due.periods(),
        unknown: due.unknown(),
        p50: quantile(0.5),
        p99: quantile(0.99),
        max: due.max(),
        limit,
        complete: recording.completion == Completion::Finished,
        facts: Arc::clone(facts),
    }
}

/// The names of the phases; empty where the run has one condition.
fn phases(recording: &Recording) -> Vec<&str> {
    let named = recording.probe.parameters.get("phases");
    let names = named.and_then(|names| names.as_array());
    names
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str())
        .collect()
}

/// The name of what disturbed a thread on purpose. What was measured beside a load that
/// failed is a load of its own.
fn load_of(recording: &Recording, thread: &ThreadRecord, phases: &[&str]) -> String {
    let label = thread.label.as_deref().unwrap_or_default();
    let phase = label.split_once(": ").map(|(phase, _)| phase);
    let phase = phase.filter(|phase| phases.contains(phase));
    let of_phase =
        (recording.load.iter()).filter(|load| phase.is_none() || load.phase.as_deref() == phase);
    let failed = of_phase.clone().any(|load| load.failed);
    let name = match phase {
        Some(phase) => phase.to_owned(),
        None => {
            let names: Vec<&str> = of_phase.map(|load| load.name.as_str()).collect();
            match names.is_empty() {
                true => "idle".to_owned(),
                false => names.join("+"),
            }
        }
    };
    match failed {
        true => format!("{name} (failed)"),
        false => name,
    }
}

/// `all`, unless the machine has isolated CPUs.
fn class_of(recording: &Recording, thread: &ThreadRecord) -> &'static str {
    let isolated = recording
        .host
        .processor
        .isolated
        .get()
        .filter(|cpus| !CpuSet::is_empty(cpus));
    match (isolated, thread.cpu) {
        (Some(isolated), Some(cpu)) if isolated.contains(cpu) => "isolated",
        (Some(_), Some(_)) => "other",
        _ => "all",
    }
}
