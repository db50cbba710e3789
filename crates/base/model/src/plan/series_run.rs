//! The data of one run for a trend. The data are kept small, because a trend reads thousands of
//! runs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    Buckets, Completion, CpuClass, CpuSet, Due, Nanos, Outcome, Recording, RecordingId,
    ThreadRecord,
};

/// One run of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesRun {
    /// The recording.
    pub recording: RecordingId,
    /// The epoch of its series.
    pub epoch: u32,
    /// Host name. `None` if unknown.
    pub host: Option<String>,
    /// Start of the run.
    pub started: Timestamp,
    /// Length of the run.
    pub duration_ns: Nanos,
    /// How the run ended.
    pub completion: Completion,
    /// The outcome of judging the requirement of the run.
    pub outcome: Outcome,
    /// The hash of the machine's facts (`Store::facts`). `None` if only the recording contains
    /// them.
    pub facts: Option<String>,
    /// The version of the program that measured.
    pub program: String,
    /// The results by phase and class of CPUs.
    pub groups: Vec<RunGroup>,
}

/// The due periods of the threads of one phase and one class of CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunGroup {
    /// The phase. `None` if the run had only one.
    pub phase: Option<String>,
    /// Class of their CPUs. `None` only in an empty group.
    pub class: Option<CpuClass>,
    /// Number of threads.
    pub threads: u32,
    /// Number of due periods: samples and missed periods.
    pub due: u64,
    /// Number of missed periods among the due ones.
    pub missed: u64,
    /// Number of due periods of unknown latency, which are in no bucket.
    pub unknown: u64,
    /// Number of early periods among the due ones. They are in no bucket and rank below all others.
    pub early: u64,
    /// The largest known latency.
    pub max_ns: Option<Nanos>,
    /// The known latencies, with open periods at their lower bound.
    #[serde(skip)]
    pub latencies: Buckets,
}

impl RunGroup {
    /// Returns how many periods are known to exceed `limit`. A bucket is counted only if all of it
    /// is above the limit.
    pub fn above(&self, limit: Nanos) -> u64 {
        let buckets = self.latencies.iter();
        let above = buckets.filter(|(lower, ..)| *lower > limit.0);
        let in_buckets: u64 = above.map(|(.., count)| count).fold(0, u64::saturating_add);
        // Latencies beyond the last bucket also exceed it.
        let placed = self.latencies.total().saturating_add(self.unknown);
        let beyond = self.due.saturating_sub(placed.saturating_add(self.early));
        in_buckets.saturating_add(beyond)
    }

    /// Returns the given quantile (0 to 1) of the periods. `None` if there are no periods, or if
    /// the quantile depends on unknown latencies.
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        let rank = crate::histogram::rank_of(quantile, self.due)?;
        let Some(rank) = rank.checked_sub(self.early).filter(|rank| *rank > 0) else {
            return Some(Nanos::ZERO);
        };
        let mut seen = 0u64;
        for (lower, width, count) in self.latencies.iter() {
            seen = seen.saturating_add(count);
            // Unknown latencies may be lower than all known ones.
            if seen >= rank {
                let upper = Nanos(lower + width - 1);
                return Some(self.max_ns.map_or(upper, |max| upper.min(max)));
            }
        }
        match self.unknown {
            0 => self.max_ns,
            _ => None,
        }
    }
}

/// Returns the groups of a recording, ordered by phase as in the run, then by class.
pub fn run_groups(recording: &Recording) -> Vec<RunGroup> {
    let isolated = recording.host.processor.isolated.get().cloned();
    let phases = phases(recording);
    let mut groups = BTreeMap::<(usize, CpuClass), (RunGroup, Due)>::new();
    for thread in &recording.threads {
        let place = phase_of(thread, &phases);
        let class = class_of(thread, isolated.as_ref());
        let (group, due) = groups.entry((place, class)).or_default();
        group.phase = phases.get(place).cloned();
        group.class = Some(class);
        group.threads += 1;
        group.missed = group.missed.saturating_add(thread.accounting.missed);
        due.merge(&thread.due());
    }
    let filled = groups.into_values().map(|(group, due)| RunGroup {
        due: due.periods(),
        unknown: due.unknown().saturating_add(due.known().unplaced()),
        early: due.known().early(),
        max_ns: due.max(),
        latencies: due.at_least().buckets(),
        ..group
    });
    filled.collect()
}

