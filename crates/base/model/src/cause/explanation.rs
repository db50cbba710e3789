//! The explanation of the outliers of a run.

use std::cmp::Reverse;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cause::{Name, PolicyChange, RefusedCall, Source};
use crate::{Blame, CauseWords, Fact, Jobs, Nanos, Text, TickReasons, TraceSummary};

/// The explanation of the outliers of a run: each explained outlier, and a summary of their causes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Threshold: a sample whose latency is above it is an outlier.
    pub threshold_ns: Nanos,
    /// Number of reported outliers.
    pub seen: u64,
    /// Number of explained outliers. The events of the others were overwritten before they were
    /// saved, or could not be read.
    pub explained: u64,
    /// The recorded trace events, as `system:event`.
    pub events: Vec<String>,
    /// Events that the kernel lacks, or that were not requested.
    pub missing_events: Vec<String>,
    /// Further events that the user requested, as `system:event` or `system:event/filter/`.
    #[serde(default)]
    pub requested_events: Vec<String>,
    /// Overhead of the recorder: the increase of the probe's p50, measured at the start. Null if
    /// not measured.
    pub rise_ns: Option<Nanos>,
    /// Length of the overhead measurement before the run. Null if there was none.
    #[serde(default)]
    pub rise_took_ns: Option<Nanos>,
    /// Trace events of watched threads that were overwritten before they were
    /// read.
    #[serde(default)]
    pub events_lost: u64,
    /// Waits of watched threads for which no event marks the end. They are not included in the
    /// counts of the threads.
    #[serde(default)]
    pub waits_without_end: u64,
    /// The longest time from an outlier to its explanation. Null if no outlier was explained during
    /// the run.
    #[serde(default)]
    pub explained_within_ns: Option<Nanos>,
    /// The jobs of watched threads. Null if jobs were not followed.
    #[serde(default)]
    pub jobs: Option<Jobs>,
    /// Reasons why measured CPUs in `nohz_full` had a tick during the run. Absent if no measured CPU
    /// is in `nohz_full`, or if an earlier version measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticks: Option<Fact<TickReasons>>,
    /// The trace file, if another tool recorded the events. Absent if punctual recorded them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceSummary>,
    /// Threads that lost their real-time policy or a part of their priority, the earliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy_changes: Vec<PolicyChange>,
    /// Calls for a policy or for locked memory that the kernel refused. Calls before the recording,
    /// and calls that were not recorded, are not included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_calls: Vec<RefusedCall>,
    /// Explained outliers, in ascending order of their numbers. If there are more than
    /// [`Explanation::KEPT`], only the largest ones are kept.
    pub outliers: Vec<Outlier>,
    /// Outliers of the light stage that resemble explained ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resemblances: Vec<Resemblance>,
    /// The causes of all explained outliers, the largest total time first.
    pub causes: Vec<CauseSummary>,
    /// Periodic causes.
    pub periods: Vec<Period>,
}

impl Explanation {
    /// Maximum number of outliers that are stored with their events. Each takes about 10 KiB,
    /// compressed, so a recording grows by about 2 MiB at most.
    pub const KEPT: usize = 200;
}

/// One explained outlier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outlier {
    /// Its number, counted from 1 in the order in which outliers were reported.
    pub number: u64,
    /// When the thread should have woken, on the wall clock.
    pub time: Timestamp,
    /// The same time on CLOCK_MONOTONIC, in ns.
    pub monotonic_ns: Nanos,
    /// The CPU on which the latency was measured.
    pub cpu: Option<u32>,
    /// The thread, as an index into `threads`.
    pub thread: u32,
    /// The latency.
    pub latency_ns: Nanos,
    /// The causes of the latency.
    pub blame: Blame,
    /// Whether it is a job that was seen in the light stage of `explain --pid`, in which system
    /// calls, page faults and interrupts are not recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub light_stage: bool,
}

impl Outlier {
    /// Returns the key for the order of outliers: those of real-time threads first, then the longest.
    pub fn order(&self) -> impl Ord + use<> {
        let scheduling = self.blame.victim.scheduling;
        let is_ordinary = scheduling.is_some_and(|own| !own.policy.is_real_time());
        (is_ordinary, Reverse(self.latency_ns), self.number)
    }
}

/// An outlier of the light stage, and the explained outliers that it resembles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resemblance {
    /// Number of the outlier of the light stage.
    pub number: u64,
    /// Number of the first explained outlier with the most frequent main cause.
    pub outlier: u64,
    /// Number of similar explained outliers with this main cause.
    pub with_cause: u64,
    /// Number of similar explained outliers.
    pub explained: u64,
    /// The wait or the time on the CPU that the outliers have in common.
    pub place: ResemblancePlace,
}

/// The wait, or the time on the CPU, that took most of two similar outliers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResemblancePlace {
    /// A wait.
    Wait {
        /// The system call.
        call: Text,
        /// Its first argument.
        argument: u64,
        /// The thread that ended both waits. Absent if what ended the wait in the light stage is
        /// unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waker: Option<Name>,
    },
    /// Time on the CPU, of a similar length.
    OnCpu,
}

/// The contribution of one source to all outliers. Threads with the same comm are combined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseSummary {
    /// The source. Its threads have no ID, because threads of the same name are combined.
    pub source: Source,
    /// Number of outliers that the source contributed to.
    pub count: u64,
    /// Number of outliers whose main cause is this source.
    pub culprit_in: u64,
    /// Number of outliers that would be within the threshold without this source. Absent if there
    /// is no threshold, or if an earlier version measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_only_by: Option<u64>,
    /// Sum of the shares of this source.
    pub total_ns: Nanos,
    /// Largest share of this source.
    pub max_ns: Nanos,
    /// Number of the outlier with that share.
    pub max_outlier: u64,
    /// The source in words. Set only for output.
    #[serde(flatten, skip_deserializing)]
    pub words: Option<CauseWords>,
}

/// A main cause that occurs periodically.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Period {
    /// The source. Its threads have no ID, because threads of the same name are combined.
    pub source: Source,
    /// The period.
    pub period_ns: Nanos,
    /// The largest deviation of an interval between outliers from the period or a multiple of it.
    /// Outliers with a larger deviation are not counted.
    pub tolerance_ns: Nanos,
    /// Number of outliers that match the period.
    pub count: u64,
    /// Number of expected times at which no outlier occurred.
    pub missing: u64,
    /// The source in words. Set only for output.
    #[serde(flatten, skip_deserializing)]
    pub words: Option<CauseWords>,
}
