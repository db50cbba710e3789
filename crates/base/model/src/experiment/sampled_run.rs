//! The late seconds of one run of a sampled series.

use std::collections::BTreeSet;

use super::Condition;
use crate::{
    Completion, IntervalRow, LoadRecord, LoopRequirement, MissLimit, Nanos, Recording, Unknown,
    counted,
};

/// The late seconds of one run, or its violated seconds if the requirement limits windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateRun {
    /// Number of seconds that were late for certain.
    pub at_least: u64,
    /// Number of seconds that may have been late: after a missed period, the time of the next ones
    /// is only known to be within its wait. Violated seconds of several threads may be the same
    /// ones.
    pub at_most: u64,
    /// Largest number of late periods in a window of a thread. `None` without such a limit.
    pub worst_window: Option<u64>,
    /// Number of late periods or jobs of all threads. If the periods were not counted one by one, the
    /// number is rounded up to the edge of a bucket.
    pub late: u64,
    /// Number of due periods, or of jobs, of all threads.
    pub periods: u64,
    /// Measuring time of the thread with the least periods. For jobs, the length of the run.
    pub measured_ns: Nanos,
}

const SECOND: Nanos = Nanos::from_secs(1);

/// Minimum share of the planned length, without the warm-up.
const LEAST_SHARE: f64 = 0.95;

impl LateRun {
    /// Counts the late seconds of a run from the rows of its time series. A second without a job is
    /// not late.
    ///
    /// # Errors
    /// Returns the reason why the run proves nothing, in words.
    pub fn of(recording: &Recording, asked: &LoopRequirement) -> Result<Self, String> {
        if asked.jobs {
            return Self::of_jobs(recording, asked);
        }
        sound(recording)?;
        let interval = recording.series.interval_ns;
        if interval == Nanos::ZERO || !SECOND.0.is_multiple_of(interval.0) {
            return Err(format!("its rows of {interval} do not show single seconds"));
        }
        let (mut certain, mut possible) = (BTreeSet::new(), BTreeSet::new());
        let mut least = u64::MAX;
        let (mut late, mut periods) = (0u64, 0u64);
        for (place, thread) in recording.threads.iter().enumerate() {
            let rows = recording.series.rows.iter();
            let mut rows: Vec<&IntervalRow> =
                rows.filter(|row| row.thread as usize == place).collect();
            rows.sort_by_key(|row| row.start_ns);
            let missed = rows.iter().map(|row| row.missed).sum::<u64>();
            let unseen = thread.accounting.missed.saturating_sub(missed);
            if rows.is_empty() {
                return Err("its time series was removed".to_owned());
            }
            if unseen > 0 {
                let missed = counted(unseen, "missed period", "missed periods");
                return Err(format!("the time of {missed} is unknown"));
            }
            mark(&rows, interval, asked, &mut certain, &mut possible);
            let due = thread.due();
            late = late.saturating_add(due.above_limit(asked.budget_ns).at_most);
            periods = periods.saturating_add(due.periods());
            least = least.min(due.periods());
        }
        let measured = match least {
            u64::MAX => Nanos::ZERO,
            least => Nanos(asked.period_ns.0.saturating_mul(least)),
        };
        let warm_up = recording.duration_parameter("warm_up_ns");
        long_enough(measured, asked, warm_up.unwrap_or_default())?;
        let late_seconds = possible.union(&certain).count() as u64;
        let mut run = Self {
            at_least: certain.len() as u64,
            at_most: late_seconds,
            worst_window: None,
            late,
            periods,
            measured_ns: measured,
        };
        if let Some(misses) = asked.misses {
            run.violated(recording, (misses, asked.budget_ns))?;
        }
        Ok(run)
    }

    /// Replaces the late seconds by the violated seconds.
    fn violated(
        &mut self,
        recording: &Recording,
        (limit, budget): (MissLimit, Nanos),
    ) -> Result<(), String> {
        let (mut most, mut all, mut worst) = (0, 0u64, 0);
        for thread in &recording.threads {
            let mut windows = thread.windows.iter();
            let windows = windows.find(|one| one.limit == limit && one.budget_ns == budget);
            let seconds = windows.and_then(|one| Some((one.worst, one.violated_seconds?)));
            let Some((in_window, seconds)) = seconds else {
                return Err(format!("it did not count the late periods of {limit}"));
            };
            worst = worst.max(in_window);
            most = most.max(seconds);
            all = all.saturating_add(seconds);
        }
        // Each violated second is a late one.
        self.at_most = self.at_most.min(all).max(most);
        self.at_least = most;
        self.worst_window = Some(worst);
        Ok(())
    }
}

/// Returns an error if a run was shorter than planned.
pub(super) fn long_enough(
    measured: Nanos,
    asked: &LoopRequirement,
    warm_up: Nanos,
) -> Result<(), String> {
    let planned = asked.sample.map_or(Nanos::ZERO, |sample| sample.length_ns);
    let wanted = planned.saturating_sub(warm_up);
    if measured.0 as f64 <= wanted.0 as f64 * LEAST_SHARE {
        return Err(format!("it measured only {measured} of {planned}"));
    }
    Ok(())
}

