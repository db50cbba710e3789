//! The late seconds of an application's jobs in one run.

mod channels;
mod seconds;
mod windows;

use std::collections::BTreeSet;

use self::seconds::Seconds;
use self::windows::violations;
use super::sampled_run::long_enough;
use super::{Condition, JobEvidence, LateRun};
use crate::{
    Completion, Decision, ERROR, Jobs, LateSeconds, Looks, LoopRequirement, Nanos, Outcome, Rate,
    Recording, ThreadJobs, ThreadRecord, Windows, counted,
};

/// The late seconds of the jobs of one run.
#[derive(Clone, Debug)]
struct LateJobs {
    /// The seconds with a job that was late for certain, numbered among the seconds with jobs. With a
    /// limit for windows, those with a late job that violated one.
    certain: LateSeconds,
    /// These seconds, with those that may be late or violated.
    possible: LateSeconds,
    /// Time of the seconds with jobs.
    measured: Nanos,
    /// Number of completed jobs, and of those above the budget.
    jobs: u64,
    late: u64,
    evidence: JobEvidence,
    /// The seconds that may have been late, by their number since the start of the run.
    seconds: Vec<u64>,
    /// Indices of the judged threads.
    judged: BTreeSet<u32>,
    /// Number of seconds with a late job, and the windows, if they are limited.
    windows: Option<(u64, Windows)>,
    /// Reasons why nothing can be held.
    lacking: Vec<String>,
}

const SECOND: Nanos = Nanos::from_secs(1);

/// Minimum time with jobs for a verdict.
const LEAST: Nanos = Nanos::from_secs(10);

/// Maximum deviation of a thread's period from the required one.
const NEAR: f64 = 0.25;

impl LateJobs {
    /// Counts the late seconds of an application's jobs from the rows of the time series. A job
    /// that was released at once was due at some time after the release of the job before it, so
    /// its response time is at most the sum of both.
    ///
    /// # Errors
    /// Returns the reason why the run proves nothing, in words.
    fn of(recording: &Recording, asked: &LoopRequirement) -> Result<Self, String> {
        let interval = recording.series.interval_ns;
        if interval == Nanos::ZERO || !SECOND.0.is_multiple_of(interval.0) {
            return Err(format!("the rows of {interval} do not show single seconds"));
        }
        if recording.probe.application().is_some() {
            if let Some(misses) = asked.misses {
                return Err(format!("its late seconds do not show windows of {misses}"));
            }
            return Self::of_channels(recording, asked);
        }
        let explanation = recording.explanation.as_ref();
        let jobs = explanation.and_then(|explanation| explanation.jobs.as_ref());
        let jobs = jobs.ok_or("the jobs of the application were not recorded")?;
        let judged: Vec<&ThreadJobs> = (jobs.threads.iter())
            .filter(|thread| thread.jobs > 0 || thread.open_ns > Nanos::ZERO)
            .filter(|thread| has_period(thread, asked.period_ns))
            .collect();
        if judged.is_empty() {
            return Err(nothing_to_judge(recording, jobs, asked));
        }
        let mut seconds = Seconds::default();
        let mut violated = Seconds::default();
        let mut worst = 0;
        let mut lacking = Vec::new();
        let events_lost = explanation.map_or(0, |one| one.events_lost);
        for thread in &judged {
            let rows = seconds.add(recording, thread, asked, jobs.windows.is_some());
            if let Some(limit) = asked.misses {
                let unknown = thread.unknown().saturating_add(events_lost);
                worst = worst.max(violations(&rows, limit, unknown, &mut violated));
                lacking.extend(in_progress(recording, thread, jobs));
            }
            lacking.extend(lack_of(recording, thread, asked));
        }
        if asked.misses.is_some() {
            violated.with_jobs.clone_from(&seconds.with_jobs);
        }
        if asked.period_ns == Nanos::ZERO {
            lacking.extend(without_release(recording, jobs));
        }
        lacking.extend(lost(recording));
        let unknown = judged.iter().map(|thread| thread.unknown()).sum();
        let Some(_) = asked.misses else {
            return Ok(Self::new(recording, &judged, seconds, unknown, lacking));
        };
        let windows = Windows {
            worst,
            violated_seconds: violated.certain.len() as u64,
            first_violated_ns: violated
                .certain
                .first()
                .map(|second| Nanos(second.saturating_mul(SECOND.0))),
        };
        Ok(Self {
            windows: Some((seconds.certain.len() as u64, windows)),
            ..Self::new(recording, &judged, violated, unknown, lacking)
        })
    }

