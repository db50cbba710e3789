//! The seconds of a run with late jobs.

use std::collections::BTreeSet;

use super::{MOST, SECOND, title};
use crate::{
    IntervalRow, LateSeconds, LoopRequirement, Nanos, Recording, ThreadJobs, ThreadRecord,
};

/// The jobs of a thread in a row of the time series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowJobs {
    /// The second of the row.
    pub(super) second: u64,
    /// The last second that a late job of the row may have been released in.
    pub(super) until: u64,
    /// Smallest and largest number of jobs.
    pub(super) jobs: [u64; 2],
    /// Smallest and largest number of late jobs.
    pub(super) late: [u64; 2],
}

impl RowJobs {
    /// Any number of late jobs.
    pub(super) const ANY: u64 = u64::MAX;

    /// Returns a second without the jobs that were due.
    pub(super) const fn missing(second: u64) -> Self {
        Self {
            second,
            until: second,
            jobs: [0, Self::ANY],
            late: [0, Self::ANY],
        }
    }
}

/// Returns the smallest and the largest number of jobs of a row that were longer than the budget.
fn late_in_row(row: &IntervalRow, budget: Nanos) -> [u64; 2] {
    let longest = row.max_ns.unwrap_or_default();
    if longest <= budget {
        return [0, 0];
    }
    let (mut least, mut most) = (0u64, 0u64);
    for (lower, width, count) in row.histogram.iter() {
        if lower > budget.0 {
            least = least.saturating_add(count);
        }
        if lower.saturating_add(width) > budget.0 + 1 {
            most = most.saturating_add(count);
        }
    }
    [least.max(1), most.max(1)]
}

/// The seconds of a run, by their number since its start.
#[derive(Debug, Default)]
pub(super) struct Seconds {
    pub(super) with_jobs: BTreeSet<u64>,
    pub(super) certain: BTreeSet<u64>,
    pub(super) possible: BTreeSet<u64>,
}

impl Seconds {
    /// Returns the seconds that were or may have been late.
    pub(super) fn late(&self) -> Vec<u64> {
        let possible = self.possible.intersection(&self.with_jobs).copied();
        let all: BTreeSet<u64> = self.certain.iter().copied().chain(possible).collect();
        all.into_iter().collect()
    }

    /// Numbers the late seconds among those with jobs. Returns the seconds that were late for
    /// certain, those that may have been, and the time with jobs. Each of `unknown` jobs adds a
    /// possible late second.
    pub(super) fn place(
        mut self,
        duration: Nanos,
        unknown: u64,
    ) -> (LateSeconds, LateSeconds, Nanos) {
        self.with_jobs.extend(&self.certain);
        let numbers: Vec<u64> = self.with_jobs.iter().copied().collect();
        let place = |second: &u64| numbers.partition_point(|number| number < second) as u64;
        let mut certain = LateSeconds::default();
        let mut possible = LateSeconds::default();
        let at = |place: u64| Nanos(place.saturating_mul(SECOND.0));
        for second in &self.certain {
            certain.add(at(place(second)));
            possible.add(at(place(second)));
        }
        for second in self.possible.intersection(&self.with_jobs) {
            possible.add(at(place(second)));
        }
        possible.add_elsewhere(unknown, numbers.len() as u64);
        let measured = Nanos(SECOND.0.saturating_mul(numbers.len() as u64)).min(duration);
        (certain, possible, measured)
    }

