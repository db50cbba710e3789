//! The data of each run that a trend needs.

use std::sync::Arc;

use jiff::Timestamp;
use punctual_model::{
    Completion, CpuClass, MAX_TRACKABLE_NS, Nanos, RecordingId, RunGroup, SeriesRun,
};

use super::Facts;

/// The periods of one run that have the same load and the same class of CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The recording.
    pub recording: RecordingId,
    /// Start of the run.
    pub started: Timestamp,
    /// The load: `idle`, `cpu+disk`.
    pub load: String,
    /// The class of CPUs.
    pub cpus: CpuClass,
    /// Latencies of the due periods.
    pub rows: Rows,
    /// Number of due periods.
    pub due: u64,
    /// Number of missed periods of unknown latency among them.
    pub unknown: u64,
    /// p50 of the due periods.
    pub p50: Option<Nanos>,
    /// p99 of the due periods.
    pub p99: Option<Nanos>,
    /// The largest latency.
    pub max: Option<Nanos>,
    /// The largest latency that the requirement allows.
    pub limit: Option<Nanos>,
    /// Whether the recording is complete.
    pub complete: bool,
    /// Facts about the machine and the measurement.
    pub facts: Arc<Facts>,
}

/// Latencies by bucket: lower edge in ns and count, in ascending order. Stored in a few bytes for
/// each bucket, because a series of ten years has millions of buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows(Box<[u8]>);

impl Rows {
    /// Returns the buckets in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut bytes = self.0.iter();
        let mut number = move || {
            let (mut value, mut shift) = (0u64, 0);
            loop {
                let byte = *bytes.next()?;
                value |= u64::from(byte & 0x7f) << shift;
                if byte < 0x80 {
                    return Some(value);
                }
                shift += 7;
            }
        };
        let mut lower = 0;
        std::iter::from_fn(move || {
            lower += number()?;
            Some((lower, number()?))
        })
    }

    /// Returns whether there are no buckets.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(u64, u64)> for Rows {
    /// Stores buckets by their lower edges, which must be in ascending order.
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(rows: I) -> Self {
        let mut bytes = Vec::new();
        let mut push = |mut number: u64| {
            while number >= 0x80 {
                bytes.push(number as u8 | 0x80);
                number >>= 7;
            }
            bytes.push(number as u8);
        };
        let mut before = 0;
        for (lower, count) in rows {
            push(lower.saturating_sub(before));
            push(count);
            before = before.max(lower);
        }
        Self(bytes.into())
    }
}

impl Run {
    /// Returns the number of due periods that are known to exceed `limit`. Periods in the same
    /// bucket as the limit are not included.
    pub fn above(&self, limit: Nanos) -> u64 {
        let above = self.rows.iter().filter(|(lower, _)| *lower > limit.0);
        above.fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// Returns the lower edge of the bucket with the period at this rank, counted from the largest.
    pub(super) fn nth_highest(&self, place: u64) -> Option<u64> {
        let rows: Vec<(u64, u64)> = self.rows.iter().collect();
        let mut seen = 0u64;
        let reached = rows.iter().rev().find(|(_, count)| {
            seen = seen.saturating_add(*count);
            seen >= place
        });
        reached.map(|(lower, _)| *lower)
    }
}

/// Conditions that the runs of a series share for some time.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The load of runs without phases.
    pub load: String,
    /// The largest latency that the requirement allows.
    pub limit: Option<Nanos>,
    /// Facts about the machine and the measurement.
    pub facts: Arc<Facts>,
}

/// Returns those groups of a run that contain periods.
pub fn runs_of(run: &SeriesRun, setup: &Setup) -> Vec<Run> {
    let filled = run.groups.iter().filter(|group| group.due > 0);
    filled.map(|group| of_group(run, group, setup)).collect()
}

