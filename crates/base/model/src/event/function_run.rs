//! Runs of kernel functions, as the tracer function_graph states them.

use serde::{Deserialize, Serialize};

use crate::{Nanos, Text};

/// A run of a kernel function, from its call to its return.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionRun {
    /// The function.
    pub function: Text,
    /// The CPU on which it returned.
    pub cpu: u32,
    /// The thread that was current. Absent if the trace does not show it.
    pub pid: Option<u32>,
    /// Time of the return. Absent if the trace has no times.
    #[serde(rename = "end_ns")]
    pub end: Option<Nanos>,
    /// Its duration, including the functions that it called and the interrupts within it.
    #[serde(rename = "took_ns")]
    pub took: Nanos,
}

impl FunctionRun {
    /// Shorter runs explain nothing: recording a call takes up to a microsecond.
    pub const LEAST: Nanos = Nanos::from_micros(10);

    /// Returns the begin and the end, if the trace has times.
    pub fn span(&self) -> Option<(Nanos, Nanos)> {
        let end = self.end?;
        Some((end.saturating_sub(self.took), end))
    }
}

/// The long runs of one kernel function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionSum {
    /// The function.
    pub function: Text,
    /// Number of runs of at least [`FunctionRun::LEAST`].
    pub runs: u64,
    /// Duration of the longest run.
    pub longest_ns: Nanos,
}