    /// Adds the late seconds of a thread. Returns its rows.
    pub(super) fn add(
        &mut self,
        recording: &Recording,
        thread: &ThreadJobs,
        asked: &LoopRequirement,
        light: bool,
    ) -> Vec<RowJobs> {
        let interval = recording.series.interval_ns;
        let rows = recording.series.rows.iter();
        let rows = rows.filter(|row| row.thread == thread.thread);
        let mut rows: Vec<&IntervalRow> = rows.collect();
        rows.sort_by_key(|row| row.start_ns);
        let second = |at: Nanos| at.0 / SECOND.0;
        let at_once = thread.released_at_once > 0;
        let merged = light && may_be_merged(thread, asked);
        // The jobs of several threads are in the same rows, in an unknown order.
        let shared = is_shared(recording, thread.thread);
        let mut found = Vec::new();
        let mut longest_before = Nanos::ZERO;
        for row in &rows {
            let own = second(row.start_ns);
            self.with_jobs.insert(own);
            let longest = row.max_ns.unwrap_or_default();
            let is_over = longest > asked.budget_ns;
            let may_be_over = at_once && longest + longest.max(longest_before) > asked.budget_ns;
            // The job may have been released at the end of the row.
            let last = second(row.start_ns + interval + longest).min(own + MOST);
            let until = if is_over { last } else { own };
            if is_over || may_be_over {
                self.possible.extend(own..=until);
            }
            if is_over && !merged {
                self.certain.insert(own);
            }
            // A job that runs into the next periods may skip them.
            let skipped = longest.0.checked_div(asked.period_ns.0).unwrap_or(0);
            let [least, most] = late_in_row(row, asked.budget_ns);
            found.push(RowJobs {
                second: own,
                until,
                jobs: [if shared { 0 } else { row.count }, row.count],
                late: [
                    if merged || shared { 0 } else { least },
                    match (is_over && merged, may_be_over) {
                        (true, _) => RowJobs::ANY,
                        (_, true) => row.count.saturating_mul(1 + skipped),
                        _ => most.saturating_mul(1 + skipped),
                    },
                ],
            });
            longest_before = longest;
        }
        if asked.period_ns > Nanos::ZERO {
            self.add_missing(&mut found, &rows, interval, asked.period_ns);
        }
        let jobs = recording.explanation.as_ref();
        if thread.is_open_too_long(jobs.and_then(|one| one.jobs.as_ref())) {
            let since = recording.duration_ns.saturating_sub(thread.open_ns);
            self.certain.insert(second(since));
            let last = second(recording.duration_ns).min(second(since) + MOST);
            self.certain.extend(second(since + asked.budget_ns)..=last);
        }
        found
    }

    /// Adds the seconds that have fewer jobs than were due. The first and the last row may be
    /// incomplete.
    fn add_missing(
        &mut self,
        found: &mut Vec<RowJobs>,
        rows: &[&IntervalRow],
        interval: Nanos,
        period: Nanos,
    ) {
        let second = |at: Nanos| at.0 / SECOND.0;
        let due = interval.0 / period.0.max(1);
        let inner = 1..found.len().saturating_sub(1).max(1);
        for row in found.get_mut(inner).unwrap_or_default() {
            // The edge of a row can move one release to the next row.
            let missing = due.saturating_sub(row.jobs[1]);
            if missing > 1 {
                self.possible.insert(row.second);
                row.jobs[1] += missing;
                row.late[1] = row.late[1].saturating_add(missing);
            }
        }
        for pair in rows.windows(2) {
            let [row, next] = [pair[0].start_ns, pair[1].start_ns];
            if next > row + interval && due > 1 {
                let missing = second(row + interval)..=second(next.saturating_sub(Nanos(1)));
                let missing = missing.take(MOST as usize);
                self.with_jobs.extend(missing.clone());
                self.possible.extend(missing.clone());
                found.extend(missing.map(RowJobs::missing));
            }
        }
        found.sort_by_key(|row| row.second);
    }
}

/// Returns whether several jobs of the thread may look like a single one between the windows of the
/// full stage. A job that exceeds its period and runs into the next one is late anyway.
fn may_be_merged(thread: &ThreadJobs, asked: &LoopRequirement) -> bool {
    let period = thread.release.as_ref().and_then(|found| found.period_ns);
    let several = thread.released_at_once > 0 || thread.busy_ns > Nanos::ZERO;
    several && period.is_none_or(|period| period < asked.budget_ns)
}