fn phases(recording: &Recording) -> Vec<String> {
    let names = recording.probe.parameters.get("phases");
    let names = names.and_then(|names| names.as_array());
    let names = names.into_iter().flatten().filter_map(|name| name.as_str());
    names.map(str::to_owned).collect()
}

/// Returns the index of the thread's phase, or one past the last index if the thread has none.
fn phase_of(thread: &ThreadRecord, phases: &[String]) -> usize {
    let label = thread.label.as_deref().unwrap_or_default();
    let of = |phase: &String| {
        let rest = label.strip_prefix(phase.as_str());
        rest.is_some_and(|rest| rest.starts_with(": "))
    };
    phases.iter().position(of).unwrap_or(phases.len())
}

fn class_of(thread: &ThreadRecord, isolated: Option<&CpuSet>) -> CpuClass {
    match thread.cpu {
        None => CpuClass::Unbound,
        Some(cpu) if isolated.is_some_and(|isolated| isolated.contains(cpu)) => CpuClass::Isolated,
        Some(_) => CpuClass::General,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_grouped_by_phase_and_class() {
        let mut recording = crate::testing::recording(4, 2);
        recording
            .probe
            .parameters
            .insert("phases".to_owned(), serde_json::json!(["idle", "cpu"]));
        recording.host.processor.isolated = crate::Fact::known("3".parse().unwrap(), "test");
        for (thread, phase) in recording
            .threads
            .iter_mut()
            .zip(["idle", "idle", "cpu", "cpu"])
        {
            let title = thread.title();
            thread.label = Some(format!("{phase}: {title}"));
        }
        let groups = run_groups(&recording);
        let keys: Vec<_> = groups
            .iter()
            .map(|group| (group.phase.as_deref(), group.class, group.threads))
            .collect();
        assert_eq!(
            keys,
            [
                (Some("idle"), Some(CpuClass::General), 2),
                (Some("cpu"), Some(CpuClass::General), 1),
                (Some("cpu"), Some(CpuClass::Isolated), 1),
            ]
        );
        let due: u64 = groups.iter().map(|group| group.due).sum();
        assert_eq!(due, recording.all_due().periods());
        for group in &groups {
            assert_eq!(group.above(group.max_ns.unwrap()), 0);
            assert!(group.quantile(0.5).unwrap() <= group.quantile(0.99).unwrap());
        }
        let above: u64 = groups.iter().map(|group| group.above(Nanos(4_000))).sum();
        assert_eq!(above, recording.all_due().above(Nanos(4_000)));
    }

    #[test]
    fn unknown_latencies_make_a_quantile_unknown() {
        let group = RunGroup {
            due: 3,
            unknown: 2,
            early: 1,
            ..RunGroup::default()
        };
        assert_eq!(group.quantile(0.2), Some(Nanos::ZERO));
        assert_eq!(group.quantile(0.9), None);
        assert_eq!(group.above(Nanos(1)), 0);
    }

    #[test]
    fn group_counts_early_missed_and_unknown_periods() {
        let mut recording = crate::testing::recording(2, 3);
        for (thread, early) in recording.threads.iter_mut().zip([2, 3]) {
            for _ in 0..early {
                thread.histogram.record(crate::SignedNanos(-5));
            }
            thread.accounting.recorded += early;
            thread.accounting.early = early;
        }
        // The latency of the missed periods of CPU 0 is not known.
        recording.threads[0].missed_histogram = None;
        let [group] = run_groups(&recording).try_into().unwrap();
        assert_eq!((group.early, group.missed, group.unknown), (5, 3, 3));
        assert_eq!(group.due, 2 * 3_000 + 5 + 3);
        assert_eq!(group.phase, None);
        let all = recording.all_due();
        assert_eq!(
            (group.max_ns, group.latencies),
            (all.max(), all.at_least().buckets())
        );
    }
}