/// Returns an error if the run proves nothing about the machine.
fn sound(recording: &Recording) -> Result<(), String> {
    let failed = recording.load.iter().find_map(LoadRecord::lacking);
    let dropped = recording.series.dropped;
    let mut threads = recording.threads.iter();
    match () {
        () if recording.completion != Completion::Finished => {
            Err(format!("it was {}", recording.completion))
        }
        () if dropped > 0 => Err(format!(
            "its time series lacks {}",
            counted(dropped, "sample", "samples")
        )),
        () if !recording.knows(Unknown::Missed) => Err("missed periods are not known".to_owned()),
        () if threads.any(|thread| !thread.scheduling.policy.is_real_time()) => {
            Err(Condition::NOT_REAL_TIME.to_owned())
        }
        () => match (recording.suspensions.first(), failed) {
            (Some(suspension), _) => Err(suspension.lacking()),
            (None, Some(failed)) => Err(failed),
            (None, None) => Ok(()),
        },
    }
}

/// Adds the late seconds of one thread, by their number since the start of the run.
fn mark(
    rows: &[&IntervalRow],
    interval: Nanos,
    asked: &LoopRequirement,
    certain: &mut BTreeSet<u64>,
    possible: &mut BTreeSet<u64>,
) {
    let second = |at: Nanos| at.0 / SECOND.0;
    let end = rows.last().map_or(0, |row| second(row.start_ns));
    for (row, next) in rows.iter().zip(rows.iter().skip(1).map(Some).chain([None])) {
        let own = second(row.start_ns);
        let longest = row.max_ns.unwrap_or_default();
        if longest > asked.budget_ns || row.missed > 0 {
            certain.insert(own);
        }
        if row.missed > 0 {
            // The row of the first missed period counts all periods of one wait.
            let missed = Nanos(row.missed.saturating_mul(asked.period_ns.0));
            let until = row.start_ns + interval + longest.max(missed);
            let last = second(until).min(next.map_or(own + MOST, |_| end));
            possible.extend(own..=last);
        }
        // A second without a row had due periods, but no wake-up.
        if let Some(next) = next {
            certain.extend((own + 1)..second(next.start_ns));
        }
    }
}

