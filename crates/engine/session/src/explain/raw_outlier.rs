//! An outlier, before it is explained.

use punctual_model::{Delay, Nanos, Scheduling};

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
}
