//! The late seconds of an application that measures itself.

use std::collections::BTreeSet;

use super::{LateJobs, MOST, NAMED, SECOND, Seconds, lost};
use crate::{
    Completion, IntervalRow, JobEvidence, LoopRequirement, Nanos, Recording, ThreadRecord,
};

impl LateJobs {
    /// Counts the late seconds of the recorded channels from the rows of the time series. The second
    /// of a job is the time of its reading, at most 50 ms after it ended.
    ///
    /// # Errors
    /// Returns the reason why the run proves nothing, in words.
    pub(super) fn of_channels(
        recording: &Recording,
        asked: &LoopRequirement,
    ) -> Result<Self, String> {
        let due = recording.threads.iter().map(|thread| thread.due());
        let jobs = due.clone().map(|due| due.periods()).sum();
        if jobs == 0 {
            return Err("no job of the application was recorded".to_owned());
        }
        let mut seconds = Seconds::default();
        for place in (0..).take(recording.threads.len()) {
            let rows = recording.series.rows.iter();
            let rows = rows.filter(|row| row.thread == place);
            rows.for_each(|row| seconds.add_row(row, recording.series.interval_ns, asked));
        }
        let late_seconds = seconds.late();
        let (certain, possible, measured) = seconds.place(recording.duration_ns, 0);
        let mut lacking = lost(recording);
        if recording.completion == Completion::Interrupted {
            lacking.push("the recording was interrupted".to_owned());
        }
        lacking.extend(recording.probe.not_counted());
        let titles = recording.threads.iter().map(ThreadRecord::title);
        Ok(Self {
            measured,
            seconds: late_seconds,
            jobs,
            late: due
                .map(|due| due.above_limit(asked.budget_ns).at_most)
                .sum(),
            evidence: JobEvidence {
                threads: titles.take(NAMED).collect(),
                elapsed_ns: recording.duration_ns,
                unknown: 0,
                possible_late_seconds: possible.count(),
                by_observer: 0,
            },
            judged: (0..).take(recording.threads.len()).collect::<BTreeSet<_>>(),
            windows: None,
            certain,
            possible,
            lacking,
        })
    }
}