/// Returns whether several threads share an index.
fn is_shared(recording: &Recording, thread: u32) -> bool {
    title(recording, thread) == ThreadRecord::LATER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_jobs_of_a_row_are_bounded_by_their_buckets() {
        let mut row = IntervalRow {
            thread: 0,
            start_ns: Nanos(0),
            count: 6,
            early: 0,
            missed: 0,
            min_ns: None,
            max_ns: None,
            sum_ns: Nanos(0),
            histogram: Default::default(),
        };
        assert_eq!(late_in_row(&row, Nanos(0)), [0, 0]);
        let mut counts = crate::Histogram::new();
        for ns in [500, 20_000, 20_050, 20_300, 20_300, 30_000] {
            counts.record(crate::SignedNanos(ns));
        }
        (row.max_ns, row.histogram) = (counts.max(), counts.buckets());
        // The buckets above 10 µs are 100 ns wide.
        for (budget, late) in [
            (30_000, [0, 0]),
            (29_999, [1, 1]),
            (20_400, [1, 1]),
            (20_399, [1, 1]),
            (20_398, [1, 3]),
            (20_300, [1, 3]),
            (20_299, [3, 3]),
            (20_099, [3, 3]),
            (20_098, [3, 5]),
            (19_999, [5, 5]),
            (400, [6, 6]),
        ] {
            assert_eq!(late_in_row(&row, Nanos(budget)), late, "{budget}");
        }
        // The longest job is late even if the buckets were removed.
        row.histogram = Default::default();
        assert_eq!(late_in_row(&row, Nanos(29_999)), [1, 1]);
    }

    #[test]
    fn late_seconds_are_numbered_among_those_with_jobs() {
        let seconds = || Seconds {
            with_jobs: BTreeSet::from([2, 4, 6, 8]),
            certain: BTreeSet::from([4, 9]),
            possible: BTreeSet::from([3, 6, 9]),
        };
        // Second 3 has no job, and second 9 has a late one.
        assert_eq!(seconds().late(), [4, 6, 9]);
        let (certain, possible, measured) = seconds().place(Nanos::from_secs(60), 0);
        assert_eq!((certain.count(), possible.count()), (2, 3));
        assert_eq!(measured, Nanos::from_secs(5));
        let (certain, possible, measured) = seconds().place(Nanos::from_secs(3), 2);
        assert_eq!((certain.count(), possible.count()), (2, 5));
        assert_eq!(measured, Nanos::from_secs(3));
    }

    /// A job in progress at the end is late after its budget. The number of its seconds is limited.
    #[test]
    fn open_job_is_late_in_each_second_after_its_budget() {
        let asked = LoopRequirement::of_jobs(Nanos::from_millis(2_500));
        let certain = |duration: u64, open: Nanos| {
            let mut recording = crate::testing::recording(1, 1);
            recording.series.rows.clear();
            recording.duration_ns = Nanos::from_secs(duration);
            recording.explanation = Some(crate::Explanation {
                jobs: Some(crate::Jobs {
                    budget_ns: asked.budget_ns,
                    ..Default::default()
                }),
                ..Default::default()
            });
            let thread = ThreadJobs {
                open_ns: open,
                ..ThreadJobs::default()
            };
            let mut seconds = Seconds::default();
            let rows = seconds.add(&recording, &thread, &asked, false);
            assert!(rows.is_empty());
            seconds.certain
        };
        assert_eq!(certain(20, Nanos::from_millis(2_500)), BTreeSet::new());
        // Released at 13.5 s: late from 16.0 s on.
        let late = certain(20, Nanos::from_millis(6_500));
        assert_eq!(late, BTreeSet::from([13, 16, 17, 18, 19, 20]));
        let late = certain(MOST * 2, Nanos::from_secs(MOST * 2 - 2));
        assert_eq!(late.last(), Some(&(2 + MOST)));
        assert_eq!(late.len() as u64, 1 + MOST - 1);
    }

    #[test]
    fn seconds_without_the_due_jobs_may_be_late() {
        let row = |second: u64, count| IntervalRow {
            thread: 0,
            start_ns: Nanos::from_secs(second),
            count,
            early: 0,
            missed: 0,
            min_ns: None,
            max_ns: None,
            sum_ns: Nanos(0),
            histogram: Default::default(),
        };
        let missing = |rows: &[(u64, u64)], period: u64| {
            let rows: Vec<IntervalRow> = rows.iter().map(|(at, count)| row(*at, *count)).collect();
            let mut found: Vec<RowJobs> = rows
                .iter()
                .map(|row| RowJobs {
                    second: row.start_ns.0 / SECOND.0,
                    until: row.start_ns.0 / SECOND.0,
                    jobs: [row.count; 2],
                    late: [0, 0],
                })
                .collect();
            let mut seconds = Seconds::default();
            let all: Vec<&IntervalRow> = rows.iter().collect();
            seconds.add_missing(&mut found, &all, SECOND, Nanos::from_millis(period));
            let late: Vec<_> = found.iter().map(|row| (row.second, row.late[1])).collect();
            (Vec::from_iter(seconds.possible), late)
        };
        // Ten jobs a second. One release may move to the next row, and the ends are incomplete.
        assert_eq!(
            missing(&[(0, 2), (1, 9), (2, 8), (3, 10), (4, 1)], 100),
            (vec![2], vec![(0, 0), (1, 0), (2, 2), (3, 0), (4, 0)])
        );
        // Seconds without a row.
        assert_eq!(
            missing(&[(0, 10), (3, 10)], 100),
            (
                vec![1, 2],
                vec![(0, 0), (1, RowJobs::ANY), (2, RowJobs::ANY), (3, 0)]
            )
        );
        // With at most one job a second, a row may be missing although no job was due.
        assert_eq!(
            missing(&[(0, 1), (3, 1)], 1_000),
            (vec![], vec![(0, 0), (3, 0)])
        );
        assert_eq!(missing(&[(0, 1)], 100), (vec![], vec![(0, 0)]));
    }

    /// Two rows of the same second follow each other without a gap.
    #[test]
    fn rows_of_half_a_second_have_no_gap() {
        let row = |half: u64| IntervalRow {
            thread: 0,
            start_ns: Nanos::from_millis(500 * half),
            count: 5,
            early: 0,
            missed: 0,
            min_ns: None,
            max_ns: None,
            sum_ns: Nanos(0),
            histogram: Default::default(),
        };
        let missing = |halves: &[u64]| {
            let rows: Vec<IntervalRow> = halves.iter().map(|half| row(*half)).collect();
            let all: Vec<&IntervalRow> = rows.iter().collect();
            let (mut seconds, mut found) = (Seconds::default(), Vec::new());
            let (interval, period) = (Nanos::from_millis(500), Nanos::from_millis(100));
            seconds.add_missing(&mut found, &all, interval, period);
            Vec::from_iter(seconds.possible)
        };
        assert_eq!(missing(&[0, 1, 2, 3]), [0; 0]);
        assert_eq!(missing(&[0, 2, 3]), [0]);
        assert_eq!(missing(&[0, 1, 6]), [1, 2]);
    }

    #[test]
    fn thread_whose_first_job_hangs_is_judged() {
        let asked = LoopRequirement {
            max_late_seconds_per_day: Some(10.0),
            ..LoopRequirement::of_jobs(Nanos::from_millis(1))
        };
        let judged = |open: Nanos| {
            let mut recording = crate::testing::recording(1, 1);
            recording.duration_ns = Nanos::from_secs(20);
            recording.explanation = Some(crate::Explanation {
                jobs: Some(crate::Jobs {
                    budget_ns: asked.budget_ns,
                    threads: vec![ThreadJobs {
                        open_ns: open,
                        ..ThreadJobs::default()
                    }],
                    ..Default::default()
                }),
                ..Default::default()
            });
            let found = super::super::LateJobs::of(&recording, &asked)?;
            Ok::<_, String>((found.jobs, found.late, found.certain.count()))
        };
        assert_eq!(judged(Nanos::from_secs(15)), Ok((0, 1, 16)));
        let nothing = "no job of the application was observed";
        assert_eq!(judged(Nanos::ZERO), Err(nothing.to_owned()));
    }
}