    fn new(
        recording: &Recording,
        judged: &[&ThreadJobs],
        seconds: Seconds,
        unknown: u64,
        lacking: Vec<String>,
    ) -> Self {
        let title = |thread: &&ThreadJobs| title(recording, thread.thread);
        let jobs = recording
            .explanation
            .as_ref()
            .and_then(|one| one.jobs.as_ref());
        let open = judged.iter().filter(|thread| thread.is_open_too_long(jobs));
        let late = seconds.late();
        let (certain, possible, measured) = seconds.place(recording.duration_ns, unknown);
        Self {
            measured,
            seconds: late,
            jobs: judged.iter().map(|thread| thread.jobs).sum(),
            late: judged.iter().map(|thread| thread.over_budget).sum::<u64>() + open.count() as u64,
            evidence: JobEvidence {
                threads: judged.iter().map(title).collect(),
                elapsed_ns: recording.duration_ns,
                unknown,
                possible_late_seconds: possible.count(),
                by_observer: jobs.map_or(0, |jobs| jobs.caused_by_observer),
            },
            judged: judged.iter().map(|thread| thread.thread).collect(),
            windows: None,
            certain,
            possible,
            lacking,
        }
    }

    /// Returns the rates of the seconds that were late for certain, and of those that may have been.
    fn rates(&self) -> [Rate; 2] {
        [&self.certain, &self.possible].map(|late| late.rate(self.measured))
    }

    /// Returns whether the jobs hold the limit, and the error of the bounds. *Broken* counts only
    /// seconds that were late for certain, and *held* counts all that may have been late.
    fn decide(&self, allowed: f64, looks: Option<Looks>) -> (Outcome, Rate, f64) {
        let [least, most] = self.rates();
        let (decision, error) = match looks {
            Some(looks) => looks.end(&least, &most),
            None if least.decide(allowed, ERROR) == Decision::Broken => (Decision::Broken, ERROR),
            None => (most.decide(allowed, ERROR), ERROR),
        };
        match decision {
            Decision::Broken if least.decide(allowed, error) == decision => {
                (Outcome::Broken, least, error)
            }
            // The looks saw only what was known by then.
            Decision::Held
                if self.lacking.is_empty() && most.decide(allowed, error) == decision =>
            {
                (Outcome::Held, most, error)
            }
            _ => (Outcome::NotProven, most, error),
        }
    }

    /// Returns the verdict on the jobs of this run.
    fn condition(
        self,
        recording: &Recording,
        asked: &LoopRequirement,
        looks: Option<Looks>,
    ) -> Condition {
        let allowed = asked.max_late_seconds_per_day.unwrap_or_default();
        let mut condition = Condition::of_application();
        let (outcome, rate, error) = self.decide(allowed, looks);
        let Self { measured, .. } = self;
        let drift = recording.drift_of_seconds(
            self.seconds.iter().copied(),
            (Nanos::ZERO, recording.duration_ns),
            rate.local_dispersion(),
            asked.unit(),
        );
        let supported = rate.supports_bounds() && drift.is_none();
        let bound = |events: f64| supported.then(|| rate.per_day(events)).flatten();
        let mut all = crate::Due::default();
        for (place, thread) in (0..).zip(&recording.threads) {
            if self.judged.contains(&place) {
                all.merge(&thread.due());
            }
        }
        condition.lacking = self.lacking;
        if measured < LEAST {
            condition.lacking.push(format!(
                "{measured} with jobs measured, at least {LEAST} needed"
            ));
        }
        let doubt = rate.doubt().map(|doubt| doubt.sentence(asked.unit()));
        condition.lacking.extend(doubt.or(drift));
        condition.outcome = match outcome {
            Outcome::Held if !condition.lacking.is_empty() => Outcome::NotProven,
            outcome => outcome,
        };
        if allowed == 0.0 && condition.outcome == Outcome::NotProven {
            condition.lacking.push(Condition::NEVER.to_owned());
        }
        if condition.outcome == Outcome::NotProven {
            condition.needs_ns = match looks {
                Some(looks) => looks.needed(&rate),
                None => rate.needed(allowed, ERROR),
            };
            condition.needs_likely_ns = rate.likely(allowed, ERROR);
        }
        Condition {
            measured_ns: measured,
            periods: self.jobs,
            late: self.late,
            late_seconds: Some(self.windows.map_or(self.certain.count(), |(late, _)| late)),
            windows: self.windows.map(|(_, windows)| windows),
            dispersion: Some(rate.dispersion),
            per_day_at_most: bound(self.possible.rate(measured).at_most(error)),
            per_day_at_least: bound(self.certain.rate(measured).at_least(error)),
            max_ns: all.max(),
            p99_ns: (all.periods() >= 1_000)
                .then(|| all.quantile(0.99)?.exact())
                .flatten(),
            jobs: Some(self.evidence),
            ..condition
        }
    }
}

