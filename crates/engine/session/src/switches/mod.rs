//! Jobs and shares from the context switches and the scheduler's counts of a thread, without privileges.

mod jobs;
mod shares;

pub(crate) use jobs::{SwitchJob, SwitchJobs};
pub(crate) use shares::{explained, missing_events, shares, window};
