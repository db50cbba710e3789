//! Counts events of the whole machine, without a recording.

mod activities;
mod chains;
mod interruptions;
mod no_programs;
mod own_wakeups;
mod wakeup_request;
mod wakeups;

pub use activities::ActivitySession;
pub use chains::ChainSession;
pub use interruptions::InterruptionCounter;
pub(crate) use no_programs::NoPrograms;
pub use wakeup_request::WakeupRequest;
pub use wakeups::WakeupSession;