impl Seconds {
    fn add_row(&mut self, row: &IntervalRow, interval: Nanos, asked: &LoopRequirement) {
        let second = |at: Nanos| at.0 / SECOND.0;
        let own = second(row.start_ns);
        self.with_jobs.insert(own);
        let longest = row.max_ns.unwrap_or_default();
        if longest > asked.budget_ns {
            // Without an entry of the ring, the longest sample is the end of its bucket, which is at
            // most 1% wide.
            if longest.0 - longest.0 / 100 > asked.budget_ns.0 || row.missed > 0 {
                self.certain.insert(own);
            }
            self.possible.insert(own);
        }
        if row.missed > 0 {
            self.certain.insert(own);
            // The application counts missed periods when the job that overran has ended.
            let missed = Nanos(row.missed.saturating_mul(asked.period_ns.0));
            let first = second((row.start_ns + interval).saturating_sub(missed));
            let span = first.max(own.saturating_sub(MOST))..=own;
            self.with_jobs.extend(span.clone());
            self.possible.extend(span);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Nanos = Nanos::from_millis(1);

    fn asked() -> LoopRequirement {
        LoopRequirement {
            period_ns: Nanos::from_millis(1),
            max_late_seconds_per_day: Some(10.0),
            ..LoopRequirement::of_jobs(BUDGET)
        }
    }

    fn row(thread: u32, start: Nanos, max: u64, missed: u64) -> IntervalRow {
        IntervalRow {
            thread,
            start_ns: start,
            count: 500,
            early: 0,
            missed,
            min_ns: Some(Nanos(1_000)),
            max_ns: Some(Nanos(max)),
            sum_ns: Nanos(0),
            histogram: Default::default(),
        }
    }

    /// The seconds with jobs, those that were late, and those that may have been.
    fn seconds(row: &IntervalRow) -> [Vec<u64>; 3] {
        let mut seconds = Seconds::default();
        seconds.add_row(row, Nanos::from_millis(500), &asked());
        [seconds.with_jobs, seconds.certain, seconds.possible].map(Vec::from_iter)
    }

    #[test]
    fn second_is_late_if_its_longest_job_was() {
        let start = Nanos::from_millis(3_500);
        let only = || vec![3];
        for (longest, certain, possible) in [
            (1_000_000, vec![], vec![]),
            // The longest job is only known to be within 1% of its bucket.
            (1_000_001, vec![], only()),
            (1_010_101, vec![], only()),
            (1_010_102, only(), only()),
        ] {
            let found = seconds(&row(0, start, longest, 0));
            assert_eq!(found, [only(), certain, possible], "{longest}");
        }
        let mut empty = row(0, start, 0, 0);
        empty.max_ns = None;
        assert_eq!(seconds(&empty), [only(), vec![], vec![]]);
    }

    #[test]
    fn missed_periods_may_be_late_in_the_seconds_before() {
        let start = Nanos::from_millis(3_500);
        let until_third = |first: u64| (first..=3).collect::<Vec<_>>();
        for (missed, first) in [
            (1, 3),
            (1_000, 3),
            (1_001, 2),
            (2_000, 2),
            (2_001, 1),
            (4_000, 0),
            (9_000, 0),
        ] {
            let found = seconds(&row(0, start, 1_000, missed));
            assert_eq!(
                found,
                [until_third(first), vec![3], until_third(first)],
                "{missed}"
            );
        }
        // A missed period makes a doubtful second late for certain.
        let found = seconds(&row(0, start, 1_000_001, 1));
        assert_eq!(found, [vec![3], vec![3], vec![3]]);
        // One gap covers a limited number of seconds.
        let found = seconds(&row(0, Nanos::from_secs(200_000), 1_000, u64::MAX));
        assert_eq!(
            (found[2][0], found[2].len() as u64),
            (200_000 - MOST, MOST + 1)
        );
    }

    /// An application with two channels, which ran for ten seconds.
    fn application() -> Recording {
        let mut recording = crate::testing::recording(2, 2);
        recording.probe.name = crate::ProbeRun::IN_APP.to_owned();
        recording.duration_ns = Nanos::from_secs(10);
        recording.series.interval_ns = Nanos::from_secs(1);
        let second = |number| Nanos::from_secs(number);
        recording.series.rows = (0..10)
            .map(|number| row(0, second(number), 1_000, 0))
            .collect();
        recording.series.rows.extend([
            row(1, second(4), 2_000_000, 0),
            row(1, second(7), 1_000_001, 0),
        ]);
        recording.threads[0].label = Some("control".to_owned());
        recording
    }

    #[test]
    fn channels_of_an_application_are_counted_together() {
        let recording = application();
        let found = LateJobs::of(&recording, &asked()).unwrap();
        assert_eq!(found.seconds, [4, 7]);
        assert_eq!((found.certain.count(), found.possible.count()), (1, 2));
        assert_eq!(found.measured, Nanos::from_secs(10));
        assert_eq!(found.evidence.threads, ["control", "CPU 1"]);
        assert_eq!(found.evidence.elapsed_ns, Nanos::from_secs(10));
        assert_eq!(
            (found.evidence.unknown, found.evidence.possible_late_seconds),
            (0, 2)
        );
        assert_eq!(found.judged, BTreeSet::from([0, 1]));
        assert_eq!(
            found.jobs,
            recording
                .threads
                .iter()
                .map(|one| one.due().periods())
                .sum::<u64>()
        );
        let late = recording
            .threads
            .iter()
            .map(|one| one.due().above_limit(BUDGET).at_most);
        assert_eq!(found.late, late.sum::<u64>());
        assert_eq!(found.lacking, [""; 0]);
    }

    #[test]
    fn gaps_of_a_channel_are_named() {
        let mut recording = application();
        recording.completion = Completion::Interrupted;
        let not_counted = crate::ProbeRun::NOT_COUNTED.to_owned();
        recording
            .probe
            .parameters
            .insert(not_counted, "control".into());
        let found = LateJobs::of(&recording, &asked()).unwrap();
        assert_eq!(found.lacking.len(), 2);
        assert_eq!(found.lacking[0], "the recording was interrupted");
        assert!(found.lacking[1].starts_with("the missed periods of channel control are unknown"));

        recording.threads.clear();
        let error = LateJobs::of(&recording, &asked()).unwrap_err();
        assert_eq!(error, "no job of the application was recorded");
        let mut windows = asked();
        windows.misses = "2/100".parse().ok();
        let error = LateJobs::of(&application(), &windows).unwrap_err();
        assert_eq!(error, "its late seconds do not show windows of 2/100");
        for interval in [Nanos::ZERO, Nanos::from_millis(300), Nanos::from_secs(2)] {
            let mut coarse = application();
            coarse.series.interval_ns = interval;
            let error = LateJobs::of(&coarse, &asked()).unwrap_err();
            assert!(error.ends_with("do not show single seconds"), "{error}");
        }
    }
}