fn of_group(run: &SeriesRun, group: &RunGroup, setup: &Setup) -> Run {
    let buckets = group.latencies.iter();
    let rows = buckets.map(|(lower, _, count)| (lower, count));
    let beyond = Some(group.above(Nanos(MAX_TRACKABLE_NS))).filter(|beyond| *beyond > 0);
    let beyond = beyond.map(|beyond| (MAX_TRACKABLE_NS, beyond));
    Run {
        recording: run.recording,
        started: run.started,
        load: group.phase.clone().unwrap_or_else(|| setup.load.clone()),
        cpus: group.class.unwrap_or(CpuClass::General),
        rows: rows.chain(beyond).collect(),
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

#[cfg(test)]
impl Run {
    /// A complete run of one period without figures.
    pub(crate) fn bare() -> Self {
        Self {
            recording: RecordingId(uuid::Uuid::from_u128(1)),
            started: Timestamp::UNIX_EPOCH,
            load: "idle".to_owned(),
            cpus: CpuClass::General,
            rows: std::iter::empty().collect(),
            due: 1,
            unknown: 0,
            p50: None,
            p99: None,
            max: None,
            limit: None,
            complete: true,
            facts: Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back_as_they_were() {
        let all = [
            (0, 1),
            (1, u64::MAX),
            (127, 128),
            (300_000, 7),
            (MAX_TRACKABLE_NS, 2),
        ];
        let rows: Rows = all.into_iter().collect();
        assert_eq!(rows.iter().collect::<Vec<_>>(), all);
        assert!(!rows.is_empty() && Rows::default().is_empty());
        assert_eq!(Rows::default().iter().count(), 0);
        // If the edges are close, each number takes one byte.
        let close: Rows = (1_000..2_000).map(|edge| (edge, 50)).collect();
        assert!(close.0.len() < 2_010, "{}", close.0.len());
    }

    fn run(rows: &[(u64, u64)]) -> Run {
        Run {
            rows: rows.iter().copied().collect(),
            due: rows
                .iter()
                .fold(0, |sum, (_, count)| sum.saturating_add(*count)),
            ..Run::bare()
        }
    }

    /// Each number of bytes, and the values before and after its limit.
    #[test]
    fn numbers_of_all_sizes_are_kept() {
        let mut all: Vec<(u64, u64)> = Vec::new();
        for bits in 0..63 {
            let edge = 1u64 << bits;
            all.extend([(edge - 1, edge), (edge, u64::MAX >> bits)]);
        }
        all.sort_unstable();
        all.dedup();
        let rows: Rows = all.iter().copied().collect();
        assert_eq!(rows.iter().collect::<Vec<_>>(), all);
        // One byte holds 127, and two bytes hold 128.
        let bytes = |edge: u64| [(edge, 1)].into_iter().collect::<Rows>().0.len();
        assert_eq!(
            [bytes(127), bytes(128), bytes(16_383), bytes(16_384)],
            [2, 3, 3, 4]
        );
    }

    #[test]
    fn late_periods_are_those_in_higher_buckets() {
        let run = run(&[(10, 4), (20, 3), (40, 2), (50, 1)]);
        let above = [0, 10, 19, 20, 40, 49, 50].map(|limit| run.above(Nanos(limit)));
        assert_eq!(above, [10, 6, 6, 3, 1, 1, 0]);
        let highest = [0, 1, 2, 3, 4, 6, 7, 10].map(|place| run.nth_highest(place));
        assert_eq!(highest, [50, 50, 40, 40, 20, 20, 10, 10].map(Some));
        assert_eq!(run.nth_highest(11), None);
        let full = self::run(&[(1, u64::MAX), (2, u64::MAX)]);
        assert_eq!(
            (full.above(Nanos(0)), full.nth_highest(u64::MAX)),
            (u64::MAX, Some(2))
        );
    }

    /// The groups of one run: two phases, and one without periods.
    #[test]
    fn groups_with_periods_become_runs() {
        let mut latencies = punctual_model::Histogram::new();
        for (ns, count) in [(400, 60), (700, 38), (900, 1)] {
            (0..count).for_each(|_| latencies.record(punctual_model::SignedNanos(ns)));
        }
        // One latency is beyond the last bucket.
        let group = |phase: Option<&str>, class, due| RunGroup {
            phase: phase.map(str::to_owned),
            class,
            due,
            unknown: 0,
            max_ns: Some(Nanos(2 * MAX_TRACKABLE_NS)),
            latencies: latencies.buckets(),
            ..RunGroup::default()
        };
        let mut series = SeriesRun {
            recording: RecordingId(uuid::Uuid::from_u128(7)),
            epoch: 1,
            host: None,
            started: Timestamp::UNIX_EPOCH,
            duration_ns: Nanos::from_secs(1),
            completion: Completion::Finished,
            outcome: punctual_model::Outcome::NotDecidable,
            facts: None,
            program: String::new(),
            groups: vec![
                group(Some("cpu"), Some(CpuClass::Isolated), 100),
                group(None, None, 99),
                group(Some("disk"), None, 0),
            ],
        };
        let setup = Setup {
            load: "idle".to_owned(),
            limit: Some(Nanos(800)),
            facts: Arc::new(Facts::from([("kernel.release".to_owned(), None)])),
        };
        let found = runs_of(&series, &setup);
        let [with_phase, without] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(
            (with_phase.load.as_str(), with_phase.cpus),
            ("cpu", CpuClass::Isolated)
        );
        assert_eq!(
            (without.load.as_str(), without.cpus),
            ("idle", CpuClass::General)
        );
        let rows = [(400, 60), (700, 38), (900, 1)];
        assert_eq!(without.rows.iter().collect::<Vec<_>>(), rows);
        let with_last = [&rows[..], &[(MAX_TRACKABLE_NS, 1)]].concat();
        assert_eq!(with_phase.rows.iter().collect::<Vec<_>>(), with_last);
        assert_eq!((with_phase.due, without.due), (100, 99));
        assert_eq!(
            (without.p50, without.p99),
            (Some(Nanos(400)), Some(Nanos(900)))
        );
        assert_eq!(
            (without.limit, without.max),
            (setup.limit, series.groups[1].max_ns)
        );
        assert!(without.complete && without.facts == setup.facts);
        series.completion = Completion::Stopped;
        assert!(!runs_of(&series, &setup)[0].complete);
    }
}
