//! An outlier, before it is explained.

use punctual_model::{Blame, Delay, Nanos, Outlier, Scheduling};

use crate::lifecycle::Start;

/// An outlier as measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawOutlier {
    /// Index of the worker in `threads`.
    pub(crate) thread: u32,
    /// Thread ID.
    pub(crate) tid: u32,
    pub(crate) cpu: Option<u32>,
    pub(crate) scheduling: Scheduling,
    pub(crate) expected: Nanos,
    pub(crate) latency: Nanos,
    /// Start of the interval whose events are shown for this outlier.
    pub(crate) story_from: Nanos,
    /// Time span of the sample; `None` for the usual one of the probe.
    pub(crate) delay: Option<Delay>,
    /// Period of the thread's wake-ups, if they come due regularly.
    pub(crate) period: Option<Nanos>,
}

impl RawOutlier {
    /// Returns the explained outlier. `number`: its number in the run.
    pub(crate) fn explained(&self, number: u64, start: &Start, blame: Blame) -> Outlier {
        Outlier {
            light_stage: false,
            number,
            time: start.wall_at(self.expected),
            monotonic_ns: self.expected,
            cpu: self.cpu,
            thread: self.thread,
            latency_ns: self.latency,
            blame,
        }
    }
}
