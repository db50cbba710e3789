//! A check-up of a machine: whether it is fit for a periodic loop.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cause::Source;
use crate::{
    AuditedHost, Claim, Finding, LoopRequirement, MeasuredOn, Nanos, Outcome, ShareKind, TailRemark,
};

/// The version of [`Checkup`] as JSON. It is increased only if a reader of the older form would
/// misread the newer one. Adding a field does not increase it.
///
/// Version 3: the bounds count late seconds. In version 2, they counted episodes, which are groups of
/// late periods without a pause longer than 1 s or a requested gap. Version 1 estimated the number
/// of episodes.
pub const CHECKUP_SCHEMA: u32 = 3;

/// Whether a machine is fit for a periodic loop and, if not, what prevents it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkup {
    /// Version of this JSON form, [`CHECKUP_SCHEMA`].
    pub schema: u32,
    /// Version of the program that made the check-up.
    pub program: String,
    /// The result in one word, which is the outcome of the worst condition.
    pub outcome: Outcome,
    /// The result in one sentence.
    pub sentence: String,
    /// The answers, one for each condition, with bound, confidence, condition and evidence. Empty in
    /// check-ups of older versions.
    #[serde(default)]
    pub claims: Vec<Claim>,
    /// The requirements of the loop.
    pub asked: LoopRequirement,
    /// Start of the check-up.
    pub started: Timestamp,
    /// The machine.
    pub host: AuditedHost,
    /// Machine and time of the measurement. Absent in check-ups made by older versions of the
    /// program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_on: Option<MeasuredOn>,
    /// Each measured condition.
    pub conditions: Vec<Condition>,
    /// Causes of the explained late periods: first those without which the most periods would be
    /// within the budget, then by total time.
    pub causes: Vec<RemediedCause>,
    /// Time that firmware, hypervisor and interrupts took from a spinning thread. Null if not
    /// measured.
    pub hardware: Option<HardwareGaps>,
    /// Findings of the audit: first those related to a measured cause, then the others by severity.
    pub findings: Vec<Finding>,
    /// Data that the verdict lacks, each in one sentence.
    pub lacking: Vec<String>,
    /// Commands to run next, the most useful first.
    pub next: Vec<String>,
    /// Recordings of the check-up. Empty if none is stored.
    pub recordings: Vec<String>,
}

impl Condition {
    /// The reason given if a condition proves nothing because a thread had no real-time priority.
    pub const NOT_REAL_TIME: &str = "measured without a real-time priority, which the loop needs";

    /// The reason given if no late second at all is allowed.
    pub const NEVER: &str = "no run is long enough to prove that no second is ever late: allow a \
                             rate, such as --max-late-seconds-per-day 1";
}

/// One condition of a check-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// Its name: `idle`, `loaded`.
    pub name: String,
    /// The loads that ran.
    pub loads: Vec<String>,
    /// Measuring time of each CPU.
    pub measured_ns: Nanos,
    /// Number of due periods on all CPUs.
    pub periods: u64,
    /// Number of periods that began later than the budget allows, or were missed.
    pub late: u64,
    /// Largest number of consecutive late periods of a thread. Null in check-ups of older versions.
    #[serde(default)]
    pub longest_series: Option<u64>,
    /// Number of late seconds: seconds of the run with a late period on any CPU. Null in check-ups
    /// of older versions.
    #[serde(default)]
    pub late_seconds: Option<u64>,
    /// The windows of consecutive periods, if the number of late periods in them is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<Windows>,
    /// Number of episodes, in check-ups of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub episodes: Option<u64>,
    /// Clustering of the late seconds: the variance divided by the mean of their counts in blocks
    /// of time, for the worst block length (upper 90% limit). Clustering widens the bounds.
    #[serde(default)]
    pub dispersion: Option<f64>,
    /// Upper bound of the late seconds per day (95% confidence), if the machine behaves all day as
    /// it did during the measurement. With a limit for windows, of the violated seconds per day.
    /// Null if nothing was measured, or if the run cannot support a bound: it is too short, or the
    /// rate changed during the run.
    pub per_day_at_most: Option<f64>,
    /// Lower bound of the same number (95% confidence), under the same conditions.
    pub per_day_at_least: Option<f64>,
    /// The largest latency. Null if there are no samples.
    pub max_ns: Option<Nanos>,
    /// p99 of the due periods. Null if there are too few of them.
    pub p99_ns: Option<Nanos>,
    /// Whether all threads had a real-time policy. If not, the outcome is neither broken nor held.
    /// Always true for an application, which chooses its own policy.
    pub real_time: bool,
    /// The outcome.
    pub outcome: Outcome,
    /// Reasons why the condition is not proven, each in one sentence.
    pub lacking: Vec<String>,
    /// Shortest run that can prove the requirement: one without further late seconds. Null if more
    /// time alone does not help.
    pub needs_ns: Option<Nanos>,
    /// Length of a run that proves the requirement with a probability of 80%, if the machine goes
    /// on as it did in this run. Null if a machine like this one cannot prove it.
    #[serde(default)]
    pub needs_likely_ns: Option<Nanos>,
    /// Extrapolation of the tail to a longer time. Absent if the tail must not be extrapolated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<TailRemark>,
    /// Reason why the tail must not be extrapolated. Absent if it may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_tail: Option<String>,
    /// What is known about the jobs of an application. The periods are then its jobs. Absent if a
    /// loop of punctual was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<JobEvidence>,
}