impl Condition {
    /// Returns the name of the condition in which an application was watched.
    pub const APPLICATION: &str = "application";

    /// Returns the verdict on the jobs of an application in a run.
    pub fn of_jobs(recording: &Recording, asked: &LoopRequirement) -> Self {
        Self::of_jobs_looked_at(recording, asked, None)
    }

    /// Returns the verdict on the jobs of an application in a run that these looks may have ended.
    pub fn of_jobs_looked_at(
        recording: &Recording,
        asked: &LoopRequirement,
        looks: Option<Looks>,
    ) -> Self {
        match LateJobs::of(recording, asked) {
            Ok(late) => late.condition(recording, asked, looks),
            Err(why) => Self {
                lacking: vec![why],
                ..Self::of_application()
            },
        }
    }

    fn of_application() -> Self {
        Self {
            name: Self::APPLICATION.to_owned(),
            loads: Vec::new(),
            measured_ns: Nanos::ZERO,
            periods: 0,
            late: 0,
            longest_series: None,
            late_seconds: Some(0),
            windows: None,
            episodes: None,
            dispersion: None,
            per_day_at_most: None,
            per_day_at_least: None,
            max_ns: None,
            p99_ns: None,
            // The application chooses its policy, so the policy does not weaken the evidence.
            real_time: true,
            outcome: Outcome::NotProven,
            lacking: Vec::new(),
            needs_ns: None,
            needs_likely_ns: None,
            tail: None,
            no_tail: None,
            jobs: Some(JobEvidence::default()),
        }
    }
}

impl Looks {
    /// Takes the looks that are due at the jobs of an application so far. Returns whether there is a
    /// decision.
    pub fn look_at_jobs(&mut self, recording: &Recording, asked: &LoopRequirement) -> bool {
        let Ok(late) = LateJobs::of(recording, asked) else {
            return false;
        };
        let [least, most] = late.rates();
        self.look(&least, late.lacking.is_empty().then_some(&most))
    }
}

impl LateRun {
    /// Counts the late seconds of the jobs of one run of a sampled series.
    ///
    /// # Errors
    /// Returns the reason why the run proves nothing, in words.
    pub(super) fn of_jobs(recording: &Recording, asked: &LoopRequirement) -> Result<Self, String> {
        if recording.completion != Completion::Finished {
            return Err(format!("it was {}", recording.completion));
        }
        let found = LateJobs::of(recording, asked)?;
        if !found.lacking.is_empty() {
            return Err(found.lacking.join("; "));
        }
        long_enough(recording.duration_ns, asked, Nanos::ZERO)?;
        Ok(Self {
            at_least: found.certain.count(),
            at_most: found.possible.count(),
            worst_window: found.windows.map(|(_, windows)| windows.worst),
            late: found.late,
            periods: found.jobs,
            measured_ns: recording.duration_ns,
        })
    }
}

/// Maximum number of seconds that one job or one gap covers.
const MOST: u64 = 100_000;

impl ThreadJobs {
    /// Returns the number of jobs of unknown response time. The job in progress at the end of the
    /// run is known to be in progress.
    fn unknown(&self) -> u64 {
        let open = u64::from(self.open_ns > Nanos::ZERO);
        self.incomplete.saturating_sub(open)
    }