/// Maximum number of seconds of a run.
const MOST: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sampling, testing};

    fn asked(budget: Nanos) -> LoopRequirement {
        LoopRequirement {
            period_ns: Nanos::from_millis(1),
            budget_ns: budget,
            jobs: false,
            max_late_seconds_per_day: Some(72.0),
            misses: None,
            max_misses_per_day: None,
            sample: Sampling::new(60, Nanos::from_secs(10), Nanos::from_secs(86_400)),
        }
    }

    fn quiet() -> Recording {
        let mut recording = testing::recording(2, 10);
        recording.load.clear();
        for thread in &mut recording.threads {
            thread.accounting.missed = 0;
            thread.missed_histogram = None;
            thread.open = None;
        }
        recording.series.rows.iter_mut().for_each(|row| {
            (row.missed, row.max_ns) = (0, Some(Nanos(20_000)));
        });
        recording
    }

    #[test]
    fn seconds_are_counted_once_for_all_threads() {
        let mut recording = quiet();
        let limit = asked(Nanos(150_001));
        let clean = LateRun::of(&recording, &limit).unwrap();
        assert_eq!((clean.at_least, clean.at_most), (0, 0));
        assert_eq!(clean.measured_ns, Nanos::from_secs(10));
        assert_eq!((clean.late, clean.periods), (0, 20_000));
        // Both threads are late in the fourth second, and one in the sixth.
        for place in [6, 7, 10] {
            recording.series.rows[place].max_ns = Some(Nanos(150_002));
        }
        let late = LateRun::of(&recording, &limit).unwrap();
        assert_eq!((late.at_least, late.at_most), (2, 2));
    }

    /// A thread that gets no CPU time for 3.5 s has no rows in between, and its first row has all
    /// missed periods.
    #[test]
    fn seconds_without_a_wake_up_are_late() {
        let mut recording = quiet();
        let rows = &mut recording.series.rows;
        rows[4].missed = 3_499;
        rows[4].max_ns = Some(Nanos::from_millis(3_500));
        recording.threads[0].accounting.missed = 3_499;
        // Rows 6 and 8 are those of thread 0 in the two seconds after it.
        rows.remove(8);
        rows.remove(6);
        let late = LateRun::of(&recording, &asked(Nanos::from_millis(1))).unwrap();
        assert_eq!((late.at_least, late.at_most), (3, 5));
    }

    #[test]
    fn violated_seconds_are_those_of_the_windows() {
        let limit: MissLimit = "2/100".parse().unwrap();
        let asked = LoopRequirement {
            misses: Some(limit),
            ..asked(Nanos(100_000))
        };
        let mut recording = quiet();
        let why = LateRun::of(&recording, &asked).unwrap_err();
        assert_eq!(why, "it did not count the late periods of 2/100");
        for place in 0..4 {
            recording.series.rows[place].max_ns = Some(Nanos(150_000));
        }
        for (place, thread) in recording.threads.iter_mut().enumerate() {
            let mut windows = crate::MissWindows::new(limit, Nanos(100_000));
            // The second thread has three late periods in a row in its second second.
            for number in 0..2_000 {
                let is_late = place == 1 && (1_500..1_503).contains(&number);
                let late = if is_late { 150_000 } else { 10 };
                windows.sample(Nanos(late), Nanos::from_millis(number));
            }
            thread.windows = vec![windows.count()];
        }
        let run = LateRun::of(&recording, &asked).unwrap();
        assert_eq!((run.at_least, run.at_most), (1, 1));
        assert_eq!(run.worst_window, Some(3));
    }

    #[test]
    fn unsound_runs_prove_nothing() {
        let why = |change: fn(&mut Recording)| {
            let mut recording = quiet();
            change(&mut recording);
            LateRun::of(&recording, &asked(Nanos(100_000))).unwrap_err()
        };
        type Change = fn(&mut Recording);
        let cases: [(Change, &str); 8] = [
            (|one| one.completion = Completion::Stopped, "stopped"),
            (|one| one.series.dropped = 3, "lacks 3 samples"),
            (|one| one.series.rows.clear(), "time series was removed"),
            (
                |one| one.series.interval_ns = Nanos::from_secs(5),
                "do not show single seconds",
            ),
            (
                |one| one.threads[1].accounting.missed = 2,
                "the time of 2 missed periods",
            ),
            (
                |one| one.threads[0].scheduling.policy = crate::Policy::Other,
                "real-time priority",
            ),
            (|one| one.threads.clear(), "measured only"),
            (
                |one| {
                    one.load.push(crate::LoadRecord {
                        name: "cpu".to_owned(),
                        failed: true,
                        ..crate::LoadRecord::default()
                    });
                },
                "load cpu failed",
            ),
        ];
        for (change, words) in cases {
            let why = why(change);
            assert!(why.contains(words), "{words}: {why}");
        }
        let long = LoopRequirement {
            sample: Sampling::new(60, Nanos::from_secs(20), Nanos::from_secs(86_400)),
            ..asked(Nanos(100_000))
        };
        let why = LateRun::of(&quiet(), &long).unwrap_err();
        assert_eq!(why, "it measured only 10.0 s of 20.0 s");
    }

    #[test]
    fn run_must_be_sound_to_prove_anything() {
        type Change = fn(&mut Recording);
        let changes: [(Change, &str); 6] = [
            (|run| run.completion = Completion::Stopped, "it was stopped"),
            (
                |run| run.series.dropped = 1,
                "its time series lacks 1 sample",
            ),
            (
                |run| {
                    run.origin = Some(crate::Origin {
                        format: String::new(),
                        tool: String::new(),
                        file: String::new(),
                        unknown: [Unknown::Missed].into(),
                    });
                },
                "missed periods are not known",
            ),
            (
                |run| run.threads[1].scheduling.policy = crate::Policy::Other,
                Condition::NOT_REAL_TIME,
            ),
            (|run| run.load[0].failed = true, "command"),
            (
                |run| run.threads[0].scheduling.policy = crate::Policy::Batch,
                Condition::NOT_REAL_TIME,
            ),
        ];
        let run = crate::testing::recording(2, 2);
        assert_eq!(sound(&run), Ok(()));
        for (change, why) in changes {
            let mut changed = run.clone();
            change(&mut changed);
            let error = sound(&changed).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn run_may_lack_a_twentieth_of_its_planned_length() {
        let asked = crate::testing::week(10.0, |_| Some(0)).asked;
        let enough = |millis: u64, warm_up: u64| {
            long_enough(
                Nanos::from_millis(millis),
                &asked,
                Nanos::from_millis(warm_up),
            )
        };
        // 95% of 60 s, and of the 50 s after a warm-up.
        assert_eq!(enough(57_001, 0), Ok(()));
        assert_eq!(
            enough(57_000, 0),
            Err("it measured only 57.0 s of 60.0 s".to_owned())
        );
        assert_eq!(
            (
                enough(47_501, 10_000).is_ok(),
                enough(47_500, 10_000).is_ok()
            ),
            (true, false)
        );
        let unplanned = LoopRequirement {
            sample: None,
            ..asked.clone()
        };
        assert!(long_enough(Nanos(1), &unplanned, Nanos::ZERO).is_ok());
        assert!(long_enough(Nanos::ZERO, &unplanned, Nanos::ZERO).is_err());
    }
}
