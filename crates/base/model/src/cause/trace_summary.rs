//! Facts about a trace that another tool recorded.

use serde::{Deserialize, Serialize};

use crate::cause::{OpenAtEnd, SchedulerFinding};
use crate::{CpuSet, FunctionSum, Nanos, NotShown};

/// A trace that another tool recorded, with the counts from the search for late reactions in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceSummary {
    /// The file, as the user named it. `-` for standard input.
    pub file: String,
    /// The format of the file: `text of perf script`.
    pub format: String,
    /// The clock of the events, as the kernel names it. Null if the file does not say.
    pub clock: Option<String>,
    /// Whether clocks of different CPUs may differ. Null if the clock is unknown.
    pub clocks_differ: Option<bool>,
    /// The resolution of event times.
    pub resolution_ns: Nanos,
    /// The kernel that was traced. Null if the file does not say.
    pub kernel: Option<String>,
    /// The CPUs with events.
    pub cpus: CpuSet,
    /// Number of events.
    pub events: u64,
    /// Time of the first event, on the clock of the trace.
    pub from_ns: Nanos,
    /// Time of the last event, on the clock of the trace.
    pub to_ns: Nanos,
    /// Number of gaps with lost events.
    pub gaps: u64,
    /// Number of lost events, as far as the trace reports it.
    pub lost: u64,
    /// Number of context switches that are missing in the trace even though it contains others.
    pub switches_missing: u64,
    /// Number of waits of unknown length, because events that may have interrupted them are
    /// missing.
    pub incomplete: u64,
    /// Whether only reactions of real-time threads were explained, because the trace contains such
    /// reactions.
    pub real_time_only: bool,
    /// Number of reactions of ordinary threads that were left out for that reason.
    pub ordinary: u64,
    /// The longest of the reactions that were left out.
    pub ordinary_max_ns: Option<Nanos>,
    /// Information, other than events, that the trace lacks.
    pub not_shown: Vec<NotShown>,
    /// Texts in the trace that state the latency of an outlier.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stated: Vec<StatedLatency>,
    /// Reactions or jobs that had not ended at the end of the trace, the longest first. Only those that
    /// were already long enough to be explained.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<OpenAtEnd>,
    /// Rules of the scheduler that the events contradict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scheduler: Vec<SchedulerFinding>,
    /// The kernel functions with the longest runs, if the tracer function_graph recorded them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionSum>,
    /// The trace of the host, if this is the trace of a virtual machine and both were joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostTrace>,
}

/// The trace of a host, and the time in the outliers that it explains. The time is that of the CPU
/// on which each outlier ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTrace {
    /// The file, as the user named it. `-` for standard input.
    pub file: String,
    /// Name of the virtual machine in this file.
    pub guest: String,
    /// Time of the virtual CPU outside guest mode.
    pub away_ns: Nanos,
    /// Time without a known state, because the host's trace does not show whether the virtual CPU
    /// ran.
    pub unknown_ns: Nanos,
    /// Warnings about the host's trace: data that could not be read, events that are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A text in the trace that states the latency of an outlier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatedLatency {
    /// Number of the outlier.
    pub outlier: u64,
    /// The text: `hit latency threshold (120 > 100)`.
    pub text: String,
}
