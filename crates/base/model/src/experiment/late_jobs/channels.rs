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
