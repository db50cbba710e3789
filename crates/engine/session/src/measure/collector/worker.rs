//! The measuring thread of a worker.

use punctual_model::Scheduling;
use punctual_rt::Tid;

/// Identity of a worker.
pub(super) struct Worker {
    /// Index of the worker in `threads`.
    pub(super) thread: u32,
    pub(super) cpu: Option<u32>,
    pub(super) scheduling: Scheduling,
    /// Measuring thread, once known.
    pub(super) tid: Option<Tid>,
    /// Thread of the other end, if that is in another process.
    pub(super) partner: Option<Tid>,
}

pub(super) fn number(tid: Tid) -> u32 {
    tid.as_raw().unsigned_abs()
}