/// What is known about the jobs of an application during a condition. Only seconds with jobs are
/// evidence, because a second in which the application had nothing to do proves nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEvidence {
    /// The judged threads.
    pub threads: Vec<String>,
    /// Length of the run. `measured_ns` of the condition is the number of its seconds with jobs.
    pub elapsed_ns: Nanos,
    /// Number of jobs of unknown response time. They count as late in the upper bound.
    pub unknown: u64,
    /// Number of seconds that may have been late, with those that were late for certain.
    pub possible_late_seconds: u64,
    /// Number of late jobs that punctual itself caused. They count as late.
    pub by_observer: u64,
}

/// The windows of consecutive due periods of a thread, and the late periods in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Windows {
    /// Largest number of late periods in a window.
    pub worst: u64,
    /// Number of violated seconds: seconds of the run in which a late period violated a window.
    pub violated_seconds: u64,
    /// Due time of the period that violated the first window, since the start of the condition. For
    /// jobs, the start of its second. Null if none was violated.
    pub first_violated_ns: Option<Nanos>,
}

impl Condition {
    /// Returns the number of events that the bounds count, and their name.
    pub fn counted(&self) -> (u64, &'static str) {
        match (self.windows, self.late_seconds, self.episodes) {
            (Some(windows), ..) => (windows.violated_seconds, "violated seconds"),
            (None, None, Some(episodes)) => (episodes, "episodes"),
            (None, seconds, _) => (seconds.unwrap_or_default(), "late seconds"),
        }
    }
}

/// A cause of late periods, with advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemediedCause {
    /// The source.
    pub source: Source,
    /// The kind of cause.
    pub kind: ShareKind,
    /// The cause.
    pub who: String,
    /// Number of late periods that the cause contributed to.
    pub count: u64,
    /// Sum of the shares of this cause.
    pub total_ns: Nanos,
    /// Largest share of this cause.
    pub max_ns: Nanos,
    /// Number of late periods that would be within the budget without this cause. Null if unknown,
    /// and in check-ups of older versions.
    #[serde(default)]
    pub late_only_by: Option<u64>,
    /// Related checks that found a problem or have no result.
    pub checks: Vec<String>,
    /// Lateness that would be left without this cause. Null if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<LeftLate>,
    /// Settings that these checks recommend, in the syntax of `--set`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// Command of the experiment that shows whether the first of these settings helps. Null if there
    /// is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<String>,
    /// The advice.
    pub advice: String,
}

/// The late seconds that would be left without a cause, if the other shares stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftLate {
    /// Number of late periods or jobs that were examined.
    pub examined: u64,
    /// Number of late ones that were not explained or not kept. They count as not removed in the upper
    /// bound.
    pub others: u64,
    /// Number of seconds of the run with an examined late period or job.
    pub late_seconds: u64,
    /// Number of these seconds that would be left.
    pub late_seconds_left: u64,
    /// Lower end of the 95% interval of the late seconds a day that would be left, if the rest of the
    /// day is like the run, rounded down. Null if the run is shorter than a minute.
    pub per_day_at_least: Option<u64>,
    /// Upper end of this interval, rounded up.
    pub per_day_at_most: Option<u64>,
}

/// Time taken from a spinning thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwareGaps {
    /// Length of the measurement.
    pub measured_ns: Nanos,
    /// Number of gaps.
    pub gaps: u64,
    /// The longest gap. Null if there were no gaps.
    pub max_ns: Option<Nanos>,
}