    /// Returns whether the job in progress at the end of the run had exceeded the budget.
    fn is_open_too_long(&self, jobs: Option<&Jobs>) -> bool {
        jobs.is_some_and(|jobs| self.open_ns > jobs.budget_ns)
    }
}

/// Returns whether the thread has about the required period, or whether none is required.
fn has_period(thread: &ThreadJobs, period: Nanos) -> bool {
    let found = thread.release.as_ref().and_then(|found| found.period_ns);
    let near = |found: Nanos| (found.0 as f64 / period.0 as f64 - 1.0).abs() <= NEAR;
    period == Nanos::ZERO || found.is_some_and(near)
}

fn title(recording: &Recording, thread: u32) -> String {
    let found = recording.threads.get(thread as usize);
    found.map_or_else(|| format!("thread {thread}"), ThreadRecord::title)
}

/// Returns why there is no thread to judge.
fn nothing_to_judge(recording: &Recording, jobs: &Jobs, asked: &LoopRequirement) -> String {
    let with_jobs: Vec<String> = (jobs.threads.iter().filter(|thread| thread.jobs > 0))
        .map(|thread| {
            let release = thread.release.as_ref();
            let period = release.and_then(|found| found.period_ns);
            let period = period.map_or("no regular period".to_owned(), |period| {
                format!("every {period}")
            });
            format!("{} ({period})", title(recording, thread.thread))
        })
        .take(NAMED)
        .collect();
    match with_jobs.as_slice() {
        [] => "no job of the application was observed".to_owned(),
        all => format!(
            "no thread was released every {}: {}; pass another --period, or none",
            asked.period_ns,
            all.join(", ")
        ),
    }
}

/// Maximum number of threads in a message.
const NAMED: usize = 5;

/// Returns a reason if some threads had waits, but no jobs are known.
fn without_release(recording: &Recording, jobs: &Jobs) -> Option<String> {
    let unknown: Vec<String> = (jobs.threads.iter())
        .filter(|thread| thread.release.is_none() && thread.waits > 0)
        .map(|thread| title(recording, thread.thread))
        .collect();
    let named = unknown.iter().take(NAMED).cloned().collect::<Vec<_>>();
    (!unknown.is_empty()).then(|| {
        format!(
            "the jobs of {} are unknown, because no release wait was found: {}",
            counted(unknown.len() as u64, "thread", "threads"),
            named.join(", ")
        )
    })
}

/// Returns a reason if the last job of a thread did not end in time. It is one late job, but a thread
/// that hangs violates each window sooner or later.
fn in_progress(recording: &Recording, thread: &ThreadJobs, jobs: &Jobs) -> Option<String> {
    thread.is_open_too_long(Some(jobs)).then(|| {
        let name = title(recording, thread.thread);
        let open = thread.open_ns;
        format!("a job of {name} was in progress for {open} at the end")
    })
}

/// Returns the reasons why the jobs of a thread cannot be held.
fn lack_of(recording: &Recording, thread: &ThreadJobs, asked: &LoopRequirement) -> Vec<String> {
    let name = title(recording, thread.thread);
    let mut said = Vec::new();
    if thread.not_counted_ns > Nanos::ZERO {
        said.push(format!(
            "the jobs of {name} were not counted for {}",
            thread.not_counted_ns
        ));
    }
    if thread.busy_ns > asked.budget_ns {
        said.push(format!(
            "{name} was busy for {} with jobs that could not be told apart: pass --detail full",
            thread.busy_ns
        ));
    }
    if thread.longest_stop_ns > asked.budget_ns {
        said.push(format!(
            "{name} was stopped for {} while a job may have been due",
            thread.longest_stop_ns
        ));
    }
    said
}

/// Returns reasons that concern the whole run.
fn lost(recording: &Recording) -> Vec<String> {
    let lost = recording
        .explanation
        .as_ref()
        .map_or(0, |one| one.events_lost);
    let lost = (lost > 0).then(|| {
        let events = counted(lost, "trace event was", "trace events were");
        format!("{events} lost, and the jobs in such a gap are unknown")
    });
    let suspension = recording.suspensions.first().map(|one| one.lacking());
    lost.into_iter().chain(suspension).collect()
}

#[cfg(test)]
mod tests;
